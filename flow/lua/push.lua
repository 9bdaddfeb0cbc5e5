-- Puts a dead letter's element back into its list, once a day at most.
-- Keys:    1 foreign list, 2 note of this replay (string, lives a day)
-- Args:    1 element, 2 'left' or 'right': where it is taken
-- Returns: 1 pushed, 0 it was pushed before
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'list' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is a ' .. kind .. ', not a list')
end
-- Nothing below can fail: Redis would not take the note back.
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', 86400) then return 0 end
if ARGV[2] == 'right' then
  redis.call('LPUSH', KEYS[1], ARGV[1])
else
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
return 1
