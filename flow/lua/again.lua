-- Writes a dead letter's item at the end of its log again, once a day at most.
-- Keys:    1 log (stream), 2 sources (hash), 3 note of this replay (string,
--          lives a day)
-- Args:    1 batch
-- Returns: {1} written, {0} it was written before
if not redis.call('SET', KEYS[3], 1, 'NX', 'EX', 86400) then return {0} end
local prev = redis.call('HGET', KEYS[2], '@tail') or '0-0'
local id = redis.call('XADD', KEYS[1], '*', 'prev', prev, 'batch', ARGV[1])
redis.call('HSET', KEYS[2], '@tail', id)
return {1}
