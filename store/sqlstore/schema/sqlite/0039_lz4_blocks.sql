-- Only PostgreSQL compresses blocks of checkpoints by itself.
-- Readable from version 37
SELECT 1;
