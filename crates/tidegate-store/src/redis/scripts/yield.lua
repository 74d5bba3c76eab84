-- Gives a lease back. Its fence stays: the next one has to be higher.
-- KEYS: lease
-- ARGV: fence
local h = redis.call('HMGET', KEYS[1], 'fence', 'until')
if h[1] ~= ARGV[1] or h[2] == '0' then return 0 end
redis.call('HSET', KEYS[1], 'until', '0')
return 1
