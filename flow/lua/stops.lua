-- Reads what is stopped, and whether that was brought together with what the database
-- has of it since this Redis is the one that it is.
-- Keys:    1 stops (hash), 2 where they are complete (string, "EPOCH REPLICATION-ID")
-- Args:    none
-- Returns: {the epoch, '0' not yet complete; then of each stop: name, note}
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
local epoch, at = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%w*)$')
local all = redis.call('HGETALL', KEYS[1])
table.insert(all, 1, at == server and epoch or '0')
return all
