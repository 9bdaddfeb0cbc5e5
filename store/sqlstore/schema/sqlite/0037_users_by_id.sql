-- Users by one number, part * 2^40 + number, in place of the two (sqlite_users.go). The
-- copy needs the room of the table twice, in the file and in its log: all of it is one
-- transaction. A user beyond what the number takes ends it ("datatype mismatch"), and the
-- tables are as before. An operator's view of users stays as it is: without the pragma it
-- would forbid the last step. A foreign key to users would delete, with the old table, the
-- rows that it is of: it ends the migration as well. Only an error of a constraint has words.
CREATE TABLE users_named (
  of INTEGER CONSTRAINT "a foreign key of another table is to users, drop it" CHECK (of = 0)
) STRICT;
INSERT INTO users_named (of)
  SELECT COUNT(*) FROM sqlite_master AS m JOIN pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table' AND LOWER(f."table") = 'users';
DROP TABLE users_named;
PRAGMA legacy_alter_table = ON;
CREATE TABLE users_by_id (
  id        INTEGER PRIMARY KEY,
  updated   INTEGER NOT NULL,
  to_part   INTEGER NOT NULL,
  to_number INTEGER NOT NULL,
  profile   TEXT    NOT NULL,
  part      INTEGER GENERATED ALWAYS AS (id >> 40) VIRTUAL,
  number    INTEGER GENERATED ALWAYS AS (id & 1099511627775) VIRTUAL
) STRICT;
INSERT INTO users_by_id (id, updated, to_part, to_number, profile)
  SELECT CASE WHEN part BETWEEN 0 AND 8388607 AND number BETWEEN 0 AND 1099511627775 THEN part << 40 | number ELSE 'beyond' END,
    updated, to_part, to_number, profile FROM users ORDER BY part, number;
DROP TABLE users;
ALTER TABLE users_by_id RENAME TO users;
PRAGMA legacy_alter_table = OFF;
