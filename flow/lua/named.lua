#!lua flags=allow-oom
-- Gives the hashes of a server an id, for good, and tells which they have.
-- Keys:    1 state (hash)
-- Args:    1 the id, if they have none
-- Returns: the id
redis.call('HSETNX', KEYS[1], 'id', ARGV[1])
return redis.call('HGET', KEYS[1], 'id')
