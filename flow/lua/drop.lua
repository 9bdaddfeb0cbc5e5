#!lua flags=allow-oom
-- Drops elements of the oldest held chunk whose effect is committed. The
-- offset is absolute, so a repeat changes nothing.
-- Keys:    1 lease, 2 state (hash), 3 the chunk
-- Args:    1 token of the lease, 2 number of the chunk, 3 elements of it
--          committed so far, 4 'whole' if that is all of it, 5 'left' or 'right',
--          6 number of the chunk after it
-- Returns: 1 dropped, 0 nothing to drop
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the list is held by another process')
end
local state = redis.call('HMGET', KEYS[2], 'first', 'base')
local first, base = tonumber(state[1] or '1'), tonumber(state[2] or '0')
local chunk = tonumber(ARGV[2])
if chunk < first then return 0 end
if chunk > first then
  return redis.error_reply('ORDER chunk ' .. ARGV[2] .. ' is not the oldest, that is ' .. first)
end
if ARGV[4] == 'whole' then
  redis.call('UNLINK', KEYS[3])
  redis.call('HSET', KEYS[2], 'first', ARGV[6], 'base', 0, 'ended', ARGV[2] .. '-' .. ARGV[3])
  return 1
end
local n = tonumber(ARGV[3]) - base
if n <= 0 then return 0 end
if ARGV[5] == 'right' then
  redis.call('LTRIM', KEYS[3], 0, -n - 1)
else
  redis.call('LTRIM', KEYS[3], n, -1)
end
redis.call('HSET', KEYS[2], 'base', ARGV[3])
return 1
