-- Gives, renews and takes back permits of one thing for all nodes together.
-- KEYS: permits, and when their leases are over
-- ARGV: 'acquire', 'renew' or 'release'; permits altogether, most that are kept, microseconds of the lease; of each
--       of five classes two: what it reserves, and what of that nobody else gets while it is idle; then
--         to acquire a name, its weight and class (from 0);
--         to renew of each permit five: name, weight, class, fence, and 1 if the lease cannot be over;
--         to release names
-- Replies to acquire the fence and 0; or -1 and what is free, -2 and 0 when there is never so much, -3 and the
-- microseconds until it is known who is in. To renew of each its fence, or 0 when it is held no more. To release 0.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local max, min, match, format = math.max, math.min, string.match, string.format
local CLASSES, OTHER_FIELDS, OVER_MAX = 5, 8, 256
local key, ends, op = KEYS[1], KEYS[2], ARGV[1]
local all, most, lease = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local FIRST = 5 + 2 * CLASSES

local h = redis.call('HMGET', key, 'fence', 'began', 'settles', 'u0', 'u1', 'u2', 'u3', 'u4')
local count = redis.call('ZCARD', ends)
local is_whole = h[1] and redis.call('HLEN', key) == count + OTHER_FIELDS
if not is_whole then
  if op == 'release' then return 0 end
  -- There is nothing, or a part of it went: nobody knows who is in.
  redis.call('DEL', key, ends)
  h, count = { (h[1] or 0), now, now + lease, 0, 0, 0, 0, 0 }, 0
end
local fence, began, settles = h[1] + 0, h[2] + 0, h[3] + 0
local used, total, changed = {}, 0, not is_whole
for class = 1, CLASSES do
  used[class] = h[3 + class] + 0
  total = total + used[class]
end
-- Whoever has a longer lease may hold something for longer.
if op ~= 'release' and now < settles and began + lease > settles then
  settles, changed = began + lease, true
end

local function drop(name)
  local weight, class = match(redis.call('HGET', key, name) or '', '^(%d+) (%d+)')
  if not weight then return end
  redis.call('HDEL', key, name)
  redis.call('ZREM', ends, name)
  used[class + 1] = used[class + 1] - weight
  total, count, changed = total - weight, count - 1, true
end

local function hold(name, weight, class, its)
  redis.call('HSET', key, name, format('%.0f %.0f %.0f', weight, class, its))
  redis.call('ZADD', ends, format('%.0f', now + lease), name)
  used[class + 1] = used[class + 1] + weight
  total, count, changed = total + weight, count + 1, true
end

-- The fence of a permit that is there, which is then held for another lease.
local function extend(name)
  local its = match(redis.call('HGET', key, name) or '', '(%d+)$')
  if its then
    redis.call('ZADD', ends, 'GT', format('%.0f', now + lease), name)
    changed = true
  end
  return its and its + 0
end

-- What is left here is counted as held, and goes with the next call.
local over = redis.call('ZRANGEBYSCORE', ends, '-inf', format('%.0f', now), 'LIMIT', 0, OVER_MAX)
for _, name in ipairs(over) do drop(name) end

local function acquire(name, weight, class)
  local its = extend(name)
  if its then return { its, 0 } end
  if weight > all then return { -2, 0 } end
  if now < settles then return { -3, settles - now } end
  local free, others, own = max(all - total, 0), 0, 0
  for at = 1, CLASSES do
    local reserve, idle = ARGV[3 + 2 * at] + 0, ARGV[4 + 2 * at] + 0
    local unused = max(reserve - used[at], 0)
    if at == class + 1 then own = min(unused, free) else others = others + min(unused, idle) end
  end
  local room = max(free - others, own)
  if weight > room or count >= most then return { -1, room } end
  fence = max(fence + 1, now)
  hold(name, weight, class, fence)
  return { fence, 0 }
end

local function renew(name, weight, class, its, known)
  local there = extend(name)
  if there then return there end
  fence, changed = max(fence, its), true
  -- It was here, and its lease cannot be over: something was forgotten, and perhaps more than this.
  if known == '1' then began, settles = now, max(settles, now + lease) end
  if weight > max(all - total, 0) or count >= most then return 0 end
  hold(name, weight, class, its)
  return its
end

local reply = 0
if op == 'acquire' then
  reply = acquire(ARGV[FIRST], max(ARGV[FIRST + 1], 1), ARGV[FIRST + 2] + 0)
elseif op == 'renew' then
  reply = {}
  for i = FIRST, #ARGV, 5 do
    local weight, class, its = max(ARGV[i + 1], 1), ARGV[i + 2] + 0, ARGV[i + 3] + 0
    reply[#reply + 1] = renew(ARGV[i], weight, class, its, ARGV[i + 4])
  end
else
  for i = FIRST, #ARGV do drop(ARGV[i]) end
end
if changed then
  redis.call('HSET', key, 'fence', format('%.0f', fence), 'began', format('%.0f', began),
    'settles', format('%.0f', settles), 'u0', used[1], 'u1', used[2], 'u2', used[3], 'u3', used[4], 'u4', used[5])
  -- They are to outlive a night without anybody; a day later they begin anew.
  redis.call('PEXPIRE', key, 86400000)
  redis.call('PEXPIRE', ends, 86400000)
end
return reply
