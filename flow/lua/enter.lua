#!lua flags=allow-oom
-- Takes room for people who enter a journey with limits; or sets what partitions have let
-- in by commits, so that what a commit has taken that never came is given back.
-- Keys:    1 entries of the journey (hash)
-- Args:    1 partition, 2 its session, 3 how many want to enter, then for each limit: its
--          name, its period, how many; or 3 `count`, then for each that is counted: the
--          partition, name, period, how many
-- Returns: how many may; -1: this session has not said yet what its partition has let in
local hash, own, session = KEYS[1], 'let:' .. ARGV[1] .. ':', ARGV[2]
local function get(field) return redis.call('HGET', hash, field) end
-- A limit counts in the period of before as well: partitions are not all in one, as where
-- one has not finished a run and another is in the next. How many have
-- entered in a period older than these two is not known any more: it has no room.
local function find(name, period)
  for _, at in ipairs({ name, name .. ':before' }) do
    if get(at .. ':period') == period then return at end
  end
end
-- Periods are dates, or seconds of runs: of one kind they are of one length.
local function older(a, b) return (tonumber(a) == nil) == (tonumber(b) == nil) and a < b end
local function make(name, period)
  local at = find(name, period)
  if at then return at end
  local last, before = get(name .. ':period'), get(name .. ':before:period')
  if before and older(period, last) and older(period, before) then return end
  if last and not (before and older(last, before)) then
    redis.call('HSET', hash, name .. ':before', get(name), name .. ':before:period', last)
  end
  redis.call('HSET', hash, name, 0, name .. ':period', period)
  return name
end

if ARGV[3] == 'count' then
  local new, says = redis.call('EXISTS', hash) == 0, {}
  for i = 4, #ARGV, 4 do
    if ARGV[i] == ARGV[1] then says[ARGV[i + 1] .. '/' .. ARGV[i + 2]] = tonumber(ARGV[i + 3]) end
  end
  for _, name in ipairs({ 'total', 'day', 'run' }) do
    for _, mine in ipairs({ own .. name, own .. name .. ':before' }) do
      local period = get(mine .. ':period')
      if period then
        local many = says[name .. '/' .. period] or 0
        local at = find(name, period)
        if at then
          redis.call('HSET', hash, at, math.max(tonumber(get(at)) - tonumber(get(mine)) + many, 0))
        end
        redis.call('HSET', hash, mine, many)
      end
    end
  end
  -- What is not there was lost with a Redis. A period in which nobody counts is over.
  for i = 4, #ARGV, 4 do
    local of, name, period, many = 'let:' .. ARGV[i] .. ':', ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    if not find(of .. name, period) then
      local at = new and make(name, period) or find(name, period)
      local its = at and make(of .. name, period)
      if its then
        redis.call('HINCRBY', hash, at, many)
        redis.call('HSET', hash, its, many)
      end
    end
  end
  redis.call('HSET', hash, own .. 'session', session)
  return 0
end

if get(own .. 'session') ~= session then return -1 end
local room, uses = tonumber(ARGV[3]), {}
for i = 4, #ARGV, 3 do
  local name, period, limit = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local at, mine = make(name, period), make(own .. name, period)
  if not (at and mine) then return 0 end
  room = math.min(room, math.max(limit - tonumber(get(at)), 0))
  uses[#uses + 1] = at
  uses[#uses + 1] = mine
end
for _, at in ipairs(uses) do redis.call('HINCRBY', hash, at, room) end
return room
