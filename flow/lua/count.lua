-- Adds a dead letter's counts to their hash again, once a day at most.
-- Keys:    1 set of dirty keys, 2 note of this replay (string, lives a day),
--          3 the hash
-- Args:    field, integer, field, integer, ...; none: only the key is marked
-- Returns: 1 added, 0 it was added before
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'set' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is a ' .. kind .. ', not a set')
end
for i = 1, #ARGV, 2 do
  local done = redis.pcall('HINCRBY', KEYS[3], ARGV[i], ARGV[i + 1])
  if type(done) == 'table' then
    -- The ones before it are taken back: Redis does not do that.
    for k = 1, i - 2, 2 do
      local back = string.sub(ARGV[k + 1], 1, 1) == '-' and string.sub(ARGV[k + 1], 2) or '-' .. ARGV[k + 1]
      redis.call('HINCRBY', KEYS[3], ARGV[k], back)
    end
    return redis.error_reply(done.err)
  end
end
redis.call('SADD', KEYS[1], KEYS[3])
redis.call('SET', KEYS[2], 1, 'EX', 86400)
return 1
