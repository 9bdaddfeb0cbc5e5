#!lua flags=allow-oom
-- Notes up to where the effect of held elements is committed, and drops from
-- the oldest chunks those that are not kept any more. Places are absolute, so a
-- repeat changes nothing.
-- Keys:    1 lease, 2 state (hash), 3.. the oldest chunks, of which something is
--          dropped; none: nothing is
-- Args:    1 token of the lease, 2 'left' or 'right', 3 position up to which the
--          effect is committed, 4 how many elements of the last of the chunks are
--          dropped, from its first one on, those included that are gone before;
--          '': all, as of those before it; 5 the oldest chunk as the caller knows
--          it; 6 how many milliseconds ago that was applied which went last for
--          want of room, 'never', or '' to leave what is noted; 7.. the numbers of
--          the chunks, and of the one after them
-- Returns: {oldest chunk that is left, elements dropped from its head}
local lease = redis.call('HMGET', KEYS[1], 'token', 'number')
if lease[1] ~= ARGV[1] then
  return redis.error_reply('LEASE of the list is held by another process')
end
local state = redis.call('HMGET', KEYS[2], 'first', 'base')
local first, base, ended = state[1] or '1', tonumber(state[2] or '0'), nil
if tonumber(first) < tonumber(ARGV[5]) then
  return redis.error_reply('ORDER chunk ' .. first .. ' is there, and was gone: redis has gone back in time')
end
for i = 3, #KEYS do
  local chunk = ARGV[i + 4]
  if tonumber(chunk) > tonumber(first) then
    return redis.error_reply('ORDER chunk ' .. chunk .. ' is not the oldest, that is ' .. first)
  end
  if chunk == first then
    local drop = i == #KEYS and tonumber(ARGV[4]) or math.huge
    local n = redis.call('LLEN', KEYS[i])
    if drop < base + n or n == 0 and drop < math.huge then -- a part of it, or of one that is lost
      if drop > base then
        if ARGV[2] == 'right' then
          redis.call('LTRIM', KEYS[i], 0, base - drop - 1)
        else
          redis.call('LTRIM', KEYS[i], drop - base, -1)
        end
        base = drop
      end
    else
      redis.call('UNLINK', KEYS[i])
      first, base, ended = ARGV[i + 5], 0, chunk .. '-' .. string.format('%.0f', base + n)
    end
  end
end
if ARGV[6] == '' then
  redis.call('HSET', KEYS[2], 'done', ARGV[3])
else
  local cut = '0'
  if ARGV[6] ~= 'never' then
    local time = redis.call('TIME')
    cut = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[6])
  end
  redis.call('HSET', KEYS[2], 'done', ARGV[3], '@cut', cut, '@cut_by', lease[2] or '')
end
if #KEYS > 2 then
  redis.call('HSET', KEYS[2], 'first', first, 'base', string.format('%.0f', base))
  if ended then redis.call('HSET', KEYS[2], 'ended', ended) end
end
return {first, string.format('%.0f', base)}
