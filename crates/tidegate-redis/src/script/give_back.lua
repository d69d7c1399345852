-- Settles or undoes, in addition to an ordinary step. An argument ends with four more doubles: the time when the units
-- were taken (below zero if it is not known), their purpose: a reservation (1), a lease (2), another rule (3) or none
-- of these (0), the limit under which they were taken (below zero if it is not known), and the maximum units that may
-- be in use after more is taken (below zero for any number).

settles = {}

-- Returns the facts about the units of an argument that `step` needs; nil if it is not known when they were taken.
-- Units taken before the limiter's bar come back no more, nor units taken before a clock that this step finds stepped
-- back.
function settles.taken(key, v, arg, now, amending)
  local since, of, under = struct.unpack('<ddd', arg, #arg - 31)
  if since < 0 then return nil end
  local lost, limits = bar(key, amending and amending.lost, amending and amending.change, 0, true)
  if v then
    local W, its = struct.unpack('<d', arg, 42), algorithms[string.byte(arg, 2)]
    local _, _, last = its.step(key, v, arg, 9007199254740992, 'used', true, amending and amending.how)
    -- A limit of 0 without a window has the longest.
    if W == 0 then W = 31622400000000 end
    -- This may not be the state that the units were taken from.
    if last - now > W or since - math.max(now, last) > W then lost = 9007199254740992 end
  end
  local opened = of == 1 and since
  -- Before all times, so that no unit counts any more; the reservation is closed all the same.
  if since < lost or of == 3 then since = -9007199254740992 end
  if under < 0 then under = nil end
  return {since = since, limits = limits, under = under, drained = drained, leased = of == 2, opened = opened}
end

-- Returns the argument with no more units than may be taken, and how many are cut.
function settles.cut(key, v, arg, now, amended)
  local cost, most = struct.unpack('<d', arg, 34), struct.unpack('<d', arg, #arg - 7)
  if cost <= 0 or most < 0 then return arg, 0 end
  local kind, N, W = struct.unpack('<BI4I6', arg, 2)
  local its = algorithms[kind]
  local _, used, _, part = its.step(key, v, arg, now, 'used', true, amended)
  if its.units then used = its.units(used, part, N, W) end
  local space = most - used
  -- A debt may be larger than that already, for example after a change of the rule.
  if space < 0 then space = 0 end
  if cost <= space then return arg, 0 end
  if its.with_cost then return its.with_cost(arg, space), cost - space end
  return string.sub(arg, 1, 33) .. struct.pack('<d', space) .. string.sub(arg, 42), cost - space
end

