-- Writes something, so that WAIT behind it on the same connection covers all that was
-- written before. The caller has appended, and names the Redis where that was (part/guard.lua): on
-- another one it is refused, since what was appended may not be there.
-- Keys:    1 replicated (string)
-- Args:    none
-- Returns: OK
return redis.call('SET', KEYS[1], '1')
