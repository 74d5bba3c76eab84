-- Validates a session, slides its idle time now and then, and returns what is wanted of it unless
-- the caller knows it. Most calls write nothing: this one is on the way of every request.
-- KEYS: session, tombstone
-- ARGV: version that the caller knows, ms after which a touch is written ('' never), then the fields
--       wanted; none for all
local h = redis.call('HMGET', KEYS[1], '_v', '_d', '_l')
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local deadline, touch = tonumber(h[2]), tonumber(ARGV[2])
if not deadline or us >= deadline * 1000 then
  local x = redis.call('HMGET', KEYS[2], 'k', 'n', 't')
  if not x[1] or (x[3] and us >= x[3] * 1000) then return {-1} end
  return {-3, x[1], x[2] or ''}
end
if touch and us >= (h[3] + touch) * 1000 and us >= (h[3] + 1) * 1000 then
  local now = math.floor(us / 1000)
  local i = redis.call('HMGET', KEYS[1], '_i', '_x')
  deadline = math.max(deadline, math.min(now + i[1], tonumber(i[2])))
  redis.call('HSET', KEYS[1], '_l', now, '_d', deadline)
  -- An ended session stays for 5 min, so that its end can be told with its user.
  redis.call('PEXPIREAT', KEYS[1], deadline + 300000)
end
if h[1] == ARGV[1] then return {0, us, deadline} end
if #ARGV == 2 then return {1, us, redis.call('HGETALL', KEYS[1])} end
return {2, us, redis.call('HMGET', KEYS[1], '_v', '_c', '_l', '_i', '_d', '_x', '_u', '_t', '_e', '_b', unpack(ARGV, 3))}
