-- What could not be applied. A payload is cut into pieces of at most 1 MiB,
-- the first in dead_letters, as in the other databases.
CREATE TABLE IF NOT EXISTS dead_letters (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  source    TEXT    NOT NULL,
  form      TEXT    NOT NULL,
  part      INTEGER NOT NULL,
  pos_major INTEGER NOT NULL,
  pos_minor INTEGER NOT NULL,
  item      INTEGER NOT NULL,
  reason    TEXT    NOT NULL,
  size      INTEGER NOT NULL,
  payload   BLOB    NOT NULL,
  found_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS dead_chunks (
  dead_id INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  data    BLOB    NOT NULL,
  PRIMARY KEY (dead_id, n)
) STRICT;
