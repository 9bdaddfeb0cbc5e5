-- How often something happened: by app, name, kind and hour, or UTC day. bucket
-- is when it begins. Processes write rows of different stripes; add them up.
CREATE TABLE IF NOT EXISTS series_hours (
  app_id TEXT    NOT NULL,
  name   TEXT    NOT NULL,
  kind   TEXT    NOT NULL,
  bucket INTEGER NOT NULL,
  stripe INTEGER NOT NULL,
  count  INTEGER NOT NULL,
  PRIMARY KEY (app_id, name, kind, bucket, stripe)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS series_days (
  app_id TEXT    NOT NULL,
  name   TEXT    NOT NULL,
  kind   TEXT    NOT NULL,
  bucket INTEGER NOT NULL,
  stripe INTEGER NOT NULL,
  count  INTEGER NOT NULL,
  PRIMARY KEY (app_id, name, kind, bucket, stripe)
) STRICT, WITHOUT ROWID;
