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
local room = tonumber(ARGV[4])
local uses = {}
for i = 5, #ARGV, 3 do
  local name, period, limit = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local used = 0
  if redis.call('HGET', KEYS[1], name .. ':period') == period then
    used = tonumber(redis.call('HGET', KEYS[1], name) or '0')
  end
  local taken = 0
  if was and (was == commit or undone) and redis.call('HGET', KEYS[1], own .. ':' .. name .. ':period') == period then
    taken = tonumber(redis.call('HGET', KEYS[1], own .. ':' .. name) or '0')
  end
  if undone then
    used, taken = math.max(used - taken, 0), 0
  end
  room = math.min(room, math.max(limit - used, 0))
  uses[#uses + 1] = { name, period, used, taken }
end
for _, u in ipairs(uses) do
  redis.call('HSET', KEYS[1], u[1], u[3] + room, u[1] .. ':period', u[2],
    own .. ':' .. u[1], u[4] + room, own .. ':' .. u[1] .. ':period', u[2])
end
redis.call('HSET', KEYS[1], own .. ':commit', commit)
return room
