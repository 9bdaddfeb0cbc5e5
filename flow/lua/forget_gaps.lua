#!lua flags=allow-oom
-- Forgets gaps that are over, and that they were accepted. Another process may have told
-- another gap in the place of one since they were read, and that may be accepted: it stays.
-- Keys:    1 gaps (hash)
-- Args:    of each gap: the field where it is told, its value as it was read, the field
--          where it is accepted
-- Returns: how many were forgotten
local forgotten = 0
for i = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i], ARGV[i + 2])
    forgotten = forgotten + 1
  end
end
return forgotten
