-- On which days (UTC, their midnights) mail to an address was given up for a
-- reason that may pass.
CREATE TABLE IF NOT EXISTS soft_bounces (
  entry text COLLATE "C" NOT NULL,
  day   timestamptz(3)   NOT NULL,
  PRIMARY KEY (entry, day)
);
CREATE INDEX IF NOT EXISTS soft_bounces_day ON soft_bounces (day);
