-- Gives places in a room, hears of their owners, and lets in those who were called, each once.
-- KEYS: the room; of its epoch who waits in tier 1, 2 and 3, when each of them was heard of, until when those called may
--       come, when those came who did, how often others did not
-- ARGV: what to do; the epoch that is meant; most that wait, most misses of one place, ms that a forgotten line settles,
--       ms that a ticket is good; then
--         'join'     how many
--         'beat'     the last of the places that follow, and of each place three: it, its tier, 1 if it may enter
--         'promote'  place, tier
--         'leave'    place
--         'claim'    place
--         'extend'   place, ms from now on, most times for one call
--         'find'     place, tier; for each tier that it may be in the bounds below which it is behind, in all three
-- Replies -1 and the epoch that the room is in; or 0 and: the first place given; of each beat two: its tier and 0, or 4 and
-- until when it may come, 5 and when it came, 6 as it may not enter, 7 as it was called too often, 8 as too many wait; 1 for
-- a promotion or leaving that was one; to claim 1 and now, 2 and when it came before, 3 too late, 4 too early; to extend until
-- when it may come and how many more times it can have more, or 0 and 0; to find 0, its tier, or 4 or 5 as above, until or
-- since when, and how many are before it.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local floor, max, min, format = math.floor, math.max, math.min, string.format
local op, epoch = ARGV[1], ARGV[2] + 0
local waiting_max, misses_max, settle, ticket = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local room, tiers = KEYS[1], { KEYS[2], KEYS[3], KEYS[4] }
local alive, ready, passed, misses = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local PLACES, PLACE_MAX = 4096, 9007199254740991
local LEADER = { fence = true, tick = true, called = true }
local FIELDS = { 'epoch', 'settles', 'last', 'joined', 'entered', 'slept', 'released', 'claimed', 'returned',
  'forgotten', 'fence', 'tick', 'called' }

local function digits(number) return format('%.0f', number) end

local h = redis.call('HMGET', room, unpack(FIELDS))
local s, count = {}, {}
for i, field in ipairs(FIELDS) do s[field] = (h[i] or 0) + 0 end

-- Begins a line that nobody stands in.
local function begin(of, settles)
  redis.call('UNLINK', unpack(KEYS, 2, 8))
  for i = 2, 8 do count[KEYS[i]] = 0 end
  for _, field in ipairs(FIELDS) do
    if not LEADER[field] then s[field] = 0 end
  end
  s.epoch, s.settles = of, settles
end

local function waiting() return count[tiers[1]] + count[tiers[2]] + count[tiers[3]] end

-- Goes to the line that is meant, or says in which epoch the room is. A line of which a part is lost is forgotten as a whole.
local function enter()
  if h[1] and s.epoch ~= epoch then return { -1, s.epoch } end
  for i = 2, 8 do count[KEYS[i]] = redis.call('ZCARD', KEYS[i]) end
  local is_whole = h[1] and waiting() == count[alive] and waiting() == s.entered - s.slept - s.released
    and count[ready] == s.released - s.claimed - s.returned and count[passed] == s.claimed - s.forgotten
  if not is_whole then begin(epoch, now + settle) end
end

