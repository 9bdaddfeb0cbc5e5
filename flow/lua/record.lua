#!lua flags=allow-oom
-- Records what has become of marked sends. A send that is not marked, or is
-- marked with other evidence, is passed over. So a repeat changes nothing, and
-- neither does a process that had its sends given up by others. A send that
-- waits without a mark is recorded all the same if the mark was seen on another
-- Redis than this one. It has gone back in time and forgotten the mark, but the
-- process that attempted the send knows the outcome. On the same one, another
-- process has recorded meanwhile that it was not attempted, and it waits. The
-- log goes first: if it cannot be written, nothing is. A send of a process that
-- is taken for dead is given up: it is in doubt, and the owner of that mark is
-- noted. If that process lives after all, its report comes late and counts,
-- once: unless an attempt has been recorded since. A send kept in doubt is so
-- no more; one that waits for another attempt is not attempted.
-- Keys:    1 states (hash), 2 marks (hash), 3 waiting (hash), 4 log (stream),
--          5 sources (hash), 6 due (sorted set), 7 sublanes (set), 8 cancels
--          (hash), 9 given (hash), 10 doubts (hash), 11 owed (hash), 12.. streams:
--          lanes and later, and a hash: doubts
-- Args:    1 how many batches may be packed; each: number of its key, its lane,
--          how: 'lane', 'sublane', 'later' or 'doubt', its second or '', of
--          'doubt' how many sends may be kept;
--          then for each send: its id, its mark, number of its lane's key, the
--          lane, id of its entry, how many sends that has, its index from 0, its
--          letter now (d, or w: it was not attempted), item for the log or '',
--          which packed batch it goes to or 0, its item there or '', the
--          replication id of the Redis that its mark was seen on, 'given' if its
--          process is taken for dead, 'late' if it says so of one that was given up,
--          the account that it is counted in or '', with how many bytes
-- Returns: {sends recorded, errors...}
local groups, i = {}, 2
for g = 1, tonumber(ARGV[1]) do
  groups[g] = { key = KEYS[tonumber(ARGV[i])], lane = ARGV[i + 1], how = ARGV[i + 2], second = ARGV[i + 3], items = {} }
  i = i + 4
end

local replication
local function moved(server)
  replication = replication or redis.call('INFO', 'replication')
  return not string.find(replication, 'master_replid:' .. server, 1, true)
end

local items, ids, over, changes, places = {}, {}, {}, {}, {}
local told, given, late, kept, spared = {}, {}, {}, {}, {}
local counts, weights = {}, {} -- what accounts lose, or get

-- count takes a send out of its account, or with the sign -1 puts it in.
local function count(account, weight, sign)
  if account == '' then return end
  counts[account] = (counts[account] or 0) - sign
  weights[account] = (weights[account] or 0) - sign * tonumber(weight)
end

