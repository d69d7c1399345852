-- The level that buckets and queues share (see level.rs): how long it took to drain when the last unit was
-- added, in microseconds at the rate n/w and parts of 1/n. If nothing drains (n = 0), the level is kept in
-- units, and time does not change it.

-- @rewind

-- @view
local drained = at - last
if n == 0 then drained = 0 end
local left_us, left_part = level_us - drained, level_part
if left_us < 0 then left_us, left_part = 0, 0 end

-- @decide
if most_us < 0 then
  verdict = 2
elseif left_us > most_us or (left_us == most_us and left_part > most_part) then
  verdict = 1
end

-- @take
level_us, level_part = left_us + cost_us, left_part + cost_part
if level_part >= n and n > 0 then level_us, level_part = level_us + 1, level_part - n end
if level_us > LAST then level_us, level_part = LAST, 0 end
last = at

-- @undo
-- Time that has drained since then may have found nothing else to drain, so it is not given back.
if n > 0 and at > since then cost_us = cost_us - (at - since) end
if cost_us < 0 then cost = 0 end

-- @give_back
if left_us > 0 or left_part > 0 then
  left_us, left_part = left_us - cost_us, left_part - cost_part
  if left_part < 0 then left_us, left_part = left_us - 1, left_part + n end
  if left_us < 0 then left_us, left_part = 0, 0 end
  level_us, level_part = left_us + drained, left_part
end

-- @used
local units, part = left_us, 0
if n > 0 then
  local rest
  units, rest = muldiv(left_us, n, w)
  rest = rest + left_part
  part = rest % w
  units = units + (rest - part) / w
end
used = units
if part > 0 then used = used + 1 end
nothing = N == 0 and used == 0

-- @same
same = W == W2

-- @refit
local n2, w2 = lowest(N2, W2)
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
-- The level is kept as of the last unit; an empty one stays empty at any reading of the clock.
if n2 > 0 and (left_us > 0 or left_part > 0) then left_us = left_us + at - last end
if left_us > LAST then left_us, left_part = LAST, 0 end
v = pack('<c33ddd', head2, left_us, left_part, last)

-- @charge
if n == 0 then
  cost_us, cost_part = used, 0
else
  cost_us, cost_part = muldiv(used, w, n)
end
