#!lua flags=allow-oom
-- Stops what the database says was stopped, and notes that this Redis has all of it.
-- Another process may have done so; what was resumed since stays so.
-- Keys:    1 stops (hash), 2 where they are complete (string, a replication id)
-- Args:    of each stop: name, note
-- Returns: 1 done, 0 it was done before
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
if redis.call('GET', KEYS[2]) == server then return 0 end
for i = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('SET', KEYS[2], server)
return 1
