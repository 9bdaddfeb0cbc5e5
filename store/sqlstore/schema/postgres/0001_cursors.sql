-- Where every follower stands, and who was given which lease. PostgreSQL has
-- no unsigned numbers: a half of a position above 2^63 - 1 shows as negative.
CREATE TABLE IF NOT EXISTS cursors (
  follower  text COLLATE "C" NOT NULL,
  part      integer          NOT NULL,
  pos_major bigint           NOT NULL,
  pos_minor bigint           NOT NULL,
  updated   timestamptz(3)   NOT NULL,
  PRIMARY KEY (follower, part)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS leases (
  role     text COLLATE "C" NOT NULL,
  part     integer          NOT NULL,
  number   bigint           NOT NULL,
  taken_at timestamptz(3)   NOT NULL,
  PRIMARY KEY (role, part)
);
