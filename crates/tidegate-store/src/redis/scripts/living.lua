-- The members whose lease is not over: for each the node, its incarnation, since when (us) and until
-- when (ms).
-- KEYS: members
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
local living = {}
for i = 1, #all, 2 do
  local incarnation, since, to = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
  if incarnation and now < tonumber(to) then
    for _, part in ipairs({all[i], incarnation, since, to}) do living[#living + 1] = part end
  end
end
return living
