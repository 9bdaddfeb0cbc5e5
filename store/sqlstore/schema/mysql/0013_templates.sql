-- Mails that are written once, and what each says in its versions, which never
-- change. in_use is the version that is meant where none is named; headers are
-- a JSON array of {"name", "value"}.
CREATE TABLE IF NOT EXISTS templates (
  id       VARCHAR(64)  NOT NULL,
  name     VARCHAR(255) NOT NULL,
  in_use   INT          NOT NULL,
  latest   INT          NOT NULL,
  created  DATETIME(3)  NOT NULL,
  updated  DATETIME(3)  NOT NULL,
  archived DATETIME(3)  NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
CREATE TABLE IF NOT EXISTS template_versions (
  template  VARCHAR(64) NOT NULL,
  version   INT         NOT NULL,
  class     VARCHAR(16) NOT NULL,
  is_strict INT         NOT NULL,
  subject   MEDIUMTEXT  NOT NULL,
  preheader MEDIUMTEXT  NOT NULL,
  sender    MEDIUMTEXT  NOT NULL,
  html      MEDIUMTEXT  NOT NULL,
  plain     MEDIUMTEXT  NOT NULL,
  headers   MEDIUMTEXT  NOT NULL,
  created   DATETIME(3) NOT NULL,
  PRIMARY KEY (template, version)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
