-- Readable from version 17
-- How many mails a route attempted on a day (days since 1970, UTC), the last one
-- on which it attempted any: add the stripes up. A warm-up route's daily limit is
-- held to it where Redis has forgotten what was sent.
CREATE TABLE IF NOT EXISTS route_days (
  route    VARCHAR(128)      NOT NULL,
  stripe   SMALLINT UNSIGNED NOT NULL,
  day      INT UNSIGNED      NOT NULL,
  attempts BIGINT            NOT NULL,
  PRIMARY KEY (route, stripe)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
