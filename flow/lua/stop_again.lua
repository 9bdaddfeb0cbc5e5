#!lua flags=allow-oom
-- Stops what the database says was stopped, and notes that this Redis has all of it: in an
-- epoch above that of the database, and of the Redis that it was before.
-- Another process may have done so; what was resumed since stays so.
-- Keys:    1 stops (hash), 2 where they are complete (string, "EPOCH REPLICATION-ID")
-- Args:    1 the epoch of the database, then of each stop: name, note
-- Returns: 1 done, 0 it was done before
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
local epoch, at = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%w*)$')
if at == server then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
epoch = math.max(tonumber(epoch or 0), tonumber(ARGV[1])) + 1
redis.call('SET', KEYS[2], string.format('%d %s', epoch, server))
return 1
