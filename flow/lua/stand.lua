#!lua flags=allow-oom
-- Notes which Redis the lanes are worked on, by its replication id, which is new
-- with every start and every promotion. It may be a Redis that has gone back in
-- time if the process sees another id than the noted one. So it may be if there
-- is none in lanes that have been worked on. Then the lanes are to be compared
-- with the ledger.
-- Keys:    1 lease, 2 standing (hash)
-- Args:    1 token, 2 now in ms, 3 '1' if the lanes have been worked on before
-- Returns: {replication id, ms at which it was another one ('': never), '1' if
--          lanes and ledger have been compared since}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
local noted = redis.call('HGET', KEYS[2], 'server')
if noted ~= server then
  if noted or ARGV[3] == '1' then
    redis.call('HSET', KEYS[2], 'server', server, 'moved', ARGV[2], 'compared', '')
  else
    redis.call('HSET', KEYS[2], 'server', server, 'compared', '1')
  end
end
local state = redis.call('HMGET', KEYS[2], 'moved', 'compared')
return { server, state[1] or '', state[2] or '' }
