#!lua flags=allow-oom
-- Removes the entries of a log that every holder has applied, but none that a
-- backup has not copied yet.
-- Keys:    1 lease, 2 log (stream), 3 hold (string, a position; none: nobody copies)
-- Args:    1 token of the lease, 2 an id, 3 how many entries up to it to keep;
--          0: it is the oldest to keep
-- Returns: entries removed
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the log is held by another process')
end
local keep, margin = ARGV[2], tonumber(ARGV[3])
if margin > 0 then
  local newest = redis.call('XREVRANGE', KEYS[2], keep, '-', 'COUNT', margin)
  if #newest < margin then return 0 end
  keep = newest[margin][1]
end
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
return redis.call('XTRIM', KEYS[2], 'MINID', '=', keep)
