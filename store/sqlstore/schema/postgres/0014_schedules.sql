-- Mail for a time to come, as it was asked for, until it is released.
CREATE TABLE IF NOT EXISTS schedules (
  id       text COLLATE "C" NOT NULL,
  state    text COLLATE "C" NOT NULL,
  revision integer          NOT NULL,
  due      timestamptz(3)   NOT NULL,
  request  text             NOT NULL,
  created  timestamptz(3)   NOT NULL,
  updated  timestamptz(3)   NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX IF NOT EXISTS schedules_due ON schedules (state, due, id);
