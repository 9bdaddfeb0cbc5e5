-- events is divided by time, so that old days are dropped and not deleted. The
-- days between the two are made by the program. Copies the table.
ALTER TABLE events PARTITION BY RANGE COLUMNS (time) (
  PARTITION `before` VALUES LESS THAN ('$FIRST_DAY'),
  PARTITION later VALUES LESS THAN (MAXVALUE)
);
