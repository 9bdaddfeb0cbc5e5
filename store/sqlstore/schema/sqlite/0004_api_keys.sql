-- The keys of the API: what their texts hash to, never the texts. permissions
-- are words separated by commas.
CREATE TABLE IF NOT EXISTS api_keys (
  id          TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  permissions TEXT    NOT NULL,
  hash        BLOB    NOT NULL,
  created     INTEGER NOT NULL,
  revoked     INTEGER,
  PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
