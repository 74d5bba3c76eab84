-- Publishes what a leader decided about all nodes, in the place of what was there, unless a later leader is known.
-- KEYS: verdicts, the leader's lease
-- ARGV: fence, generation, ms that it counts, ms that it is kept, what is said of the fleet, (field, verdict)*
local fence = tonumber(ARGV[1])
local latest = redis.call('HGET', KEYS[2], 'fence')
if latest and tonumber(latest) > fence then return {-1, latest} end
local there = redis.call('HMGET', KEYS[1], 'fence', 'generation')
if there[1] then
  local before = tonumber(there[1])
  if before > fence then return {-1, there[1]} end
  if before == fence and tonumber(there[2]) > tonumber(ARGV[2]) then return {-1, there[1]} end
end
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'generation', ARGV[2], 'at', string.format('%.0f', now),
  'until', string.format('%.0f', now + ARGV[3]), 'fleet', ARGV[5])
-- Lua passes no more than a few thousand values at a time.
for from = 6, #ARGV, 1000 do
  redis.call('HSET', KEYS[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {0, us}
