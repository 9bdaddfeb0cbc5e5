-- What this deployment signs with. data is the secret itself: whoever reads it
-- can make the links that mails carry.
CREATE TABLE IF NOT EXISTS secrets (
  name    VARCHAR(64)    NOT NULL,
  data    VARBINARY(255) NOT NULL,
  created DATETIME(3)    NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
