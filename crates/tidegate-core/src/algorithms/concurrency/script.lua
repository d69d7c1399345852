-- Concurrency. The state: the time and the token of the last permit, and the units of all; then each permit, ordered by
-- its end and then its token: its end, its token, and its units.
--
--   34  the time  42  the token  50  the units  58  the permits, 20 bytes each
--
-- `token` names the permit that is given back or renewed; 0 gives back units of the permits that end first.

local function concurrency(key, v, arg, now, verb, full, amended, taken)
  local unpack, pack, sub = struct.unpack, struct.pack, string.sub

  -- decode
  local cost, W, N, token = unpack('<dddd', arg, 34)
  local last, newest, held, permits = 0, 0, 0, ''
  if v then
    last, newest, held = unpack('<ddd', v, 34)
    permits = sub(v, 58)
  end
  local verdict, takes, returned, most = 0, false, 0, 4294967295
  -- The state stays until the clock has passed its last token, but for a life at most, so that no other state gives
  -- that token again.
  local expires = newest > 0 and newest + 1 or 0
  if expires > last + W then expires = last + W end
  if permits ~= '' then
    local ends = unpack('<I7', permits, #permits - 19)
    if ends > expires then expires = ends end
  end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      local moved = {}
      for i = 1, #permits, 20 do
        local ends = unpack('<I7', permits, i) - (last - now)
        if ends < 0 then ends = 0 end
        moved[#moved + 1] = pack('<I7', ends) .. sub(permits, i + 7, i + 19)
      end
      permits, last, amended = table.concat(moved), now, amended or last
    end
  end
  -- The permits that have ended, in bytes, and their units.
  local ended, ended_units = 0, 0
  while ended < #permits do
    local ends, _, units = unpack('<I7I7I6', permits, ended + 1)
    if ends > at then break end
    ended, ended_units = ended + 20, ended_units + units
  end
  if verb == 'used' then return at, held - ended_units, last end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    if cost > N then
      verdict = 2
    elseif held - ended_units + cost > N then
      verdict = 1
    end
  end

  -- The permit is put in its place, after all permits that end no later.
  local ends, of, units
  if verb == 'renew' then verdict = 1 end
  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take. Permits that have ended are out at no later reading.
    permits, held = sub(permits, ended + 1), held - ended_units
    ended, ended_units = 0, 0
    newest = newest + 1
    if newest < at then newest = at end
    if newest > 9007199254740991 then newest = 9007199254740991 end
    ends, of, units, last, takes = at + W, newest, cost, at, true
    if units > most then units = most end
    held = held + units
  elseif (cost < 0 or verb == 'renew') and v then
    -- give_back, and renew. Of a permit that has ended nothing is given back.
    local back, place = -cost, ended
    if token > 0 then
      local name = pack('<I7', token)
      place = 0
      -- The same bytes may stand elsewhere, across two fields: a token is at the eighth byte of a permit.
      repeat place = string.find(permits, name, place + 1, true) until not place or place % 20 == 8
      place = place and place > ended and place - 8
    end
    if verb == 'renew' then
      if place then
        ends, of, units = unpack('<I7I7I6', permits, place + 1)
        permits = sub(permits, 1, place) .. sub(permits, place + 21)
        if at + W > ends then ends = at + W end
        verdict, last, takes = 0, at, true
      end
    else
      takes = true
      while place and place < #permits and back > 0 do
        local its_end, its, left = unpack('<I7I7I6', permits, place + 1)
        local given = left
        if given > back then given = back end
        local rest = ''
        if given < left then rest = pack('<I7I7I6', its_end, its, left - given) end
        permits = sub(permits, 1, place) .. rest .. sub(permits, place + 21)
        back, held, returned = back - given, held - given, returned + given
        if token > 0 then break end
      end
    end
  end
  if ends then
    local place = #permits
    while place > 0 do
      local its_end, its = unpack('<I7I7', permits, place - 19)
      -- From the end, because a new permit usually ends last.
      if its_end < ends or its_end == ends and its < of then break end
      place = place - 20
    end
    permits = sub(permits, 1, place) .. pack('<I7I7I6', ends, of, units) .. sub(permits, place + 1)
  end

  -- encode
  local last_ends, gone, value, whole = 0, newest > 0 and newest + 1 or 0, nil, nil
  if gone > last + W then gone = last + W end
  if permits ~= '' then last_ends = unpack('<I7', permits, #permits - 19) end
  if last_ends > gone then gone = last_ends end
  local changed = amended or takes
  if changed or not v then
    value = pack('<ddd', last, newest, held) .. permits
    -- A shorter value, written over the old value, would leave the end of that.
    if v and #value + 33 < #v then whole = 'whole' end
  end
  if not full then return verdict, at, takes, changed, value, gone, expires, whole end

  -- the digest from which the values of a decision follow
  local out, over, over_ends = held - ended_units, 0, 0
  local asked = verdict == 1 and verb ~= 'renew' and cost or verb == 'report' and 1 or 0
  if asked > 0 and out + asked > N then
    over = out + asked - N
    local place, left = ended, over
    while left > 0 and place < #permits do
      local its_end, _, its_units = unpack('<I7I7I6', permits, place + 1)
      place, left, over_ends = place + 20, left - its_units, its_end
    end
  end
  return verdict, at, takes, changed, value, gone, expires, whole,
    pack('<dddddd', out, over, over_ends, last_ends, newest, last), returned
end

step = concurrency
if algorithms then algorithms[10] = {step = step, keeps = true, permits = true} end
