-- What happened. Every unique key contains time, because days become
-- partitions of the table; no further index, because each costs load speed.
-- The lengths of texts are bounded by the program. properties is text: jsonb
-- gives it back in another order and refuses the escape \u0000.
CREATE TABLE IF NOT EXISTS events (
  event_id    text COLLATE "C" NOT NULL,
  kind        text COLLATE "C" NOT NULL,
  name        text COLLATE "C" NOT NULL,
  app_id      text COLLATE "C" NOT NULL,
  time        timestamptz(3)   NOT NULL,
  email       text COLLATE "C",
  user_ref    text COLLATE "C",
  message_ref text COLLATE "C",
  properties  text COLLATE "C",
  part        integer          NOT NULL,
  pos_major   bigint           NOT NULL,
  pos_minor   bigint           NOT NULL,
  item        bigint           NOT NULL,
  PRIMARY KEY (time, event_id)
);

CREATE INDEX IF NOT EXISTS log_position ON events (part, pos_major, pos_minor, item);
