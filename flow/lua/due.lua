#!lua flags=allow-oom
-- Moves batches with a time that has come to the ends of their lanes, a few at
-- a time.
-- Keys:    1 lease, 2 due (sorted set), 3 waiting (hash), 4 later: what waits for
--          the second (stream), 5.. lanes (streams)
-- Args:    1 token, 2 second, 3 batches at most, 4.. names of the lanes; what
--          names another goes to the last
-- Returns: {batches moved, batches left}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local lanes = {}
for i = 4, #ARGV do lanes[ARGV[i]] = KEYS[i + 1] end
local moved = redis.call('XRANGE', KEYS[4], '-', '+', 'COUNT', ARGV[3])
for _, entry in ipairs(moved) do
  local field = entry[2]
  local lane, size, batch = field[2], field[4], field[6]
  if not lanes[lane] then lane = ARGV[#ARGV] end
  redis.call('XADD', lanes[lane], '*', 'lane', lane, 'n', size, 'batch', batch)
  redis.call('XDEL', KEYS[4], entry[1])
  redis.call('HINCRBY', KEYS[3], 'later', '-' .. size)
  redis.call('HINCRBY', KEYS[3], lane, size)
end
local left = redis.call('XLEN', KEYS[4])
if left == 0 then
  redis.call('DEL', KEYS[4])
  redis.call('ZREM', KEYS[2], ARGV[2])
end
return { #moved, left }
