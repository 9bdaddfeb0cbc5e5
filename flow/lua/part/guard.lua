-- (flow/floor.go) The last argument, which is taken away here, is the replication
-- id of the Redis on which the caller has raised the logs.
if not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. table.remove(ARGV), 1, true) then
  return redis.error_reply('BEHIND nobody has looked yet whether this redis has gone back in time')
end
