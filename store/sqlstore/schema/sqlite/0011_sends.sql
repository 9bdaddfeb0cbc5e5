-- The ledger of sends: a message (message) on its way to one recipient (number),
-- where it stands and what happened to it (life: a JSON object a line). state,
-- priority and class are words. due is when it is attempted next; NULL: it is
-- not, or at once.
CREATE TABLE IF NOT EXISTS sends (
  message      TEXT    NOT NULL,
  number       INTEGER NOT NULL,
  part         INTEGER NOT NULL DEFAULT 0,
  state        TEXT    NOT NULL,
  priority     TEXT    NOT NULL DEFAULT '',
  class        TEXT    NOT NULL DEFAULT '',
  from_address TEXT    NOT NULL DEFAULT '',
  to_address   TEXT    NOT NULL DEFAULT '',
  user_ref     TEXT    NOT NULL DEFAULT '',
  app_id       TEXT    NOT NULL DEFAULT '',
  route        TEXT    NOT NULL DEFAULT '',
  tags         TEXT    NOT NULL DEFAULT '',
  metadata     TEXT    NOT NULL DEFAULT '',
  attempts     INTEGER NOT NULL DEFAULT 0,
  reply        TEXT    NOT NULL DEFAULT '',
  reason       TEXT    NOT NULL DEFAULT '',
  accepted     INTEGER NOT NULL,
  updated      INTEGER NOT NULL,
  due          INTEGER,
  life         TEXT    NOT NULL,
  PRIMARY KEY (message, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS send_doubt ON sends (message, number) WHERE state = 'in_doubt';
-- How many sends of a class are in a state: add the stripes up. removed of them
-- have no row any more.
CREATE TABLE IF NOT EXISTS send_totals (
  class   TEXT    NOT NULL,
  state   TEXT    NOT NULL,
  stripe  INTEGER NOT NULL,
  count   INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  PRIMARY KEY (class, state, stripe)
) STRICT, WITHOUT ROWID;
-- Contents of messages that are on their way, in pieces of at most 1 MiB; the
-- piece 0 says how many sends name it, and how many of them have not ended.
CREATE TABLE IF NOT EXISTS bodies (
  message    TEXT    NOT NULL,
  n          INTEGER NOT NULL,
  recipients INTEGER NOT NULL,
  remaining  INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  data       BLOB    NOT NULL,
  PRIMARY KEY (message, n)
) STRICT;
