-- What happened. Every unique key contains time, because days become
-- partitions of the table; no further index, because each costs load speed.
CREATE TABLE IF NOT EXISTS events (
  event_id    VARCHAR(128)      NOT NULL,
  kind        ENUM('mail', 'custom', 'purchase', 'system') NOT NULL,
  name        VARCHAR(255)      NOT NULL,
  app_id      VARCHAR(64)       NOT NULL,
  time        DATETIME(3)       NOT NULL,
  email       VARCHAR(254)      NULL,
  user_ref    VARCHAR(128)      NULL,
  message_ref VARCHAR(128)      NULL,
  properties  LONGTEXT          NULL,
  part        SMALLINT UNSIGNED NOT NULL,
  pos_major   BIGINT UNSIGNED   NOT NULL,
  pos_minor   INT UNSIGNED      NOT NULL,
  item        INT UNSIGNED      NOT NULL,
  PRIMARY KEY (time, event_id),
  KEY log_position (part, pos_major, pos_minor, item)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
