-- Fixed window: the end of the window of the last unit, and the units in it.

-- @rule
local head, stamp, cost, W, N, anchored = unpack('<c22c11dddd', arg)

-- @load
local ends, count, last = 0, 0, 0
if v then ends, count, last = unpack('<ddd', v, 34) end
expires = ends

-- @rewind
if anchored == 1 then
  ends = ends - (last - now)
  if ends < 0 then ends = 0 end
else
  ends = now + W - now % W
end

-- @view
local inside = count
if ends <= at then inside = 0 end

-- @decide
if cost > N then
  verdict = 2
elseif inside + cost > N then
  verdict = 1
end

-- @take
if inside == 0 then
  ends = at + W
  if anchored == 0 then ends = ends - at % W end
end
count = inside + cost
if count > LAST then count = LAST end
last = at

-- @undo
-- Units of a window that has ended are not given back to this one.
if since < ends - W then cost = 0 end

-- @give_back
if ends > at then
  count = count + cost
  if count < 0 then count = 0 end
end

-- @keep
value = pack('<ddd', ends, count, last)
gone = ends
if count == 0 then gone = 0 end

-- @old
local cost, anchored = 0, a

-- @used
used = inside
nothing = N == 0 and inside == 0
