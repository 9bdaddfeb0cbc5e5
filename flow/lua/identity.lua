#!lua flags=allow-oom
-- Reads which deployment a Redis belongs to, and takes it for one.
-- Keys:    1 identity (hash {id, settled})
-- Args:    1 '' to read; an id to take it for, if it belongs to none;
--          2 'settle' that the database has the id too; 'force' takes it for
--          the id, whichever deployment had it
-- Returns: {id or '', 1 if settled}
if ARGV[2] == 'force' then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'settled', 1)
elseif ARGV[2] == 'settle' then
  if redis.call('HGET', KEYS[1], 'id') == ARGV[1] then redis.call('HSET', KEYS[1], 'settled', 1) end
elseif ARGV[1] ~= '' then
  redis.call('HSETNX', KEYS[1], 'id', ARGV[1])
end
local state = redis.call('HMGET', KEYS[1], 'id', 'settled')
return {state[1] or '', tonumber(state[2] or '0')}
