-- On which days (UTC, their midnights) mail to an address was given up for a
-- reason that may pass.
CREATE TABLE IF NOT EXISTS soft_bounces (
  entry VARCHAR(256) NOT NULL,
  day   DATETIME(3)  NOT NULL,
  PRIMARY KEY (entry, day),
  KEY soft_bounces_day (day)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
