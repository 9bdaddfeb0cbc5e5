#!lua flags=allow-oom
-- Writes what the process that judges alerts has told.
-- Keys:    1 lease, 2 alerts (hash)
-- Args:    1 token of the lease, 2 a text
-- Returns: 1
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the alerts is held by another process')
end
redis.call('HSET', KEYS[2], 'told', ARGV[2])
return 1
