-- The index of sends by user has when they were accepted: who counts those of some days reads
-- no rows of older ones.
-- MySQL has no IF [NOT] EXISTS for indexes.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sends' AND index_name = 'send_user' AND column_name = 'accepted') = 0,
  'ALTER TABLE sends DROP INDEX send_user, ADD INDEX send_user (user_part, user_number, message, number, accepted)', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
