-- Readable from version 17
-- How many mails a route attempted on a day (days since 1970, UTC), the last one
-- on which it attempted any: add the stripes up. A warm-up route's daily limit is
-- held to it where Redis has forgotten what was sent.
CREATE TABLE IF NOT EXISTS route_days (
  route    TEXT    NOT NULL,
  stripe   INTEGER NOT NULL,
  day      INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  PRIMARY KEY (route, stripe)
) STRICT, WITHOUT ROWID;
