#!lua flags=allow-oom
-- Stops something, if not too much is stopped already.
-- Keys:    1 stops (hash)
-- Args:    1 name, 2 note, 3 names at most
-- Returns: 1 it is stopped, 0 there is no room
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
