#!lua flags=allow-oom
-- Drops notes of cancelled sends that will not be met, or keeps them for good,
-- as long as they are unchanged.
-- Keys:    1 lease, 2 cancels (hash)
-- Args:    1 token, then for each note: its id, what it was, what it is now; '':
--          it goes
-- Returns: how many were changed
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local changed = 0
for i = 2, #ARGV, 3 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    changed = changed + 1
    if ARGV[i + 2] == '' then
      redis.call('HDEL', KEYS[2], ARGV[i])
    else
      redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
    end
  end
end
return changed
