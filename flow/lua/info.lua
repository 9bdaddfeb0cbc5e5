#!lua flags=no-writes
-- Tells of the server that has a key, which a client of a cluster cannot ask for.
-- Keys:    1 any key
-- Args:    1 a section of INFO, or "time"
-- Returns: the section, or the time in milliseconds since 1970, as a text
if ARGV[1] == 'time' then
  local time = redis.call('TIME')
  return string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
return redis.call('INFO', ARGV[1])
