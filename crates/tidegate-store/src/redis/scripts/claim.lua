-- Takes a bucket of the expiry index for a while and names what is due in it.
-- KEYS: expiry index, lease
-- ARGV: holder, ms of the lease, most
local by = redis.call('GET', KEYS[2])
if by and by ~= ARGV[1] then return {-5, redis.call('PTTL', KEYS[2])} end
-- Half a lease is enough to go on with, and spares every second write.
if not by or redis.call('PTTL', KEYS[2]) * 2 < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return {0, t[1] * 1000000 + t[2], redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[3], 'WITHSCORES')}
