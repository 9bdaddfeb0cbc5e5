-- Adds to counts of what became of mail, in the hash of a stretch of time.
-- Keys:    1 the hash
-- Args:    1 how long it lives in ms, 2 how many fields it may have;
--          field, number, 1 if it may be one too many, or 0; ...
-- Returns: how many fields were left out
local left = 0
for i = 3, #ARGV, 3 do
  if ARGV[i + 2] == '1' or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 or redis.call('HLEN', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
  else
    left = left + 1
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return left
