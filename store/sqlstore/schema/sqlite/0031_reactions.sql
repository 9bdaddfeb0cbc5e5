-- What mail has sent and got back, counted by the hour: of which mail, and of which kind.
-- bucket is when the hour begins. Processes write rows of different stripes; add them up.
-- Readable from version 29
CREATE TABLE IF NOT EXISTS reactions (
  bucket       INTEGER NOT NULL,
  stripe       INTEGER NOT NULL,
  campaign     TEXT    NOT NULL,
  journey      TEXT    NOT NULL,
  step         TEXT    NOT NULL,
  variant      TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  link         INTEGER NOT NULL,
  machine      INTEGER NOT NULL,
  count        INTEGER NOT NULL,
  firsts       INTEGER NOT NULL,
  human_firsts INTEGER NOT NULL,
  PRIMARY KEY (bucket, stripe, campaign, journey, step, variant, kind, link, machine)
) STRICT, WITHOUT ROWID;
