-- Users. A user is (part, number), for good; profile is a JSON object, empty of
-- one who was merged into the user (to_part, to_number); to_number is 0 of all
-- others.
CREATE TABLE IF NOT EXISTS users (
  part      INTEGER NOT NULL,
  number    INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  to_part   INTEGER NOT NULL,
  to_number INTEGER NOT NULL,
  profile   TEXT    NOT NULL,
  PRIMARY KEY (part, number)
) STRICT, WITHOUT ROWID;
-- Whose an external id (kind 1) or an alias (2, a JSON array of its label and
-- its name) is.
CREATE TABLE IF NOT EXISTS user_keys (
  kind   INTEGER NOT NULL,
  name   TEXT    NOT NULL,
  part   INTEGER NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
-- Who has an e-mail address (kind 3) or a phone number (4); it may be several.
CREATE TABLE IF NOT EXISTS user_addresses (
  kind   INTEGER NOT NULL,
  name   TEXT    NOT NULL,
  part   INTEGER NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (kind, name, part, number)
) STRICT, WITHOUT ROWID;
-- The last numbers that a partition has given to a user and to an item on its way.
CREATE TABLE IF NOT EXISTS user_numbers (
  part         INTEGER NOT NULL,
  last_user    INTEGER NOT NULL,
  last_forward INTEGER NOT NULL,
  PRIMARY KEY (part)
) STRICT, WITHOUT ROWID;
-- Items on their way from a partition's store to the log of another (to_part).
CREATE TABLE IF NOT EXISTS forwards (
  part    INTEGER NOT NULL,
  id      INTEGER NOT NULL,
  to_part INTEGER NOT NULL,
  items   BLOB    NOT NULL,
  PRIMARY KEY (part, id)
) STRICT, WITHOUT ROWID;
-- The names that events have of users who are to be erased from them.
CREATE TABLE IF NOT EXISTS erasures (
  name    TEXT    NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;
