-- Reads what is stopped, and whether that was brought together with what the database
-- has of it since this Redis is the one that it is.
-- Keys:    1 stops (hash), 2 where they are complete (string, a replication id)
-- Args:    none
-- Returns: {'1' complete, '' not yet; then of each stop: name, note}
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
local all = redis.call('HGETALL', KEYS[1])
table.insert(all, 1, redis.call('GET', KEYS[2]) == server and '1' or '')
return all