-- Writes down what has changed.
local function save()
  local changed = {}
  for i, field in ipairs(FIELDS) do
    local value = digits(s[field])
    if value ~= h[i] then
      changed[#changed + 1], changed[#changed + 2] = field, value
    end
  end
  if changed[1] then
    redis.call('HSET', room, unpack(changed))
    redis.call('PEXPIRE', room, digits(2 * ticket))
  end
end

-- A member is its place in base 32, eleven digits: as short as bytes would be, and in the order of places.
local function place_of(id) return tonumber(id, 32) end

local function score(key, id)
  local found = count[key] > 0 and redis.call('ZSCORE', key, id)
  return found and found + 0
end

local function put(key, number, id)
  local added = redis.call('ZADD', key, digits(number), id)
  if added == 1 and count[key] == 0 then redis.call('PEXPIRE', key, digits(2 * ticket)) end
  count[key] = count[key] + added
end

local function drop(key, id)
  local gone = redis.call('ZREM', key, id)
  count[key] = count[key] - gone
  return gone == 1
end

local function tier_of(id)
  for tier = 1, 3 do
    if score(tiers[tier], id) then return tier end
  end
end

local function sleep(id)
  local tier = tier_of(id)
  if tier then
    drop(tiers[tier], id)
    drop(alive, id)
    s.slept = s.slept + 1
  end
  return tier
end

-- Was called, and did not come. When a place came is kept with how often, so that it can be forgotten by then.
local function miss(id)
  drop(ready, id)
  local before = score(misses, id)
  local times = min(misses_max, (before and before % 16 or 0) + 1)
  put(misses, floor(place_of(id) / PLACES) * 16 + times, id)
  s.returned = s.returned + 1
end

local ops = {}

-- Until when somebody who was called may come, and how often they were given more time, which is in sixteenths behind it.
local function turn_of(id)
  local turn = score(ready, id)
  if turn then return floor(turn), turn % 1 * 16 end
end

function ops.join()
  local many = ARGV[7] + 0
  local first = max(min(max(0, now - epoch) * PLACES, PLACE_MAX), s.last + 1)
  s.last, s.joined = first + many - 1, s.joined + many
  return { 0, first }
end

local function beat(id, tier, may_enter)
  if score(alive, id) then
    local there = tier_of(id)
    if tier < there then
      -- It was promoted, and that has not come here.
      drop(tiers[there], id)
      put(tiers[tier], place_of(id), id)
    end
    put(alive, now, id)
    return min(tier, there), 0
  end
  local came = score(passed, id)
  if came then return 5, came end
  local to = turn_of(id)
  if to then
    if now < to then return 4, to end
    miss(id)
  end
  local missed = score(misses, id)
  if missed and missed % 16 >= misses_max then return 7, 0 end
  if may_enter ~= '1' then return 6, 0 end
  if waiting() >= waiting_max then return 8, 0 end
  put(tiers[tier], place_of(id), id)
  put(alive, now, id)
  s.entered = s.entered + 1
  return tier, 0
end

function ops.beat()
  s.last = max(s.last, place_of(ARGV[7]))
  local reply = { 0 }
  for i = 8, #ARGV, 3 do
    reply[#reply + 1], reply[#reply + 2] = beat(ARGV[i], ARGV[i + 1] + 0, ARGV[i + 2])
  end
  return reply
end

function ops.promote()
  local id, tier = ARGV[7], ARGV[8] + 0
  local there = tier_of(id)
  if not there or tier >= there then return { 0, 0 } end
  drop(tiers[there], id)
  put(tiers[tier], place_of(id), id)
  return { 0, 1 }
end

function ops.leave()
  local id = ARGV[7]
  if score(ready, id) then
    miss(id)
    return { 0, 1 }
  end
  return { 0, sleep(id) and 1 or 0 }
end

function ops.claim()
  local id = ARGV[7]
  local came = score(passed, id)
  if came then return { 0, 2, came } end
  local to = turn_of(id)
  if not to then return { 0, 4, 0 } end
  if now >= to then
    miss(id)
    return { 0, 3, 0 }
  end
  drop(ready, id)
  put(passed, now, id)
  s.claimed = s.claimed + 1
  return { 0, 1, now }
end

function ops.extend()
  local id, span, most = ARGV[7], ARGV[8] + 0, ARGV[9] + 0
  local to, times = turn_of(id)
  if not to or now >= to or times >= most then return { 0, 0, 0 } end
  to = max(to, now + span)
  redis.call('ZADD', ready, format('%.4f', to + (times + 1) / 16), id)
  return { 0, to, most - times - 1 }
end

function ops.find()
  local id, tier = ARGV[7], ARGV[8] + 0
  local came = score(passed, id)
  if came then return { 0, 5, came, 0 } end
  local to = turn_of(id)
  if to then return { 0, 4, to, 0 } end
  local there = tier_of(id)
  local ahead = 0
  for other = 1, 3 do
    local bound = ARGV[8 + 3 * ((there or tier) - 1) + other]
    ahead = ahead + redis.call('ZCOUNT', tiers[other], '-inf', '(' .. bound)
  end
  return { 0, there or 0, 0, ahead }
end

local reply = enter()
if reply then return reply end
reply = ops[op]()
save()
return reply
