-- Rules with names: definition is a condition about a user, as JSON. archived is
-- NULL of those that are in use.
CREATE TABLE IF NOT EXISTS segments (
  id         text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  definition text             NOT NULL,
  created    timestamptz(3)   NOT NULL,
  updated    timestamptz(3)   NOT NULL,
  archived   timestamptz(3),
  PRIMARY KEY (id),
  UNIQUE (name)
);
