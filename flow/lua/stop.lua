#!lua flags=allow-oom
-- Stops something, if not too much of its kind is stopped already.
-- Keys:    1 stops (hash)
-- Args:    1 name, 2 note, 3 names at most, 4.. the words that are counted: a name
--          counts that has one before its colon; with no word it is never refused
-- Returns: 1 it is stopped, 0 there is no room
if #ARGV > 3 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local n = 0
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    local by = string.match(name, '([a-z]+):')
    for i = 4, #ARGV do
      if by == ARGV[i] then n = n + 1 end
    end
  end
  if n >= tonumber(ARGV[3]) then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
