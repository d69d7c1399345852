-- Token bucket, leaky bucket and leaky queue: a level (level.rs). The state: how long it took to drain when the
-- last unit was added, in microseconds at the rate n/w and parts of 1/n, and the time of the last unit. In a
-- token bucket the level is the missing tokens, and some may be missing at the start. If nothing drains (n = 0),
-- the level is kept in units, and time does not change it.
--
-- Behind it, from byte 58, is the mark of a bucket while reservations are open: when the first of them took its units,
-- how many are open, since when the lowest level is known, and that level less what came back, in microseconds and
-- parts. It goes with the last reservation, or when the level is empty. An argument that opens a reservation has a byte
-- more than others.

local function level(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost, W, n, w, cost_us, cost_part, most_us, most_part, start_us, start_part =
    struct.unpack('<dddddddddd', arg, 34)
  local level_us, level_part, last, verdict, takes, back, mark = start_us, start_part, 0, 0, false, 0, nil
  if v then
    level_us, level_part, last = struct.unpack('<ddd', v, 34)
    if #v > 57 then mark = string.sub(v, 58) end
  elseif start_us > 0 or start_part > 0 then
    last, amended = now, amended or 'begun'
  end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then
      at = last
    else
      last, amended = now, amended or last
      if mark then mark = '' end
    end
  end
  local drained = at - last
  if n == 0 then drained = 0 end
  local left_us, left_part = level_us - drained, level_part
  if left_us < 0 then left_us, left_part = 0, 0 end
  if verb == 'used' then return at, left_us, last, left_part end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    if most_us < 0 then
      verdict = 2
    elseif left_us > most_us or (left_us == most_us and left_part > most_part) then
      verdict = 1
    end
  end

  -- The mark as it is now: the level may be lower than ever since it began.
  local first, open, began, least_us, least_part
  if mark and verdict == 0 and verb ~= 'look' then
    if mark ~= '' and (left_us > 0 or left_part > 0) then
      first, open, began, least_us, least_part = struct.unpack('<ddddd', mark)
      if left_us < least_us or left_us == least_us and left_part < least_part then
        least_us, least_part = left_us, left_part
      end
    end
    mark = ''
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    level_us, level_part, last, takes = left_us + cost_us, left_part + cost_part, at, true
    if level_part >= n and n > 0 then level_us, level_part = level_us + 1, level_part - n end
    if level_us > 9007199254740991 then level_us, level_part = 9007199254740991, 0 end
    if #arg == 114 then
      if not first then first, open, least_us, least_part = at, 0, 0, 0 end
      if least_us == 0 and least_part == 0 then began, least_us, least_part = at, level_us, level_part end
      open, mark = open + 1, ''
    end
  elseif cost < 0 and v then
    -- give_back
    if taken then
      local since = taken.since
      -- What has drained since the units were taken may have found nothing else to drain, so it does not come back,
      -- unless the level was never so low since. The last slots of a queue come back as long as no later slot is
      -- promised.
      local taken_us, taken_part = cost_us, cost_part
      if string.byte(arg, 2) == 2 then
        if since ~= last then cost_us, cost_part = 0, 0 end
      else
        if since < taken.rated then
          cost_us, cost_part = 0, 0
        elseif n > 0 and at > since then
          cost_us = cost_us - (at - since)
          if cost_us < 0 then cost_us, cost_part = 0, 0 end
        end
        if first and began <= since and not taken.leased then
          if taken_us > least_us or taken_us == least_us and taken_part > least_part then
            taken_us, taken_part = least_us, least_part
          end
          if cost_us < taken_us or cost_us == taken_us and cost_part < taken_part then
            cost_us, cost_part = taken_us, taken_part
          end
        end
      end
    end
    takes = not taken or mark ~= nil and not taken.leased or cost_us > 0 or cost_part > 0
    if cost_us > left_us or cost_us == left_us and cost_part > left_part then cost_us, cost_part = left_us, left_part end
    if cost_us > 0 or cost_part > 0 then
      left_us, left_part = left_us - cost_us, left_part - cost_part
      if left_part < 0 then left_us, left_part = left_us - 1, left_part + n end
      level_us, level_part = left_us + drained, left_part
      if taken then
        -- Its units, rounded up: the rest of a unit has drained by itself.
        local q, rest = cost_us, 0
        if n > 0 then q, rest = muldiv(cost_us, n, w) end
        rest = rest + cost_part
        if n > 0 then back = q + (rest + -rest % w) / w else back = q end
      end
    end
    if first and taken then
      least_us, least_part = least_us - cost_us, least_part - cost_part
      if least_part < 0 then least_us, least_part = least_us - 1, least_part + n end
      if least_us < 0 then least_us, least_part = 0, 0 end
    elseif first and (left_us < least_us or left_us == least_us and left_part < least_part) then
      least_us, least_part = left_us, left_part
      if left_us == 0 and left_part == 0 then first = nil end
    end
  end

  -- close
  if first then
    if taken and taken.opened and first <= taken.opened then open, takes = open - 1, true end
    if open > 0 then mark = struct.pack('<ddddd', first, open, began, least_us, least_part) end
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone, value, whole = last + level_us, struct.pack('<ddd', level_us, level_part, last), nil
  if level_part > 0 then gone = gone + 1 end
  if start_us > 0 or start_part > 0 or (n == 0 and level_us > 0) then gone = 9007199254740992 end
  if mark then
    value = value .. mark
    if v and #v ~= 33 + #value then whole = 'whole' end
  end
  return verdict, at, takes, amended or takes, value, gone, nil, whole, nil, back
end

step = level
if algorithms then
  local its = {step = step}
  algorithms[1], algorithms[2] = its, its
end

if changes or settles then
  local its = algorithms[1]

  -- What a level needs when a rule changes or a debt is bounded: its argument and its state are in other units than limit and window.

  local function lowest(N, W)
    local a, b = N, W
    while b > 0 do a, b = b, a % b end
    return N / a, W / a
  end

  local function split(units, n, w)
    if n == 0 then return units, 0 end
    return muldiv(units, w, n)
  end

  -- The numbers of an argument, from those of a stored rule. A cost below zero is given back.
  function its.numbers(cost, N, W, capacity, missing)
    local n, w = lowest(N, W)
    local cost_us, cost_part = split(math.abs(cost), n, w)
    return struct.pack('<dddddddddd', cost, W, n, w, cost_us, cost_part, -1, 0, missing, 0)
  end

  -- An argument with another cost.
  function its.with_cost(arg, cost)
    local n, w = struct.unpack('<dd', arg, 50)
    local cost_us, cost_part = split(math.abs(cost), n, w)
    return string.sub(arg, 1, 33) .. struct.pack('<d', cost) .. string.sub(arg, 42, 65)
      .. struct.pack('<dd', cost_us, cost_part) .. string.sub(arg, 82)
  end

  -- Whole units and a part of 1/w, from what is left of a level.
  local function in_units(left_us, left_part, n, w)
    if n == 0 then return left_us, 0 end
    local units, rest = muldiv(left_us, n, w)
    rest = rest + left_part
    return units + (rest - rest % w) / w, rest % w
  end

  -- The units in use, rounded up.
  function its.units(left_us, left_part, N, W)
    local units, part = in_units(left_us, left_part, lowest(N, W))
    return part > 0 and units + 1 or units
  end

  -- The mark of a level that has come under another rate, rounded down; empty if the level is empty.
  function its.mark_at(mark, left_us, left_part, n, w, n2, w2)
    if left_us == 0 and left_part == 0 then return '' end
    local first, open, began, least_us, least_part = struct.unpack('<ddddd', mark)
    if left_us < least_us or left_us == least_us and left_part < least_part then
      least_us, least_part = left_us, left_part
    end
    local units, part = in_units(least_us, least_part, n, w)
    local parts = muldiv(part, w2, w)
    if n2 == 0 then
      least_us, least_part = units, 0
    else
      least_us, least_part = muldiv(units, w2, n2)
      least_part = least_part + parts
      least_us, least_part = least_us + (least_part - least_part % n2) / n2, least_part % n2
    end
    return struct.pack('<ddddd', first, open, began, least_us, least_part)
  end

  -- The state under another limit and capacity; nil under another window. The level is kept as of the last unit;
  -- an empty one stays empty at any reading of the clock.
  function its.refit(at, left_us, last, left_part, N, W, N2, W2, mark)
    if W ~= W2 then return nil end
    local n, w = lowest(N, W)
    local n2, w2 = lowest(N2, W2)
    if mark ~= '' then mark = its.mark_at(mark, left_us, left_part, n, w, n2, w2) end
    local units, part = in_units(left_us, left_part, n, w)
    local q, rest = muldiv(part, w2, w)
    if rest > 0 then q = q + 1 end
    if n2 == 0 then
      left_us, left_part = units + q, 0
    else
      left_us, left_part = muldiv(units, w2, n2)
      left_part = left_part + q
      rest = left_part % n2
      left_us, left_part = left_us + (left_part - rest) / n2, rest
    end
    if n2 > 0 and (left_us > 0 or left_part > 0) then left_us = left_us + at - last end
    if left_us > 9007199254740991 then left_us, left_part = 9007199254740991, 0 end
    return struct.pack('<ddd', left_us, left_part, last) .. mark
  end

  -- The most units that can be in use without a debt.
  function its.most(N, capacity) return capacity end
end
