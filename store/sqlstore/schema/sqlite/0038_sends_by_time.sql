-- The newest of all sends are read by when they were accepted: an id of a journey's mail begins
-- with the day on which its person entered, which may be months before.
-- Readable from version 37
CREATE INDEX IF NOT EXISTS send_accepted ON sends (accepted);
