#!lua flags=allow-oom
-- Hands out tokens of buckets that all processes share. The clock is Redis's.
-- Keys:    the buckets (hashes)
-- Args:    for each bucket: 1 how many are wanted, 2 how many of those handed out
--          before come back, 3 tokens a second, 4 size, 5 1 to halve the rate,
--          6 the least share of the rate in millionths, 7 ms in which a share of
--          nothing grows back to the whole, 8 day (since 1970, UTC) of the first
--          daily limit, 9 the daily limits, separated by commas, 10 how many were
--          used of a day at least, as the caller knows, 11 that day (0: it knows of
--          none), 12 1 if it has just looked, for that day
-- Returns: for each bucket: tokens, ms until there may be one, share of the rate
--          in millionths, what is left of the day (-1: there is no limit; -2: it is
--          not known here how many were used, so there are no tokens: the caller has
--          to look), today's day
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local today = math.floor(now / 86400000)
local answers = {}
for i, key in ipairs(KEYS) do
  local a = (i - 1) * 12
  local want, back, rate, size = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  local least, growth, first = tonumber(ARGV[a + 6]) / 1e6, tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8])
  local h = redis.call('HMGET', key, 'tokens', 'at', 'share', 'slowed', 'day', 'used')
  local tokens, at = tonumber(h[1]) or size, tonumber(h[2]) or now
  local base, slowed = tonumber(h[3]) or 1, tonumber(h[4]) or 0
  -- Tokens issued are those that came in at the share of before.
  local share = math.min(1, base + math.max(0, now - slowed) / growth)
  tokens = math.max(0, math.min(size, tokens + math.max(0, now - at) * rate * share / 1000 + back))
  if ARGV[a + 5] == '1' and (now - slowed >= 1000 or now < slowed) then
    base, slowed = math.max(least, share / 2), now
    share = base
  end
  local limit, used, unknown = nil, 0, false
  if ARGV[a + 9] ~= '' then
    local n, day = math.max(0, today - first), 0
    for text in string.gmatch(ARGV[a + 9], '%d+') do
      if day == n then limit = tonumber(text) end
      day = day + 1
    end
    if tonumber(h[5]) == today then used = math.max(0, (tonumber(h[6]) or 0) - back) end
    -- This Redis may have been emptied, or put back: it knows less than it did.
    local told = tonumber(ARGV[a + 11]) == today
    if limit and told then used = math.max(used, tonumber(ARGV[a + 10])) end
    unknown = limit ~= nil and not h[5] and not (told and ARGV[a + 12] == '1')
  end
  -- No more than what comes in in a tenth of a second: the others want some, too.
  local granted = math.min(want, math.floor(tokens), math.max(1, math.ceil(rate * share / 10)))
  if limit then granted = math.max(0, math.min(granted, limit - used)) end
  if unknown then granted = 0 end
  tokens, used = tokens - granted, used + granted
  local wait = 0
  if tokens < 1 then wait = math.ceil((1 - tokens) * 1000 / (rate * share)) end
  if limit and used >= limit then wait = (today + 1) * 86400000 - now end
  redis.call('HSET', key, 'tokens', string.format('%.6f', tokens), 'at', now, 'share', string.format('%.6f', base), 'slowed', slowed)
  if not unknown then redis.call('HSET', key, 'day', today, 'used', used) end
  -- A bucket that has been forgotten is full and unslowed.
  local lasts = math.max(growth, math.ceil(size * 1000 / (rate * least))) + 3600000
  if limit then lasts = math.max(lasts, 172800000) end
  redis.call('PEXPIRE', key, string.format('%.0f', math.min(lasts, 2592000000)))
  answers[#answers + 1] = granted
  answers[#answers + 1] = math.floor(math.min(wait, 86400000))
  answers[#answers + 1] = math.floor(share * 1e6)
  answers[#answers + 1] = unknown and -2 or limit and math.max(0, limit - used) or -1
  answers[#answers + 1] = today
end
return answers
