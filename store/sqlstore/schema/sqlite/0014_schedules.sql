-- Mail for a time to come, as it was asked for, until it is released.
CREATE TABLE IF NOT EXISTS schedules (
  id       TEXT    NOT NULL,
  state    TEXT    NOT NULL,
  revision INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  request  TEXT    NOT NULL,
  created  INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  PRIMARY KEY (id)
) STRICT;
CREATE INDEX IF NOT EXISTS schedules_due ON schedules (state, due, id);
