-- Sliding counter. The state: the number of the window that the last unit fell into, its count, the count of
-- the window before, and the time of the last unit.

local function sliding_counter(key, v, arg, now, verb, full, amended, since)
  -- decode
  local cost, W, N = struct.unpack('<ddd', arg, 34)
  local window, current, previous, last, verdict, takes, expires = 0, 0, 0, 0, 0, false, nil
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
      last, amended = now, amended or 'rewound'
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
  elseif cost < 0 and v and not (since and (since - since % W) / W < number) then
    -- give_back. Units that were taken in an earlier window are not given back: each now counts for less than
    -- one.
    takes = true
    if number <= window then
      current = current + cost
      if current < 0 then
        previous = previous + current
        current = 0
        if previous < 0 then previous = 0 end
      end
    elseif number == window + 1 then
      current = current + cost
      if current < 0 then current = 0 end
    end
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = 0
  if current > 0 then
    gone = (window + 2) * W
  elseif previous > 0 then
    gone = (window + 1) * W
  end
  return verdict, at, takes, takes or amended, struct.pack('<dddd', window, current, previous, last),
    gone, expires
end

step = sliding_counter
if algorithms then algorithms[4] = {step = step} end
