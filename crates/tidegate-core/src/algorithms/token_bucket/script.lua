-- Token bucket, leaky bucket and leaky queue: a level (level.rs). The state: the time to drain when the last unit was
-- added, in microseconds at the rate n/w and parts of 1/n, and the time of the last unit. In a token bucket the level
-- is the missing tokens, and some may be missing at the start. If nothing drains (n = 0), the level is kept in units,
-- and time does not change it.
--
-- From byte 58 on follows the mark of a bucket while reservations are open: when the first of them took its units, the
-- number of open reservations, the time since which the lowest level is known, and that level less the units that came
-- back, in microseconds and parts. It goes with the last reservation, or when the level is empty. An argument that
-- opens a reservation has a byte more than others.
--
-- From byte 98 on follows the memory of a level that a change has eased (level/eased.rs): all usage, and the part of
-- the level that is above the capacity because of changes, both in microseconds and parts as of the last unit; and when
-- the level was lowered. Its mark is about all usage, and is all zeros if there is no mark.

local function level(key, v, arg, now, verb, full, amended, taken)
  -- decode
  local cost, W, n, w, cost_us, cost_part, most_us, most_part, start_us, start_part =
    struct.unpack('<dddddddddd', arg, 34)
  local level_us, level_part, last, verdict, takes, back, mark = start_us, start_part, 0, 0, false, 0, nil
  -- The time when an eased level was lowered. All usage is the level itself if it is not eased.
  local eased, all_us, all_part, caused_us, caused_part
  if v then
    level_us, level_part, last = struct.unpack('<ddd', v, 34)
    if #v > 57 then
      mark = string.sub(v, 58, 97)
      if #v > 97 then
        all_us, all_part, caused_us, caused_part, eased = struct.unpack('<ddddd', v, 98)
        if mark == string.rep('\0', 40) then mark = nil end
      end
    end
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
      -- Units taken until now come back no more (`Past::lose`).
      if mark then mark = '' end
      if eased and eased > now then eased = now end
    end
  end
  local drained = at - last
  if n == 0 then drained = 0 end
  local left_us, left_part = level_us - drained, level_part
  if left_us < 0 then left_us, left_part = 0, 0 end
  local caused_left_us, caused_left_part
  if eased then
    all_us = all_us - drained
    -- The part that is there because of changes, as of now; it is kept as of the last unit, like the level.
    caused_left_us, caused_left_part = caused_us - drained, caused_part
    if caused_left_us < 0 then caused_left_us, caused_left_part = 0, 0 end
    -- The level may have been raised for a lease.
    if all_us < left_us or all_us == left_us and all_part < left_part then all_us, all_part = left_us, left_part end
    if all_us == 0 and all_part == 0 then eased = nil end
  else
    all_us, all_part = left_us, left_part
  end
  if verb == 'used' then
    return at, left_us, last, left_part, eased and {all_us, all_part, caused_left_us, caused_left_part, eased}
  end

  -- decide
  if cost > 0 and (verb == 'ask' or verb == 'look') then
    -- The cost is above the capacity.
    if most_us < 0 then
      verdict = 2
    elseif left_us > most_us or (left_us == most_us and left_part > most_part) then
      verdict = 1
    end
  end

  -- The mark as it is now: the level may be lower than ever since it began.
  local first, open, began, least_us, least_part
  if mark and verdict == 0 and verb ~= 'look' then
    if mark ~= '' and (all_us > 0 or all_part > 0) then
      first, open, began, least_us, least_part = struct.unpack('<ddddd', mark)
      if all_us < least_us or all_us == least_us and all_part < least_part then
        least_us, least_part = all_us, all_part
      end
    end
    mark = ''
  end

  if cost > 0 and verdict == 0 and verb ~= 'look' then
    -- take
    level_us = left_us + cost_us
    level_part = left_part + cost_part
    last, takes = at, true
    -- One carry is enough: both parts are below n.
    if level_part >= n and n > 0 then level_us, level_part = level_us + 1, level_part - n end
    if level_us > 9007199254740991 then level_us, level_part = 9007199254740991, 0 end
    if eased then
      caused_us, caused_part = caused_left_us, caused_left_part
      all_us, all_part = all_us + cost_us, all_part + cost_part
      if all_part >= n then all_us, all_part = all_us + 1, all_part - n end
      if all_us > 9007199254740991 then all_us, all_part = 9007199254740991, 0 end
    end
    -- An argument has 113 bytes, and two more for a known state; one byte more opens a reservation.
    if #arg % 2 == 0 then
      if not eased then all_us, all_part = level_us, level_part end
      if not first then first, open, least_us, least_part = at, 0, 0, 0 end
      -- Nothing is left of earlier units, so the mark begins again with these.
      if least_us == 0 and least_part == 0 then began, least_us, least_part = at, all_us, all_part end
      open, mark = open + 1, ''
    end
  elseif cost < 0 and v then
    -- give_back
    local undrained_us, undrained_part = cost_us, cost_part
    if taken then
      local since = taken.since
      -- Units that have drained since they were taken may have drained alone, so they do not come back, unless the
      -- level was never so low since. The last slots of a queue come back as long as no later slot is promised.
      local taken_us, taken_part = cost_us, cost_part
      -- The number of the leaky queue.
      if string.byte(arg, 2) == 2 then
        if since ~= last then cost_us, cost_part = 0, 0 end
        undrained_us, undrained_part = cost_us, cost_part
      else
        local drained_us, drained_part = taken.drained(taken, at, arg)
        if drained_us then
          cost_us, cost_part = cost_us - drained_us, cost_part - drained_part
          if cost_part < 0 then cost_us, cost_part = cost_us - 1, cost_part + n end
        end
        if not drained_us or cost_us < 0 then cost_us, cost_part = 0, 0 end
        undrained_us, undrained_part = cost_us, cost_part
        -- The level never fell below the lowest since then, so that
        -- much of them is still there, whichever units drained.
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
    -- Without a time some units come back in any case.
    takes = not taken or cost_us > 0 or cost_part > 0
    if cost_us > all_us or cost_us == all_us and cost_part > all_part then cost_us, cost_part = all_us, all_part end
    if cost_us > 0 or cost_part > 0 then
      local off_us, off_part = cost_us, cost_part
      if eased and (all_us > left_us or all_part > left_part) then
        -- Units that make no caller wait come back first. The level gets back the units that cannot have drained, if
        -- they were taken after the level was lowered.
        if not taken or taken.since <= eased then
          off_us, off_part = 0, 0
        elseif undrained_us < off_us or undrained_us == off_us and undrained_part < off_part then
          off_us, off_part = undrained_us, undrained_part
        end
      end
      all_us, all_part = all_us - cost_us, all_part - cost_part
      if all_part < 0 then all_us, all_part = all_us - 1, all_part + n end
      left_us, left_part = left_us - off_us, left_part - off_part
      if left_part < 0 then left_us, left_part = left_us - 1, left_part + n end
      if left_us < 0 then left_us, left_part = 0, 0 end
      if left_us > all_us or left_us == all_us and left_part > all_part then left_us, left_part = all_us, all_part end
      if eased and all_us == 0 and all_part == 0 then eased = nil end
      -- A level that was empty by now stays empty since then, also for a clock that steps back.
      if level_us >= drained then level_us, level_part = left_us + drained, left_part end
      if taken then
        -- Its units, rounded up: the rest of a unit has drained by itself.
        local q, rest = cost_us, 0
        if n > 0 then q, rest = muldiv(cost_us, n, w) end
        rest = rest + cost_part
        if n > 0 then back = q + (rest + -rest % w) / w else back = q end
      end
    end
    -- As though the units had never been taken, so every level since then was lower, the lowest too.
    if first and taken then
      least_us, least_part = least_us - cost_us, least_part - cost_part
      if least_part < 0 then least_us, least_part = least_us - 1, least_part + n end
      if least_us < 0 then least_us, least_part = 0, 0 end
    elseif first and (all_us < least_us or all_us == least_us and all_part < least_part) then
      least_us, least_part = all_us, all_part
      if all_us == 0 and all_part == 0 then first = nil end
    end
  end

  -- close
  -- A settlement keeps the mark as it is now, also if it gives nothing back and the level is empty.
  if mark and taken and not taken.leased then takes = true end
  if first then
    if taken and taken.opened and first <= taken.opened then open = open - 1 end
    if open > 0 then mark = struct.pack('<ddddd', first, open, began, least_us, least_part) end
  end

  -- encode
  if v and not (takes or amended) then return verdict, at end
  local gone, value, whole = last + level_us, struct.pack('<ddd', level_us, level_part, last), nil
  if level_part > 0 then gone = gone + 1 end
  if eased then
    local since = at - last
    -- Of units that came back none was there because of a change.
    if caused_us > level_us or caused_us == level_us and caused_part > level_part then
      caused_us, caused_part = level_us, level_part
    end
    gone = last + all_us + since
    if all_part > 0 then gone = gone + 1 end
    if not mark or mark == '' then mark = string.rep('\0', 40) end
    mark = mark .. struct.pack('<ddddd', all_us + since, all_part, caused_us, caused_part, eased)
  end
  -- A bucket that begins with fewer tokens must not begin again, and a level that does not drain never goes.
  if start_us > 0 or start_part > 0 or (n == 0 and level_us > 0) then gone = 9007199254740992 end
  if mark then value = value .. mark end
  if v and (mark or #v > 57) and #v ~= 33 + #value then whole = 'whole' end
  return verdict, at, takes, amended or takes, value, gone, nil, whole, nil, back
end

step = level
if algorithms then
  local its = {step = step}
  algorithms[1], algorithms[2] = its, its
end

if changes or settles then
  local its, NO_MARK = algorithms[1], string.rep('\0', 40)

  -- The functions of a level for a change of its rule or a bounded debt. Its argument and its state are in other units
  -- than limit and window.

  -- The rate N/W in lowest terms, as in level.rs.
  local function lowest(N, W)
    local a, b = N, W
    while b > 0 do a, b = b, a % b end
    return N / a, W / a
  end

  local function split(units, n, w)
    if n == 0 then return units, 0 end
    return muldiv(units, w, n)
  end

  -- The numbers of an argument, from the numbers of a stored rule. A cost below zero is given back.
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

  -- Whole units and a part of 1/w, from the rest of a level.
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

  -- The same units at another rate, rounded up or down.
  local function at_rate(us, part, n, w, n2, w2, up)
    -- Whole units by themselves, because the product of all parts might not be exact.
    local units, units_part = in_units(us, part, n, w)
    local parts, rest = muldiv(units_part, w2, w)
    if up and rest > 0 then parts = parts + 1 end
    if n2 == 0 then return units + parts, 0 end
    us, part = muldiv(units, w2, n2)
    part = part + parts
    rest = part % n2
    return us + (part - rest) / n2, rest
  end

  -- All units in use, also those that make no caller wait, and how many are a debt: above the capacity, and not caused
  -- by changes.
  function its.owed(_, left_us, left_part, eased, N, W, capacity)
    local units = its.units(left_us, left_part, N, W)
    local without, all = capacity, units
    if N == 0 then return units, 0 end
    if eased then
      all = its.units(eased[1], eased[2], N, W)
      without = math.max(capacity, its.units(eased[3], eased[4], N, W))
    end
    return all, math.max(units - without, 0)
  end

  -- The mark of a level that has come under another rate, rounded down; empty if nothing is used.
  function its.mark_at(mark, all_us, all_part, N, W, N2, W2)
    local n, w = lowest(N, W)
    local n2, w2 = lowest(N2, W2)
    if all_us == 0 and all_part == 0 or mark == NO_MARK then return '' end
    local first, open, began, least_us, least_part = struct.unpack('<ddddd', mark)
    if all_us < least_us or all_us == least_us and all_part < least_part then
      least_us, least_part = all_us, all_part
    end
    least_us, least_part = at_rate(least_us, least_part, n, w, n2, w2, false)
    return struct.pack('<ddddd', first, open, began, least_us, least_part)
  end

  -- The state of a level under another rule: one above the capacity, except by a debt, is lowered so far that a unit fits
  -- after one window. All usage counts again when more is allowed.
  local function ease(at, last, left_us, left_part, all_us, all_part, eased, N, W, capacity, debt, mark)
    local n, w = lowest(N, W)
    local since, tail = at - last, ''
    if n == 0 then
      since = 0
    else
      local function is_less(us, part, other_us, other_part)
        return us < other_us or us == other_us and part < other_part
      end
      -- One window drains N units, and then a unit fits if capacity - 1 are left.
      local most_us, most_part = split(capacity + N - 1 + debt, n, w)
      if is_less(most_us, most_part, left_us, left_part) then
        left_us, left_part, eased = most_us, most_part, at
      end
      local debt_us, debt_part = split(debt, n, w)
      local caused_us, caused_part = left_us - debt_us, left_part - debt_part
      if caused_part < 0 then caused_us, caused_part = caused_us - 1, caused_part + n end
      local full_us, full_part = split(capacity, n, w)
      local is_caused = is_less(full_us, full_part, caused_us, caused_part)
      if is_caused then caused_us = caused_us + since else caused_us, caused_part = 0, 0 end
      if is_caused or is_less(left_us, left_part, all_us, all_part) then
        if mark == '' then mark = NO_MARK end
        if all_us > 9007199254740991 - since then all_us, all_part = 9007199254740991 - since, 0 end
        tail = struct.pack('<ddddd', all_us + since, all_part, caused_us, caused_part, eased)
      end
    end
    -- An empty level stays empty at any reading of the clock.
    if left_us > 0 or left_part > 0 then left_us = left_us + since end
    if left_us > 9007199254740991 then left_us, left_part = 9007199254740991, 0 end
    return struct.pack('<ddd', left_us, left_part, last) .. mark .. tail
  end

  -- The state under another limit and capacity; nil under another window. The level is kept as of the last unit. If more
  -- is allowed than before, or nothing drains any more, all usage counts.
  function its.refit(at, left_us, last, left_part, eased, N, W, capacity, N2, W2, capacity2, mark)
    if W ~= W2 then return nil end
    local n, w = lowest(N, W)
    local n2, w2 = lowest(N2, W2)
    local _, debt = its.owed(at, left_us, left_part, eased, N, W, capacity)
    local all_us, all_part = left_us, left_part
    if eased then all_us, all_part = eased[1], eased[2] end
    if mark ~= '' then mark = its.mark_at(mark, all_us, all_part, N, W, N2, W2) end
    all_us, all_part = at_rate(all_us, all_part, n, w, n2, w2, true)
    if N2 > N or capacity2 > capacity or N2 == 0 then
      left_us, left_part = all_us, all_part
    else
      left_us, left_part = at_rate(left_us, left_part, n, w, n2, w2, true)
    end
    return ease(at, last, left_us, left_part, all_us, all_part, eased and eased[5] or 0, N2, W2, capacity2, debt, mark)
  end

  -- The text of a state that begins with units in use.
  function its.eased(at, value, N, W, capacity, debt)
    local left_us, left_part, last = struct.unpack('<ddd', value)
    return ease(at, last, left_us, left_part, left_us, left_part, 0, N, W, capacity, debt, '')
  end

  -- The maximum units that can be in use without a debt.
  function its.most(N, capacity) return capacity end
end
