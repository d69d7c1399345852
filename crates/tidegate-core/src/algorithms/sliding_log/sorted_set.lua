-- Sliding log as a sorted set, which other tools can read. Each request that took units has a member: its
-- score is the time from which it counts, its text is `total:units:time`. The total counts all units
-- through this member since the set was last empty, so no two members are equal. The first member, at minus
-- infinity, holds the head of every stored state, and by how much all times were moved when the clock went
-- back.
--
-- `v` is that first member. If a state was carried over from another rule and is not in the store yet
-- (`amended` is `replaced`), `v` also holds its one entry.

-- The text of a member. Members with equal scores are ordered by their text.
local function member(total, units, time)
  return string.format('%016d:%d:%d', total, units, time)
end
-- The entry of a rank (from 1, or from the end if negative): when it leaves, its total, its units, and when
-- they were taken.
local function entry(key, W, shift, rank)
  rank = string.format('%d', rank)
  local found = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
  local total, units, time = string.match(found[1], '^(%d+):(%d+):(%d+)$')
  return found[2] - shift + W, total + 0, units + 0, time - shift
end
-- The time when the entry of an index (from 0) leaves, and the units held through it.
local function look(key, W, shift, oldest, oldest_total, forgotten, index)
  if index == 0 then return oldest, oldest_total - forgotten end
  local leaves, total = entry(key, W, shift, index + 1)
  return leaves, total - forgotten
end
-- The index of the entry that holds the nth oldest unit; it is one of the first n.
local function find(key, W, shift, oldest, oldest_total, forgotten, entries, nth)
  local low, high = 0, entries - 1
  if nth - 1 < high then high = nth - 1 end
  while low < high do
    local middle = low + (high - low - (high - low) % 2) / 2
    local _, through = look(key, W, shift, oldest, oldest_total, forgotten, middle)
    if through >= nth then high = middle else low = middle + 1 end
  end
  return low
end

-- The values read from each key, if more than one step may ask for them before they change.
local seen = algorithms and {}

local function first_member(key)
  if seen then seen[key] = nil end
  return redis.call('ZRANGE', key, '0', '0')[1] or false
end

