-- The algorithm of a limit of 0 without a window. The state: units that never leave, and the time of the last
-- one.

local function closed(key, v, arg, now, verb, full, amended, since)
  -- decode
  local cost = struct.unpack('<d', arg, 34)
  local held, last, verdict, takes = 0, 0, 0, false
  if v then held, last = struct.unpack('<dd', v, 34) end

  -- advance
  local at = now
  if now < last then
    if last - now <= 31622400000000 then at = last else last, amended = now, amended or 'rewound' end
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
    held, takes = held + cost, true
    if held < 0 then held = 0 end
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = 0
  if held > 0 then gone = 9007199254740992 end
  return verdict, at, takes, takes or amended, struct.pack('<dd', held, last), gone
end

step = closed
if algorithms then algorithms[7] = {step = step} end
