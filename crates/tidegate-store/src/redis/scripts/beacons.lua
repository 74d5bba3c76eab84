-- Every beacon that counts, with what operators ordered; takes out what is past.
-- KEYS: beacons, orders
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local living = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local life, at, to, from = string.match(all[i + 1], '^(%d+) (%d+) (%d+) ()')
  if life and now < tonumber(to) then
    for _, part in ipairs({all[i], life, at, string.sub(all[i + 1], from)}) do living[#living + 1] = part end
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
local ordered = {}
local orders = redis.call('HGETALL', KEYS[2])
for i = 1, #orders, 2 do
  local since, to, from = string.match(orders[i + 1], '^(%d+) (%d+) ()')
  -- Until 0 is until it is taken back.
  if since and (to == '0' or now < tonumber(to)) then
    for _, part in ipairs({orders[i], since, to, string.sub(orders[i + 1], from)}) do ordered[#ordered + 1] = part end
  else
    redis.call('HDEL', KEYS[2], orders[i])
  end
end
return {us, living, ordered}
