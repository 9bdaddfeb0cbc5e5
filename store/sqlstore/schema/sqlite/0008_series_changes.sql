-- Which days of the series have other totals since they were last mirrored.
-- Written only while there is a mirror.
CREATE TABLE IF NOT EXISTS series_changes (
  app_id TEXT    NOT NULL,
  name   TEXT    NOT NULL,
  bucket INTEGER NOT NULL,
  stripe INTEGER NOT NULL,
  stamp  INTEGER NOT NULL,
  PRIMARY KEY (app_id, name, bucket, stripe)
) STRICT, WITHOUT ROWID;
