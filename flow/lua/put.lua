#!lua flags=allow-oom
-- Writes a field of a hash. It runs in a full Redis as well: what is decided and told
-- there helps to drain it.
-- Keys:    1 a hash
-- Args:    1 field, 2 value
-- Returns: 1
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
