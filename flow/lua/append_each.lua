-- Writes items at the end of a log, each under a name of its own. The names of
-- a request are remembered together for a while. Items already written under
-- their name are left out. Items come in pieces that fit a batch; those that
-- fit one together are written together.
-- Keys:    1 log (stream), 2 sources (hash), 3 names (hash)
-- Args:    1 head of a batch, 2 how long the names are remembered, in ms, 3 bytes
--          and 4 items of a batch at most; of each name: name, number of pieces,
--          then of each piece: items, how many
-- Returns: {entries in the log that are not applied, how many names are new}
local most_bytes, most_items = tonumber(ARGV[3]), tonumber(ARGV[4])
local names, batch, bytes, count = {}, {ARGV[1]}, 0, 0

local function write()
  if count == 0 then return end
  local prev = redis.call('HGET', KEYS[2], '@tail') or '0-0'
  local id = redis.call('XADD', KEYS[1], '*', 'prev', prev, 'batch', table.concat(batch))
  redis.call('HSET', KEYS[2], '@tail', id)
  batch, bytes, count = {ARGV[1]}, 0, 0
end

local i = 5
while i <= #ARGV do
  local name, pieces = ARGV[i], tonumber(ARGV[i + 1])
  i = i + 2
  if redis.call('HEXISTS', KEYS[3], name) == 0 then
    names[#names + 1] = name
    for k = i, i + 2 * pieces - 1, 2 do
      local items = tonumber(ARGV[k + 1])
      if bytes + #ARGV[k] > most_bytes or count + items > most_items then write() end
      batch[#batch + 1], bytes, count = ARGV[k], bytes + #ARGV[k], count + items
    end
  end
  i = i + 2 * pieces
end
write()
for _, name in ipairs(names) do redis.call('HSET', KEYS[3], name, '') end
if #names > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[2]) end
return {math.max(0, redis.call('XLEN', KEYS[1]) - tonumber(redis.call('HGET', KEYS[2], '@applied') or '0')), #names}
