-- The newest of all sends are read by when they were accepted: an id of a journey's mail begins
-- with the day on which its person entered, which may be months before.
-- Readable from version 37
-- MySQL has no IF NOT EXISTS for indexes.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sends' AND index_name = 'send_accepted') = 0,
  'CREATE INDEX send_accepted ON sends (accepted)', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
