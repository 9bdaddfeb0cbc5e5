-- Mails that are written once, and what each says in its versions, which never
-- change. in_use is the version that is meant where none is named; headers are
-- a JSON array of {"name", "value"}.
CREATE TABLE IF NOT EXISTS templates (
  id       TEXT    NOT NULL,
  name     TEXT    NOT NULL,
  in_use   INTEGER NOT NULL,
  latest   INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  archived INTEGER,
  PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS template_versions (
  template  TEXT    NOT NULL,
  version   INTEGER NOT NULL,
  class     TEXT    NOT NULL,
  is_strict INTEGER NOT NULL,
  subject   TEXT    NOT NULL,
  preheader TEXT    NOT NULL,
  sender    TEXT    NOT NULL,
  html      TEXT    NOT NULL,
  plain     TEXT    NOT NULL,
  headers   TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  PRIMARY KEY (template, version)
) STRICT;
