#!lua flags=allow-oom
-- Shows that a process lives, and which others say so.
-- Keys:    1 members (hash)
-- Args:    1 process id, 2 its beat, 3.. ids to forget
-- Returns: the replication id of this Redis, all members and their beats, its time in milliseconds
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for i = 3, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
local time = redis.call('TIME')
return { string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '', redis.call('HGETALL', KEYS[1]), time[1] * 1000 + math.floor(time[2] / 1000) }
