-- What of a thing differed just before and just after a change, as JSON. Programs of
-- before write neither.
-- Readable from version 33
ALTER TABLE audit_log ADD COLUMN was TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_log ADD COLUMN became TEXT NOT NULL DEFAULT '';
