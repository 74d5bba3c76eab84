-- Ends all sessions of a user: the epoch does it, the list is for cleaning up.
-- KEYS: epoch, index of the user's sessions
-- ARGV: ms that the epoch is remembered
local epoch = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local sessions = redis.call('ZRANGE', KEYS[2], 0, -1)
redis.call('UNLINK', KEYS[2])
return {epoch, sessions}
