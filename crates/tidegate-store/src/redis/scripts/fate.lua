-- What has become of a session, for whoever finds it due. Writes nothing.
-- KEYS: session, tombstone
local h = redis.call('HMGET', KEYS[1], '_d', '_u')
if h[1] then
  local t = redis.call('TIME')
  if t[1] * 1000 + math.floor(t[2] / 1000) < tonumber(h[1]) then return {1, h[1]} end
  return {2, h[2] or ''}
end
local x = redis.call('HMGET', KEYS[2], 'k', 'h', 'u', 'y')
if x[2] then return {4, x[2]} end
if x[1] then return {3, x[3] or '', x[4] or ''} end
return {-1}
