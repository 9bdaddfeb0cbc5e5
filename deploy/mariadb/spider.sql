-- On the head, once, in the database of Sluice, behind `sluice migrate`, while no process
-- runs (docs/scale.md). What `events` has is in events_local afterwards.
CREATE SERVER shard1 FOREIGN DATA WRAPPER mysql OPTIONS (HOST '10.0.0.11', PORT 3306, DATABASE 'sluice', USER 'spider', PASSWORD 'PASSWORD');
CREATE SERVER shard2 FOREIGN DATA WRAPPER mysql OPTIONS (HOST '10.0.0.12', PORT 3306, DATABASE 'sluice', USER 'spider', PASSWORD 'PASSWORD');
RENAME TABLE events TO events_local;
-- An odd number of parts: of two or four, MariaDB's hash gives ids like those of UUIDs to
-- one alone. Each part is a table of its own name.
CREATE TABLE events (
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
) ENGINE=SPIDER DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin COMMENT='wrapper "mysql"'
PARTITION BY KEY (event_id) (
  PARTITION p0 COMMENT='srv "shard1", table "events_0"',
  PARTITION p1 COMMENT='srv "shard2", table "events_1"',
  PARTITION p2 COMMENT='srv "shard1", table "events_2"',
  PARTITION p3 COMMENT='srv "shard2", table "events_3"',
  PARTITION p4 COMMENT='srv "shard1", table "events_4"',
  PARTITION p5 COMMENT='srv "shard2", table "events_5"',
  PARTITION p6 COMMENT='srv "shard1", table "events_6"'
);
