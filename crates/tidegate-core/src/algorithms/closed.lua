-- The algorithm of a limit of 0 without a window: units that never leave, and the time of the last one.

-- @rule
local head, stamp, cost = unpack('<c22c11d', arg)
local W = 31622400000000

-- @load
local held, last = 0, 0
if v then held, last = unpack('<dd', v, 34) end

-- @rewind

-- @view

-- @decide
verdict = 2

-- @take
held, last = held + cost, at
if held > LAST then held = LAST end

-- @give_back
held = held + cost
if held < 0 then held = 0 end

-- @keep
value = pack('<dd', held, last)
gone = 0
if held > 0 then gone = NEVER end

-- @old
local cost, W = 0, 31622400000000

-- @used
used = held
nothing = held == 0
