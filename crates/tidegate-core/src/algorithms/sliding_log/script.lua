-- Sliding log: one entry of ten bytes for the units of one tick, oldest first. An entry holds the time when
-- its units leave, since `base`, and the total of all units ever taken through it, modulo 2^32.
--
-- Few entries follow the header directly. Many are in a ring of `slots`, in blocks of eight. In front of the
-- ring is everything that most decisions need, so that they read once and write once. The bytes of the
-- value, counted from 1, after the head (1 to 22) and the revision (23 to 33) of every stored state:
--
--   few entries            many entries
--   34  the header         34   the newest eight entries (the ring lacks the last, unfinished block)
--   78  the entries        114  the header
--                          158  a copy of the block that holds the oldest entry
--                          238  the ring
--
-- `v` is the part in front of the ring. Each call of the store takes some thousands of instructions, and so
-- does each string that is made and each number that is formatted.

-- The time when an entry leaves, since the base, and the units held through it. Every captured
-- local costs time in every call, so these functions take what they use as arguments.
local function look(key, v, first, entries, slots, forgotten, index)
  local leaves, total
  if slots == 0 then
    leaves, total = struct.unpack('<I6I4', v, 78 + 10 * index)
  elseif entries - index <= 8 then
    leaves, total = struct.unpack('<I6I4', v, 114 - 10 * (entries - index))
  elseif first % 8 + index < 8 then
    leaves, total = struct.unpack('<I6I4', v, 158 + 10 * (first % 8 + index))
  else
    local offset = 237 + 10 * ((first + index) % slots)
    local from, to = string.format('%d', offset), string.format('%d', offset + 9)
    local entry = redis.call('GETRANGE', key, from, to)
    leaves, total = struct.unpack('<I6I4', entry)
  end
  return leaves, (total - forgotten) % 4294967296
end
-- The index of the entry that holds the nth oldest unit; it is one of the first n.
local function find(key, v, first, entries, slots, forgotten, nth)
  local low, high = 0, entries - 1
  if nth - 1 < high then high = nth - 1 end
  while low < high do
    local middle = low + (high - low - (high - low) % 2) / 2
    local _, through = look(key, v, first, entries, slots, forgotten, middle)
    if through >= nth then high = middle else low = middle + 1 end
  end
  return low
end

