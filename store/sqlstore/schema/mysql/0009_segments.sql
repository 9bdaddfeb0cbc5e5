-- Rules with names: definition is a condition about a user, as JSON. archived is
-- NULL of those that are in use.
CREATE TABLE IF NOT EXISTS segments (
  id         CHAR(36)     NOT NULL,
  name       VARCHAR(255) NOT NULL,
  definition MEDIUMTEXT   NOT NULL,
  created    DATETIME(3)  NOT NULL,
  updated    DATETIME(3)  NOT NULL,
  archived   DATETIME(3)  NULL,
  PRIMARY KEY (id),
  UNIQUE KEY segment_name (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
