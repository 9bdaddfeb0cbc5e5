-- The keys of the API: what their texts hash to, never the texts. permissions
-- are words separated by commas.
CREATE TABLE IF NOT EXISTS api_keys (
  id          VARCHAR(32)   NOT NULL,
  name        VARCHAR(100)  NOT NULL,
  permissions VARCHAR(1000) NOT NULL,
  hash        BINARY(32)    NOT NULL,
  created     DATETIME(3)   NOT NULL,
  revoked     DATETIME(3)   NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
