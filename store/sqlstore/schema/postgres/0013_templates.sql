-- Mails that are written once, and what each says in its versions, which never
-- change. in_use is the version that is meant where none is named; headers are
-- a JSON array of {"name", "value"}.
CREATE TABLE IF NOT EXISTS templates (
  id       text COLLATE "C" NOT NULL,
  name     text COLLATE "C" NOT NULL,
  in_use   integer          NOT NULL,
  latest   integer          NOT NULL,
  created  timestamptz(3)   NOT NULL,
  updated  timestamptz(3)   NOT NULL,
  archived timestamptz(3),
  PRIMARY KEY (id)
);
CREATE TABLE IF NOT EXISTS template_versions (
  template  text COLLATE "C" NOT NULL,
  version   integer          NOT NULL,
  class     text             NOT NULL,
  is_strict integer          NOT NULL,
  subject   text             NOT NULL,
  preheader text             NOT NULL,
  sender    text             NOT NULL,
  html      text             NOT NULL,
  plain     text             NOT NULL,
  headers   text             NOT NULL,
  created   timestamptz(3)   NOT NULL,
  PRIMARY KEY (template, version)
);
