-- The key of users stays (part, number) here: only SQLite reads faster by another one.
-- Readable from version 35
SELECT 1;
