-- Gives a session another id. The slot tag stays, so old and new are on one shard.
-- KEYS: old session, new session, old tombstone, new tombstone
-- ARGV: kind, ms that the old id is remembered, hash of the new id, then, for kind r (a habit): what
--       the holder of the old id gets; for kind p (a change of rights): idle ms, absolute ms, uid,
--       tier, epoch, and the fields that come along
local h = redis.call('HMGET', KEYS[1], '_v', '_d', '_s')
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
if not h[1] or now >= tonumber(h[2]) then
  local x = redis.call('HMGET', KEYS[3], 'k', 'n', 't')
  if x[1] and not (x[3] and now >= tonumber(x[3])) then return {-3, x[1], x[2] or ''} end
  -- Whoever signs in with an id kills it though it is not there: a store that has lost everything may
  -- be given this sign-in again before it is given the session, by another gateway.
  if not h[1] and ARGV[1] == 'p' then
    redis.call('HSET', KEYS[3], 'k', 'p', 'h', ARGV[3])
    redis.call('HDEL', KEYS[3], 'n', 't')
    redis.call('PEXPIRE', KEYS[3], ARGV[2])
  end
  return {-1}
end
if redis.call('EXISTS', KEYS[2], KEYS[4]) > 0 then return {-5} end

local version = string.format('%016.0f', math.max(h[1] + 1, us))
if ARGV[1] == 'r' then
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[2], '_v', version)
else
  -- A list of what comes along, not of what stays behind: what a stranger planted under a name that
  -- nobody thought of must not come along.
  local set, bytes, count = {}, 0, 0
  for i = 9, #ARGV do
    local value = redis.call('HGET', KEYS[1], ARGV[i])
    if value then
      set[#set + 1] = ARGV[i]
      set[#set + 1] = value
      -- The field's name has 'a:' or 'n:' before it, a stored attribute 18 bytes before its value.
      bytes = bytes + #ARGV[i] - 2 + (string.sub(ARGV[i], 1, 2) == 'n:' and 20 or #value - 2)
      count = count + 1
    end
  end
  local absolute = now + ARGV[5]
  local deadline = math.min(now + ARGV[4], absolute)
  local head = {'_v', version, '_c', now, '_l', now, '_i', ARGV[4], '_d', deadline, '_x', absolute, '_b', bytes, '_k', count}
  for _, part in ipairs(head) do set[#set + 1] = part end
  if ARGV[6] ~= '' then
    for _, part in ipairs({'_u', ARGV[6], '_e', ARGV[8]}) do set[#set + 1] = part end
    if ARGV[7] ~= '' then
      for _, part in ipairs({'_t', ARGV[7]}) do set[#set + 1] = part end
    end
  end
  if h[3] then
    for _, part in ipairs({'_s', h[3]}) do set[#set + 1] = part end
  end
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[2], unpack(set))
  -- An ended session stays for 5 min, so that its end can be told with its user.
  redis.call('PEXPIREAT', KEYS[2], deadline + 300000)
end

-- The tombstone outlives the old id's place in the expiry index: whoever finds that place finds where
-- the session went, should the caller die before it says so. To holders of the old id it ends sooner.
local remembered = now + ARGV[2]
redis.call('HSET', KEYS[3], 'k', ARGV[1], 'h', ARGV[3])
if ARGV[1] == 'r' then redis.call('HSET', KEYS[3], 'n', ARGV[4], 't', remembered) end
redis.call('PEXPIREAT', KEYS[3], math.max(remembered, h[2] + 300000))
return {2, us, redis.call('HMGET', KEYS[2], '_v', '_c', '_l', '_i', '_d', '_x', '_u', '_t', '_e', '_b')}
