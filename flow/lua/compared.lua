#!lua flags=allow-oom
-- Notes that lanes and ledger have been compared, and what was found.
-- Keys:    1 lease, 2 standing (hash)
-- Args:    1 token, 2 replication id, 3 what was found
-- Returns: 1 noted, 0 it is another Redis by now
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
if redis.call('HGET', KEYS[2], 'server') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], 'compared', '1', 'found', ARGV[3])
return 1
