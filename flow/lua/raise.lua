#!lua flags=allow-oom
-- Raises a log's last id, so that an id which was given out is never given out
-- again after Redis has gone back in time. The marker entry says where that
-- happened, and links the chain to the cursor. What was applied may be gone: when
-- that was is noted.
-- Keys:    1 log (stream), 2 sources (hash)
-- Args:    1 cursor's major, 2 its minor; 3 major, 4 minor of an id to be above;
--          5 what the clock said that gave out the ids of before, in ms: where this
--          one is behind it, ids are to be above it as well; 6 batch of the marker
-- Returns: {1 raised, 0 the log was beyond all that; replication id}
local function halves(id)
  local major, minor = string.match(id or '0-0', '^(%d+)-(%d+)$')
  return tonumber(major), tonumber(minor)
end

local function before(a_major, a_minor, b_major, b_minor)
  return a_major < b_major or a_major == b_major and a_minor < b_minor
end

local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
local top_major, top_minor = 0, 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then top_major, top_minor = halves(info[i + 1]) end
  end
end
local major, minor, clock = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) < clock and clock + 1000 > major then
  -- A second more: what was given out last may not have been seen yet.
  major, minor = clock + 1000, 0
end
if not before(top_major, top_minor, major, minor) then return { 0, server } end
local prev = redis.call('HGET', KEYS[2], '@tail') or '0-0'
local tail_major, tail_minor = halves(prev)
if before(tail_major, tail_minor, tonumber(ARGV[1]), tonumber(ARGV[2])) then prev = ARGV[1] .. '-' .. ARGV[2] end
local id = redis.call('XADD', KEYS[1], string.format('%.0f-%.0f', major, minor + 1), 'prev', prev, 'batch', ARGV[6])
redis.call('HSET', KEYS[2], '@tail', id, '@raised', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return { 1, server }
