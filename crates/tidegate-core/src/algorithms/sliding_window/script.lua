-- Sliding window. The state: the number of the newest bucket, the units in all buckets, the time of the last
-- unit, and one counter of 32 bits for each of `span` buckets of `width`, the newest first. Counters are kept by
-- age, so they need not move when the clock goes back.

local function sliding_window(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost, W, N, width, span = struct.unpack('<ddddd', arg, 34)
  local newest, total, last, verdict, takes, back, counters = 0, 0, 0, 0, false, 0, nil
  -- When the stored text expires, if its newest bucket has units.
  local expires
  if v then
    newest, total, last = struct.unpack('<ddd', v, 34)
    counters = string.sub(v, 58)
  else
    counters = string.rep('\0', 4 * span)
  end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      newest, last, amended = (now - now % width) / width, now, amended or last
    end
  end
  local bucket = (at - at % width) / width
  local passed, count = bucket - newest, total
  if passed >= span then
    passed, count = span, 0
  elseif passed < 0 then
    passed = 0
  else
    for age = span - passed, span - 1 do
      count = count - struct.unpack('<I4', counters, 4 * age + 1)
    end
  end
  if verb == 'used' then return at, count, last end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    if cost > N then
      verdict = 2
    elseif count + cost > N then
      verdict = 1
    end
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    local units = 0
    if passed == 0 then
      units = struct.unpack('<I4', counters)
      counters = string.sub(counters, 5)
      if units > 0 and not amended then expires = (newest + span) * width end
    else
      counters = string.rep('\0', 4 * (passed - 1)) .. string.sub(counters, 1, 4 * (span - passed))
    end
    local after = units + cost
    -- A counter has 32 bits.
    if after > 4294967295 then after = 4294967295 end
    counters = struct.pack('<I4', after) .. counters
    newest, total, last, takes = bucket, count + after - units, at, true
  elseif cost < 0 and v then
    -- give_back: units of the bucket in which they were taken; of any time, the oldest first. Units whose bucket has
    -- left the window are not given back.
    local oldest, youngest = span - passed - 1, 0
    if taken then
      local age = newest - (taken.since - taken.since % width) / width
      if age > oldest then age = -1 end
      oldest, youngest = age, age
      if age < 0 then youngest = 0 end
    end
    for age = oldest, youngest, -1 do
      if back == -cost then break end
      local units = struct.unpack('<I4', counters, 4 * age + 1)
      if units > 0 then
        local given = units
        if given > -cost - back then given = -cost - back end
        back, total = back + given, total - given
        counters = string.sub(counters, 1, 4 * age) .. struct.pack('<I4', units - given)
          .. string.sub(counters, 4 * age + 5)
      end
    end
    takes = back > 0 or not taken
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = 0
  if total > 0 then
    -- The newest bucket with units leaves last.
    for age = 0, span - 1 do
      if struct.unpack('<I4', counters, 4 * age + 1) > 0 then
        gone = (newest + span - age) * width
        break
      end
    end
  end
  return verdict, at, takes, amended or takes, struct.pack('<ddd', newest, total, last) .. counters, gone,
    expires, nil, nil, back
end

step = sliding_window
if algorithms then algorithms[5] = {step = step} end
