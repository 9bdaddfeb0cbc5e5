-- Writes batches of one source at the ends of logs, once each: a repeat is
-- answered with the id that the first call got. What fails for one log, fails
-- for that one only. It is the script that runs most: each command that it
-- leaves out is about a fifth of what a log costs.
-- Keys:    of each log: log (stream), sources (hash)
-- Args:    1 source, 2 '1' to count; of each log: its seq before this batch (''
--          for none), its seq now, batch
-- Returns: of each log: id written; {0, id} it was already; {-1, seq} the source
--          stands at another seq; or the error; then, if it counts, of each log
--          the number of its entries that are not applied, -1 if it cannot be told
local call, find, sub = redis.pcall, string.find, string.sub
local source = ARGV[1]

local function append(log, sources, before, now, batch)
  local stands = call('HMGET', sources, source, '@tail')
  if stands.err then return stands end
  local seq, id = '', ''
  if stands[1] then
    local bar = find(stands[1], '|', 1, true)
    if not bar then return redis.error_reply('SEQ of source ' .. source .. ' cannot be read: ' .. stands[1]) end
    seq, id = sub(stands[1], 1, bar - 1), sub(stands[1], bar + 1)
  end
  if seq ~= before then
    if seq == now then return {0, id} end
    return {-1, seq}
  end
  id = call('XADD', log, '*', 'prev', stands[2] or '0-0', 'batch', batch)
  if type(id) == 'table' then return id end
  local set = call('HSET', sources, '@tail', id, source, now .. '|' .. id)
  if type(set) == 'table' then return set end
  return id
end

local answers, logs = {}, #KEYS / 2
for i = 1, logs do
  answers[i] = append(KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2])
end
if ARGV[2] == '1' then
  for i = 1, logs do
    local n, applied = call('XLEN', KEYS[2 * i - 1]), call('HGET', KEYS[2 * i], '@applied')
    answers[logs + i] = type(n) == 'number' and math.max(0, n - (tonumber(applied) or 0)) or -1
  end
end
return answers
