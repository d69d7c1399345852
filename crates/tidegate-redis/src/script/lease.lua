-- Takes units as a lease, which is to be spent elsewhere within `life`: the last argument but those that may follow it.
-- The state is prepared, decides, and takes. A lease that is not granted leaves it as it was. The reply has the form
-- for one limiter: its state and the time that counts say when the lease ends.
--
-- With the verb `undo` units of a lease are given back, as far as the record says that they are taken. The verdict of
-- the reply is 0 if they are back, 1 if they count no more, and 2 if the record does not have them.
--
-- The second key is the record of the limiter's leases, of any node. It holds 40 bytes for each: the node that took it, and
-- as doubles the ticket of the node, the units that are taken, when they were taken, and when none of them can come
-- back any more. The argument of the record is the node and its ticket, and then as doubles: for a lease the lowest
-- ticket of this node and limiter that is not done, so that earlier leases are dropped here; to give back, the units of
-- the lease that stay taken, and the time that the others count as taken earlier. So giving back twice is as once.

local MOST, WIDTH = 256, 40
local life, ask, record_key, entry = tonumber(args[tail + 2]), step, keys[2], args[first + 2]
local whose = string.sub(entry, 1, 16)

-- Keeps the leases in the record that may still be asked for, and adds a lease.
local function note(units, at, gone)
  local record, node = call('GET', record_key) or '', string.sub(entry, 1, 8)
  local oldest, kept, latest = struct.unpack('<d', entry, 17), {}, at
  -- The oldest leases go where there are too many: their units then stay taken.
  local begin = #record - WIDTH * (MOST - 1)
  for i = begin > 0 and begin + 1 or 1, #record, WIDTH do
    local ticket, _, _, ends = struct.unpack('<dddd', record, i + 8)
    if ends > now and (ticket >= oldest or string.sub(record, i, i + 7) ~= node) then
      kept[#kept + 1] = string.sub(record, i, i + WIDTH - 1)
      if ends > latest then latest = ends end
    end
  end
  if gone > latest then latest = gone end
  kept[#kept + 1] = whose .. struct.pack('<ddd', units, at, gone)
  -- The record of a limiter that never expires does not either.
  if given or latest > 9007199254740991 then return call('SET', record_key, table.concat(kept)) end
  local ms = latest + 999
  call('SET', record_key, table.concat(kept), 'PXAT', string.format('%d', (ms - ms % 1000) / 1000))
end

-- Takes units out of the record. Returns the time since which they count, true if they were taken out before, and the
-- time when all of them have gone at the limit under which they were taken; nothing if it does not have them.
local function consume(units)
  local record = call('GET', record_key) or ''
  local stay, earlier = struct.unpack('<dd', entry, 17)
  for i = 1, #record, WIDTH do
    if string.sub(record, i, i + 15) == whose then
      local taken, at, gone = struct.unpack('<ddd', record, i + 16)
      if taken == stay then return nil, true end
      -- More than the record has: the call does not fit this lease.
      if taken - units < stay then return end
      call('SETRANGE', record_key, string.format('%d', i + 15), struct.pack('<d', stay))
      return math.max(at - earlier, 0), false, gone
    end
  end
end

function step(key, v, arg, now, verb, full, amended)
  local cost = struct.unpack('<d', arg, 34)
  if verb == 'undo' then
    local taken_at, is_back, gone = consume(-cost)
    local lost, limits = bar(key)
    if v then
      local last, W = select(3, ask(key, v, arg, 9007199254740992, 'used', true, amended)), struct.unpack('<d', arg, 42)
      -- This may not be the state that the units were taken from.
      if last - now > W or taken_at and taken_at - math.max(now, last) > W then lost = 9007199254740992 end
    end
    -- Nothing comes back that was taken so long ago.
    local since = -9007199254740992
    if taken_at and taken_at >= lost then since = taken_at end
    local taken = {since = since, limits = limits, drained = drained, leased = true}
    -- Then the level may have drained and begun again, under another limit that nothing notes.
    if gone and gone <= now then taken.under = -1 end
    local verdict, at, takes, changed, value, ends, expires, parts, state =
      ask(key, v, arg, now, verb, full, amended, taken)
    if is_back then
      verdict = 0
    elseif not taken_at then
      verdict = 2
    elseif not takes then
      verdict = 1
    end
    return verdict, at, takes, changed, value, ends, expires, parts, state
  end
  local prepared, before = v, 0
  if prepare then
    prepared = prepare(key, v, arg, now, life)
    -- The time from which the clock moves the state back, which a prepared state does not show.
    if v then before = select(3, ask(key, v, arg, 9007199254740992, 'used', true, amended)) end
  end
  local verdict, at, takes, changed, value, gone, expires, parts, state =
    ask(key, prepared, arg, now, 'ask', full, amended)
  -- Asked again as it was, so that the reply to a denial is about that state.
  if verdict ~= 0 then return verdict, select(2, ask(key, v, arg, now, 'look', full, amended)) end
  note(cost, at, gone)
  -- Names the time before, so that dispatch.lua moves the bar.
  if before - now > struct.unpack('<d', arg, 42) then changed = before end
  return verdict, at, takes, changed, value, gone, expires, parts, state
end