local function sorted_set(key, v, arg, now, verb, full, amended, taken)
  local call, digits, unpack, pack = redis.call, string.format, struct.unpack, struct.pack

  -- decode
  local cost, W, N, tick = unpack('<dddd', arg, 34)
  local verdict, takes, back = 0, false, 0
  -- The units that must leave before one more unit fits, for a report.
  local must_leave, must_leave_at = 0, 0
  local shift, entries, forgotten, held, newest, last = 0, 0, 0, 0, 0, 0
  local oldest, oldest_total = 0, 0
  -- Changes to write: the number of oldest entries to drop, and the entries to add, each as a score and a
  -- member.
  local drop, added = 0, {}
  if v and amended == 'replaced' then
    newest, held, last = unpack('<ddd', v, 34)
    if held > 0 then
      oldest, oldest_total, entries = newest, held, 1
      added = {newest - W, member(held, held, last)}
    end
  elseif v and seen and seen[key] then
    shift = unpack('<d', v, 34)
    entries, oldest, oldest_total, newest, forgotten, held, last = unpack('<ddddddd', seen[key])
    oldest, newest, last = oldest - shift + W, newest - shift + W, last - shift
  elseif v then
    shift = unpack('<d', v, 34)
    entries = call('ZCARD', key) - 1
    local units, _
    oldest, oldest_total, units = entry(key, W, shift, 1)
    newest, held, _, last = entry(key, W, shift, -1)
    forgotten = oldest_total - units
    held = held - forgotten
    if seen then
      seen[key] = pack('<ddddddd', entries, oldest + shift - W, oldest_total, newest + shift - W, forgotten, held,
        last + shift)
    end
  end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      shift, oldest, newest = shift + (last - now), oldest - (last - now), newest - (last - now)
      last, amended = now, amended or last
    end
  end
  local left_units, left_entries = 0, 0
  if entries > 0 and newest <= at then
    left_units, left_entries = held, entries
  elseif entries > 0 and oldest <= at then
    left_entries = call('ZCOUNT', key, '-inf', digits('%d', at - W + shift)) - 1
    local _, through = look(key, W, shift, oldest, oldest_total, forgotten, left_entries - 1)
    left_units = through
  end
  if verb == 'used' then return at, held - left_units, last end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    if cost > N then
      verdict = 2
    elseif held - left_units + cost > N then
      verdict = 1
    end
  end

  -- Of a report, also if all of it is cut off: the number of oldest units that must leave before one more unit fits
  -- after the units taken now, and when they have left. If some of these are taken now, that time is filled in later.
  if verb == 'report' then
    must_leave = held - left_units + cost + 1 - N
    if must_leave > 0 and must_leave <= held - left_units then
      local index = left_entries
      if left_units + must_leave > 1 then
        index = find(key, W, shift, oldest, oldest_total, forgotten, entries, left_units + must_leave)
      end
      must_leave_at = look(key, W, shift, oldest, oldest_total, forgotten, index)
    end
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    takes = true
    local before, leaves = held - left_units, at + tick - 1 - at % tick + W
    drop, forgotten = left_entries, forgotten + left_units
    -- Carried-over units that have left since are not written.
    if amended == 'replaced' and left_entries > 0 then drop, added = 0, {} end
    -- Entries stay in order if the clock went back to the middle of a tick.
    if left_entries < entries then
      if leaves < newest then leaves = newest end
    else
      shift, forgotten = 0, 0
    end
    held = before + cost
    -- The same bound as in the other layout, whose totals have 32 bits.
    if held > 4294967295 then held = 4294967295 end
    if forgotten + held > 9007199254740991 then
      -- Totals start again from 0: all units that count become one entry, which leaves with the units taken
      -- now.
      drop, forgotten, before, left_entries = entries, 0, 0, entries
    end
    added[#added + 1] = leaves - W + shift
    added[#added + 1] = member(forgotten + held, held - before, at + shift)
    if left_entries == entries then oldest, oldest_total = leaves, forgotten + held end
    newest, last, entries = leaves, at, entries - left_entries + 1
    left_units, left_entries = 0, 0
  elseif cost < 0 and v and not (taken and taken.since + tick - 1 - taken.since % tick + W <= at) then
    -- give_back. Units that have left are not given back to others.
    back = held - left_units
    if -cost < back then back = -cost end
    takes = back > 0 or not taken
    if back > 0 then
      -- The first entry that keeps a unit.
      local index = entries
      if left_units + back < held then
        index = find(key, W, shift, oldest, oldest_total, forgotten, entries, left_units + back + 1)
      end
      -- Units that have left are kept, in case the clock goes back a little: their totals grow by the units
      -- given back. Units that had left by the last unit count at no reading, and are dropped.
      local kept, dropped_units = 0, 0
      for rank = left_entries, 1, -1 do
        local leaves, total, units, time = entry(key, W, shift, rank)
        if leaves <= last or kept == 4096 then
          dropped_units = total - forgotten
          break
        end
        if index == entries and kept == 0 then newest = leaves end
        kept = kept + 1
        added[#added + 1] = leaves - W + shift
        added[#added + 1] = member(total + back, units, time + shift)
      end
      drop = index
      if index < entries then
        local leaves, total, units, time, rest = newest, held, held, last, 0
        if amended == 'replaced' then added = {} else
          leaves, total, units, time = entry(key, W, shift, index + 1)
        end
        rest = total - forgotten - left_units - back
        if rest < units or amended == 'replaced' then
          drop = index + 1
          added[#added + 1] = leaves - W + shift
          added[#added + 1] = member(total, rest, time + shift)
        end
      end
      entries, held = entries - index + kept, held - back - dropped_units
      forgotten = forgotten + dropped_units + back
      left_units, left_entries = left_units - dropped_units, kept
    end
  end

  -- encode. The parts are the first member, unless it stays, and the changes of the others.
  local value, gone, parts
  if takes or amended or not v then
    value, gone = pack('<d', shift), 0
    if held > 0 then gone = newest end
    parts = {drop = drop, added = added, first = amended or not v or string.sub(v, 34) ~= value}
    if verb == 'charge' then value = pack('<ddd', newest, held, last) end
  end
  local changed = amended or takes
  if not full then return verdict, at, takes, changed, value, gone, nil, parts end

  -- the digest of the log from which the values of a decision follow
  local counted, over, over_leaves, newest_leaves = held - left_units, 0, 0, 0
  if verdict == 1 then
    over = counted + cost - N
    local index = left_entries
    if left_units + over > 1 then
      index = find(key, W, shift, oldest, oldest_total, forgotten, entries, left_units + over)
    end
    over_leaves = look(key, W, shift, oldest, oldest_total, forgotten, index)
  end
  if entries > 0 then newest_leaves = newest end
  if must_leave > 0 then
    over, over_leaves = must_leave, must_leave_at
    if over_leaves == 0 then over_leaves = newest_leaves end
  end
  return verdict, at, takes, changed, value, gone, nil, parts,
    pack('<ddddd', counted, over, over_leaves, newest_leaves, last), back
end

-- Writes what `sorted_set` returned. `newer` is whether the revision in `head` replaces the stored one.
local function write_parts(key, v, head, value, parts, newer, amended)
  local call, digits, stored = redis.call, string.format, v and amended ~= 'replaced'
  if seen then seen[key] = nil end
  if amended == 'replaced' then
    call('DEL', key)
  elseif parts.drop > 0 then
    call('ZREMRANGEBYRANK', key, '1', digits('%d', parts.drop))
  end
  if parts.first or newer then
    if stored then call('ZREMRANGEBYRANK', key, '0', '0') end
    call('ZADD', key, '-inf', head .. value)
  end
  local added = parts.added
  for pair = 1, #added, 2 do call('ZADD', key, digits('%d', added[pair]), added[pair + 1]) end
end

step, fetch, write = sorted_set, first_member, write_parts
if algorithms then algorithms[8] = {step = step, fetch = fetch, write = write} end
