-- Lets nodes spend from buckets without asking for each request: gives tokens ahead and takes back what
-- was not used ('lease'), or takes in what was spent ('report'). What is said under one number counts once.
-- KEYS: of each bucket two: its state, as limit.lua has it, and who said what last
-- ARGV: 'lease' or 'report'; then of each bucket ten: credits a microsecond, credits a token, credits when
--       full; who speaks, and the number of what it says; for how many microseconds that is remembered; then
--         of a lease: tokens wanted, with how few nothing is gained, tokens given back, a horizon in microseconds
--         of a report: tokens spent, tokens given back, 0, 0
-- Replies of each bucket two: of a lease tokens, and the microseconds until to ask again is of use, or -1
-- and 0 where a later one was there before; of a report the credits that are left, below 0 when owed, and 0.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
local match, format = string.match, string.format
local SPEAKERS_MAX = 4096
local lease = ARGV[1] == 'lease'

-- Credits used, and at which time, no earlier than now.
local function used(key, p, q, r)
  local value = redis.call('GET', key)
  if not value then return 0, now end
  local writer_p, writer_q, u, a = match(value, '^b(%d+):(%d+):(%d+):(%d+)$')
  -- What a limit of another kind has counted is no bucket's: this one begins empty.
  if not u then return r, now end
  u, a = u + 0, a + 0
  if a < now then u, a = max(0, u - (now - a) * writer_p), now end
  if writer_p ~= p or writer_q ~= q then u = ceil(u / writer_q) * q end
  return u, a
end

-- How many have spoken of late. The others are forgotten.
local function speakers(key, kept)
  local all, count = redis.call('HGETALL', key), 0
  for i = 1, #all, 2 do
    if now - match(all[i + 1], '^%d+ (%d+)') < kept then
      count = count + 1
    else
      redis.call('HDEL', key, all[i])
    end
  end
  return count
end

local reply = {}
for i = 1, #KEYS / 2 do
  local state, said, k = KEYS[2 * i - 1], KEYS[2 * i], 10 * i - 9
  local p, q, r = ARGV[k + 1], ARGV[k + 2], ARGV[k + 3] + 0
  local life, seq, kept = ARGV[k + 4], ARGV[k + 5] + 0, ARGV[k + 6] + 0
  local x, y, z, horizon = ARGV[k + 7] + 0, ARGV[k + 8] + 0, ARGV[k + 9] + 0, ARGV[k + 10] + 0
  local last, at, memory = match(redis.call('HGET', said, life) or '', '^(%d+) (%d+)(.*)$')
  if last and now - at >= kept then last, memory = nil, nil end
  local given, again, before = match(memory or '', '^ (%d+) (%d+) (%d+)$')
  local u, a = used(state, p, q, r)
  local first, second = -1, 0
  if last and seq <= last + 0 then
    if not lease then
      first = r - u
    elseif seq == last + 0 then
      first, second = (given or 0) + 0, (again or 0) + 0
    end
  else
    local nodes = not last and speakers(said, kept) or nil
    if lease then
      -- Nobody gives back what this bucket did not give: one that was forgotten is full.
      u = max(0, min(u, 2 * r) - min(z, (given or 0) + (before or 0)) * q)
      local there = max(0, floor((r - u) / q))
      first = there >= y and min(max(ceil(there / 2), y), x) or 0
      u = u + first * q
      if first < x then
        nodes = nodes and nodes + 1 or speakers(said, kept)
        local least = max(y, 1)
        local fair = min(floor(p * horizon / q / nodes), floor(floor(r / q) / 2))
        local round = min(ceil(nodes * max(min(fair, x), least) * q / p), horizon)
        local short = least * q <= r and ceil((u + least * q - r) / p) or 0
        second = max(round, short, 1)
      end
      memory = format(' %.0f %.0f %.0f', first, second, given or 0)
    else
      u = min(max(0, u + (x - y) * q), r + 2 ^ 52)
      first, memory = r - u, ''
    end
    local ends = a + ceil(u / p)
    if u > 0 and ends > now then
      redis.call('SET', state, format('b%s:%s:%.0f:%.0f', p, q, u, a), 'PX', ceil((ends - now) / 1000) + 1)
    else
      redis.call('DEL', state)
    end
    if last or redis.call('HLEN', said) < SPEAKERS_MAX then
      redis.call('HSET', said, life, format('%.0f %.0f%s', seq, now, memory))
      redis.call('PEXPIRE', said, ceil(kept / 1000) + 1)
    end
  end
  reply[2 * i - 1], reply[2 * i] = first, second
end
return reply
