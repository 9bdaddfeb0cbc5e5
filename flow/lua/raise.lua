#!lua flags=allow-oom
-- Raises a log's last id, so that an id which was given out is never given out
-- again after Redis has gone back in time. The marker entry says where that
-- happened, and links the chain to the cursor. What was applied may be gone: when
-- that was is noted.
-- For a session of the store it also looks for entries that the cursor has passed
-- over: the cursor came from another Redis, which was a master beside this one. What
-- no session can have read moves behind the log's end, in its order. Else they are
-- counted, and the count is kept for this cursor (flow/passed.go).
-- Keys:    1 log (stream), 2 sources (hash)
-- Args:    1 cursor's major, 2 its minor; 3 major, 4 minor of an id to be above;
--          5 what the clock said that gave out the ids of before, in ms: where this
--          one is behind it, ids are to be above it as well; 6 batch of the marker;
--          7 '1' if a session of the store begins at the cursor; 8 entries and 9
--          bytes that are moved at most
-- Returns: {1 raised, 0 the log was beyond all that; replication id; entries that
--          were moved; entries that are passed over}
local function halves(id)
  local major, minor = string.match(id or '0-0', '^(%d+)-(%d+)$')
  return tonumber(major), tonumber(minor)
end

local function before(a_major, a_minor, b_major, b_minor)
  return a_major < b_major or a_major == b_major and a_minor < b_minor
end

-- each calls with entries of the log behind one, up to another, a few at a time.
local function each(from, to, call)
  while true do
    local page = redis.call('XRANGE', KEYS[1], '(' .. from, to, 'COUNT', 16)
    if #page == 0 or call(page) then return end
    from = page[#page][1]
  end
end

local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or ''
local top_major, top_minor = 0, 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then top_major, top_minor = halves(info[i + 1]) end
  end
end
local cursor, session = ARGV[1] .. '-' .. ARGV[2], ARGV[7] == '1'
local cursor_major, cursor_minor = tonumber(ARGV[1]), tonumber(ARGV[2])
local noted = redis.call('HMGET', KEYS[2], '@tail', '@server', '@from', '@begun', '@passed', '@applied')
local tail, first, from = noted[1] or '0-0', noted[2] ~= server, noted[3] or '0-0'

-- What the cursor has passed over: it is beyond what was written here, and no entry.
local passed, moves = 0, false
local from_major, from_minor = halves(from)
if session and not first and before(from_major, from_minor, cursor_major, cursor_minor)
  and #redis.call('XRANGE', KEYS[1], cursor, cursor) == 0 then
  each(from, cursor, function(page) passed = passed + #page end)
  if passed > 0 and noted[4] ~= '1' then
    local entries, bytes = 0, 0
    each(from, '+', function(page)
      for _, entry in ipairs(page) do entries, bytes = entries + 1, bytes + #entry[2][4] end
      return entries > tonumber(ARGV[8]) or bytes > tonumber(ARGV[9])
    end)
    moves = entries <= tonumber(ARGV[8]) and bytes <= tonumber(ARGV[9])
  elseif passed > 0 then
    passed = math.min(passed, math.max(0, redis.call('XLEN', KEYS[1]) - tonumber(noted[6] or '0')))
  end
end

-- Raise.
local major, minor, clock = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now < clock and clock + 1000 > major then
  -- A second more: what was given out last may not have been seen yet.
  major, minor = clock + 1000, 0
end
local raised, prev, last = 0, tail, tail
if moves then prev = from end -- what comes between moves
if before(top_major, top_minor, major, minor) then
  local tail_major, tail_minor = halves(tail)
  if not moves and before(tail_major, tail_minor, cursor_major, cursor_minor) then prev = cursor end
  last = redis.call('XADD', KEYS[1], string.format('%.0f-%.0f', major, minor + 1), 'prev', prev, 'batch', ARGV[6])
  redis.call('HSET', KEYS[2], '@tail', last, '@raised', string.format('%.0f', now))
  raised, prev = 1, last
end

-- Move.
local moved = 0
if moves then
  local marker = last
  each(from, tail, function(page)
    local ids = {}
    for i, entry in ipairs(page) do
      ids[i] = entry[1]
      last = redis.call('XADD', KEYS[1], '*', 'prev', prev, 'batch', entry[2][4])
      prev = last
    end
    redis.call('XDEL', KEYS[1], unpack(ids))
    moved = moved + #ids
  end)
  redis.call('HSET', KEYS[2], '@tail', last, '@from', marker)
  passed = 0
elseif passed > 0 then
  redis.call('HSET', KEYS[2], '@passed', cursor .. ' ' .. passed, '@from', string.format('%.0f-%.0f', cursor_major, cursor_minor + 1))
elseif session and string.match(noted[5] or '', '^%S*') == cursor then
  passed = tonumber(string.match(noted[5], '%d+$'))
end

-- Note.
if first then redis.call('HSET', KEYS[2], '@server', server, '@from', last, '@begun', '') end
if session then redis.call('HSET', KEYS[2], '@begun', '1') end
return { raised, server, moved, passed }
