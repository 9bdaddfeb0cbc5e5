-- Writes batches at the end of a log under a name that is remembered for a
-- while: a repeat with the same body writes nothing.
-- Keys:    1 log (stream), 2 sources (hash), 3 once (string)
-- Args:    1 head of a batch, 2 print of the body, 3 how long it is remembered, in
--          ms, 4.. items of each batch
-- Returns: {1, entries in the log that are not applied} written; {0, entries} it was already; {-1}
--          another body came under this name
local seen = redis.call('GET', KEYS[3])
if seen then
  if seen ~= ARGV[2] then return {-1} end
  return {0, math.max(0, redis.call('XLEN', KEYS[1]) - tonumber(redis.call('HGET', KEYS[2], '@applied') or '0'))}
end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
for i = 4, #ARGV do
  local prev = redis.call('HGET', KEYS[2], '@tail') or '0-0'
  local id = redis.call('XADD', KEYS[1], '*', 'prev', prev, 'batch', ARGV[1] .. ARGV[i])
  redis.call('HSET', KEYS[2], '@tail', id)
end
return {1, math.max(0, redis.call('XLEN', KEYS[1]) - tonumber(redis.call('HGET', KEYS[2], '@applied') or '0'))}
