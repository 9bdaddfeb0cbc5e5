-- The ledger of sends: a message (message) on its way to one recipient (number),
-- where it stands and what happened to it (life: a JSON object a line). state,
-- priority and class are words. due is when it is attempted next; NULL: it is
-- not, or at once.
CREATE TABLE IF NOT EXISTS sends (
  message      CHAR(32)          NOT NULL,
  number       SMALLINT UNSIGNED NOT NULL,
  part         SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  state        VARCHAR(16)       NOT NULL,
  priority     VARCHAR(16)       NOT NULL DEFAULT '',
  class        VARCHAR(16)       NOT NULL DEFAULT '',
  from_address VARCHAR(254)      NOT NULL DEFAULT '',
  to_address   VARCHAR(254)      NOT NULL DEFAULT '',
  user_ref     VARCHAR(128)      NOT NULL DEFAULT '',
  app_id       VARCHAR(64)       NOT NULL DEFAULT '',
  route        VARCHAR(128)      NOT NULL DEFAULT '',
  tags         VARCHAR(1300)     NOT NULL DEFAULT '',
  metadata     VARCHAR(2048)     NOT NULL DEFAULT '',
  attempts     INT UNSIGNED      NOT NULL DEFAULT 0,
  reply        VARCHAR(512)      NOT NULL DEFAULT '',
  reason       VARCHAR(255)      NOT NULL DEFAULT '',
  accepted     DATETIME(3)       NOT NULL,
  updated      DATETIME(3)       NOT NULL,
  due          DATETIME(3)       NULL,
  life         TEXT              NOT NULL,
  PRIMARY KEY (message, number),
  KEY send_state (state)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- How many sends of a class are in a state: add the stripes up. removed of them
-- have no row any more.
CREATE TABLE IF NOT EXISTS send_totals (
  class   VARCHAR(16)       NOT NULL,
  state   VARCHAR(16)       NOT NULL,
  stripe  SMALLINT UNSIGNED NOT NULL,
  count   BIGINT            NOT NULL,
  removed BIGINT            NOT NULL,
  PRIMARY KEY (class, state, stripe)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
-- Contents of messages that are on their way, in pieces of at most 1 MiB; the
-- piece 0 says how many sends name it, and how many of them have not ended.
CREATE TABLE IF NOT EXISTS bodies (
  message    CHAR(32)     NOT NULL,
  n          INT UNSIGNED NOT NULL,
  recipients INT          NOT NULL,
  remaining  INT          NOT NULL,
  created    DATETIME(3)  NOT NULL,
  data       MEDIUMBLOB   NOT NULL,
  PRIMARY KEY (message, n)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
