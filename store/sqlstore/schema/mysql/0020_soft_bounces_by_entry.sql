-- Readable from version 17
-- Old soft bounces are removed by a walk in the order of the key. An index by day was
-- written at another place for each new row. MySQL has no IF EXISTS for indexes.
SET @statement = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'soft_bounces' AND index_name = 'soft_bounces_day') > 0,
  'DROP INDEX soft_bounces_day ON soft_bounces', 'DO 0');
PREPARE step FROM @statement;
EXECUTE step;
DEALLOCATE PREPARE step;
