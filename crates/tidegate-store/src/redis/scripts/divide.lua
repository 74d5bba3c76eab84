-- Keeps a node among those that divide limits, or lets it go, and says who is there. Also keeps the secret
-- that keys of limits are hashed with.
-- KEYS: those that divide
-- ARGV: who speaks, which membership it follows, its lease in microseconds or 0 when it leaves, most members, a
--       secret for a store that has none
-- Replies 0, the membership, its age in microseconds, the secret; then of each member four: who, since
-- which membership, which it follows, the microseconds left; or -2 when there are too many.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local match, format = string.match, string.format
local key, life, lease = KEYS[1], ARGV[1], ARGV[3] + 0
local h = redis.call('HMGET', key, 'began', 'epoch', 'secret')
local began, epoch, secret = (h[1] or now) + 0, (h[2] or now) + 0, h[3] or ARGV[5]

local members, own, changed = {}, nil, false
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
  local who = match(all[i], '^m(%d+)$')
  if who then
    local since, follows, till = match(all[i + 1], '^(%d+) (%d+) (%d+)$')
    local it = { who, since + 0, follows + 0, till + 0 }
    if it[4] <= now or (who == life and lease == 0) then
      redis.call('HDEL', key, all[i])
      changed = true
    else
      members[#members + 1] = it
      if who == life then own = it end
    end
  end
end
if lease > 0 and not own then
  if #members >= ARGV[4] + 0 then return { -2 } end
  own = { life }
  members[#members + 1], changed = own, true
end
if changed then epoch = math.max(epoch + 1, now) end
if lease > 0 then
  own[2], own[3], own[4] = own[2] or epoch, ARGV[2] + 0, now + lease
  redis.call('HSET', key, 'm' .. life, format('%.0f %.0f %.0f', own[2], own[3], own[4]))
end
redis.call('HSET', key, 'began', format('%.0f', began), 'epoch', format('%.0f', epoch), 'secret', secret)
-- It is to outlive a night without anybody; a day later it begins anew.
redis.call('PEXPIRE', key, 86400000)

local reply = { 0, epoch, now - began, secret }
for _, it in ipairs(members) do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = it[1], it[2], it[3], it[4] - now
end
return reply
