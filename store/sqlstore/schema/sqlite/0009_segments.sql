-- Rules with names: definition is a condition about a user, as JSON. archived is
-- NULL of those that are in use.
CREATE TABLE IF NOT EXISTS segments (
  id         TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  definition TEXT    NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL,
  archived   INTEGER,
  PRIMARY KEY (id),
  UNIQUE (name)
) STRICT, WITHOUT ROWID;
