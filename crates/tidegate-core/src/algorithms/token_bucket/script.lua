-- Token bucket and leaky bucket: a level (level.lua). In a token bucket the level is the missing tokens, and
-- `initial` may leave some missing at the start.

-- @rule
local head, stamp, cost, W, n, w, cost_us, cost_part, most_us, most_part, start_us, start_part =
  unpack('<c22c11dddddddddd', arg)

-- @load
local level_us, level_part, last = 0, 0, 0
if v then
  level_us, level_part, last = unpack('<ddd', v, 34)
elseif start_us > 0 or start_part > 0 then
  level_us, level_part, last, moved = start_us, start_part, now, true
end

-- @keep
value = pack('<ddd', level_us, level_part, last)
gone = last + level_us
if level_part > 0 then gone = gone + 1 end
if start_us > 0 or start_part > 0 or (n == 0 and level_us > 0) then gone = NEVER end

-- @empty
-- The time when the bucket is full, also if the state is kept for ever.
gone = last + level_us
if level_part > 0 then gone = gone + 1 end
if n == 0 and level_us > 0 then gone = NEVER end

-- @old
local cost, n, w = 0, lowest(N, W)
local start_us, start_part = b, 0

-- @most
a
