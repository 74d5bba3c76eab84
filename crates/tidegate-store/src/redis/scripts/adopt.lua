-- Moves a session into its user's new epoch, so that a sign-out everywhere spares it.
-- KEYS: session
-- ARGV: epoch
local h = redis.call('HMGET', KEYS[1], '_v', '_d', '_u', '_e')
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
if not h[1] or math.floor(us / 1000) >= tonumber(h[2]) or (h[3] or '') == '' then return 0 end
if tonumber(h[4] or 0) < tonumber(ARGV[1]) then
  -- A cached copy of the old epoch must not pass as unchanged.
  redis.call('HSET', KEYS[1], '_e', ARGV[1], '_v', string.format('%016.0f', math.max(h[1] + 1, us)))
end
return 1
