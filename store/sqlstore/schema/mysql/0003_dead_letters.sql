-- What could not be applied. A payload is cut into pieces of at most 1 MiB,
-- the first in dead_letters, because max_allowed_packet bounds one value.
CREATE TABLE IF NOT EXISTS dead_letters (
  id        BIGINT            NOT NULL AUTO_INCREMENT,
  source    VARCHAR(255)      NOT NULL,
  form      VARCHAR(16)       NOT NULL,
  part      SMALLINT UNSIGNED NOT NULL,
  pos_major BIGINT UNSIGNED   NOT NULL,
  pos_minor BIGINT UNSIGNED   NOT NULL,
  item      INT UNSIGNED      NOT NULL,
  reason    TEXT              NOT NULL,
  size      BIGINT            NOT NULL,
  payload   MEDIUMBLOB        NOT NULL,
  found_at  DATETIME(3)       NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;

CREATE TABLE IF NOT EXISTS dead_chunks (
  dead_id BIGINT       NOT NULL,
  n       INT UNSIGNED NOT NULL,
  data    MEDIUMBLOB   NOT NULL,
  PRIMARY KEY (dead_id, n)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
