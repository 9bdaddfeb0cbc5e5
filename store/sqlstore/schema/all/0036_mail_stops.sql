-- What mail operators have stopped, beside Redis, which can go back, be emptied or be
-- another one. One row with all of it. Programs of before know nothing of it.
-- Readable from version 35
CREATE TABLE IF NOT EXISTS mail_stops (
  id      $NUMBER NOT NULL,
  stops   $TEXT   NOT NULL,
  updated $TIME   NOT NULL,
  PRIMARY KEY (id)
) $TABLE;
