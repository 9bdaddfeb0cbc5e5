-- Users. A user is (part, number), for good; profile is a JSON object, empty of
-- one who was merged into the user (to_part, to_number); to_number is 0 of all
-- others.
CREATE TABLE IF NOT EXISTS users (
  part      integer        NOT NULL,
  number    bigint         NOT NULL,
  updated   timestamptz(3) NOT NULL,
  to_part   integer        NOT NULL,
  to_number bigint         NOT NULL,
  profile   text           NOT NULL,
  PRIMARY KEY (part, number)
);
-- Whose an external id (kind 1) or an alias (2, a JSON array of its label and
-- its name) is.
CREATE TABLE IF NOT EXISTS user_keys (
  kind   integer          NOT NULL,
  name   text COLLATE "C" NOT NULL,
  part   integer          NOT NULL,
  number bigint           NOT NULL,
  PRIMARY KEY (kind, name)
);
-- Who has an e-mail address (kind 3) or a phone number (4); it may be several.
CREATE TABLE IF NOT EXISTS user_addresses (
  kind   integer          NOT NULL,
  name   text COLLATE "C" NOT NULL,
  part   integer          NOT NULL,
  number bigint           NOT NULL,
  PRIMARY KEY (kind, name, part, number)
);
-- The last numbers that a partition has given to a user and to an item on its way.
CREATE TABLE IF NOT EXISTS user_numbers (
  part         integer NOT NULL,
  last_user    bigint  NOT NULL,
  last_forward bigint  NOT NULL,
  PRIMARY KEY (part)
);
-- Items on their way from a partition's store to the log of another (to_part).
CREATE TABLE IF NOT EXISTS forwards (
  part    integer NOT NULL,
  id      bigint  NOT NULL,
  to_part integer NOT NULL,
  items   bytea   NOT NULL,
  PRIMARY KEY (part, id)
);
-- The names that events have of users who are to be erased from them.
CREATE TABLE IF NOT EXISTS erasures (
  name    text COLLATE "C" NOT NULL,
  created timestamptz(3)   NOT NULL,
  PRIMARY KEY (name)
);
