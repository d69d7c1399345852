-- Sliding window: the number of the newest bucket, the units in all buckets, and one counter of 32 bits for
-- each, the newest first. Counters are kept by age, so they need not move when the clock goes back.

-- @rule
local head, stamp, cost, W, N, width, span = unpack('<c22c11ddddd', arg)

-- @load
local newest, total, last, counters = 0, 0, 0, ''
if v then
  newest, total, last = unpack('<ddd', v, 34)
  counters = sub(v, 58)
else
  counters = rep('\0', 4 * span)
end

-- @rewind
newest = (now - now % width) / width

-- @view
local bucket = (at - at % width) / width
local passed, count = bucket - newest, total
if passed >= span then
  passed, count = span, 0
elseif passed < 0 then
  passed = 0
else
  for age = span - passed, span - 1 do
    count = count - unpack('<I4', counters, 4 * age + 1)
  end
end

-- @decide
if cost > N then
  verdict = 2
elseif count + cost > N then
  verdict = 1
end

-- @take
local units = 0
if passed == 0 then
  units = unpack('<I4', counters)
  counters = sub(counters, 5)
else
  counters = rep('\0', 4 * (passed - 1)) .. sub(counters, 1, 4 * (span - passed))
end
local after = units + cost
if after > 4294967295 then after = 4294967295 end
counters = pack('<I4', after) .. counters
newest, total, last = bucket, count + after - units, at

-- @undo
-- A refund of units whose bucket has left the window is dropped.
if bucket - (since - since % width) / width >= span then cost = 0 end

-- @give_back
local owed = -cost
for age = span - passed - 1, 0, -1 do
  if owed == 0 then break end
  local units = unpack('<I4', counters, 4 * age + 1)
  if units > 0 then
    local given = units
    if given > owed then given = owed end
    owed, total = owed - given, total - given
    counters = sub(counters, 1, 4 * age) .. pack('<I4', units - given) .. sub(counters, 4 * age + 5)
  end
end

-- @keep
value = pack('<ddd', newest, total, last) .. counters
gone = 0
if total > 0 then
  for age = 0, span - 1 do
    if unpack('<I4', counters, 4 * age + 1) > 0 then
      gone = (newest + span - age) * width
      break
    end
  end
end

-- @old
local cost, width, span = 0, a, b

-- @used
used = count
nothing = N == 0 and count == 0
