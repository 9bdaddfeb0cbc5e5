-- When a send was clicked first by a person (NULL: never), and what its row remembers of
-- its clicks, by which they are judged (mail.Clicks; empty: nothing).
-- MySQL has no IF NOT EXISTS for columns.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sends' AND column_name = 'clicks') = 0,
  'ALTER TABLE sends
   ADD COLUMN first_human_click DATETIME(3) NULL,
   ADD COLUMN clicks VARCHAR(96) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
