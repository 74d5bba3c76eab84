-- Moves an entry of the expiry index. Only one that is there: what is not has been told, and would
-- be told again.
-- KEYS: expiry index
-- ARGV: session, session it is to be, its deadline in ms
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
return 1
