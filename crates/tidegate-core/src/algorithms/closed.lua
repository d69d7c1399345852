-- The algorithm of a limit of 0 without a window. The state: units that never leave, and the time of the last unit.

local function closed(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost = struct.unpack('<d', arg, 34)
  local held, last, verdict, takes, back = 0, 0, 0, false, 0
  if v then held, last = struct.unpack('<dd', v, 34) end

  -- advance
  local at = now
  if now < last then
    -- The longest window, 366 days, stands for the window that this limit lacks.
    if last - now <= 31622400000000 then at = last else last, amended = now, amended or last end
  end
  if verb == 'used' then return at, held, last end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then verdict = 2 end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    held, last, takes = held + cost, at, true
    if held > 9007199254740991 then held = 9007199254740991 end
  elseif cost < 0 and v then
    -- give_back
    takes, back = true, -cost
    if back > held then back = held end
    held = held - back
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = 0
  -- Never, because units never leave: 2^53 is after the last instant.
  if held > 0 then gone = 9007199254740992 end
  return verdict, at, takes, amended or takes, struct.pack('<dd', held, last), gone, nil, nil, nil, back
end

step = closed
if algorithms then algorithms[7] = {step = step} end
