-- What gateways and the leader of a room tell each other. What is for all is in the hash of the room: it is lost with whatever
-- else is known of it, or not at all.
-- KEYS: the room; its leader's lease; what gateways report
-- ARGV: the epoch that is meant; ms that the room is kept; who reports, and what; for how many ms a report counts, most
--       reports; 1 if they are wanted; the fence of a leader who says something to all, or nothing, and what; most notes; then
--       of each note three: its name, 1 if it is set or 0 if it is taken away, and what it says
-- Replies -1 and the epoch that the room is in; -2 and the fence of a later leader; -6 as there would be too many notes; or 0,
-- now, the fence of the last word, when it was said, the word (0, 0 and nothing where there is none), the notes, and the
-- reports: name and text by turns.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local room, lease, reports = KEYS[1], KEYS[2], KEYS[3]
local node, keep, most = ARGV[3], ARGV[5] + 0, ARGV[6] + 0
local fence = tonumber(ARGV[8])

local function digits(number) return string.format('%.0f', number) end

local h, notes, count = {}, {}, 0
local all = redis.call('HGETALL', room)
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'n:' then
    notes[string.sub(all[i], 3)], count = all[i + 1], count + 1
  else
    h[all[i]] = all[i + 1]
  end
end

if h.epoch and h.epoch + 0 ~= ARGV[1] + 0 then return { -1, h.epoch + 0 } end
for i = 11, #ARGV, 3 do
  local was, is = notes[ARGV[i]], nil
  if ARGV[i + 1] == '1' then is = ARGV[i + 2] end
  if is and not was then count = count + 1 end
  if was and not is then count = count - 1 end
  notes[ARGV[i]] = is
end
if count > ARGV[10] + 0 then return { -6 } end

if fence then
  local seen = (h.fence or 0) + 0
  local latest = math.max(seen, (redis.call('HGET', lease, 'fence') or 0) + 0)
  if fence < latest then return { -2, latest } end
  -- From now on no earlier leader is obeyed, whatever it asks.
  if fence > seen then redis.call('HSET', room, 'fence', digits(fence), 'tick', '0', 'called', '0') end
  h.word_fence, h.word_at, h.word = digits(fence), digits(now), ARGV[9]
  redis.call('HSET', room, 'word_fence', h.word_fence, 'word_at', h.word_at, 'word', h.word)
end
for i = 11, #ARGV, 3 do
  local name = 'n:' .. ARGV[i]
  if ARGV[i + 1] == '1' then
    redis.call('HSET', room, name, ARGV[i + 2])
  else
    redis.call('HDEL', room, name)
  end
end
redis.call('PEXPIRE', room, ARGV[2])

-- What counts of the reports, name and text by turns. The rest is forgotten.
local function fresh()
  local said, kept = redis.call('HGETALL', reports), {}
  for i = 1, #said, 2 do
    local at = string.match(said[i + 1], '^%d+')
    if math.abs(now - at) < keep then
      kept[#kept + 1], kept[#kept + 2] = said[i], string.sub(said[i + 1], #at + 2)
    else
      redis.call('HDEL', reports, said[i])
    end
  end
  return kept
end

if redis.call('HLEN', reports) >= most then fresh() end
if redis.call('HLEN', reports) < most or redis.call('HEXISTS', reports, node) == 1 then
  redis.call('HSET', reports, node, digits(now) .. ' ' .. ARGV[4])
end
-- Which of them count is decided above: this is for when nobody is there any more.
redis.call('PEXPIRE', reports, digits(10 * keep))

local said = {}
for name, text in pairs(notes) do said[#said + 1], said[#said + 2] = name, text end
local word = { (h.word_fence or 0) + 0, (h.word_at or 0) + 0, h.word or '' }
return { 0, now, word[1], word[2], word[3], said, ARGV[7] == '1' and fresh() or {} }
