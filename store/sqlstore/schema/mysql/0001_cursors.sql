-- Where every follower stands, and who was given which lease.
CREATE TABLE IF NOT EXISTS cursors (
  follower  VARCHAR(190)      NOT NULL,
  part      SMALLINT UNSIGNED NOT NULL,
  pos_major BIGINT UNSIGNED   NOT NULL,
  pos_minor BIGINT UNSIGNED   NOT NULL,
  updated   DATETIME(3)       NOT NULL,
  PRIMARY KEY (follower, part)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;

CREATE TABLE IF NOT EXISTS leases (
  role     VARCHAR(190)      NOT NULL,
  part     SMALLINT UNSIGNED NOT NULL,
  number   BIGINT UNSIGNED   NOT NULL,
  taken_at DATETIME(3)       NOT NULL,
  PRIMARY KEY (role, part)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
