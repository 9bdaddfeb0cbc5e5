-- Who is not mailed: entry is an address, a domain, or a dot and a domain, for
-- all below it too. A row that is removed stays, with when (happened). number
-- counts the changes of all rows: who has read up to one reads on from it.
CREATE TABLE IF NOT EXISTS suppressions (
  entry    text COLLATE "C" NOT NULL,
  scope    text COLLATE "C" NOT NULL,
  app_id   text COLLATE "C" NOT NULL,
  reason   text COLLATE "C" NOT NULL,
  source   text             NOT NULL,
  happened timestamptz(3)   NOT NULL,
  ends     timestamptz(3),
  removed  integer          NOT NULL,
  number   bigint           NOT NULL,
  PRIMARY KEY (entry, scope, app_id, reason)
);
CREATE INDEX IF NOT EXISTS suppressions_number ON suppressions (number);
CREATE INDEX IF NOT EXISTS suppressions_reason ON suppressions (reason, happened);
