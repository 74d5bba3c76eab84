-- Validates a session, slides its idle time now and then, and returns what is wanted of it unless
-- the caller knows it. Most calls write nothing: this one is on the way of every request.
-- KEYS: session, tombstone
-- ARGV: version that the caller knows, ms after which a touch is written ('' never), ms that an
--       ended session is kept, then the fields wanted; none for all
local h = redis.call('HMGET', KEYS[1], '_v', '_d', '_l', '_i', '_x')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local deadline = tonumber(h[2])
if not deadline or now >= deadline then
  local x = redis.call('HMGET', KEYS[2], 'k', 'n', 't')
  if not x[1] or (x[3] and now >= tonumber(x[3])) then return {-1} end
  return {-3, x[1], x[2] or ''}
end
if ARGV[2] ~= '' and now > tonumber(h[3]) and now - h[3] >= tonumber(ARGV[2]) then
  deadline = math.max(deadline, math.min(now + h[4], tonumber(h[5])))
  redis.call('HSET', KEYS[1], '_l', now, '_d', deadline)
  redis.call('PEXPIREAT', KEYS[1], deadline + ARGV[3])
end
if h[1] == ARGV[1] then return {0, t[1] * 1000000 + t[2], deadline} end
if #ARGV == 3 then
  return {1, t[1] * 1000000 + t[2], redis.call('HGETALL', KEYS[1])}
end
return {2, t[1] * 1000000 + t[2], redis.call('HMGET', KEYS[1], '_v', '_c', '_l', '_i', '_d', '_x', '_u', '_t', '_e', '_b', unpack(ARGV, 4))}
