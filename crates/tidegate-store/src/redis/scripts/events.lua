-- Events for one member of a group: first what another left unacknowledged, then what nobody had.
-- KEYS: streams of ends
-- ARGV: group, member, most of each stream, ms after which an event counts as left
local group, member, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local told, count, failure = {}, 0, nil
for i, stream in ipairs(KEYS) do
  local events = {}
  if redis.call('EXISTS', stream) == 1 then
    local found = redis.pcall('XAUTOCLAIM', stream, group, member, ARGV[4], '0-0', 'COUNT', most)
    if found.err then
      -- There is no such group yet; it begins with the oldest event. Anything else fails here again.
      local made = redis.pcall('XGROUP', 'CREATE', stream, group, '0')
      if made.err then failure = made end
    else
      events = found[2]
    end
    if #events < most then
      local new = redis.pcall('XREADGROUP', 'GROUP', group, member, 'COUNT', most - #events, 'STREAMS', stream, '>')
      if new and new.err then failure = failure or new
      elseif new then
        for _, event in ipairs(new[1][2]) do events[#events + 1] = event end
      end
    end
  end
  told[i], count = events, count + #events
end
-- Whoever was given an event is waited for, so what some streams gave is not withheld for others.
if failure and count == 0 then return failure end
return told
