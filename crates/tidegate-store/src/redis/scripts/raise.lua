-- Sees to it that a user's epoch is no less than one that was acknowledged; counting again would
-- end the sessions begun since.
-- KEYS: epoch
-- ARGV: epoch, ms that it is remembered
if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
