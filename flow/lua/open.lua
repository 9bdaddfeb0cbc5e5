#!lua flags=allow-oom
-- Brings the state of a list up to what its follower has committed, which may
-- be ahead of it: a drop that was lost with its process, or a Redis that has
-- gone back in time and would hand out a chunk number a second time.
-- Keys:    1 lease, 2 state (hash)
-- Args:    1 token of the lease, 2 number of the chunk the cursor is in
-- Returns: {last, first, base, position at which the chunk before first ended,
--          number of the chunk up to which Redis may have forgotten chunks}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the list is held by another process')
end
local state = redis.call('HMGET', KEYS[2], 'last', 'first', 'base', 'ended', 'raised')
if tonumber(state[1] or '0') < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[2], 'last', ARGV[2], 'raised', ARGV[2])
  state[1], state[5] = ARGV[2], ARGV[2]
end
return {state[1] or '0', state[2] or '1', state[3] or '0', state[4] or '', state[5] or '0'}
