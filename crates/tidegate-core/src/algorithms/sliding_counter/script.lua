-- Sliding counter. The state: the number of the window that the last unit fell into, its count, the count of
-- the window before, and the time of the last unit.
--
-- From byte 66 on follows what a change of the rule has left (`ease` of mod.rs): the number of a window, its units
-- that make no caller wait, when the count was lowered by them, and the part of the others that is above the limit
-- because of changes.

local function sliding_counter(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost, W, N = struct.unpack('<ddd', arg, 34)
  local window, current, previous, last, verdict, takes, back, expires = 0, 0, 0, 0, 0, false, 0, nil
  local eased, off, cut, caused
  if v then
    window, current, previous, last = struct.unpack('<dddd', v, 34)
    if #v > 65 then eased, off, cut, caused = struct.unpack('<dddd', v, 66) end
  end
  if current > 0 then expires = (window + 2) * W end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      local windows = ((last - last % W) - (now - now % W)) / W
      window = math.max(window - windows, 0)
      -- The window before the epoch's window is -1.
      if eased then eased, cut = eased - windows, math.min(cut, now) end
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
  local all = cur
  if eased then
    if number == eased then
      cur = cur - off
    elseif number == eased + 1 then
      prev = prev - off
    else
      eased = nil
    end
  end
  if verb == 'used' then
    local whole, part = muldiv(prev, overlap, W)
    if part > 0 then whole = whole + 1 end
    return at, cur + whole, last, nil, {window, current, previous, eased, off, cut, caused}
  end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    local free, weighted = N - cost - cur, prev * overlap
    if cost > N then
      verdict = 2
    elseif free < 0 then
      verdict = 1
    -- Below 2^53 the products are exact; above, the division is made in whole numbers.
    elseif weighted < 9007199254740991 then
      if weighted > free * W then verdict = 1 end
    else
      local whole, part = muldiv(prev, overlap, W)
      if whole > free or (whole == free and part > 0) then verdict = 1 end
    end
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    -- The state's window becomes the previous window, or is too old to count.
    if number > window then previous = number == window + 1 and current or 0 end
    window, current, last, takes = number, all + cost, at, true
    if current > 9007199254740991 then current = 9007199254740991 end
  elseif cost < 0 and v then
    -- give_back: units of the window in which they were taken; without a time, units of this window and then of the
    -- previous window.
    local function came_back(count, units)
      if not taken or taken.since <= cut then off = math.max(off - units, 0) end
      off = math.min(off, count)
      caused = math.min(caused, count - off)
      if off == 0 and caused == 0 then eased = nil end
    end
    local taken_in = taken and (taken.since - taken.since % W) / W
    if number <= window + 1 and (not taken or taken_in == window) then
      back = -cost
      if back > current then back = current end
      current = current - back
      if eased == window then came_back(current, back) end
    end
    if number <= window and (not taken or taken_in == window - 1) then
      local earlier = -cost - back
      if earlier > previous then earlier = previous end
      previous, back = previous - earlier, back + earlier
      if eased == window - 1 then came_back(previous, earlier) end
    end
    takes = back > 0 or not taken
  end

  -- encode
  local shown
  if eased then
    -- The reply holds the numbers that decide.
    shown = struct.pack('<dddd', window, eased == window and current - off or current,
      eased == window - 1 and previous - off or previous, last)
  end
  if v and not (takes or amended) then return verdict, at, nil, nil, nil, nil, nil, nil, shown end
  local gone = 0
  if current > 0 then
    gone = (window + 2) * W
  elseif previous > 0 then
    gone = (window + 1) * W
  end
  local value, whole = struct.pack('<dddd', window, current, previous, last), nil
  if eased then value = value .. struct.pack('<dddd', eased, off, cut, caused) end
  -- A shorter value, written over the old value, would leave the end of that.
  if v and #v ~= 33 + #value then whole = 'whole' end
  return verdict, at, takes, amended or takes, value, gone, expires, whole, shown, back
end

step = sliding_counter
if algorithms then algorithms[4] = {step = step} end

if changes then
  local its = algorithms[4]

  -- All units in use, also those that make no caller wait, and how many are a debt: above the limit in the running
  -- window, and not caused by changes.
  function its.owed(at, _, _, counts, N, W)
    local window, current, previous = counts[1], counts[2], counts[3]
    local eased, off, caused = counts[4], counts[5], counts[7]
    local number = (at - at % W) / W
    if number > window then current, previous = 0, number == window + 1 and current or 0 end
    local all, part = muldiv(previous, W - at % W, W)
    if part > 0 then all = all + 1 end
    if N == 0 then return current + all, 0 end
    if eased ~= number then off, caused = 0, 0 end
    return current + all, math.max(current - off - math.max(N, caused), 0)
  end

  local function ease(at, last, counts, N, W, debt)
    local window, current, previous = counts[1], counts[2], counts[3]
    local eased, off, cut, caused = counts[4], counts[5], counts[6], counts[7]
    local number = (at - at % W) / W
    local all = number <= window and current or 0
    if N == 0 then
      eased = nil
    else
      local is_it = eased == number
      local count = is_it and all - off or all
      -- One window later this count is the previous count, with a weight
      -- of (W - at % W) / W. With this many units one unit fits then.
      local kept = math.min(count, math.max(N, (muldiv(N - 1, W, W - at % W))) + debt)
      local above = kept > debt + N and kept - debt or 0
      if kept < count or above > 0 or is_it then
        if kept < count then cut = at elseif not is_it then cut = 0 end
        eased, off, caused = number, all - kept, above
        if off == 0 and above == 0 then eased = nil end
      end
    end
    local value = struct.pack('<dddd', window, current, previous, last)
    if eased then value = value .. struct.pack('<dddd', eased, off, cut, caused) end
    return value
  end

  -- The state under another limit; nil under another window. If more is allowed than before, all usage counts.
  function its.refit(at, _, last, _, counts, N, W, _, N2, W2)
    if W ~= W2 then return nil end
    local _, debt = its.owed(at, nil, nil, counts, N, W)
    if N2 > N then counts[4] = nil end
    return ease(at, last, counts, N2, W, debt)
  end

  -- The text of a state that begins with units in use.
  function its.eased(at, value, N, W, _, debt)
    local window, current, previous, last = struct.unpack('<dddd', value)
    return ease(at, last, {window, current, previous}, N, W, debt)
  end
end
