-- The ledger of sends: a message (message) on its way to one recipient (number),
-- where it stands and what happened to it (life: a JSON object a line). state,
-- priority and class are words. due is when it is attempted next; NULL: it is
-- not, or at once.
CREATE TABLE IF NOT EXISTS sends (
  message      text COLLATE "C" NOT NULL,
  number       integer          NOT NULL,
  part         integer          NOT NULL DEFAULT 0,
  state        text             NOT NULL,
  priority     text             NOT NULL DEFAULT '',
  class        text             NOT NULL DEFAULT '',
  from_address text             NOT NULL DEFAULT '',
  to_address   text             NOT NULL DEFAULT '',
  user_ref     text             NOT NULL DEFAULT '',
  app_id       text             NOT NULL DEFAULT '',
  route        text             NOT NULL DEFAULT '',
  tags         text             NOT NULL DEFAULT '',
  metadata     text             NOT NULL DEFAULT '',
  attempts     integer          NOT NULL DEFAULT 0,
  reply        text             NOT NULL DEFAULT '',
  reason       text             NOT NULL DEFAULT '',
  accepted     timestamptz(3)   NOT NULL,
  updated      timestamptz(3)   NOT NULL,
  due          timestamptz(3),
  life         text             NOT NULL,
  PRIMARY KEY (message, number)
);
CREATE INDEX IF NOT EXISTS send_doubt ON sends (message, number) WHERE state = 'in_doubt';
-- How many sends of a class are in a state: add the stripes up. removed of them
-- have no row any more.
CREATE TABLE IF NOT EXISTS send_totals (
  class   text COLLATE "C" NOT NULL,
  state   text COLLATE "C" NOT NULL,
  stripe  integer          NOT NULL,
  count   bigint           NOT NULL,
  removed bigint           NOT NULL,
  PRIMARY KEY (class, state, stripe)
);
-- Contents of messages that are on their way, in pieces of at most 1 MiB; the
-- piece 0 says how many sends name it, and how many of them have not ended.
CREATE TABLE IF NOT EXISTS bodies (
  message    text COLLATE "C" NOT NULL,
  n          integer          NOT NULL,
  recipients integer          NOT NULL,
  remaining  integer          NOT NULL,
  created    timestamptz(3)   NOT NULL,
  data       bytea            NOT NULL,
  PRIMARY KEY (message, n)
);
