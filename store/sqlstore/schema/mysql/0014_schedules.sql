-- Mail for a time to come, as it was asked for, until it is released.
CREATE TABLE IF NOT EXISTS schedules (
  id       VARCHAR(36) NOT NULL,
  state    VARCHAR(16) NOT NULL,
  revision INT         NOT NULL,
  due      DATETIME(3) NOT NULL,
  request  MEDIUMTEXT  NOT NULL,
  created  DATETIME(3) NOT NULL,
  updated  DATETIME(3) NOT NULL,
  PRIMARY KEY (id),
  KEY schedules_due (state, due, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
