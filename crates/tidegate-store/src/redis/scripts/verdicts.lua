-- What was decided last about all nodes.
-- KEYS: verdicts
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], redis.call('HGETALL', KEYS[1])}
