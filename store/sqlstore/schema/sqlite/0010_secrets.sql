-- What this deployment signs with. data is the secret itself: whoever reads it
-- can make the links that mails carry.
CREATE TABLE IF NOT EXISTS secrets (
  name    TEXT    NOT NULL,
  data    BLOB    NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;
