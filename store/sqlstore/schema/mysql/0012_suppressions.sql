-- Who is not mailed: entry is an address, a domain, or a dot and a domain, for
-- all below it too. A row that is removed stays, with when (happened). number
-- counts the changes of all rows: who has read up to one reads on from it.
CREATE TABLE IF NOT EXISTS suppressions (
  entry    VARCHAR(256)     NOT NULL,
  scope    VARCHAR(16)      NOT NULL,
  app_id   VARCHAR(64)      NOT NULL,
  reason   VARCHAR(16)      NOT NULL,
  source   VARCHAR(255)     NOT NULL,
  happened DATETIME(3)      NOT NULL,
  ends     DATETIME(3)      NULL,
  removed  TINYINT UNSIGNED NOT NULL,
  number   BIGINT           NOT NULL,
  PRIMARY KEY (entry, scope, app_id, reason),
  KEY suppressions_number (number),
  KEY suppressions_reason (reason, happened)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
