#!lua flags=allow-oom
-- Brings the state of a list up to the committed position of its follower. The
-- follower may be ahead if a drop was lost with its process. It may also be
-- ahead if Redis has gone back in time and would issue a chunk number a second
-- time. The numbers in between are noted as a hole: no chunk has them.
-- Keys:    1 lease, 2 state (hash)
-- Args:    1 token of the lease, 2 number of the chunk the cursor is in,
--          3 the cursor, 4 the deployment that drains the list, 5 'true' to take
--          it over from another, 6 the id that it was given, '' for none, 7 'true'
--          if its follower keeps what is applied
-- Returns: {last, first, base, position at which the chunk before first ended,
--          last chunk before the hole, last number of the hole, position up to
--          which it is applied as far as is noted}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the list is held by another process')
end
if ARGV[4] ~= '' then
  local owner = redis.call('HGET', KEYS[2], 'deployment')
  if owner and owner ~= ARGV[4] and ARGV[5] ~= 'true' then
    return redis.error_reply('OWNER the list is drained by another installation of Sluice, with another database; if this one takes its place, start once with --accept-gaps')
  end
  redis.call('HSET', KEYS[2], 'deployment', ARGV[4])
end
if ARGV[6] ~= '' then -- a server that was emptied gets it again
  redis.call('HSETNX', KEYS[2], 'id', ARGV[6])
  if redis.call('HGET', KEYS[2], 'id') ~= ARGV[6] then
    return redis.error_reply('OWNER another server answers here than when the program started; start it again')
  end
end
if ARGV[7] ~= 'true' then redis.call('HDEL', KEYS[2], '@cut') end -- of how much was kept
local state = redis.call('HMGET', KEYS[2], 'last', 'first')
local last, first, cursor = tonumber(state[1] or '0'), tonumber(state[2] or '1'), tonumber(ARGV[2])
if last < cursor then
  if last < first then -- nothing is held
    redis.call('HSET', KEYS[2], 'first', string.format('%.0f', cursor + 1), 'base', 0, 'ended', ARGV[3])
  end
  local time = redis.call('TIME') -- what it kept may be gone (cut.lua)
  redis.call('HSET', KEYS[2], 'last', ARGV[2], 'hole', string.format('%.0f', last), 'raised', ARGV[2],
    '@raised', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
end
state = redis.call('HMGET', KEYS[2], 'last', 'first', 'base', 'ended', 'hole', 'raised', 'done')
return {state[1] or '0', state[2] or '1', state[3] or '0', state[4] or '', state[5] or '0', state[6] or '0', state[7] or ''}
