-- Where every follower stands, and who was given which lease. Times are
-- milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS cursors (
  follower  TEXT    NOT NULL,
  part      INTEGER NOT NULL,
  pos_major INTEGER NOT NULL,
  pos_minor INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  PRIMARY KEY (follower, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS leases (
  role     TEXT    NOT NULL,
  part     INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  taken_at INTEGER NOT NULL,
  PRIMARY KEY (role, part)
) STRICT, WITHOUT ROWID;
