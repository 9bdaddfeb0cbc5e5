-- Remembers with what a token came first, among those that were made in one hour.
-- Keys:    1 the hash of the hour
-- Args:    1 the token, 2 what it comes with, 3 how many it may have, 4 how long it lives in ms
-- Returns: what it came with first; empty: it is new, and there is no room for it
local first = redis.call('HGET', KEYS[1], ARGV[1])
if first then return first end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return '' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return ARGV[2]
