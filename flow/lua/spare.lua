#!lua flags=allow-oom
-- Notes that sends are not to be attempted any more, whose end the ledger has
-- already: nothing goes to the log.
-- Keys:    1 lease, 2 cancels (hash)
-- Args:    1 token, 2 now in ms, 3 notes at most, 4.. ids
-- Returns: how many could not be noted
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local room, left = tonumber(ARGV[3]) - redis.call('HLEN', KEYS[2]), 0
for i = 4, #ARGV do
  if room > 0 then
    room = room - redis.call('HSET', KEYS[2], ARGV[i], ARGV[2])
  else
    left = left + 1
  end
end
return left
