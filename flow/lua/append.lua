-- Writes a batch at the end of a log, once: a repeat is answered with the id
-- that the first call got.
-- Keys:    1 log (stream), 2 sources (hash)
-- Args:    1 source, 2 its seq before this batch ('' for none), 3 its seq now, 4 batch
-- Returns: {1, id, entries in the log} written; {0, id, entries} it was already;
--          {-1, seq} the source stands at another seq
local seen = redis.call('HGET', KEYS[2], ARGV[1]) or ''
local seq, id = string.match(seen, '^(.-)|(.*)$')
seq = seq or ''
if seq ~= ARGV[2] then
  if seq == ARGV[3] then return {0, id, redis.call('XLEN', KEYS[1])} end
  return {-1, seq}
end
local prev = redis.call('HGET', KEYS[2], '@tail') or '0-0'
id = redis.call('XADD', KEYS[1], '*', 'prev', prev, 'batch', ARGV[4])
redis.call('HSET', KEYS[2], '@tail', id, ARGV[1], ARGV[3] .. '|' .. id)
return {1, id, redis.call('XLEN', KEYS[1])}
