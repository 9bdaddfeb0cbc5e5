-- The newest of all sends are read by when they were accepted: an id of a journey's mail begins
-- with the day on which its person entered, which may be months before.
-- It is of an expression, so that what counts the mail of some people since a time goes on by
-- send_user: the server may expect few sends since then, where there are very many.
-- Readable from version 37
CREATE INDEX IF NOT EXISTS send_accepted ON sends ((accepted AT TIME ZONE 'UTC'));
