-- Creates a session, unless its id is taken or remembered. One whose time is over is not: it may have
-- been in use where the store was away.
-- KEYS: session, tombstone
-- ARGV: idle ms, absolute ms, uid, tier, epoch, bytes, count, the version when it is done again (''
--       otherwise), then fields and values by turns; an attribute's value without its version
local there = redis.call('HGET', KEYS[1], '_d')
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
if redis.call('EXISTS', KEYS[2]) > 0 then return {-5} end
if there and (now < tonumber(there) or ARGV[8] ~= '') then return {-5} end
if there then redis.call('UNLINK', KEYS[1]) end
-- Not 1: a version that began anew after a loss would one day name other content.
local version = ARGV[8] ~= '' and ARGV[8] or string.format('%016.0f', us)
local absolute = now + ARGV[2]
local deadline = math.min(now + ARGV[1], absolute)
local set = {'_v', version, '_c', now, '_l', now, '_i', ARGV[1], '_d', deadline, '_x', absolute, '_b', ARGV[6], '_k', ARGV[7]}
if ARGV[3] ~= '' then
  for _, part in ipairs({'_u', ARGV[3], '_e', ARGV[5]}) do set[#set + 1] = part end
  if ARGV[4] ~= '' then
    for _, part in ipairs({'_t', ARGV[4]}) do set[#set + 1] = part end
  end
end
for i = 9, #ARGV, 2 do
  set[#set + 1] = ARGV[i]
  set[#set + 1] = string.sub(ARGV[i], 1, 2) == 'a:' and version .. ARGV[i + 1] or ARGV[i + 1]
end
redis.call('HSET', KEYS[1], unpack(set))
-- An ended session stays for 5 min, so that its end can be told with its user.
redis.call('PEXPIREAT', KEYS[1], deadline + 300000)
return {0, us, now, deadline, absolute}
