-- How often something happened: by app, name, kind and hour, or UTC day. bucket
-- is when it begins. Processes write rows of different stripes; add them up.
CREATE TABLE IF NOT EXISTS series_hours (
  app_id text COLLATE "C" NOT NULL,
  name   text COLLATE "C" NOT NULL,
  kind   text COLLATE "C" NOT NULL,
  bucket timestamptz(3)   NOT NULL,
  stripe integer          NOT NULL,
  count  bigint           NOT NULL,
  PRIMARY KEY (app_id, name, kind, bucket, stripe)
);
CREATE TABLE IF NOT EXISTS series_days (
  app_id text COLLATE "C" NOT NULL,
  name   text COLLATE "C" NOT NULL,
  kind   text COLLATE "C" NOT NULL,
  bucket timestamptz(3)   NOT NULL,
  stripe integer          NOT NULL,
  count  bigint           NOT NULL,
  PRIMARY KEY (app_id, name, kind, bucket, stripe)
);
