-- What of a thing differed just before and just after a change, as JSON. Programs of
-- before write neither.
-- Readable from version 33
-- MySQL has no IF NOT EXISTS for columns.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'audit_log' AND column_name = 'was') = 0,
  'ALTER TABLE audit_log
   ADD COLUMN was VARCHAR(4000) NOT NULL DEFAULT '''',
   ADD COLUMN became VARCHAR(4000) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
