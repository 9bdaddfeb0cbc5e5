#!lua flags=no-writes
-- Reads how long ago the newest entry that has gone was applied. It went for want
-- of room, or in a Redis that has gone back in time.
-- Keys:    1 sources of a log, or state of a list (hash), 2 its lease
-- Returns: milliseconds; -1 nothing has gone so; -2 it is not noted, or the last holder
--          of the lease does not note it
local state = redis.call('HMGET', KEYS[1], '@cut', '@cut_by', '@raised')
local lease = redis.call('HMGET', KEYS[2], 'number', 'before')
if not state[1] or not state[2] or state[2] ~= lease[1] and state[2] ~= lease[2] then return -2 end
local cut = math.max(tonumber(state[1]), tonumber(state[3] or '0'))
if cut == 0 then return -1 end
local time = redis.call('TIME')
return math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - cut)
