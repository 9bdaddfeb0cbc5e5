-- The user that a send is for, if it names one who is there when its row is written:
-- users.part and users.number. Mail to an address alone has NULL.
-- MySQL has no IF NOT EXISTS for columns and indexes.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sends' AND column_name = 'user_part') = 0,
  'ALTER TABLE sends ADD COLUMN user_part SMALLINT UNSIGNED, ADD COLUMN user_number BIGINT', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
SET @statement = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sends' AND index_name = 'send_user') = 0,
  'CREATE INDEX send_user ON sends (user_part, user_number, message, number)', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
