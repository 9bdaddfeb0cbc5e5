-- Puts a dead letter's element back into its list, once.
-- Keys:    1 foreign list, 2 state (hash)
-- Args:    1 name of the replay, 2 element, 3 'left' or 'right': where it is taken
-- Returns: 1 pushed, 0 it was pushed before
if redis.call('HSETNX', KEYS[2], 'replayed:' .. ARGV[1], 1) == 0 then return 0 end
if ARGV[3] == 'right' then
  redis.call('LPUSH', KEYS[1], ARGV[2])
else
  redis.call('RPUSH', KEYS[1], ARGV[2])
end
return 1
