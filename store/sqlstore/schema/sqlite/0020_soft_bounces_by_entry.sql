-- Readable from version 17
-- Old soft bounces are removed by a walk in the order of the key. An index by day was
-- written at another place for each new row.
DROP INDEX IF EXISTS soft_bounces_day;
