-- Events for one member of a group: first what another left unacknowledged, then what nobody had.
-- KEYS: stream of ends
-- ARGV: group, member, most, ms after which an event counts as left
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local found = redis.pcall('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[4], '0-0', 'COUNT', ARGV[3])
if found.err then
  -- There is no such group yet; it begins with the oldest event. Anything else fails here again.
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0')
  found = {'', {}}
end
local events = found[2]
if #events < tonumber(ARGV[3]) then
  local new = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3] - #events, 'STREAMS', KEYS[1], '>')
  if new then
    for _, event in ipairs(new[1][2]) do events[#events + 1] = event end
  end
end
return events
