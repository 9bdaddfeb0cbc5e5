-- What of a thing differed just before and just after a change, as JSON. Programs of
-- before write neither.
-- Readable from version 33
ALTER TABLE audit_log
  ADD COLUMN IF NOT EXISTS was text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS became text COLLATE "C" NOT NULL DEFAULT '';
