-- Writes items at the end of a log, in one batch, each under a name of its own that
-- is remembered for a while with the others of its request: what was written under
-- its name before is left out.
-- Keys:    1 log (stream), 2 sources (hash), 3 names (hash)
-- Args:    1 head of a batch, 2 how long the names are remembered, in ms; of each:
--          name, items
-- Returns: {entries in the log}
local batch, names = {ARGV[1]}, {}
for i = 3, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[3], ARGV[i]) == 0 then
    names[#names + 1] = ARGV[i]
    batch[#batch + 1] = ARGV[i + 1]
  end
end
if #names > 0 then
  local prev = redis.call('HGET', KEYS[2], '@tail') or '0-0'
  local id = redis.call('XADD', KEYS[1], '*', 'prev', prev, 'batch', table.concat(batch))
  redis.call('HSET', KEYS[2], '@tail', id)
  for _, name in ipairs(names) do redis.call('HSET', KEYS[3], name, '') end
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
return {redis.call('XLEN', KEYS[1])}
