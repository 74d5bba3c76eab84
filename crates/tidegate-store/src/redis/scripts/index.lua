-- Notes a session's activity in its user's index and keeps the index bounded.
-- KEYS: index of the user's sessions
-- ARGV: session, ms of the window, most entries
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2] - 1)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
