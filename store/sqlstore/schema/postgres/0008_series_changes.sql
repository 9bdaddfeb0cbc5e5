-- Which days of the series have other totals since they were last mirrored.
-- Written only while there is a mirror.
CREATE TABLE IF NOT EXISTS series_changes (
  app_id text COLLATE "C" NOT NULL,
  name   text COLLATE "C" NOT NULL,
  bucket timestamptz(3)   NOT NULL,
  stripe integer          NOT NULL,
  stamp  bigint           NOT NULL,
  PRIMARY KEY (app_id, name, bucket, stripe)
);
