-- Sends by state and partition: whoever looks for those that wait in one would
-- read those of all otherwise. It takes the place of the index of states alone,
-- so no send writes one more. MySQL has no IF [NOT] EXISTS for indexes.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sends' AND index_name = 'send_state_part') = 0,
  'CREATE INDEX send_state_part ON sends (state, part)', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
SET @statement = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sends' AND index_name = 'send_state') > 0,
  'DROP INDEX send_state ON sends', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
