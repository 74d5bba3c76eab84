-- Makes all changes or none: everything is validated before the first write.
-- KEYS: session, tombstone
-- ARGV: writer ('' for none), its number of this patch, ms after which nobody wants it ('' never),
--       ceilings of a value, of the session, and of the count, then four for each change: S(et),
--       D(elete), I(ncrement) or (ma)X, name, value, version expected ('*' any, '0' not there,
--       '<' and a version: see below)
local NUMBERS, WRITERS, KEPT_MS = 16, 16, 60000
local session = KEYS[1]

local fields = {'_v', '_d', '_b', '_k', '_s'}
for i = 7, #ARGV, 4 do
  fields[#fields + 1] = 'a:' .. ARGV[i + 1]
  fields[#fields + 1] = 'n:' .. ARGV[i + 1]
end
local h = redis.call('HMGET', session, unpack(fields))
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
if not h[1] or now >= tonumber(h[2]) then
  local x = redis.call('HMGET', KEYS[2], 'k', 'n', 't')
  if not x[1] or (x[3] and now >= tonumber(x[3])) then return {-1} end
  return {-3, x[1], x[2] or ''}
end

-- Numbers of this writer that were applied. Not the highest alone: of two patches under way the
-- later may arrive first.
local writer, number, seen, mine = ARGV[1], tonumber(ARGV[2]), h[5] or '', nil
if writer ~= '' then
  local _, to = string.find(';' .. seen, ';' .. writer .. '=', 1, true)
  if to then
    mine = {}
    for applied in string.gmatch(string.match(seen, '^%d+:([%d,]*)', to), '%d+') do
      applied = tonumber(applied)
      if applied == number then return {3, h[1]} end
      mine[#mine + 1] = applied
    end
    table.sort(mine)
    if #mine >= NUMBERS and number < mine[1] then return {-6} end
  end
end
if ARGV[3] ~= '' and now > tonumber(ARGV[3]) then return {-7} end

-- Counters have 64 bits and Lua's numbers 53: a counter is two parts here, each with its sign, of
-- which the lower has nine digits.
local function split(text)
  local sign, digits = 1, text
  if string.sub(text, 1, 1) == '-' then sign, digits = -1, string.sub(text, 2) end
  if #digits <= 9 then return 0, sign * digits end
  return sign * string.sub(digits, 1, -10), sign * string.sub(digits, -9)
end
local function sum(high, low, by)
  local by_high, by_low = split(by)
  high, low = high + by_high, low + by_low
  if low >= 1e9 then high, low = high + 1, low - 1e9 end
  if low <= -1e9 then high, low = high - 1, low + 1e9 end
  if high > 0 and low < 0 then high, low = high - 1, low + 1e9 end
  if high < 0 and low > 0 then high, low = high + 1, low - 1e9 end
  local over = high > 9223372036 or (high == 9223372036 and low > 854775807)
  local under = high < -9223372036 or (high == -9223372036 and low < -854775808)
  if not over and not under then return high, low end
end
local function text(high, low)
  if high == 0 then return string.format('%.0f', low) end
  return string.format('%.0f%09.0f', high, math.abs(low))
end

-- What is there by name, and what each name comes to: '-' nothing, 'a' an attribute, 'n' a counter.
local names, attribute, counter = {}, {}, {}
local kind, value, stamp, high, low = {}, {}, {}, {}, {}
local conflicts, differs = {-2, h[1]}, {}
for i = 7, #ARGV, 4 do
  local op, name, new, expected = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local was = h[(i + 5) / 2]
  -- A patch that is done again says '<' and the version that it had, and has it again: what was
  -- written since stays, and the next one that is done again finds what it followed.
  local again = string.match(expected, '^<(.*)')
  if not again or not was or string.sub(was, 1, 16) <= again then
    if again then stamp[name], expected = again, '*' end
    if not kind[name] then
      names[#names + 1] = name
      -- The fields of change n, from 0 on, are the (6 + 2n)th and the next; i is 7 + 4n.
      attribute[name], counter[name] = h[(i + 5) / 2], h[(i + 7) / 2]
      kind[name] = counter[name] and 'n' or attribute[name] and 'a' or '-'
      if counter[name] then high[name], low[name] = split(counter[name]) end
    end
    if op == 'S' then
      if #new - 2 > tonumber(ARGV[4]) then return {-4, name, #new - 2, ARGV[4]} end
      kind[name], value[name] = 'a', new
    elseif op == 'D' then
      kind[name] = '-'
    else
      if kind[name] == 'a' then return {-9, name} end
      if op == 'I' then
        if kind[name] == '-' then high[name], low[name] = 0, 0 end
        high[name], low[name] = sum(high[name], low[name], new)
        if not high[name] then return {-8, name} end
      else
        local to_high, to_low = split(new)
        if kind[name] == '-' or high[name] < to_high or (high[name] == to_high and low[name] < to_low) then
          high[name], low[name] = to_high, to_low
        end
      end
      kind[name] = 'n'
    end
    -- What is expected is what was there before the patch, whatever its other changes do.
    if expected ~= '*' then
      local there = counter[name] and '' or attribute[name] and string.sub(attribute[name], 1, 16) or '0'
      if there ~= expected and not differs[name] then
        differs[name] = true
        conflicts[#conflicts + 1] = name
        conflicts[#conflicts + 1] = counter[name] and '0000000000000000i:' .. counter[name] or attribute[name]
      end
    end
  end
end
if #conflicts > 2 then return conflicts end

-- An attribute counts its name, its value and 16; a counter its name and 20. A stored value has 18
-- bytes before it, one that comes has 2.
local bytes_before, count_before = tonumber(h[3] or 0), tonumber(h[4] or 0)
local bytes, count = bytes_before, count_before
for _, name in ipairs(names) do
  if counter[name] then bytes, count = bytes - #name - 20, count - 1
  elseif attribute[name] then bytes, count = bytes - #name - #attribute[name] + 2, count - 1 end
  if kind[name] == 'n' then bytes, count = bytes + #name + 20, count + 1
  elseif kind[name] == 'a' then bytes, count = bytes + #name + #value[name] + 14, count + 1 end
end
if bytes > tonumber(ARGV[5]) and bytes > bytes_before then return {-4, '', bytes, ARGV[5]} end
if count > tonumber(ARGV[6]) and count > count_before then return {-4, '', count, ARGV[6]} end

-- From here on nothing is refused.
local version = string.format('%016.0f', math.max(h[1] + 1, us))
local reply = {0, us, h[1], version}
local set, delete = {'_v', version, '_b', bytes, '_k', count}, {}
for _, name in ipairs(names) do
  if kind[name] == 'a' then
    set[#set + 1] = 'a:' .. name
    set[#set + 1] = (stamp[name] or version) .. value[name]
  elseif kind[name] == 'n' then
    local now_is = text(high[name], low[name])
    set[#set + 1] = 'n:' .. name
    set[#set + 1] = now_is
    reply[#reply + 1] = name
    reply[#reply + 1] = now_is
  end
  if attribute[name] and kind[name] ~= 'a' then delete[#delete + 1] = 'a:' .. name end
  if counter[name] and kind[name] ~= 'n' then delete[#delete + 1] = 'n:' .. name end
end

if writer ~= '' then
  local entries = {}
  for who, at, numbers in string.gmatch(seen, '([^=;]+)=(%d+):([%d,]*)') do
    at = tonumber(at)
    -- Others are forgotten only when a writer comes along, and only those that are long silent.
    if who ~= writer and (mine or now - at < KEPT_MS) then
      entries[#entries + 1] = {at, who .. '=' .. string.format('%.0f', at) .. ':' .. numbers}
    end
  end
  if not mine then
    mine = {}
    table.sort(entries, function(one, other) return one[1] < other[1] end)
    while #entries >= WRITERS do table.remove(entries, 1) end
  end
  mine[#mine + 1] = number
  table.sort(mine)
  if #mine > NUMBERS then table.remove(mine, 1) end
  for i, applied in ipairs(mine) do mine[i] = string.format('%.0f', applied) end
  local parts = {writer .. '=' .. string.format('%.0f', now) .. ':' .. table.concat(mine, ',')}
  for _, entry in ipairs(entries) do parts[#parts + 1] = entry[2] end
  set[#set + 1] = '_s'
  set[#set + 1] = table.concat(parts, ';')
end
redis.call('HSET', session, unpack(set))
if #delete > 0 then redis.call('HDEL', session, unpack(delete)) end
return reply
