-- Sliding counter: the number of the window the last unit fell into, its count, and the count of the
-- one before.

-- @rule
local head, stamp, cost, W, N = unpack('<c22c11ddd', arg)

-- @load
local window, current, previous, last = 0, 0, 0, 0
if v then window, current, previous, last = unpack('<dddd', v, 34) end
if current > 0 then expires = (window + 2) * W end

-- @rewind
window = window - ((last - last % W) - (now - now % W)) / W
if window < 0 then window = 0 end

-- @view
local elapsed = at % W
local number, overlap = (at - elapsed) / W, W - elapsed
local cur, prev = 0, 0
if number <= window then
  cur, prev = current, previous
elseif number == window + 1 then
  prev = current
end

-- @decide
if cost > N then
  verdict = 2
else
  local free, weighted = N - cost - cur, prev * overlap
  if free < 0 then
    verdict = 1
  elseif weighted < LAST then
    if weighted > free * W then verdict = 1 end
  else
    local whole, part = muldiv(prev, overlap, W)
    if whole > free or (whole == free and part > 0) then verdict = 1 end
  end
end

-- @take
window, current, previous, last = number, cur + cost, prev, at
if current > LAST then current = LAST end

-- @undo
-- A refund of units that were taken in an earlier window is dropped: each now counts for less than one.
if (since - since % W) / W < number then cost = 0 end

-- @give_back
if number <= window then
  local earlier = -cost - current
  if earlier > 0 then
    current, previous = 0, previous - earlier
    if previous < 0 then previous = 0 end
  else
    current = current + cost
  end
elseif number == window + 1 then
  current = current + cost
  if current < 0 then current = 0 end
end

-- @keep
value = pack('<dddd', window, current, previous, last)
gone = 0
if current > 0 then
  gone = (window + 2) * W
elseif previous > 0 then
  gone = (window + 1) * W
end

-- @old
local cost = 0

-- @used
local whole, part = muldiv(prev, overlap, W)
used = cur + whole
if part > 0 then used = used + 1 end
nothing = N == 0 and cur == 0 and prev == 0
