#!lua flags=no-writes
-- Finds members of a set that another set does not have, a piece of the first
-- at a time: only what differs leaves Redis.
-- Keys:    1 the set, 2 the other
-- Args:    1 cursor of SSCAN, '0' at first, 2 about how many members to look at
-- Returns: the next cursor, '0' at the end; the members, some perhaps twice
local page = redis.call('SSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local members, out = page[2], { page[1] }
for from = 1, #members, 1000 do
  local there = redis.call('SMISMEMBER', KEYS[2], unpack(members, from, math.min(from + 999, #members)))
  for i = 1, #there do
    if there[i] == 0 then out[#out + 1] = members[from + i - 1] end
  end
end
return out
