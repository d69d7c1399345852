-- Sliding counter. The state: the number of the window that the last unit fell into, its count, the count of
-- the window before, and the time of the last unit.

local function sliding_counter(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost, W, N = struct.unpack('<ddd', arg, 34)
  local window, current, previous, last, verdict, takes, back, expires = 0, 0, 0, 0, 0, false, 0, nil
  if v then window, current, previous, last = struct.unpack('<dddd', v, 34) end
  if current > 0 then expires = (window + 2) * W end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      window = window - ((last - last % W) - (now - now % W)) / W
      if window < 0 then window = 0 end
      last, amended = now, amended or last
    end
  end
  local elapsed = at % W
  local number, overlap = (at - elapsed) / W, W - elapsed
  local cur, prev = 0, 0
  if number <= window then
    cur, prev = current, previous
  elseif number == window + 1 then
    prev = current
  end
  if verb == 'used' then
    local whole, part = muldiv(prev, overlap, W)
    if part > 0 then whole = whole + 1 end
    return at, cur + whole, last
  end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    local free, weighted = N - cost - cur, prev * overlap
    if cost > N then
      verdict = 2
    elseif free < 0 then
      verdict = 1
    elseif weighted < 9007199254740991 then
      if weighted > free * W then verdict = 1 end
    else
      local whole, part = muldiv(prev, overlap, W)
      if whole > free or (whole == free and part > 0) then verdict = 1 end
    end
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    window, current, previous, last, takes = number, cur + cost, prev, at, true
    if current > 9007199254740991 then current = 9007199254740991 end
  elseif cost < 0 and v then
    -- give_back: units of the window in which they were taken; of any time, those of this window and then those of
    -- the one before.
    local taken_in = taken and (taken.since - taken.since % W) / W
    if number <= window + 1 and (not taken or taken_in == window) then
      back = -cost
      if back > current then back = current end
      current = current - back
    end
    if number <= window and (not taken or taken_in == window - 1) then
      local earlier = -cost - back
      if earlier > previous then earlier = previous end
      previous, back = previous - earlier, back + earlier
    end
    takes = back > 0 or not taken
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = 0
  if current > 0 then
    gone = (window + 2) * W
  elseif previous > 0 then
    gone = (window + 1) * W
  end
  return verdict, at, takes, amended or takes, struct.pack('<dddd', window, current, previous, last),
    gone, expires, nil, nil, back
end

step = sliding_counter
if algorithms then algorithms[4] = {step = step} end
