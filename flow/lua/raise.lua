#!lua flags=allow-oom
-- Raises a log's last id above a cursor, so that an id which was applied is
-- never handed out again after Redis has gone back in time. The marker entry
-- says where that happened, and links the chain to the cursor.
-- Keys:    1 log (stream), 2 sources (hash)
-- Args:    1 cursor's major, 2 cursor's minor, 3 batch of the marker
-- Returns: 1 raised, 0 the log was at or beyond the cursor
local top_major, top_minor = 0, 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local a, b = string.match(info[i + 1], '^(%d+)-(%d+)$')
      top_major, top_minor = tonumber(a), tonumber(b)
    end
  end
end
local major, minor = tonumber(ARGV[1]), tonumber(ARGV[2])
if top_major > major or (top_major == major and top_minor >= minor) then return 0 end
local cursor = ARGV[1] .. '-' .. ARGV[2]
local id = redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. string.format('%.0f', minor + 1),
  'prev', cursor, 'batch', ARGV[3])
redis.call('HSET', KEYS[2], '@tail', id)
return 1
