-- The keys of the API: what their texts hash to, never the texts. permissions
-- are words separated by commas.
CREATE TABLE IF NOT EXISTS api_keys (
  id          text COLLATE "C" NOT NULL,
  name        text             NOT NULL,
  permissions text             NOT NULL,
  hash        bytea            NOT NULL,
  created     timestamptz(3)   NOT NULL,
  revoked     timestamptz(3),
  PRIMARY KEY (id)
);
