-- Puts a dead letter's element back into its list, once a day at most.
-- Keys:    1 foreign list, 2 note of this replay (string, lives a day)
-- Args:    1 element, 2 'left' or 'right': where it is taken
-- Returns: 1 pushed, 0 it was pushed before
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', 86400) then return 0 end
if ARGV[2] == 'right' then
  redis.call('LPUSH', KEYS[1], ARGV[1])
else
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
return 1
