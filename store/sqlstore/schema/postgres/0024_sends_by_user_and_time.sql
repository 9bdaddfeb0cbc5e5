-- The index of sends by user has when they were accepted: who counts those of some days reads
-- no rows of older ones.
DROP INDEX IF EXISTS send_user;
CREATE INDEX send_user ON sends (user_part, user_number, message, number, accepted) WHERE user_number IS NOT NULL;
