-- (flow/floor.go) The last argument, which is taken away here, is the replication
-- id of the Redis on which the caller has raised the logs; '' is none.
local raised_on = table.remove(ARGV)
if raised_on == '' or not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. raised_on, 1, true) then
  return redis.error_reply('BEHIND nobody has looked yet whether this redis has gone back in time')
end
