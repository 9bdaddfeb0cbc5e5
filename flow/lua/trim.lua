#!lua flags=allow-oom
-- Notes how many of a log's entries are applied and still there. It removes
-- those before one, but none that a backup has not copied yet.
-- Keys:    1 lease, 2 log (stream), 3 hold (string, a position; none: nobody
--          copies), 4 sources (hash), 5 removed (list): counts that say how much
--          a gap has lost, one for ten seconds, 1000 at most
-- Args:    1 token of the lease, 2 id of the oldest entry to keep, '' for all,
--          3 how many are applied before any is removed; '' if nobody has counted,
--          4 how many milliseconds ago that was applied which went last for want of
--          room; '' if nothing has
-- Returns: entries removed
local lease = redis.call('HMGET', KEYS[1], 'token', 'number')
if lease[1] ~= ARGV[1] then
  return redis.error_reply('LEASE of the log is held by another process')
end
local keep, removed = ARGV[2], 0
if keep ~= '' then
  local hold = redis.call('GET', KEYS[3])
  if hold then
    local function halves(id)
      local major, minor = string.match(id, '^(%d+)-(%d+)$')
      return tonumber(major), tonumber(minor)
    end
    local keep_major, keep_minor = halves(keep)
    local hold_major, hold_minor = halves(hold)
    if hold_major < keep_major or (hold_major == keep_major and hold_minor < keep_minor) then keep = hold end
  end
  removed = redis.call('XTRIM', KEYS[2], 'MINID', '=', keep)
end
if removed > 0 then
  local all = redis.call('HINCRBY', KEYS[4], '@removed', removed)
  local last = redis.call('LINDEX', KEYS[5], -1)
  if not last or tonumber(string.match(keep, '^%d+')) >= tonumber(string.match(last, '^%d+')) + 10000 then
    redis.call('RPUSH', KEYS[5], keep .. ' ' .. string.format('%.0f', all))
    redis.call('LTRIM', KEYS[5], -1000, -1)
  end
end
local cut = '0'
if ARGV[4] ~= '' then
  local time = redis.call('TIME')
  cut = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[4])
end
if ARGV[3] == '' then
  redis.call('HSET', KEYS[4], '@cut', cut, '@cut_by', lease[2] or '')
else
  redis.call('HSET', KEYS[4], '@cut', cut, '@cut_by', lease[2] or '', '@applied', string.format('%.0f', math.max(0, ARGV[3] - removed)))
end
return removed
