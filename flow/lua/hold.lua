#!lua flags=allow-oom
-- Holds all elements that wait in a foreign list. The list is renamed to the
-- next chunk, in one step whatever its length, so an element is always in
-- exactly one of the two. A producer that pushes starts a new list without
-- knowing.
-- Keys:    1 lease, 2 foreign list, 3 state (hash), 4 chunk last+1
-- Args:    1 token of the lease, 2 the number `last` as the caller knows it
-- Returns: {elements held, last}; {-1, last} if the caller knew another last
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the list is held by another process')
end
local last = redis.call('HGET', KEYS[3], 'last') or '0'
if last ~= ARGV[2] then return {-1, last} end
local n = redis.call('LLEN', KEYS[2])
if n == 0 then return {0, last} end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return redis.error_reply('HELD the next chunk exists already: ' .. KEYS[4])
end
redis.call('RENAME', KEYS[2], KEYS[4])
-- A time to live that its producer gave the list is not one for what we hold.
redis.call('PERSIST', KEYS[4])
redis.call('HINCRBY', KEYS[3], 'last', 1)
return {n, redis.call('HGET', KEYS[3], 'last')} -- as text: a large number loses its digits in Lua