-- tell takes what a process says late of a send that was given up.
local function tell(id, mark, item, group, packed, account, weight)
  if redis.call('HGET', KEYS[9], id) ~= mark then return end
  late[#late + 1] = id
  if redis.call('HEXISTS', KEYS[10], id) == 1 then
    kept[#kept + 1] = id
    if group then
      group.items[#group.items + 1] = packed
      count(account, weight, -1)
    end
  elseif group then
    return -- it was not sent, and waits to be
  else
    spared[#spared + 1] = id
  end
  items[#items + 1] = item
end

while ARGV[i + 12] == 'late' do -- then all are
  tell(ARGV[i], ARGV[i + 1], ARGV[i + 8], groups[tonumber(ARGV[i + 9])], ARGV[i + 10], ARGV[i + 13], ARGV[i + 14])
  i = i + 15
end
while i <= #ARGV do
  local id, place, at = ARGV[i], ARGV[i + 3] .. ' ' .. ARGV[i + 4], tonumber(ARGV[i + 6]) + 1
  local change = changes[place]
  if not change then
    change = { key = KEYS[tonumber(ARGV[i + 2])], lane = ARGV[i + 3], entry = ARGV[i + 4], left = 0 }
    local letters = redis.call('HGET', KEYS[1], place)
    if not letters and #redis.call('XRANGE', change.key, change.entry, change.entry) > 0 then
      letters = string.rep('w', tonumber(ARGV[i + 5]))
    end
    change.state = { string.byte(letters or '', 1, -1) }
    changes[place] = change
  end
  local mark, state = redis.call('HGET', KEYS[2], id), change.state[at]
  if state == 109 and (mark or '') == ARGV[i + 1] or state == 119 and not mark and ARGV[i + 7] == 'd' and moved(ARGV[i + 11]) then -- m, w
    ids[#ids + 1] = id
    if not change.changed then
      change.changed, places[#places + 1] = true, place
    end
    local letter = string.byte(ARGV[i + 7])
    change.state[at] = letter
    if letter == 100 then change.left = change.left + 1 end -- d
    if ARGV[i + 8] ~= '' then items[#items + 1], told[#told + 1] = ARGV[i + 8], id end
    if ARGV[i + 12] == 'given' then
      given[#given + 1] = id
      given[#given + 1] = ARGV[i + 1]
    end
    local group = groups[tonumber(ARGV[i + 9])]
    if group and group.how == 'doubt' then
      group.items[#group.items + 1] = { id, ARGV[i + 10] }
      over[#over + 1] = id
      count(ARGV[i + 13], ARGV[i + 14], 1)
    elseif group then
      group.items[#group.items + 1] = ARGV[i + 10]
    elseif letter == 100 then
      over[#over + 1] = id
      count(ARGV[i + 13], ARGV[i + 14], 1)
    end
  end
  i = i + 15
end
if #ids + #late == 0 then return { 0 } end

if #items > 0 then
  local prev = redis.call('HGET', KEYS[5], '@tail') or '0-0'
  local at = redis.call('XADD', KEYS[4], '*', 'prev', prev, 'batch', string.char(1) .. table.concat(items))
  redis.call('HSET', KEYS[5], '@tail', at)
end

local answer = { #ids + #late }
local function try(...)
  local done = redis.pcall(...)
  if type(done) == 'table' and done.err then answer[#answer + 1] = done.err end
end

for _, group in ipairs(groups) do
  local size, lane = #group.items, group.lane
  if group.how == 'doubt' then
    -- Beyond the bound it is in doubt all the same: it cannot be sent again.
    local room = tonumber(group.second) - redis.call('HLEN', group.key)
    for i = 1, math.min(size, room) do try('HSET', group.key, group.items[i][1], group.items[i][2]) end
  elseif size > 0 then
    try('XADD', group.key, '*', 'lane', lane, 'n', size, 'batch', string.char(1) .. table.concat(group.items))
    if group.how == 'later' then
      try('ZADD', KEYS[6], group.second, group.second)
      lane = 'later'
    elseif group.how == 'sublane' then
      try('SADD', KEYS[7], lane)
    end
    try('HINCRBY', KEYS[3], lane, size)
  end
end
for _, place in ipairs(places) do
  local change = changes[place]
  local letters = string.char(unpack(change.state))
  if string.find(letters, '[wm]') then
    try('HSET', KEYS[1], place, letters)
  else
    try('HDEL', KEYS[1], place)
    try('XDEL', change.key, change.entry)
  end
  if change.left > 0 then try('HINCRBY', KEYS[3], change.lane, -change.left) end
end
for account, n in pairs(counts) do
  -- A dropped account (sluice.AccountGraceDays) does not go below 0 again.
  local left = redis.pcall('HINCRBY', KEYS[11], account, n)
  if type(left) == 'table' then
    answer[#answer + 1] = left.err
  elseif left <= 0 then
    try('HDEL', KEYS[11], account, 'b ' .. account)
  else
    try('HINCRBY', KEYS[11], 'b ' .. account, weights[account])
  end
end
if #ids > 0 then try('HDEL', KEYS[2], unpack(ids)) end
if #over > 0 and redis.call('HLEN', KEYS[8]) > 0 then try('HDEL', KEYS[8], unpack(over)) end
if #told > 0 and redis.call('EXISTS', KEYS[9]) == 1 then try('HDEL', KEYS[9], unpack(told)) end -- this is newer
if #late > 0 then try('HDEL', KEYS[9], unpack(late)) end
if #kept > 0 then try('HDEL', KEYS[10], unpack(kept)) end
for _, id in ipairs(spared) do try('HSETNX', KEYS[8], id, redis.call('TIME')[1] .. '000') end
if #given > 0 and redis.call('HLEN', KEYS[9]) < 10000 then -- beyond it, what comes late is passed over
  try('HSET', KEYS[9], unpack(given))
  try('EXPIRE', KEYS[9], 86400)
end
return answer
