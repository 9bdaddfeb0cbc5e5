-- What a send is to journeys: the journey and the step that sent it (empty: none did), the
-- variant and the occurrence of the person there; when it was opened and clicked first
-- (NULL: never; first_human_open: not by a machine); and whether it counts for no cap.
-- MySQL has no IF NOT EXISTS for columns.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sends' AND column_name = 'journey') = 0,
  'ALTER TABLE sends
   ADD COLUMN journey VARCHAR(64) NOT NULL DEFAULT '''',
   ADD COLUMN step VARCHAR(64) NOT NULL DEFAULT '''',
   ADD COLUMN variant VARCHAR(64) NOT NULL DEFAULT '''',
   ADD COLUMN occurrence INT UNSIGNED NOT NULL DEFAULT 0,
   ADD COLUMN first_open DATETIME(3) NULL,
   ADD COLUMN first_human_open DATETIME(3) NULL,
   ADD COLUMN first_click DATETIME(3) NULL,
   ADD COLUMN ignores_caps SMALLINT UNSIGNED NOT NULL DEFAULT 0', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
