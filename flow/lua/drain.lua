#!lua flags=allow-oom
-- Holds the pending counts of foreign hashes of counters. It takes their keys
-- from the set of dirty ones, and moves the counts of each hash to the next
-- chunk. A count is always either in its hash or in the chunk. A producer that
-- counts on starts a new hash without knowing. The work of a call is bounded; a
-- hash of more fields than fit is taken in pieces, its key put back.
-- Keys:    1 lease, 2 set of dirty keys, 3 state (hash), 4 chunk last+1. The
--          hashes are named by the set's members and cannot be declared.
-- Args:    1 token of the lease, 2 the number `last` as the caller knows it,
--          3 most keys, 4 most fields, 5 most bytes, 6 most bytes of a field
--          and its value
-- Returns: {elements held, last, 1 if more waits}; {-1, last, 0} if the caller
--          knew another last. Elements: flow/hashes.go
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return redis.error_reply('LEASE of the hashes is held by another process')
end
local last = redis.call('HGET', KEYS[3], 'last') or '0'
if last ~= ARGV[2] then return {-1, last, 0} end
if redis.call('SCARD', KEYS[2]) == 0 then return {0, last, 0} end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return redis.error_reply('HELD the next chunk exists already: ' .. KEYS[4])
end
-- Redis takes nothing back when a script fails half-way. So what could fail is
-- tried before anything is taken, and nothing that touches a hash may raise.
redis.call('HINCRBY', KEYS[3], 'last', 0)
redis.call('DEL', KEYS[4])
redis.call('RPUSH', KEYS[4], '')
redis.call('DEL', KEYS[4])

local most, largest = tonumber(ARGV[4]), tonumber(ARGV[6])
local keys, fields, bytes = tonumber(ARGV[3]), most, tonumber(ARGV[5])
local out = {}

local function text(s) return #s .. ':' .. s .. ',' end

local function refuse(key, reason) return 'x' .. text(key) .. text(reason) end

local function encode(key, all)
  local t = {'h', text(key)}
  for i = 1, #all do t[i + 2] = #all[i] .. ':' .. all[i] .. ',' end
  fields = fields - #all / 2
  return table.concat(t)
end

-- A packed hash is small. Of another one the sizes are looked at first.
local function takeLarge(key, n)
  local names, refused = redis.pcall('HRANDFIELD', key, most), nil
  if names.err then return refuse(key, names.err) end
  local some = {}
  for i = 1, #names do
    local size = redis.pcall('HSTRLEN', key, names[i])
    if type(size) == 'table' then return refuse(key, size.err) end
    size = size + #names[i]
    if size <= largest then
      some[#some + 1] = names[i]
    else
      refused = refuse(key, 'a field of ' .. size .. ' bytes is none of a counter, and was left in the hash')
    end
  end
  if #some == 0 then return refused end
  local values = redis.pcall('HMGET', key, unpack(some))
  if values.err then return refuse(key, values.err) end
  local gone = redis.pcall('HDEL', key, unpack(some))
  if type(gone) == 'table' then return refuse(key, gone.err) end
  if n > #names then redis.pcall('SADD', KEYS[2], key) end
  local all = {}
  for i = 1, #some do all[2 * i - 1], all[2 * i] = some[i], values[i] end
  return encode(key, all), refused
end

local function take(key)
  local encoding = redis.pcall('OBJECT', 'ENCODING', key)
  if not encoding then return nil end -- taken before, and not counted on since
  local all
  if encoding == 'listpack' then
    all = redis.pcall('HGETALL', key)
  else
    local n = redis.pcall('HLEN', key)
    if type(n) == 'number' then return takeLarge(key, n) end
    all = n
  end
  if all.err then
    local kind = redis.pcall('TYPE', key)
    if kind.ok and kind.ok ~= 'hash' then return refuse(key, 'the key is a ' .. kind.ok .. ', not a hash') end
    return refuse(key, all.err)
  end
  local gone = redis.pcall('DEL', key)
  if type(gone) == 'table' then return refuse(key, gone.err) end
  return encode(key, all)
end

local more = 1
while keys > 0 and fields > 0 and bytes > 0 do
  local key = redis.call('SPOP', KEYS[2])
  if not key then more = 0 break end
  keys = keys - 1
  for _, element in pairs({take(key)}) do
    out[#out + 1] = element
    bytes = bytes - #element
  end
end
if more == 1 then more = redis.call('EXISTS', KEYS[2]) end
if #out == 0 then return {0, last, more} end
redis.call('HINCRBY', KEYS[3], 'last', 1)
redis.call('RPUSH', KEYS[4], unpack(out))
return {#out, redis.call('HGET', KEYS[3], 'last'), more} -- as text: a large number loses its digits in Lua
