-- Replaces what is kept for a user's next session, unless what is there is newer. Of nothing the
-- version alone is kept: an older write, done again after a failover, must not bring back what was.
-- KEYS: capsule
-- ARGV: version, ms that it is kept, then fields and values by turns
local there = redis.call('HGET', KEYS[1], '_v')
if there and there > ARGV[1] then return 0 end
redis.call('UNLINK', KEYS[1])
redis.call('HSET', KEYS[1], '_v', ARGV[1], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
