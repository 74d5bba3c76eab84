-- Opens a room, ends its epoch, sets what it does, counts those who wait, and does what its leader says: takes out those who
-- are silent, calls the next ones, takes back calls that nobody came for.
-- KEYS: the room; of its epoch who waits in tier 1, 2 and 3, when each of them was heard of, until when those called may
--       come, when those came who did, how often others did not; its leader's lease
-- ARGV: what to do; the epoch that is meant; most that wait, most misses of one place, ms that a forgotten line settles,
--       ms that a ticket is good; then
--         'open'
--         'turn'
--         'phase'    its name, or nothing
--         'look'     a place; of so many waiting one is marked at least, most marks of a tier
--         'sweep'    fence, ms of silence, a place, most
--         'release'  fence, tick, how many, ms in which to come, ms of silence, so many in a forgotten line are enough;
--                    1 if tiers go strictly by turns, and the places that each of three is ahead
--         'settle'   fence, most
-- Replies -1 and the epoch that the room is in; -2 and the fence of a later leader; -3 as a later tick was done; -4, ms, and
-- how many are back, as the line settles; -5 and the phase, as it calls nobody; or 0 and: the epoch; the phase that was;
-- to look now, phase, until when it settles, how many wait in each tier, how many before the place, how many may come, places
-- joined, entered, slept, released, claimed and returned, the marks of each tier; to sweep how many of each tier, how many
-- of them before the place, 1 if there are more; to release how many, and how many were silent; to settle how many.
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

-- Most that are taken out of a set at once: Lua passes no more than a few thousand values.
local CHUNK = 1000
-- Of a tier so many more are looked at than are called, as some may be silent.
local SLACK = 200
local CALLS = { auto = true, ['queue-all'] = true, drain = true }
local ops = {}

