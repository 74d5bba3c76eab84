-- Notes what an operator orders about a node.
-- KEYS: orders
-- ARGV: node, ms that it holds or 0, most orders, order
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return {-2} end
local to = 0
if ARGV[2] ~= '0' then to = now + ARGV[2] end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f ', now, to) .. ARGV[4])
return {0, us}
