-- Token bucket, leaky bucket and leaky queue: a level (level.rs). The state: how long it took to drain when the
-- last unit was added, in microseconds at the rate n/w and parts of 1/n, and the time of the last unit. In a
-- token bucket the level is the missing tokens, and some may be missing at the start. If nothing drains (n = 0),
-- the level is kept in units, and time does not change it.

local function level(key, v, arg, now, verb, full, amended, since)
  -- decode
  local cost, W, n, w, cost_us, cost_part, most_us, most_part, start_us, start_part =
    struct.unpack('<dddddddddd', arg, 34)
  local level_us, level_part, last, verdict, takes = start_us, start_part, 0, 0, false
  if v then
    level_us, level_part, last = struct.unpack('<ddd', v, 34)
  elseif start_us > 0 or start_part > 0 then
    last, amended = now, amended or 'begun'
  end

  -- advance
  local at = now
  if now < last then
    if last - now <= W then at = last else last, amended = now, amended or 'rewound' end
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

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    level_us, level_part, last, takes = left_us + cost_us, left_part + cost_part, at, true
    if level_part >= n and n > 0 then level_us, level_part = level_us + 1, level_part - n end
    if level_us > 9007199254740991 then level_us, level_part = 9007199254740991, 0 end
  elseif cost < 0 and v then
    -- give_back. The time that has drained since the units were taken may have found nothing else to drain, so
    -- it is not given back.
    if since and n > 0 and at > since then cost_us = cost_us - (at - since) end
    takes = cost_us >= 0
    if takes and (left_us > 0 or left_part > 0) then
      left_us, left_part = left_us - cost_us, left_part - cost_part
      if left_part < 0 then left_us, left_part = left_us - 1, left_part + n end
      if left_us < 0 then left_us, left_part = 0, 0 end
      level_us, level_part = left_us + drained, left_part
    end
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone = last + level_us
  if level_part > 0 then gone = gone + 1 end
  if start_us > 0 or start_part > 0 or (n == 0 and level_us > 0) then gone = 9007199254740992 end
  return verdict, at, takes, takes or amended, struct.pack('<ddd', level_us, level_part, last), gone
end

step = level
if algorithms then
  local its = {step = step}
  algorithms[1], algorithms[2] = its, its
end

if changes then
  local its = algorithms[1]

  -- What a level needs when a rule changes: its argument and its state are in other units than limit and window.

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

  -- The state under another limit and capacity; nil under another window. The level is kept as of the last unit;
  -- an empty one stays empty at any reading of the clock.
  function its.refit(at, left_us, last, left_part, N, W, N2, W2)
    if W ~= W2 then return nil end
    local n, w = lowest(N, W)
    local n2, w2 = lowest(N2, W2)
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
    return struct.pack('<ddd', left_us, left_part, last)
  end

  -- The most units that can be in use without a debt.
  function its.most(N, capacity) return capacity end
end
