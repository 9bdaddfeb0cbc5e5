-- Users. A user is (part, number), for good; profile is a JSON object, empty of
-- one who was merged into the user (to_part, to_number); to_number is 0 of all
-- others.
CREATE TABLE IF NOT EXISTS users (
  part      SMALLINT UNSIGNED NOT NULL,
  number    BIGINT            NOT NULL,
  updated   DATETIME(3)       NOT NULL,
  to_part   SMALLINT UNSIGNED NOT NULL,
  to_number BIGINT            NOT NULL,
  profile   LONGTEXT          NOT NULL,
  PRIMARY KEY (part, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- Whose an external id (kind 1) or an alias (2, a JSON array of its label and
-- its name) is.
CREATE TABLE IF NOT EXISTS user_keys (
  kind   TINYINT UNSIGNED  NOT NULL,
  name   VARCHAR(600)      NOT NULL,
  part   SMALLINT UNSIGNED NOT NULL,
  number BIGINT            NOT NULL,
  PRIMARY KEY (kind, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- Who has an e-mail address (kind 3) or a phone number (4); it may be several.
CREATE TABLE IF NOT EXISTS user_addresses (
  kind   TINYINT UNSIGNED  NOT NULL,
  name   VARCHAR(254)      NOT NULL,
  part   SMALLINT UNSIGNED NOT NULL,
  number BIGINT            NOT NULL,
  PRIMARY KEY (kind, name, part, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- The last numbers that a partition has given to a user and to an item on its way.
CREATE TABLE IF NOT EXISTS user_numbers (
  part         SMALLINT UNSIGNED NOT NULL,
  last_user    BIGINT            NOT NULL,
  last_forward BIGINT            NOT NULL,
  PRIMARY KEY (part)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- Items on their way from a partition's store to the log of another (to_part).
CREATE TABLE IF NOT EXISTS forwards (
  part    SMALLINT UNSIGNED NOT NULL,
  id      BIGINT            NOT NULL,
  to_part SMALLINT UNSIGNED NOT NULL,
  items   LONGBLOB          NOT NULL,
  PRIMARY KEY (part, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- The names that events have of users who are to be erased from them.
CREATE TABLE IF NOT EXISTS erasures (
  name    VARCHAR(255) NOT NULL,
  created DATETIME(3)  NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
