-- Fixed window. The state: the end of the window of the last unit, the units in it, and the time of the last
-- unit. `anchored` is 1 if a window begins with its first unit, and 0 if windows follow one another. A window that
-- began with a unit runs to its end, also if all of its units were given back.

local function fixed_window(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost, W, N, anchored = struct.unpack('<dddd', arg, 34)
  local ends, count, last, verdict, takes, back = 0, 0, 0, 0, false, 0
  if v then ends, count, last = struct.unpack('<ddd', v, 34) end
  local expires = ends

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      if anchored == 1 then
        -- The window moves as a whole; else the count goes on in the window that holds `now`.
        ends = ends - (last - now)
        if ends < 0 then ends = 0 end
      else
        ends = now + W - now % W
      end
      last, amended = now, amended or last
    end
  end
  local inside = count
  if ends <= at then inside = 0 end
  if verb == 'used' then return at, inside, last end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    if cost > N then
      verdict = 2
    elseif inside + cost > N then
      verdict = 1
    end
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    if ends <= at then
      ends = at + W
      if anchored == 0 then ends = ends - at % W end
    end
    count, last, takes = inside + cost, at, true
    -- 2^53 - 1: above it a double does not hold every whole number.
    if count > 9007199254740991 then count = 9007199254740991 end
  elseif cost < 0 and v and (not taken or taken.since >= ends - W and taken.since < ends) then
    -- give_back. Units of another window are not given back to this window.
    if ends > at then
      back = -cost
      if back > count then back = count end
      count = count - back
    end
    takes = back > 0 or not taken
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = ends
  if count == 0 and anchored == 0 then gone = 0 end
  return verdict, at, takes, amended or takes, struct.pack('<ddd', ends, count, last), gone, expires, nil, nil, back
end

step = fixed_window
if algorithms then algorithms[3] = {step = step} end
