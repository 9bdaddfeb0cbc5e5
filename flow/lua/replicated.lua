#!lua flags=allow-oom
-- Writes something, so that WAIT behind it on the same connection covers all that was
-- written before. The caller names the Redis where it has appended (part/guard.lua): on
-- another one it is refused, since what was appended may not be there. It is also called
-- before anything is appended (Replicas.From). A full Redis takes it: what is inside moves on.
-- Keys:    1 replicated (string)
-- Args:    none
-- Returns: OK
return redis.call('SET', KEYS[1], '1')
