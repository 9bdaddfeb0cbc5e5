#!lua flags=no-writes
-- Reads how long ago that was applied which went last for want of room.
-- Keys:    1 sources of a log, or state of a list (hash)
-- Args:    1 field
-- Returns: milliseconds; -1 nothing has gone so; -2 nobody has noted it
local cut = redis.call('HGET', KEYS[1], ARGV[1])
if not cut then return -2 end
if cut == '0' then return -1 end
local time = redis.call('TIME')
return math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - cut)
