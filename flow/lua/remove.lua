#!lua flags=allow-oom
-- Takes sends out of a batch that waits: the ledger has their end already, so
-- nothing goes to the log. One that is marked stays, and is noted as not to be
-- attempted any more. The process that marked it reports its outcome. There are
-- no more of those than are on their way.
-- Keys:    1 lease, 2 states (hash), 3 marks (hash), 4 waiting (hash), 5 cancels
--          (hash), 6 the batch's stream, 7 owed (hash)
-- Args:    1 token ('' for what waits for a time: no lease is asked), 2 now in ms, 3 its lane, 4 its entry, 5 how many sends it has,
--          6 '' in a lane; of what waits for a time, what stays of the batch,
--          7 how many that are; then of each send its index from 0, its id, the
--          account that it is counted in or '', with how many bytes
-- Returns: how many were taken out or noted
if not (ARGV[1] == '' and ARGV[6] ~= '') and redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
local lane, entry, size, ids, done = ARGV[3], ARGV[4], tonumber(ARGV[5]), {}, 0

-- gone notes that the send with arguments from i on waits no more.
local function gone(i)
  ids[#ids + 1] = ARGV[i + 1]
  local account = ARGV[i + 2]
  if account == '' then return end
  local left = redis.pcall('HINCRBY', KEYS[7], account, -1)
  if type(left) == 'table' or left <= 0 then
    redis.pcall('HDEL', KEYS[7], account, 'b ' .. account)
  else
    redis.pcall('HINCRBY', KEYS[7], 'b ' .. account, '-' .. ARGV[i + 3])
  end
end
if ARGV[6] ~= '' then
  if redis.call('XDEL', KEYS[6], entry) == 0 then return 0 end
  local stays = tonumber(ARGV[7])
  if stays > 0 then redis.call('XADD', KEYS[6], '*', 'lane', lane, 'n', stays, 'batch', ARGV[6]) end
  redis.call('HINCRBY', KEYS[4], 'later', stays - size)
  for i = 8, #ARGV, 4 do gone(i) end
else
  local place = lane .. ' ' .. entry
  local letters = redis.call('HGET', KEYS[2], place)
  if not letters then
    if #redis.call('XRANGE', KEYS[6], entry, entry) == 0 then return 0 end
    letters = string.rep('w', size)
  end
  local state = { string.byte(letters, 1, -1) }
  for i = 8, #ARGV, 4 do
    local at, id = tonumber(ARGV[i]) + 1, ARGV[i + 1]
    if state[at] == 119 then -- w
      state[at] = 100
      gone(i)
    elseif state[at] == 109 then -- m
      redis.call('HSET', KEYS[5], id, ARGV[2])
      done = done + 1
    end
  end
  letters = string.char(unpack(state))
  if string.find(letters, '[wm]') then
    redis.call('HSET', KEYS[2], place, letters)
  else
    redis.call('HDEL', KEYS[2], place)
    redis.call('XDEL', KEYS[6], entry)
  end
  if #ids > 0 then redis.call('HINCRBY', KEYS[4], lane, -#ids) end
end
if #ids > 0 and redis.call('HLEN', KEYS[5]) > 0 then redis.call('HDEL', KEYS[5], unpack(ids)) end
return done + #ids