local function drop_all(key, ids)
  for from = 1, #ids, CHUNK do
    count[key] = count[key] - redis.call('ZREM', key, unpack(ids, from, min(from + CHUNK - 1, #ids)))
  end
end

-- Obeys a leader, unless a later one is known here or holds the lease.
local function obey()
  local fence = ARGV[7] + 0
  local latest = max(s.fence, redis.call('HGET', KEYS[9], 'fence') or 0)
  if fence < latest then return { -2, latest } end
  if fence > s.fence then s.fence, s.tick, s.called = fence, 0, 0 end
end

function ops.turn()
  epoch = max(now, epoch + 1)
  begin(epoch, 0)
  return { 0, epoch }
end

function ops.phase()
  local was = redis.call('HGET', room, 'phase') or ''
  if ARGV[7] == '' then
    redis.call('HDEL', room, 'phase')
  else
    redis.call('HSET', room, 'phase', ARGV[7])
  end
  return { 0, was }
end

-- Every so many of a tier, the first one first.
local function marks(key, step_min, most)
  local step, places = max(step_min, math.ceil(count[key] / most)), {}
  for rank = 0, count[key] - 1, step do
    places[#places + 1] = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] + 0
  end
  return places
end

function ops.look()
  local aged = 0
  for tier = 1, 3 do aged = aged + redis.call('ZCOUNT', tiers[tier], '-inf', '(' .. ARGV[7]) end
  local reply = { 0, now, redis.call('HGET', room, 'phase') or '', s.settles,
    count[tiers[1]], count[tiers[2]], count[tiers[3]], aged, count[ready],
    s.joined, s.entered, s.slept, s.released, s.claimed, s.returned }
  for tier = 1, 3 do reply[#reply + 1] = marks(tiers[tier], ARGV[8] + 0, ARGV[9] + 0) end
  return reply
end

function ops.sweep()
  local silent, aged, most = max(0, now - ARGV[8]), ARGV[9] + 0, ARGV[10] + 0
  local slept, before = { 0, 0, 0 }, 0
  local ids = redis.call('ZRANGEBYSCORE', alive, '-inf', digits(silent), 'LIMIT', 0, most)
  for _, id in ipairs(ids) do
    local tier = sleep(id)
    if tier then
      slept[tier] = slept[tier] + 1
      if place_of(id) < aged then before = before + 1 end
    end
  end
  return { 0, slept[1], slept[2], slept[3], before, #ids == most and 1 or 0 }
end

-- Who goes next, tier by tier: what was looked at of each, by turns its member and its place, and how many of it are taken.
local function line(look, strict, ahead)
  local heads, taken = {}, { 0, 0, 0 }
  local function next_tier()
    local best, least
    for tier = 1, 3 do
      heads[tier] = heads[tier] or redis.call('ZRANGE', tiers[tier], 0, look - 1, 'WITHSCORES')
      local place = heads[tier][2 * taken[tier] + 2]
      if not place then
        -- Whoever is further back in it may be next: it would take looking further to know.
        if taken[tier] == look then return nil end
      elseif strict then
        return tier
      else
        local level = place - ahead[tier]
        if not best or level < least then best, least = tier, level end
      end
    end
    return best
  end
  return function()
    local tier = next_tier()
    if not tier then return nil end
    taken[tier] = taken[tier] + 1
    return heads[tier][2 * taken[tier] - 1], tier
  end
end

-- Calls so many of those who were heard of; how many, and how many fell asleep instead.
local function call(many, silent, to, nexts)
  local called, of, slept = {}, { {}, {}, {} }, 0
  while #called < many do
    local id, tier = nexts()
    if not id then break end
    local heard = score(alive, id)
    if heard and heard > silent then
      called[#called + 1] = id
    else
      slept = slept + 1
    end
    of[tier][#of[tier] + 1] = id
  end
  for tier = 1, 3 do
    drop_all(tiers[tier], of[tier])
    drop_all(alive, of[tier])
  end
  for _, id in ipairs(called) do put(ready, to, id) end
  s.released, s.slept = s.released + #called, s.slept + slept
  return #called, slept
end

function ops.release()
  local tick, many, claim, grace = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0, ARGV[11] + 0
  if tick < s.tick then return { -3 } end
  if tick == s.tick then return { 0, s.called, 0 } end
  local phase = redis.call('HGET', room, 'phase')
  if phase and not CALLS[phase] then return { -5, phase } end
  local left = max(0, s.settles - now)
  if left > 0 and count[alive] < ARGV[12] + 0 then return { -4, left, count[alive] } end
  local nexts = line(many + SLACK, ARGV[13] == '1', { ARGV[14] + 0, ARGV[15] + 0, ARGV[16] + 0 })
  local called, slept = call(many, max(0, now - grace), now + claim, nexts)
  s.tick, s.called = tick, called
  return { 0, called, slept }
end

function ops.settle()
  local most = ARGV[8] + 0
  -- In sixteenths behind the millisecond is how often more time was given.
  local overdue = redis.call('ZRANGEBYSCORE', ready, '-inf', '(' .. digits(now + 1), 'LIMIT', 0, most)
  for _, id in ipairs(overdue) do miss(id) end
  local horizon = max(0, now - ticket)
  local came = redis.call('ZRANGEBYSCORE', passed, '-inf', digits(horizon), 'LIMIT', 0, most)
  drop_all(passed, came)
  s.forgotten = s.forgotten + #came
  local before = '(' .. digits(max(0, horizon - epoch) * 16)
  drop_all(misses, redis.call('ZRANGEBYSCORE', misses, '-inf', before, 'LIMIT', 0, most))
  for i = 1, 8 do redis.call('PEXPIRE', KEYS[i], digits(2 * ticket)) end
  return { 0, #overdue }
end

if op == 'open' then
  if not h[1] then
    if epoch > 0 then begin(epoch, now + settle) else begin(now, 0) end
    save()
  end
  return { 0, s.epoch }
end
local reply = enter()
if reply then return reply end
if op == 'sweep' or op == 'release' or op == 'settle' then reply = obey() end
reply = reply or ops[op]()
save()
return reply
