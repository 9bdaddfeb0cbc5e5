#!lua flags=allow-oom
-- Removes the entries of a log that every holder has applied.
-- Keys:    1 lease, 2 log (stream)
-- Args:    1 token of the lease, 2 oldest id to keep
-- Returns: entries removed
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the log is held by another process')
end
return redis.call('XTRIM', KEYS[2], 'MINID', '=', ARGV[2])
