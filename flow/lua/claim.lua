#!lua flags=allow-oom
-- Takes a lease if it is still where the caller saw it.
-- Keys:    1 lease (hash)
-- Args:    1 token seen there ('' for none), 2 owner, 3 number, 4 token
-- Returns: 1 taken, 0 somebody else was faster
if (redis.call('HGET', KEYS[1], 'token') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'before', redis.call('HGET', KEYS[1], 'number') or '', 'owner', ARGV[2], 'number', ARGV[3], 'token', ARGV[4])
return 1
