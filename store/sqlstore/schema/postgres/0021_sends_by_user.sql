-- The user that a send is for, if it names one who is there when its row is written:
-- users.part and users.number. Mail to an address alone has NULL.
ALTER TABLE sends ADD COLUMN IF NOT EXISTS user_part integer, ADD COLUMN IF NOT EXISTS user_number bigint;
CREATE INDEX IF NOT EXISTS send_user ON sends (user_part, user_number, message, number) WHERE user_number IS NOT NULL;
