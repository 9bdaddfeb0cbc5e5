-- Writes batches of one source at the ends of logs, once each: a repeat is
-- answered with the id that the first call got. What fails for one log, fails
-- for that one only.
-- Keys:    of each log: log (stream), sources (hash)
-- Args:    1 source; of each log: its seq before this batch ('' for none), its
--          seq now, batch
-- Returns: of each log: {1, id, entries in the log that are not applied} written; {0, id, entries}
--          it was already; {-1, seq} the source stands at another seq; or the
--          error
local source = ARGV[1]

local function entries(log, applied)
  return math.max(0, redis.call('XLEN', log) - tonumber(applied or '0'))
end

local function append(log, sources, before, now, batch)
  local stands = redis.call('HMGET', sources, source, '@tail', '@applied')
  local seq, id = string.match(stands[1] or '', '^(.-)|(.*)$')
  seq = seq or ''
  if seq ~= before then
    if seq == now then return {0, id, entries(log, stands[3])} end
    return {-1, seq}
  end
  id = redis.call('XADD', log, '*', 'prev', stands[2] or '0-0', 'batch', batch)
  redis.call('HSET', sources, '@tail', id, source, now .. '|' .. id)
  return {1, id, entries(log, stands[3])}
end

local answers = {}
for i = 1, #KEYS / 2 do
  local ok, answer = pcall(append, KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1])
  if not ok and type(answer) ~= 'table' then answer = redis.error_reply(answer) end
  answers[i] = answer
end
return answers
