-- Carries units in use that a node knows of to a store that may have lost them: before the step, of each limiter the
-- state stays that admits less, the stored state or the state of these units. Doing it again changes nothing.
--
-- ARGV[tail + 4] has the units, limiter by limiter: the number of its key, when they were reported, 1 if this server
-- reported them and was not known to lack them, or else 0, the time of the last unit, when they count as taken, and
-- an argument with these units as its cost. Units that were reported before a reset, or before the clock stepped back, are
-- left out. A stored state whose last unit is as new has lost none: units came back since. Of a store that is known to
-- have lost data no state is as new. A server that reported the units itself keeps each state that it has, unless it lacks
-- another state that still counts. If it lacks none, it has lost nothing: all units of a missing key came back. The reply
-- comes with the numbers of the keys whose state was replaced.

local carried, replaced, place, states = ARGV[tail + 4], {}, 1, {}
-- A store without memory writes no new state.
if ARGV[tail + 3] == 'full' then carried = '' end

-- The use of a state: the units in use, parts of them, and when the last of them leaves; then the time of the last
-- unit.
local function use_of(its, key, v, arg, how)
  local _, left, last, part = its.step(key, v, arg, now, 'used', true, how)
  local _, _, _, _, _, gone = its.step(key, v, arg, now, 'look', false, 'in place')
  return {left, part or 0, gone}, last
end

local function is_more(one, other)
  for i = 1, 3 do
    if one[i] ~= other[i] then return one[i] > other[i] end
  end
  return false
end

-- The time before which units come back no more (bar.lua).
local function bar_of(key)
  local name, bar = string.find(key, '{', 1, true) and key .. '?taken' or key .. '{' .. key .. '}?taken', 0
  local noted = call('GET', name) or ''
  for i = 1, #noted, 16 do
    local limit, time = struct.unpack('<dd', noted, i)
    if limit < 0 then bar = math.max(bar, time) end
  end
  return bar
end

local function stored(key, its)
  if its.front then
    local v = call('GETRANGE', key, '0', its.front)
    return v ~= '' and v
  end
  return (its.fetch or function() return call('GET', key) end)(key)
end

local function keep(k, one)
  local key, its, head, v = keys[k], one.its, string.sub(one[1].arg, 1, 33), one.v
  -- A state under other values is newer, or is changed with the step.
  if v and string.sub(v, 1, 22) ~= string.sub(head, 1, 22) then return end
  local text, gone, use, arg = false, 0, {0, 0, 0}, one[1].arg
  for i = 1, #one do
    local since, its_arg = one[i].since, one[i].arg
    if its.write then
      -- Such a state is no text: units leave a window after the end of the tick in which they were taken.
      local units, W, _, tick = struct.unpack('<dddd', its_arg, 34)
      gone = since + tick - 1 - since % tick + W
      if gone > now then use = {use[1] + units, 0, gone} end
    else
      local _, _, _, _, value, ends = its.step(key, text, its_arg, since, 'charge', false, 'in place')
      text, gone = head .. value, ends
    end
  end
  if text then use = use_of(its, key, text, arg, 'in place') end
  if use[1] == 0 and use[2] == 0 then return end
  if v then
    local stored, last = use_of(its, key, v, arg)
    if last >= one.last or not is_more(use, stored) then return end
  end
  replaced[#replaced + 1] = k
  call('DEL', key)
  if its.write then
    v = false
    for i = 1, #one do
      local _, _, _, _, value, _, _, parts = its.step(key, v, one[i].arg, one[i].since, 'take', false, false)
      its.write(key, v, head, value, parts)
      v = its.fetch(key)
    end
    if not given then call('PEXPIREAT', key, string.format('%d', (gone + 999) / 1000)) end
  elseif given or gone > 9007199254740991 then
    call('SET', key, text)
  else
    call('SET', key, text, 'PXAT', string.format('%d', (gone + 999) / 1000))
  end
end

while place <= #carried do
  local k, reported, own, last, since, arg
  k, reported, own, last, since, arg, place = struct.unpack('<I4ddddI4c0', carried, place)
  local one = states[k] or {its = algorithms and algorithms[string.byte(arg, 2)], bar = bar_of(keys[k])}
  one.last, one.own = last, own == 1
  one.its = one.its or {step = step, fetch = fetch, front = front, write = write}
  if reported >= one.bar then one[#one + 1] = {since = since, arg = arg} end
  states[k] = one
end
-- First the states that are missing: they show if the server has lost any.
local has_lost = false
for k, one in pairs(states) do
  local before = #replaced
  one.v = one[1] and stored(keys[k], one.its)
  if one[1] and not one.v then keep(k, one) end
  has_lost = has_lost or one.own and #replaced > before
end
for k, one in pairs(states) do
  if one.v and (has_lost or not one.own) then keep(k, one) end
end

local before = finish
function finish(reply)
  -- A reply of nothing would end the table.
  return {before and before(reply) or reply or false, replaced}
end
