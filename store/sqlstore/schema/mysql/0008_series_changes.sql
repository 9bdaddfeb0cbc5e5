-- Which days of the series have other totals since they were last mirrored.
-- Written only while there is a mirror.
CREATE TABLE IF NOT EXISTS series_changes (
  app_id VARCHAR(64)       NOT NULL,
  name   VARCHAR(255)      NOT NULL,
  bucket DATETIME(3)       NOT NULL,
  stripe SMALLINT UNSIGNED NOT NULL,
  stamp  BIGINT            NOT NULL,
  PRIMARY KEY (app_id, name, bucket, stripe)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
