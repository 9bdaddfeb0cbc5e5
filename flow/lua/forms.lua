#!lua flags=allow-oom
-- Notes which forms may be in use from now on: the newest of those noted and
-- those given.
-- Keys:    1 forms (hash)
-- Args:    1 item, 2 update, 3 scripts; all 0 to read
-- Returns: the three as they are then
local names = { 'item', 'update', 'scripts' }
local all = {}
for i, name in ipairs(names) do
  local was = tonumber(redis.call('HGET', KEYS[1], name) or '0')
  local now = tonumber(ARGV[i])
  if now > was then
    redis.call('HSET', KEYS[1], name, now)
    was = now
  end
  all[i] = was
end
return all
