-- Ends a session. Done twice it changes nothing but how long the end is remembered.
-- KEYS: session, tombstone
-- ARGV: ms that the id is remembered as ended, reason
local h = redis.call('HMGET', KEYS[1], '_d', '_u', '_t', '_e')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local existed = h[1] and now < tonumber(h[1])
redis.call('UNLINK', KEYS[1])
if redis.call('HGET', KEYS[2], 'k') ~= 'd' then
  redis.call('HSET', KEYS[2], 'k', 'd', 'y', ARGV[2], 'u', h[2] or '')
  redis.call('HDEL', KEYS[2], 'n', 't')
end
-- A shorter memory than somebody asked for would let a late write through.
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return {existed and 1 or 0, h[2] or '', h[3] or '', h[4] or '0'}
