-- Spends from all limits of a request or from none; or says what would come of it; or settles what
-- was spent. A refusal writes nothing.
-- KEYS: the state of each limit
-- ARGV: 'take', 'ask' or 'settle'; then of each limit six: what it is and its measures p, q and r,
--         'b', credits a microsecond, credits a token, credits when full: a bucket
--         'l', its window in microseconds, 0, tokens in it: a log
--         'w', a window in microseconds, a grain in microseconds, tokens in a window: a counter
--         'd', 0, 0, 0: denies everything
--       the tokens to take ('b': their credits), or to settle how many more were used than taken;
--       1 if it is in the shadow, else 0; to settle, when they were taken
-- Numbers are whole, and exact below 2^53. What is larger is only compared with what is less.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
local match, format = string.match, string.format
local op, values = ARGV[1], redis.call('MGET', unpack(KEYS))

-- All that plain buckets do without. It is made when it is needed: making it costs what a bucket does.
local function others()
  local log, window, deny = {}, {}, {}
  local kinds = { l = log, w = window, d = deny }

  -- A log has times (at) and the tokens spent then (n), oldest first. They count for p microseconds, and
  -- r may count at once.
  local ENTRIES_MAX = 128
  local function newest(s) return max(now, s.at[#s.at] or 0) end
  local function live(s)
    local i, since = 1, newest(s) - s.p
    while s.at[i] and s.at[i] <= since do i = i + 1 end
    return i
  end
  function log.new(s) s.at, s.n = {}, {} end
  function log.read(value)
    local s, at = { p = match(value, '^l(%d+)') + 0, at = {}, n = {} }, 0
    for later, n in string.gmatch(value, ' (%d+):(%d+)') do
      at = at + later
      s.at[#s.at + 1], s.n[#s.n + 1] = at, n + 0
    end
    return s
  end
  function log.adopt(s, old)
    s.at, s.n = old.at, old.n
    return true
  end
  function log.used(s)
    local sum = 0
    for i = live(s), #s.at do sum = sum + s.n[i] end
    return sum
  end
  function log.owe(s, tokens)
    if tokens > 0 then s.at, s.n = { now }, { min(tokens, 2 * s.r) } end
  end
  function log.wait(s, n)
    if n > s.r then return -1 end
    local i, missing = live(s), log.used(s) + n - s.r
    if missing <= 0 then return 0 end
    while missing > s.n[i] do i, missing = i + 1, missing - s.n[i] end
    return s.at[i] + s.p - newest(s)
  end
  function log.left(s) return max(0, s.r - log.used(s)) end
  function log.take(s, n)
    local at, ats, ns = newest(s), {}, {}
    for i = live(s), #s.at do ats[#ats + 1], ns[#ns + 1] = s.at[i], s.n[i] end
    -- With debt there may be no room for another time; then the newest counts a little longer.
    local i = #ats
    if i == 0 or (ats[i] < at and ns[i] > 0 and i < ENTRIES_MAX) then i = i + 1 end
    ats[i], ns[i] = at, (ns[i] or 0) + n
    s.at, s.n = ats, ns
  end
  function log.charge(s, n)
    n = min(n, 2 * s.r - log.used(s))
    if n > 0 then log.take(s, n) end
  end
  function log.give_back(s, n, at)
    for i = 1, #s.at do
      if s.at[i] == at then
        s.n[i] = max(0, s.n[i] - n)
        -- The newest stays, without tokens: the log's time does not go back.
        if s.n[i] == 0 and i < #s.at then
          table.remove(s.at, i)
          table.remove(s.n, i)
        end
        return
      end
    end
  end
  function log.ends(s)
    local last = #s.at
    local i = last > 0 and s.n[last] == 0 and last - 1 or last
    local ends = i > 0 and s.at[i] + s.p or 0
    return ends > (s.at[last] or 0) and ends or 0
  end
  function log.text(s)
    local text, before = { format('l%.0f', s.p) }, 0
    for i = 1, #s.at do
      text[i + 1] = format('%.0f:%.0f', s.at[i] - before, s.n[i])
      before = s.at[i]
    end
    return table.concat(text, ' ')
  end

  -- A counter has the number of a window of p microseconds, the tokens spent in it, and in the one
  -- before. That one counts by how much of it is still covered, in grains of q microseconds. r may count
  -- at once. Rolled to now, it says how many grains of the window are over and how many there are.
  local function roll(s)
    local number, passed = floor(now / s.p), now % s.p
    if number > s.number + 1 then s.current, s.previous = 0, 0 end
    if number == s.number + 1 then s.current, s.previous = 0, s.current end
    if number < s.number then passed = 0 end
    s.number, s.passed = max(number, s.number), passed
    return floor(passed / s.q), s.p / s.q
  end
  function window.new(s) s.number, s.current, s.previous = 0, 0, 0 end
  function window.read(value)
    local p, q, number, current, previous = match(value, '^w(%d+):(%d+):(%d+):(%d+):(%d+)$')
    return { p = p + 0, q = q + 0, number = number + 0, current = current + 0, previous = previous + 0 }
  end
  function window.adopt(s, old)
    if old.p ~= s.p then return false end
    s.number, s.current, s.previous = old.number, min(old.current, 2 * s.r), min(old.previous, 2 * s.r)
    return true
  end
  function window.used(s)
    local over, grains = roll(s)
    return s.current + ceil(s.previous * (grains - over) / grains)
  end
  function window.owe(s, tokens) s.number, s.current = floor(now / s.p), min(tokens, 2 * s.r) end
  -- The first grain in which n fits, counted on into the next window.
  local function first(s, n, grains)
    local room = s.r - s.current - n
    if room >= 0 then
      local excess = max(0, s.previous * grains - room * grains)
      local grain = excess > 0 and ceil(excess / s.previous) or 0
      if grain < grains then return grain end
    end
    local excess = max(0, s.current * grains - (s.r - n) * grains)
    return grains + (excess > 0 and min(grains, ceil(excess / s.current)) or 0)
  end
  function window.wait(s, n)
    if n > s.r then return -1 end
    local over, grains = roll(s)
    local fits = first(s, n, grains)
    return fits > over and fits * s.q - s.passed or 0
  end
  function window.left(s) return max(0, s.r - window.used(s)) end
  function window.take(s, n) s.current = s.current + n end
  function window.charge(s, n)
    local room = max(0, 2 * s.r - window.used(s))
    s.current = s.current + min(n, room)
  end
  function window.give_back(s, n, at)
    local number = floor(at / s.p)
    if number >= s.number then s.current = max(0, s.current - n) end
    if number + 1 == s.number then s.previous = max(0, s.previous - n) end
  end
  function window.ends(s)
    if s.current > 0 then return (s.number + 2) * s.p end
    return s.previous > 0 and (s.number + 1) * s.p or 0
  end
  function window.text(s)
    return format('w%.0f:%.0f:%.0f:%.0f:%.0f', s.p, s.q, s.number, s.current, s.previous)
  end

  function deny.new() end
  function deny.wait() return -1 end
  function deny.left() return 0 end
  deny.charge, deny.give_back, deny.ends, deny.text = deny.left, deny.left, deny.left, deny.left

  -- m * n / d, rounded up, for m and n < d up to 2^51: bit by bit, since the product is too large.
  local function part(m, n, d)
    local whole, rest = 0, 0
    for bit = 51, 0, -1 do
      whole, rest = 2 * whole, 2 * rest + floor(m / 2 ^ bit) % 2 * n
      while rest >= d do whole, rest = whole + 1, rest - d end
    end
    return rest > 0 and whole + 1 or whole
  end

  -- What another limit wrote, for this bucket: credits used, and when. As many tokens are used as before,
  -- none if by the other limit there are none any more: then it might as well not be there.
  local function bucket(value, q, r)
    local p, old, used, at = match(value, '^b(%d+):(%d+):(%d+):(%d+)$')
    if not p then
      local kind = kinds[string.sub(value, 1, 1)]
      return min(kind.used(kind.read(value)) * q, 2 * r), now
    end
    if at + ceil(used / p) <= now then return 0, now end
    local tokens = floor(used / old)
    return min(tokens * q + part(q, used - tokens * old, old + 0), 2 * r), at + 0
  end

  -- The kind of a limit that is no plain bucket, and its state; if the limit has changed, as above.
  local function state(i)
    local letter, value = ARGV[6 * i - 4], values[i]
    local s = { p = ARGV[6 * i - 3] + 0, q = ARGV[6 * i - 2] + 0, r = ARGV[6 * i - 1] + 0 }
    local kind, writer = kinds[letter], value and string.sub(value, 1, 1)
    kind.new(s)
    if not value or letter == 'd' then return kind, s end
    if writer == 'b' then
      local p, q, used, at = match(value, '^b(%d+):(%d+):(%d+):(%d+)$')
      kind.owe(s, ceil(max(0, used - max(0, now - at) * p) / q))
      return kind, s
    end
    local old = kinds[writer].read(value)
    if kinds[writer].ends(old) <= now then return kind, s end
    if writer ~= letter or not kind.adopt(s, old) then kind.owe(s, kinds[writer].used(old)) end
    return kind, s
  end

  return bucket, state
end

-- No sooner than it says nothing more, then it is not there, which says the same.
local function write(i, ends, text)
  if ends > now then
    redis.call('SET', KEYS[i], text, 'PX', ceil((ends - now) / 1000) + 1)
  else
    redis.call('DEL', KEYS[i])
  end
end

local bucket, state
local kinds, states, used, at, waits, passes = {}, {}, {}, {}, {}, 1
for i = 1, #KEYS do
  -- One key may be settled for several requests at once.
  if op == 'settle' and i > 1 then values[i] = redis.call('GET', KEYS[i]) end
  local k = 6 * i
  local n, last, wait = ARGV[k] + 0, ARGV[k + 1], 0
  if ARGV[k - 4] == 'b' then
    local p, q, r = ARGV[k - 3], ARGV[k - 2], ARGV[k - 1] + 0
    local u, a, value = 0, now, values[i]
    if value then
      local writer_p, writer_q
      writer_p, writer_q, u, a = match(value, '^b(%d+):(%d+):(%d+):(%d+)$')
      if writer_p ~= p or writer_q ~= q then
        if not bucket then bucket, state = others() end
        u, a = bucket(value, q + 0, r)
      end
      u, a = min(u, 2 * r), a + 0
      if a < now then u, a = max(0, u - (now - a) * p), now end
    end
    if op == 'settle' then
      u = min(max(0, u + n), 2 * r)
      local ends = u > 0 and a + ceil(u / p) or 0
      if n ~= 0 then write(i, ends, format('b%s:%s:%.0f:%.0f', p, q, u, a)) end
    elseif n > r then
      wait = -1
    elseif u + n > r then
      wait = ceil((u + n - r) / p)
    end
    used[i], at[i] = u, a
  else
    if not state then bucket, state = others() end
    local kind, s = state(i)
    if op ~= 'settle' then
      wait = kind.wait(s, n)
    elseif n ~= 0 then
      if n > 0 then kind.charge(s, n) else kind.give_back(s, -n, last + 0) end
      write(i, kind.ends(s), kind.text(s))
    end
    kinds[i], states[i] = kind, s
  end
  if wait ~= 0 and last == '0' then passes = 0 end
  waits[i] = wait
end
if op == 'settle' then return 1 end

local reply = { passes, now }
for i = 1, #KEYS do
  local k = 6 * i
  local n, kind, left, more = ARGV[k] + 0, kinds[i], nil, 0
  local spends = op == 'take' and passes == 1 and waits[i] == 0 and n > 0
  if kind then
    local s = states[i]
    if spends then
      kind.take(s, n)
      write(i, kind.ends(s), kind.text(s))
    end
    left = kind.left(s)
  else
    local p, q, u, a = ARGV[k - 3], ARGV[k - 2], used[i], at[i]
    if spends then
      u = u + n
      write(i, a + ceil(u / p), format('b%s:%s:%.0f:%.0f', p, q, u, a))
    end
    left = max(0, floor((ARGV[k - 1] - u) / q))
    -- Who costs more than is left need not ask before that.
    if (left + 1) * q <= ARGV[k - 1] + 0 then more = max(1, ceil((u + (left + 1) * q - ARGV[k - 1]) / p)) end
  end
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = waits[i], left, more
end
return reply
