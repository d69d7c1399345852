-- Leaky queue: the work that waits is a level (level.lua).

-- @rule
local head, stamp, cost, W, n, w, cost_us, cost_part, most_us, most_part =
  unpack('<c22c11dddddddd', arg)

-- @load
local level_us, level_part, last = 0, 0, 0
if v then level_us, level_part, last = unpack('<ddd', v, 34) end

-- @keep
value = pack('<ddd', level_us, level_part, last)
gone = last + level_us
if level_part > 0 then gone = gone + 1 end
if n == 0 and level_us > 0 then gone = NEVER end

-- @old
local cost, n, w = 0, lowest(N, W)

-- @most
a
