-- Posts a node's beacon, and says what was decided about the node.
-- KEYS: beacons, verdicts, the leader's lease
-- ARGV: node, incarnation, ms of its lease, 1 to take an earlier life's place, most beacons, beacon
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local there = redis.call('HGET', KEYS[1], ARGV[1])
if there then
  -- A beacon is its incarnation, when it came (ms), until when it counts (ms), and what the node says.
  local life, to = string.match(there, '^(%d+) %d+ (%d+) ')
  if life and life ~= ARGV[2] and ARGV[4] ~= '1' and now < tonumber(to) then return {-1} end
elseif redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then
  -- The leader takes out what is past. Where nobody leads, whoever finds no room does.
  local count = 0
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local to = string.match(all[i + 1], '^%d+ %d+ (%d+) ')
    if to and now < tonumber(to) then count = count + 1
    else redis.call('HDEL', KEYS[1], all[i]) end
  end
  if count >= tonumber(ARGV[5]) then return {-2} end
end
local stamp = string.format('%s %.0f %.0f ', ARGV[2], now, now + ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], stamp .. ARGV[6])
-- Ten leases ahead, so that not every beacon moves it.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3] * 10) end
local led = redis.call('HGET', KEYS[3], 'until')
local left = led and math.max(0, led - now) or 0
local h = redis.call('HMGET', KEYS[2], 'fence', 'generation', 'at', 'until', 'fleet', 'n:' .. ARGV[1])
return {0, us, left, h[1], h[2], h[3], h[4], h[5], h[6]}
