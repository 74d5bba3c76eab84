-- Takes a lease, or extends it.
-- KEYS: lease
-- ARGV: node, incarnation, ms
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local h = redis.call('HMGET', KEYS[1], 'node', 'life', 'until', 'fence')
local held = h[3] and now < tonumber(h[3])
local ours = h[1] == ARGV[1] and h[2] == ARGV[2]
if held and not ours then return {-5, h[1], h[2], h[3] - now} end
local fence = h[4]
if not held then
  -- No less than the clock, so that it grows even when the store has lost the one before.
  fence = string.format('%.0f', math.max((h[4] or 0) + 1, us))
end
redis.call('HSET', KEYS[1], 'node', ARGV[1], 'life', ARGV[2], 'until', string.format('%.0f', now + ARGV[3]), 'fence', fence)
return {0, fence}
