-- Fixed window. The state: the end of the window of the last unit, the units in it, and the time of the last
-- unit. `anchored` is 1 if a window begins with its first unit, and 0 if windows follow one another.

local function fixed_window(key, v, arg, now, verb, full, amended, since)
  -- decode
  local cost, W, N, anchored = struct.unpack('<dddd', arg, 34)
  local ends, count, last, verdict, takes = 0, 0, 0, 0, false
  if v then ends, count, last = struct.unpack('<ddd', v, 34) end
  local expires = ends

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      if anchored == 1 then
        ends = ends - (last - now)
        if ends < 0 then ends = 0 end
      else
        ends = now + W - now % W
      end
      last, amended = now, amended or 'rewound'
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
    if inside == 0 then
      ends = at + W
      if anchored == 0 then ends = ends - at % W end
    end
    count, last, takes = inside + cost, at, true
    if count > 9007199254740991 then count = 9007199254740991 end
  elseif cost < 0 and v and not (since and since < ends - W) then
    -- give_back. Units of a window that has ended are not given back to this one.
    takes = true
    if ends > at then
      count = count + cost
      if count < 0 then count = 0 end
    end
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = ends
  if count == 0 then gone = 0 end
  return verdict, at, takes, takes or amended, struct.pack('<ddd', ends, count, last), gone, expires
end

step = fixed_window
if algorithms then algorithms[3] = {step = step} end
