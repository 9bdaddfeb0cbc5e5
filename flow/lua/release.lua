#!lua flags=allow-oom
-- Gives a lease back. Its number stays, for later readers.
-- Keys:    1 lease (hash)
-- Args:    1 token
-- Returns: 1 given back, 0 it was not ours any more
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'token', 'owner')
return 1