local function sliding_log(key, v, arg, now, verb, full, amended, taken)
  local call, digits, unpack, pack, sub =
    redis.call, string.format, struct.unpack, struct.pack, string.sub

  -- decode
  local cost, W, N, tick, most = unpack('<ddddd', arg, 34)
  -- A front of 237 bytes belongs to a ring, and has the header after its newest eight entries.
  local base, last, newest, first, entries, slots, forgotten, held =
    unpack('<dddI4I4I4I4I4', v or string.rep('\0', 77), v and #v > 236 and 114 or 34)
  if not v then base = now end
  -- The text to write: `whole` is everything after the header; otherwise only the changed parts of the newest eight
  -- (without the newest entry) and of the oldest eight are written. `full_eight` is where the newest eight go in the
  -- ring.
  local whole, newest_seven, oldest_eight, full_eight
  -- The time when the stored value expires.
  local expires
  if held > 0 then expires = base + newest end
  local verdict, takes, back = 0, false, 0
  -- The units that must leave before one more unit fits, for a report; and true if the newest entry is replaced.
  local must_leave, must_leave_at, replaces = 0, 0, false
  -- The time when the oldest entry leaves, and its units; and the same of the second entry, if one read gives
  -- both.
  local oldest, oldest_units, second, second_units
  if slots > 0 and entries > 9 and first % 8 < 7 then
    oldest, oldest_units, second, second_units = unpack('<I6I4I6I4', v, 158 + first % 8 * 10)
    oldest_units = (oldest_units - forgotten) % 4294967296
    second_units = (second_units - forgotten) % 4294967296
  elseif entries > 0 then
    oldest, oldest_units = look(key, v, first, entries, slots, forgotten, 0)
  end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      base, last, amended = base - (last - now), now, amended or last
    end
  end
  -- Counts the units and entries that have left. The search goes from the oldest entry in doubling steps,
  -- then by halves; it stays within the oldest eight until all of those have left. Only the values of a
  -- decision need this; a verdict does not.
  local since_base, left_units, left_entries = at - base, 0, 0
  if full and entries > 0 and oldest <= since_base then
    if newest <= since_base then
      left_units, left_entries = held, entries
    else
      left_units, left_entries = oldest_units, 1
      local high, stride = entries - 1, 1
      if second and second <= since_base then
        left_units, left_entries, stride = second_units, 2, 2
      elseif second then
        high = 1
      end
      while left_entries < high do
        local probe = left_entries + stride - 1
        if stride == 0 then
          probe = left_entries + (high - left_entries - (high - left_entries) % 2) / 2
        elseif probe >= high then
          probe = high - 1
        end
        if left_entries < 8 - first % 8 and probe > 7 - first % 8 then probe = 7 - first % 8 end
        local leaves, through = look(key, v, first, entries, slots, forgotten, probe)
        if leaves <= since_base then
          left_entries, left_units, stride = probe + 1, through, probe + 1
        else
          high, stride = probe, 0
        end
      end
    end
  end
  if verb == 'used' then return at, held - left_units, last end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    if cost > N then
      verdict = 2
    elseif full then
      if held - left_units + cost > N then verdict = 1 end
    elseif held + cost > N then
      -- The cost is admitted if the unit that has to leave has left; its whole entry has left then.
      local over, leaves, through = held + cost - N, oldest
      if over > 1 then
        left_entries = find(key, v, first, entries, slots, forgotten, over)
        leaves, through = look(key, v, first, entries, slots, forgotten, left_entries)
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

  -- Of a report, also if all of it is cut off: the number of oldest units that must leave before one more unit fits
  -- after the units taken now, and when they have left. If some of these are taken now, that time is filled in later.
  if verb == 'report' then
    must_leave = held - left_units + cost + 1 - N
    if must_leave > 0 and must_leave <= held - left_units then
      local index = left_entries
      if must_leave > 1 then
        index = find(key, v, first, entries, slots, forgotten, left_units + must_leave)
      end
      local leaves = look(key, v, first, entries, slots, forgotten, index)
      must_leave_at = base + leaves
    end
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    takes = true
    if not full and left_entries < entries then
      local leaves, through = oldest, oldest_units
      if left_entries == 1 and second then
        leaves, through = second, second_units
      elseif left_entries > 0 then
        leaves, through = look(key, v, first, entries, slots, forgotten, left_entries)
      end
      if leaves <= since_base then left_entries, left_units = left_entries + 1, through end
    end
    local kept, leaves = entries - left_entries, at + tick - 1 - at % tick + W
    local before = held - left_units
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
    -- Few entries become a ring at fifteen, and a ring becomes few entries
    -- at eight, so that a log of about one size is not rewritten each time.
    local few = kept <= 8 or (slots == 0 and kept < 15)
    if few or slots == 0 or older >= slots or newest >= 281474976710656 then
      -- All entries that stay, in one text: without a ring all of them, with a ring its entries and then the newest.
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
      -- A ring up to some size grows fourfold, and is written as a whole; a larger one grows at its end.
      first, slots = 0, 4 * older
      if slots > most or slots > 4096 then slots = most end
      if slots <= older then slots = 2 * older end
      slots = slots + 7 - (slots + 7) % 8
      if few then slots = 0 end
    end
    if newest >= 281474976710656 then
      -- After nearly nine years without a pause the entries get a later base.
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
      if slots > 0 and slots <= 4096 then whole = whole .. string.rep('\0', 10 * (slots - entries)) end
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
  elseif cost < 0 and v and not (taken and taken.since + tick - 1 - taken.since % tick + W <= at) then
    -- give_back. Units that have left are not given back to others.
    back = held - left_units
    if -cost < back then back = -cost end
    takes = back > 0 or not taken
    if back > 0 then
      local index = entries
      if left_units + back < held then
        index = find(key, v, first, entries, slots, forgotten, left_units + back + 1)
      end
      -- Units that have left are kept, in case the clock goes back a little: they move up over the emptied
      -- entries. Units that had left by the last unit count at no reading, and are dropped.
      local dropped_units, kept, moves = 0, 0, {}
      for older = left_entries - 1, 0, -1 do
        local leaves, through = look(key, v, first, entries, slots, forgotten, older)
        -- At most so many, to bound the time of a call.
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
        whole = moved_up .. sub(v, 78 + 10 * index, 77 + 10 * entries)
      else
        local newest_slot = (first + entries - 1) % slots
        first = (first + index - kept) % slots
        if kept > 0 then
          -- Moved entries lie in the ring, so the newest entries are written there as well, and then read
          -- again.
          local in_eight = newest_slot % 8
          call('SETRANGE', key, digits('%d', 237 + 10 * (newest_slot - in_eight)),
            sub(v, 104 - 10 * in_eight, 113))
          local fits = 10 * (slots - first)
          call('SETRANGE', key, digits('%d', 237 + 10 * first), sub(moved_up, 1, fits))
          if #moved_up > fits then call('SETRANGE', key, '237', sub(moved_up, fits + 1)) end
          local before, from, to = '', newest_slot - 7, newest_slot - 1
          if from < 0 then
            before = call('GETRANGE', key, digits('%d', 237 + 10 * (slots + from)),
              digits('%d', 236 + 10 * slots))
            from = 0
          end
          if from <= to then
            before = before .. call('GETRANGE', key, digits('%d', 237 + 10 * from),
              digits('%d', 246 + 10 * to))
          end
          newest_seven = before
        end
        local from = 237 + 10 * (first - first % 8)
        oldest_eight = call('GETRANGE', key, digits('%d', from), digits('%d', from + 79))
      end
      entries = entries - index + kept
      held = held - back - dropped_units
      forgotten = (forgotten + dropped_units + back) % 4294967296
      left_units, left_entries = left_units - dropped_units, kept
      if entries == 0 then newest = 0 end
    end
  end

  -- encode
  local value, gone, whole_or_parts
  if takes or amended or not v then
    if slots == 0 then
      value = pack('<dddI4I4I4I4I4', base, last, newest, first, entries, slots, forgotten, held)
    else
      value = pack('<c70I6I4dddI4I4I4I4I4', newest_seven or sub(v, 34, 103), newest,
        (forgotten + held) % 4294967296, base, last, newest, first, entries, slots, forgotten, held)
    end
    gone = 0
    if held > 0 then gone = base + newest end
    if amended == 'replaced' and v and not whole then whole = sub(v, 78) end
    local behind = whole or oldest_eight
    if behind then value = value .. behind end
    if full_eight then call('SETRANGE', key, digits('%d', 237 + 10 * full_eight), sub(value, 1, 80)) end
    whole_or_parts = whole and 'whole' or 'parts'
  end
  local changed = amended or takes
  if not full then
    return verdict, at, takes, changed, value, gone, expires, whole_or_parts
  end

  -- the digest of the log from which the values of a decision follow
  local counted, over, over_leaves, newest_leaves = held - left_units, 0, 0, 0
  if verdict == 1 then
    over = counted + cost - N
    local index = left_entries
    if over > 1 then
      index = find(key, v, first, entries, slots, forgotten, left_units + over)
    end
    local leaves = look(key, v, first, entries, slots, forgotten, index)
    over_leaves = base + leaves
  end
  if entries > 0 then newest_leaves = base + newest end
  if must_leave > 0 then
    over, over_leaves = must_leave, must_leave_at
    if over_leaves == 0 then over_leaves = newest_leaves end
  end
  return verdict, at, takes, changed, value, gone, expires, whole_or_parts,
    pack('<ddddd', counted, over, over_leaves, newest_leaves, last), back
end

step, front = sliding_log, '236'
if algorithms then algorithms[9] = {step = step, front = front} end
