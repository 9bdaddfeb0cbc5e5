#!lua flags=no-writes
-- Reads elements of a held chunk with very uneven sizes, by count and by bytes,
-- looking at a few at a time. It stops at the element that crosses the bound.
-- (Chunks of small elements are read by plain LRANGE, ten times faster.)
-- Keys:    1 the chunk, 2 state (hash)
-- Args:    1 index of the first, 2 most elements, 3 most bytes, 4 'left' or 'right',
--          5 first, 6 base, 7 last: the state that the index was reckoned from
-- Returns: the elements, at least one if there is one
local state = redis.call('HMGET', KEYS[2], 'first', 'base', 'last')
if (state[1] or '1') ~= ARGV[5] or (state[2] or '0') ~= ARGV[6] or (state[3] or '0') ~= ARGV[7] then
  return redis.error_reply('ELSEWHERE the list is not where its reader believes')
end
local from, n, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local out, k = {}, 0
while k < n do
  local v
  local step = math.min(8, n - k)
  if ARGV[4] == 'right' then
    v = redis.call('LRANGE', KEYS[1], -(from + k + step), -(from + k + 1))
    for i = 1, math.floor(#v / 2) do v[i], v[#v + 1 - i] = v[#v + 1 - i], v[i] end
  else
    v = redis.call('LRANGE', KEYS[1], from + k, from + k + step - 1)
  end
  for i = 1, #v do
    if k > 0 and #v[i] > bytes then return out end
    k = k + 1
    out[k] = v[i]
    bytes = bytes - #v[i]
  end
  if #v < step then return out end
end
return out
