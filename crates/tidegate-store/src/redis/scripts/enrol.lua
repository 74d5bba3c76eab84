-- Makes a node a member, or keeps it one.
-- KEYS: members
-- ARGV: node, incarnation, ms of the lease, 1 to take an earlier life's place, most members
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local there = redis.call('HGET', KEYS[1], ARGV[1])
local since = us
if there then
  -- A member is its incarnation, since when (us), until when (ms).
  local incarnation, from, to = string.match(there, '^(%d+) (%d+) (%d+)$')
  if incarnation == ARGV[2] then
    since = tonumber(from)
  elseif ARGV[4] ~= '1' and now < tonumber(to) then
    return {-1}
  end
else
  -- The dead go when somebody comes: who lists the living writes nothing.
  local count = 0
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if now < tonumber(string.match(all[i + 1], '%d+$')) then count = count + 1
    else redis.call('HDEL', KEYS[1], all[i]) end
  end
  if count >= tonumber(ARGV[5]) then return {-2} end
end
local member = string.format('%s %.0f %.0f', ARGV[2], since, now + ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], member)
-- The whole goes with its last member, and not before.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {0, us}
