-- What this deployment signs with. data is the secret itself: whoever reads it
-- can make the links that mails carry.
CREATE TABLE IF NOT EXISTS secrets (
  name    text COLLATE "C" NOT NULL,
  data    bytea            NOT NULL,
  created timestamptz(3)   NOT NULL,
  PRIMARY KEY (name)
);
