-- Tells a session's end once: whoever takes it out of the index writes the event.
-- KEYS: expiry index, stream of ends
-- ARGV: session, reason, uid, events kept
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'session', ARGV[1], 'reason', ARGV[2], 'uid', ARGV[3])
return 1
