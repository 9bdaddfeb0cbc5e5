-- How often something happened: by app, name, kind and hour, or UTC day. bucket
-- is when it begins. Processes write rows of different stripes; add them up.
CREATE TABLE IF NOT EXISTS series_hours (
  app_id VARCHAR(64)       NOT NULL,
  name   VARCHAR(255)      NOT NULL,
  kind   VARCHAR(16)       NOT NULL,
  bucket DATETIME(3)       NOT NULL,
  stripe SMALLINT UNSIGNED NOT NULL,
  count  BIGINT            NOT NULL,
  PRIMARY KEY (app_id, name, kind, bucket, stripe)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
CREATE TABLE IF NOT EXISTS series_days (
  app_id VARCHAR(64)       NOT NULL,
  name   VARCHAR(255)      NOT NULL,
  kind   VARCHAR(16)       NOT NULL,
  bucket DATETIME(3)       NOT NULL,
  stripe SMALLINT UNSIGNED NOT NULL,
  count  BIGINT            NOT NULL,
  PRIMARY KEY (app_id, name, kind, bucket, stripe)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
