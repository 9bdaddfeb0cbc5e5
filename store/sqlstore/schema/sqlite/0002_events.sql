-- What happened. time is milliseconds since the epoch; the view
-- events_readable has it as text.
CREATE TABLE IF NOT EXISTS events (
  event_id    TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  app_id      TEXT    NOT NULL,
  time        INTEGER NOT NULL,
  email       TEXT,
  user_ref    TEXT,
  message_ref TEXT,
  properties  TEXT,
  part        INTEGER NOT NULL,
  pos_major   INTEGER NOT NULL,
  pos_minor   INTEGER NOT NULL,
  item        INTEGER NOT NULL,
  PRIMARY KEY (time, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS log_position ON events (part, pos_major, pos_minor, item);

CREATE VIEW IF NOT EXISTS events_readable AS
SELECT strftime('%Y-%m-%d %H:%M:%S', time / 1000, 'unixepoch') || printf('.%03d', time % 1000) AS time,
       event_id, kind, name, app_id, email, user_ref, message_ref, properties, part, pos_major, pos_minor, item
FROM events;
