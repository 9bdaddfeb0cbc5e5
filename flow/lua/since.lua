#!lua flags=allow-oom
-- Notes since when something is done in one way, unless that is noted. It runs in a
-- full Redis as well: a program that cannot start cannot empty it.
-- Keys:    1 since (hash)
-- Args:    1 name, 2 milliseconds of now
-- Returns: {since when, 1 if it was noted now}
local first = redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
return { redis.call('HGET', KEYS[1], ARGV[1]), tostring(first) }
