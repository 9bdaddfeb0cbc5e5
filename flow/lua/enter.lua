#!lua flags=allow-oom
-- Takes room for people who enter a journey with limits. What a commit has taken that
-- never came, or is tried again by another session, is given back first.
-- Keys:    1 entries of the journey (hash)
-- Args:    1 partition, 2 number of the commit that they enter by, 3 its session,
--          4 how many want to, then for each limit: its name, its period, how many
-- Returns: how many may
local own = 'part:' .. ARGV[1]
local commit = ARGV[2] .. '/' .. ARGV[3]
local was = redis.call('HGET', KEYS[1], own .. ':commit')
-- Another session makes a commit of the same number: that of the first never came.
local undone = was and was ~= commit and string.match(was, '^[^/]*') == ARGV[2]
-- A limit counts in the period of before as well: partitions are not all in one, as where
-- one has not finished a run and another is in the next.
local function count(name, period)
  for _, at in ipairs({ name, name .. ':before' }) do
    if redis.call('HGET', KEYS[1], at .. ':period') == period then return at end
  end
end
if undone then
  for _, name in ipairs({ 'total', 'day', 'run' }) do
    local mine = own .. ':' .. name
    local period = redis.call('HGET', KEYS[1], mine .. ':period')
    local at = period and count(name, period)
    if at then
      local used = tonumber(redis.call('HGET', KEYS[1], at)) - tonumber(redis.call('HGET', KEYS[1], mine))
      redis.call('HSET', KEYS[1], at, math.max(used, 0))
    end
  end
end
local room = tonumber(ARGV[4])
local uses = {}
for i = 5, #ARGV, 3 do
  local name, period, limit = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local at = count(name, period)
  if not at then
    local last = redis.call('HGET', KEYS[1], name .. ':period')
    if last then
      redis.call('HSET', KEYS[1], name .. ':before', redis.call('HGET', KEYS[1], name), name .. ':before:period', last)
    end
    redis.call('HSET', KEYS[1], name, 0, name .. ':period', period)
    at = name
  end
  local used, mine, taken = tonumber(redis.call('HGET', KEYS[1], at)), own .. ':' .. name, 0
  if was == commit and redis.call('HGET', KEYS[1], mine .. ':period') == period then
    taken = tonumber(redis.call('HGET', KEYS[1], mine))
  end
  room = math.min(room, math.max(limit - used, 0))
  uses[#uses + 1] = { at, used, mine, taken, period }
end
if was ~= commit then
  for _, name in ipairs({ 'total', 'day', 'run' }) do
    redis.call('HDEL', KEYS[1], own .. ':' .. name, own .. ':' .. name .. ':period')
  end
end
for _, u in ipairs(uses) do
  redis.call('HSET', KEYS[1], u[1], u[2] + room, u[3], u[4] + room, u[3] .. ':period', u[5])
end
redis.call('HSET', KEYS[1], own .. ':commit', commit)
return room
