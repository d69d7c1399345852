-- Sliding log: an entry of ten bytes for the units of one tick, oldest first: when they count no more,
-- since `base`, and how many units there ever were through them, both of which may be far in the past.
-- Few entries lie one behind the other; many lie in a ring of `slots`, of which only the entry that is
-- added and the header are written.
--
-- `v` is the beginning of what is stored: the header at least. Each byte that is read costs the store time,
-- and so does each text that is made, each number that is written out, and each step of this script.

-- @rule
local head, cost, W, N, tick, most = unpack('<c22ddddd', arg)

-- @fetch
-- The header; and all entries where there can never be more than fit into `near`.
local v = call('GETRANGE', key, '0', most < 16 and '225' or '65')
if v == '' then v = false end

-- @load
local base, last, newest, first, entries, slots, forgotten, held =
  unpack('<dddI4I4I4I4I4', v or rep('\0', 66), 23)
if not v then base = now end
-- The text to be written: everything behind the header, or a part of the ring and its first slot.
local whole, part, part_slot
-- When what is stored expires.
if held > 0 then expires = base + newest end
-- Some of what is stored, and where it begins: the entries that are looked at first are there. And when the
-- oldest leaves, with the total through it.
local near, near_from, oldest, oldest_total = v, 0
if slots > 0 then
  near_from = 66 + 10 * first
  near = call('GETRANGE', key, digits('%d', near_from), digits('%d', near_from + 39))
elseif entries > 0 and #v < 66 + 10 * entries then
  near, near_from = call('GETRANGE', key, '66', '225'), 66
end
if entries > 0 then
  oldest, oldest_total = unpack('<I6I4', near, 67 + 10 * first - near_from)
end
-- What an entry says: when it leaves since the base, and the units held through it. Functions name
-- everything they use, for what they would close over costs time at every call.
local function look(call, digits, unpack, key, near, near_from, slot, slots, forgotten)
  if slots > 0 and slot >= slots then slot = slot - slots end
  local offset, leaves, total = 66 + 10 * slot
  if offset >= near_from and offset + 10 <= near_from + #near then
    leaves, total = unpack('<I6I4', near, offset - near_from + 1)
  else
    local entry = call('GETRANGE', key, digits('%d', offset), digits('%d', offset + 9))
    leaves, total = unpack('<I6I4', entry)
  end
  return leaves, (total - forgotten) % 4294967296
end
-- The index of the entry that holds the nth oldest unit: it is one of the first n.
local function find(
  look, call, digits, unpack, key, near, near_from, first, slots, forgotten, entries, nth)
  local low, high = 0, entries - 1
  if nth - 1 < high then high = nth - 1 end
  while low < high do
    local middle = low + (high - low - (high - low) % 2) / 2
    local _, through =
      look(call, digits, unpack, key, near, near_from, first + middle, slots, forgotten)
    if through >= nth then high = middle else low = middle + 1 end
  end
  return low
end

-- @rewind
base = base - (last - now)

-- @view
-- What has left: looked for from the oldest on in steps that double, then by halves. For figures; a
-- verdict does without.
local since_base, left_units, left_entries = at - base, 0, 0
if full and entries > 0 and oldest <= since_base then
  if newest <= since_base then
    left_units, left_entries = held, entries
  else
    left_units, left_entries = (oldest_total - forgotten) % 4294967296, 1
    local high, step = entries - 1, 1
    while left_entries < high do
      local probe = left_entries + step - 1
      if step == 0 then
        probe = left_entries + (high - left_entries - (high - left_entries) % 2) / 2
      elseif probe >= high then
        probe = high - 1
      end
      local leaves, through =
        look(call, digits, unpack, key, near, near_from, first + probe, slots, forgotten)
      if leaves <= since_base then
        left_entries, left_units, step = probe + 1, through, probe + 1
      else
        high, step = probe, 0
      end
    end
  end
end

-- @decide
if cost > N then
  verdict = 2
elseif full then
  if held - left_units + cost > N then verdict = 1 end
elseif held + cost > N then
  -- Admitted when the unit that must make room has left; then all of its entry has.
  local over, leaves, through = held + cost - N, oldest
  if over > 1 then
    left_entries = find(look, call, digits, unpack, key, near, near_from, first, slots, forgotten,
      entries, over)
    leaves, through = look(call, digits, unpack, key, near, near_from, first + left_entries, slots,
      forgotten)
  else
    through = (oldest_total - forgotten) % 4294967296
  end
  if leaves > since_base then
    verdict, left_entries = 1, 0
  else
    left_entries, left_units = left_entries + 1, through
  end
end

