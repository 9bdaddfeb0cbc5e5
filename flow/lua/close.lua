#!lua flags=allow-oom
-- Removes sublanes that are empty, with their names. A process that moves a
-- send to one afterwards makes it anew (record.lua).
-- Keys:    1 lease, 2 sublanes (set), 3 waiting (hash), 4.. the sublanes (streams)
-- Args:    1 token, 2.. their names
-- Returns: for each 1 it is removed, 0 something is in it
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local answers = {}
for i = 2, #ARGV do
  answers[i - 1] = 0
  if redis.call('XLEN', KEYS[i + 2]) == 0 then
    redis.call('DEL', KEYS[i + 2])
    redis.call('SREM', KEYS[2], ARGV[i])
    redis.call('HDEL', KEYS[3], ARGV[i])
    answers[i - 1] = 1
  end
end
return answers
