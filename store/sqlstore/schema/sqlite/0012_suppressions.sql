-- Who is not mailed: entry is an address, a domain, or a dot and a domain, for
-- all below it too. A row that is removed stays, with when (happened). number
-- counts the changes of all rows: who has read up to one reads on from it.
CREATE TABLE IF NOT EXISTS suppressions (
  entry    TEXT    NOT NULL,
  scope    TEXT    NOT NULL,
  app_id   TEXT    NOT NULL,
  reason   TEXT    NOT NULL,
  source   TEXT    NOT NULL,
  happened INTEGER NOT NULL,
  ends     INTEGER,
  removed  INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  PRIMARY KEY (entry, scope, app_id, reason)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS suppressions_number ON suppressions (number);
CREATE INDEX IF NOT EXISTS suppressions_reason ON suppressions (reason, happened);
