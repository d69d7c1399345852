local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local LAST, NEVER = 9007199254740991, 9007199254740992
-- What stands for a revision where there is none: it is earlier than all.
local NONE = string.rep('\0', 11)

local rep = string.rep

local digits = string.format

-- Of a revision and that of what is stored the later one, and whether it is the former.
local function latest(stamp, v)
  local word, time = unpack('<I4I7', stamp)
  local word2, time2 = unpack('<I4I7', v, 23)
  if word > word2 or (word == word2 and time > time2) then return stamp, true end
  return sub(v, 23, 33), false
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local key, arg = KEYS[1], ARGV[1]
local moved, full, replaced, amended, expires = false, false, false, false, -1
local newer = false
local head, stamp, cost, W, N, tick, most = unpack('<c22c11ddddd', arg)

local v = call('GETRANGE', key, '0', '236')
if v == '' then v = false end

if v and sub(v, 1, 22) ~= head then
return {sub(v, 1, 33), ''}
elseif v and sub(v, 23, 33) ~= stamp then
stamp, newer = latest(stamp, v)
end
local base, last, newest, first, entries, slots, forgotten, held =
  unpack('<dddI4I4I4I4I4', v or rep('\0', 77), v and #v > 236 and 114 or 34)
if not v then base = now end
-- The text to be written: everything behind the numbers; or else what has changed of the newest eight, all
-- but the newest, and of the oldest. And where the newest eight go into the ring.
local whole, newest_seven, oldest_eight, full_eight
-- When what is stored expires.
if held > 0 then expires = base + newest end
-- What an entry says: when it leaves since the base, and the units held through it. Functions name
-- everything they use, for what they would close over costs time at every call.
local function look(call, digits, unpack, key, v, first, entries, slots, forgotten, index)
  local leaves, total
  if slots == 0 then
    leaves, total = unpack('<I6I4', v, 78 + 10 * index)
  elseif entries - index <= 8 then
    leaves, total = unpack('<I6I4', v, 114 - 10 * (entries - index))
  elseif first % 8 + index < 8 then
    leaves, total = unpack('<I6I4', v, 158 + 10 * (first % 8 + index))
  else
    local offset = 237 + 10 * ((first + index) % slots)
    local entry = call('GETRANGE', key, digits('%d', offset), digits('%d', offset + 9))
    leaves, total = unpack('<I6I4', entry)
  end
  return leaves, (total - forgotten) % 4294967296
end
-- The index of the entry that holds the nth oldest unit: it is one of the first n.
local function find(call, digits, unpack, key, v, first, entries, slots, forgotten, look, nth)
  local low, high = 0, entries - 1
  if nth - 1 < high then high = nth - 1 end
  while low < high do
    local middle = low + (high - low - (high - low) % 2) / 2
    local _, through =
      look(call, digits, unpack, key, v, first, entries, slots, forgotten, middle)
    if through >= nth then high = middle else low = middle + 1 end
  end
  return low
end
-- When the oldest leaves, and its units; and the units through the second, where both are read at once.
local oldest, oldest_units, second, second_units
if slots > 0 and entries > 9 and first % 8 < 7 then
  oldest, oldest_units, second, second_units = unpack('<I6I4I6I4', v, 158 + first % 8 * 10)
  oldest_units = (oldest_units - forgotten) % 4294967296
  second_units = (second_units - forgotten) % 4294967296
elseif entries > 0 then
  oldest, oldest_units = look(call, digits, unpack, key, v, first, entries, slots, forgotten, 0)
end

local at = now
if now < last then
  if last - now <= W then
    at = last
  else
base = base - (last - now)

    last, moved = now, true
  end
end
-- What has left: looked for from the oldest on in steps that double, then by halves; not beyond the oldest
-- eight before all of those have left. For figures; a verdict does without.
local since_base, left_units, left_entries = at - base, 0, 0
if full and entries > 0 and oldest <= since_base then
  if newest <= since_base then
    left_units, left_entries = held, entries
  else
    left_units, left_entries = oldest_units, 1
    local high, step = entries - 1, 1
    if second and second <= since_base then
      left_units, left_entries, step = second_units, 2, 2
    elseif second then
      high = 1
    end
    while left_entries < high do
      local probe = left_entries + step - 1
      if step == 0 then
        probe = left_entries + (high - left_entries - (high - left_entries) % 2) / 2
      elseif probe >= high then
        probe = high - 1
      end
      if left_entries < 8 - first % 8 and probe > 7 - first % 8 then probe = 7 - first % 8 end
      local leaves, through =
        look(call, digits, unpack, key, v, first, entries, slots, forgotten, probe)
      if leaves <= since_base then
        left_entries, left_units, step = probe + 1, through, probe + 1
      else
        high, step = probe, 0
      end
    end
  end
end

local verdict = 0
if cost > 0 then
if cost > N then
  verdict = 2
elseif full then
  if held - left_units + cost > N then verdict = 1 end
elseif held + cost > N then
  -- Admitted when the unit that must make room has left; then all of its entry has.
  local over, leaves, through = held + cost - N, oldest
  if over > 1 then
    left_entries =
      find(call, digits, unpack, key, v, first, entries, slots, forgotten, look, over)
    leaves, through =
      look(call, digits, unpack, key, v, first, entries, slots, forgotten, left_entries)
  else
    through = oldest_units
  end
  if leaves > since_base then
    verdict, left_entries = 1, 0
  else
    left_entries, left_units = left_entries + 1, through
  end
end

end
local takes = verdict == 0 and cost > 0
if takes then
if not full and left_entries < entries then
  local leaves, through = oldest, oldest_units
  if left_entries == 1 and second then
    leaves, through = second, second_units
  elseif left_entries > 0 then
    leaves, through =
      look(call, digits, unpack, key, v, first, entries, slots, forgotten, left_entries)
  end
  if leaves <= since_base then left_entries, left_units = left_entries + 1, through end
end
local kept, leaves = entries - left_entries, at + tick - 1 - at % tick + W
local before, replaces = held - left_units, false
if kept == 0 then
  base, forgotten, newest = at, 0, leaves - at
else
  forgotten = (forgotten + left_units) % 4294967296
  leaves = leaves - base
  if leaves < newest then leaves = newest end
  replaces = leaves == newest
  newest = leaves
end
held, last = before + cost, at
if held > 4294967295 then
  held = 4294967295
  replaces = replaces or held == before
end
local older = kept
if replaces then older = kept - 1 end
local few = kept <= 8 or (slots == 0 and kept < 15)
if few or slots == 0 or older >= slots or newest >= 281474976710656 then
  -- The entries that stay, in one text: all of the few; or those of the ring, then the newest.
  whole = ''
  if slots > 0 then
    local slot, count, of_newest = first + left_entries, kept - 8, 8
    if kept < 8 then of_newest = kept end
    while count > 0 do
      slot = slot % slots
      local fits = count
      if slot + count > slots then fits = slots - slot end
      local from = 237 + 10 * slot
      local piece = call('GETRANGE', key, digits('%d', from), digits('%d', from + 10 * fits - 1))
      whole, slot, count = whole .. piece, slot + fits, count - fits
    end
    whole = whole .. sub(v, 114 - 10 * of_newest, 113 - 10 * (kept - older))
  elseif v then
    whole = sub(v, 78 + 10 * left_entries, 77 + 10 * (left_entries + older))
  end
  -- A ring of some size grows fourfold, and is there as a whole; a large one grows at its end.
  first, slots = 0, 4 * older
  if slots > most or slots > 4096 then slots = most end
  if slots <= older then slots = 2 * older end
  slots = slots + 7 - (slots + 7) % 8
  if few then slots = 0 end
end
if newest >= 281474976710656 then
  -- After nearly nine years without a pause the entries are counted from a later base.
  local later = {}
  for at_byte = 1, #whole, 10 do
    local entry_leaves, total = unpack('<I6I4', whole, at_byte)
    entry_leaves = entry_leaves - since_base
    if entry_leaves < 0 then entry_leaves = 0 end
    later[#later + 1] = pack('<I6I4', entry_leaves, total)
  end
  whole, base, newest = table.concat(later), at, newest - since_base
end
entries = older + 1
if whole then
  local before_ring = ''
  if slots > 0 then before_ring, newest_seven = sub(whole, 1, 80), sub(whole, -70) end
  whole = before_ring .. whole .. pack('<I6I4', newest, (forgotten + held) % 4294967296)
  if slots > 0 and slots <= 4096 then whole = whole .. rep('\0', 10 * (slots - entries)) end
else
  local first_before = first
  first = (first + left_entries) % slots
  if first - first % 8 ~= first_before - first_before % 8 then
    local from = 237 + 10 * (first - first % 8)
    oldest_eight = call('GETRANGE', key, digits('%d', from), digits('%d', from + 79))
  end
  if not replaces then newest_seven = sub(v, 44, 113) end
  local slot = (first + older) % slots
  if slot % 8 == 7 then full_eight = slot - 7 end
end
left_units, left_entries = 0, 0

end
local value, gone, told
if takes or moved or not v then
if slots == 0 then
  value = pack('<dddI4I4I4I4I4', base, last, newest, first, entries, slots, forgotten, held)
else
  value = pack('<c70I6I4dddI4I4I4I4I4', newest_seven or sub(v, 34, 103), newest,
    (forgotten + held) % 4294967296, base, last, newest, first, entries, slots, forgotten, held)
end
gone = 0
if held > 0 then gone = base + newest end
if replaced and not whole then whole = sub(v, 78) end
local behind = whole or oldest_eight
if behind then value = value .. behind end

end
if (takes or moved) then
if (not whole) and gone > at then
if full_eight then
  call('SETRANGE', key, digits('%d', 237 + 10 * full_eight), sub(value, 1, 80))
end

if amended then
  call('SETRANGE', key, '0', head .. stamp)
elseif newer then
  call('SETRANGE', key, '22', stamp)
end
call('SETRANGE', key, '33', value)

local ms, ms_before = gone + 999, expires + 999
ms = ms - ms % 1000
if amended or ms ~= ms_before - ms_before % 1000 then
  ms = digits('%d', ms / 1000)
  if redis.pcall('PEXPIREAT', key, ms) ~= 1 then
    if not v then call('DEL', key) end
    call('PEXPIREAT', key, ms)
  end
end

else
if gone <= at then
  call('DEL', key)
elseif gone > LAST then
  call('SET', key, head .. stamp .. value)
else
  local ms = gone + 999
  ms = digits('%d', (ms - ms % 1000) / 1000)
  call('SET', key, head .. stamp .. value, 'PXAT', ms)
end

end
end
told = ''
if verdict == 0 then return at end
return -1 - at
