-- Takes a node out, unless another life of it is in.
-- KEYS: members
-- ARGV: node, incarnation
local there = redis.call('HGET', KEYS[1], ARGV[1])
if not there or string.match(there, '^%d+') ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
