#!lua flags=allow-oom
-- Marks sends before they are attempted. Only sends that wait are marked. A
-- batch without any mark yet has no letters. A batch that is done has none
-- either, and its entry is gone: a caller that read it before is told so.
-- Keys:    1 lease, 2 states (hash), 3 marks (hash), 4 cancels (hash), 5.. streams:
--          lanes
-- Args:    1 token, 2 evidence: the process, when, for what, 3 the replication id of
--          the Redis that the lanes were read on; for each batch: its place, number of
--          its lane's key, id of its entry, how many sends it has, how many of
--          them, and for each of these its index from 0 and its id
-- Returns: a text with a letter for each send: m it is marked, c marked as well,
--          but it was cancelled, e the same, and the log was told so, - it does not
--          wait
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the role is held by another process')
end
-- Another one may lack marks of a moment ago: first is looked what it has.
if not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. ARGV[3], 1, true) then
  return redis.error_reply('ELSEWHERE the lanes were read on another redis')
end
local cancels = redis.call('HLEN', KEYS[4]) > 0
local answers, marks, i = {}, {}, 4
while i <= #ARGV do
  local place, lane, entry, changed = ARGV[i], KEYS[tonumber(ARGV[i + 1])], ARGV[i + 2], false
  local size, count = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  i = i + 5
  local letters = redis.call('HGET', KEYS[2], place)
  if not letters then
    letters = string.rep(#redis.call('XRANGE', lane, entry, entry) > 0 and 'w' or 'd', size)
  end
  local state = { string.byte(letters, 1, -1) }
  for _ = 1, count do
    local at, id, answer = tonumber(ARGV[i]) + 1, ARGV[i + 1], '-'
    i = i + 2
    if state[at] == 119 then -- w
      answer, changed, state[at] = 'm', true, 109 -- m
      marks[#marks + 1] = id
      marks[#marks + 1] = ARGV[2]
      -- The note stays until it is recorded: the answer may be lost, or the
      -- process that marks it may die. Then it is marked or attempted anew.
      local note = cancels and redis.call('HGET', KEYS[4], id)
      if note then answer = string.sub(note, -1) == '!' and 'e' or 'c' end
    end
    answers[#answers + 1] = answer
  end
  if changed then redis.call('HSET', KEYS[2], place, string.char(unpack(state))) end
end
if #marks > 0 then redis.call('HSET', KEYS[3], unpack(marks)) end
return table.concat(answers)
