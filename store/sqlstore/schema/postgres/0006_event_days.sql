-- events is divided by time, so that old days are dropped and not deleted. The
-- days between the two are made by the program. The table that there was becomes
-- the first partition as it is, but for events of days to come.
ALTER TABLE events RENAME TO events_before;
ALTER INDEX events_pkey RENAME TO events_before_pkey;
ALTER INDEX log_position RENAME TO events_before_log_position;
CREATE TABLE events (LIKE events_before, PRIMARY KEY (time, event_id)) PARTITION BY RANGE (time);
CREATE INDEX log_position ON events (part, pos_major, pos_minor, item);
CREATE TABLE events_later PARTITION OF events DEFAULT;
WITH later AS (DELETE FROM events_before WHERE time >= '$FIRST_DAY' RETURNING *) INSERT INTO events SELECT * FROM later;
ALTER TABLE events ATTACH PARTITION events_before FOR VALUES FROM (MINVALUE) TO ('$FIRST_DAY');