-- @take
if not full and left_entries < entries then
  local leaves, through = oldest, (oldest_total - forgotten) % 4294967296
  if left_entries > 0 then
    leaves, through =
      look(call, digits, unpack, key, near, near_from, first + left_entries, slots, forgotten)
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
local few = kept <= 8 or (slots == 0 and kept < 16)
if few or slots == 0 or older >= slots or newest >= 281474976710656 then
  -- The entries that stay, in one text.
  whole = ''
  local slot, count = first + left_entries, older
  if slots == 0 and v then
    local from = 67 + 10 * slot - near_from
    whole = sub(near, from, from + 10 * count - 1)
    count = 0
  end
  while count > 0 do
    local fits = count
    if slot >= slots then slot = slot - slots end
    if slot + count > slots then fits = slots - slot end
    local from = 66 + 10 * slot
    local piece = call('GETRANGE', key, digits('%d', from), digits('%d', from + 10 * fits - 1))
    whole, slot, count = whole .. piece, slot + fits, count - fits
  end
  -- A ring of some size grows fourfold, and is there as a whole; a large one grows at its end.
  first, slots = 0, 4 * older
  if slots > most or slots > 4096 then slots = most end
  if slots <= older then slots = 2 * older end
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
local entry = pack('<I6I4', newest, (forgotten + held) % 4294967296)
entries = older + 1
if whole then
  whole = whole .. entry
  if slots > 0 and slots <= 4096 then whole = whole .. rep('\0', 10 * (slots - entries)) end
else
  first = (first + left_entries) % slots
  part, part_slot = entry, (first + older) % slots
end
left_units, left_entries = 0, 0

-- @undo
-- Units that have left are not given back to others.
if since + tick - 1 - since % tick + W <= at then cost = 0 end

-- @give_back
local back = held - left_units
if -cost < back then back = -cost end
if back > 0 then
  local index = entries
  if left_units + back < held then
    index = find(look, call, digits, unpack, key, near, near_from, first, slots, forgotten, entries,
      left_units + back + 1)
  end
  -- Those that have left are kept, for a clock that goes back a little: they move up over the entries
  -- that are emptied. Those that had left by the last unit count at no reading.
  local dropped_units, kept, moves = 0, 0, {}
  for older = left_entries - 1, 0, -1 do
    local leaves, through =
      look(call, digits, unpack, key, near, near_from, first + older, slots, forgotten)
    if leaves <= last - base or kept == 4096 then
      dropped_units = through
      break
    end
    kept = kept + 1
    moves[left_entries - older] = pack('<I6I4', leaves, (forgotten + through + back) % 4294967296)
    if index == entries and kept == 1 then newest = leaves end
  end
  for low = 1, (kept - kept % 2) / 2 do
    moves[low], moves[kept + 1 - low] = moves[kept + 1 - low], moves[low]
  end
  local moved_up = table.concat(moves)
  if slots == 0 then
    local from = 67 + 10 * (first + index) - near_from
    whole = moved_up .. sub(near, from, from + 10 * (entries - index) - 1)
    first = 0
  else
    first = (first + index - kept) % slots
    if kept > 0 then part, part_slot = moved_up, first end
  end
  entries = entries - index + kept
  held = held - back - dropped_units
  forgotten = (forgotten + dropped_units + back) % 4294967296
  left_units, left_entries = left_units - dropped_units, kept
  if entries == 0 then newest = 0 end
end

-- @keep
value = pack('<dddI4I4I4I4I4', base, last, newest, first, entries, slots, forgotten, held)
gone = 0
if held > 0 then gone = base + newest end
if replaced and not whole then whole = sub(v, 67) end
if whole then value = value .. whole end

-- @in_parts
not whole

-- @parts
if part and (part_slot * 10 + #part > slots * 10) then
  local fits = 10 * (slots - part_slot)
  call('SETRANGE', key, digits('%d', 66 + 10 * part_slot), sub(part, 1, fits))
  call('SETRANGE', key, '66', sub(part, fits + 1))
elseif part then
  call('SETRANGE', key, digits('%d', 66 + 10 * part_slot), part)
end
if amended then call('SETRANGE', key, '0', head) end
call('SETRANGE', key, '22', value)

-- @tell
local counted, over, over_leaves, newest_leaves = held - left_units, 0, 0, 0
if verdict == 1 then
  over = counted + cost - N
  local index = left_entries
  if over > 1 then
    index = find(look, call, digits, unpack, key, near, near_from, first, slots, forgotten, entries,
      left_units + over)
  end
  local leaves = look(call, digits, unpack, key, near, near_from, first + index, slots, forgotten)
  over_leaves = base + leaves
end
if entries > 0 then newest_leaves = base + newest end
told = pack('<ddddd', counted, over, over_leaves, newest_leaves, last)

-- @old
local cost, tick = 0, a

-- @used
used = held - left_units
nothing = N == 0 and used == 0
