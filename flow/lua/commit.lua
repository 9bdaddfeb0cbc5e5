#!lua flags=allow-oom
-- Moves a cursor and runs operations, as one step. Redis does not roll back. So
-- the cursor is set first. An operation that fails goes to the log as a dead
-- letter with its reason, in the same call. Nothing is ever run twice.
-- Keys:    1 lease, 2 cursors (hash), 3 log (stream), 4 sources (hash),
--          5.. every key that the operations touch
-- Args:    1 token, 2 follower, 3 from, 4 to, 5 now in ms, 6 source of its dead
--          letters, 7 items for the log or '', 8 number of operations, then for
--          each: number of words, words
-- Returns: {1, dead letters, id of the entry that the items are in or '', id of the
--          one before it} done; {0, 0, '', ''} done before; {-1, position} conflict
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local at = redis.call('HGET', KEYS[2], ARGV[2]) or '0-0'
if at == ARGV[4] then return {0, 0, '', ''} end
if at ~= ARGV[3] then return {-1, at} end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])

local dead = {}
local i = 9
for _ = 1, tonumber(ARGV[8]) do
  local n = tonumber(ARGV[i])
  local words = {}
  for k = 1, n do words[k] = ARGV[i + k] end
  i = i + n + 1
  local answer = redis.pcall(unpack(words))
  if type(answer) == 'table' and answer.err then
    local function text(s)
      local size, head = #s, ''
      while size >= 128 do
        head = head .. string.char(size % 128 + 128)
        size = math.floor(size / 128)
      end
      return head .. string.char(size) .. s
    end
    local payload = struct.pack('<I8', tonumber(ARGV[5])) .. text(ARGV[6]) .. text('command')
      .. text(answer.err) .. cmsgpack.pack(words)
    dead[#dead + 1] = struct.pack('<I4B', #payload + 1, 2) .. payload
  end
end
local id, prev = '', ''
if ARGV[7] ~= '' or #dead > 0 then
  prev = redis.call('HGET', KEYS[4], '@tail') or '0-0'
  id = redis.call('XADD', KEYS[3], '*', 'prev', prev, 'batch', string.char(1) .. ARGV[7] .. table.concat(dead))
  redis.call('HSET', KEYS[4], '@tail', id)
end
return {1, #dead, id, prev}
