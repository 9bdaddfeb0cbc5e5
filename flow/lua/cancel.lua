-- Notes that sends are not to be attempted any more. One that is not marked is
-- cancelled with it, and what that means goes to the log. The note says that it
-- is of this kind: its send may have left before, and then it can go (tidy.lua).
-- It ends with '!' if the log has been told. Then the process that meets the send
-- in its lane need not tell it again (mark.lua). Programs before 0.2 did not write
-- that, and tell it again.
-- A batch of cancels may come again, as its cursor moves behind it. How far it was noted
-- is therefore kept with the notes. Else a send that was met in its lane meanwhile, and
-- has no note any more, would get another one, which nobody meets.
-- Keys:    1 lease of the log, 2 marks (hash), 3 cancels (hash), 4 log (stream),
--          5 sources (hash), 6 cursors (hash)
-- Args:    1 token, 2 now in ms, 3 notes at most, 4 field of the cursors, 5 position of
--          the batch, then for each send: number of its item in the batch, its id, item
--          for the log
-- Returns: {how many were noted, for how many there was no room}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the log is held by another process')
end
local at, done = string.match(redis.call('HGET', KEYS[6], ARGV[4]) or '', '^(.*)/(%d+)$')
done = at == ARGV[5] and tonumber(done) or 0
local room = tonumber(ARGV[3]) - redis.call('HLEN', KEYS[3])
local items, noted, refused = {}, 0, 0
for i = 6, #ARGV, 3 do
  local id = ARGV[i + 1]
  if tonumber(ARGV[i]) < done then
    -- it was noted before, or there was no room for it
  elseif room <= noted then
    if redis.call('HEXISTS', KEYS[3], id) == 0 then refused = refused + 1 end
  elseif redis.call('HEXISTS', KEYS[3], id) == 0 then
    noted = noted + 1
    if redis.call('HEXISTS', KEYS[2], id) == 0 then
      items[#items + 1] = ARGV[i + 2]
      redis.call('HSET', KEYS[3], id, 'c' .. ARGV[2] .. '!')
    else
      redis.call('HSET', KEYS[3], id, 'c' .. ARGV[2])
    end
  end
end
redis.call('HSET', KEYS[6], ARGV[4], ARGV[5] .. '/' .. math.max(done, tonumber(ARGV[#ARGV - 2]) + 1))
if #items > 0 then
  local prev = redis.call('HGET', KEYS[5], '@tail') or '0-0'
  local id = redis.call('XADD', KEYS[4], '*', 'prev', prev, 'batch', string.char(1) .. table.concat(items))
  redis.call('HSET', KEYS[5], '@tail', id)
end
return { noted, refused }
