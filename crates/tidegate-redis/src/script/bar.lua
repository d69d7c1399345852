-- The bar of a limiter, next to its state: since when units may come back, and which limits were in force since then. It
-- is a list of pairs. A limit below zero and a time: units taken before come back no more, because the rule got another
-- meaning, the clock stepped back or a reset forgot it; the pairs before it hold no more. Any other limit: a level
-- drains at that limit since that time. Units that were taken before the first of these have drained, but a level may
-- know that it was never so low since. A step that moves a state back with the clock adds a pair by itself,
-- because a script without a use for this file should not carry it.

-- The number of limits that are kept. Of older limits the fastest counts, so that less comes back, and never more.
local KEPT = 9

-- Notes that a limit has changed. The pair before may belong to a state that has drained since, whose successor began
-- under another limit. The first begins when no earlier units count any more.
local function note(limits, change)
  if not limits[1] then limits[1] = {change.was, math.max(change.at - change.gone, 0)} end
  local last = limits[#limits]
  if last[1] < change.was then last[1] = change.was end
  if last[1] ~= change.is then limits[#limits + 1] = {change.is, change.at} end
  while #limits > KEPT do
    local oldest = table.remove(limits, 1)
    -- The next limit takes its place, and from its time on the faster of both counts.
    limits[1] = {math.max(oldest[1], limits[1][1]), oldest[2]}
  end
end

-- Returns the time before which nothing comes back, and the limits since then. With `lost`, moves the bar: to that time,
-- if it is later, and then past a change of the limit, if there is one. Unless it only `looks`, the bar is stored; it stays
-- for as long as the state, and `ms` at least.
function bar(key, lost, change, ms, looks)
  -- In the slot of the limiter's key, and no limiter has this name.
  local name = string.find(key, '{', 1, true) and key .. '?taken' or key .. '{' .. key .. '}?taken'
  local pairs, latest, limits = redis.call('GET', name) or '', 0, {}
  for place = 1, #pairs, 16 do
    local limit, time = struct.unpack('<dd', pairs, place)
    if limit < 0 then
      latest, limits = math.max(latest, time), {}
    else
      limits[#limits + 1] = {limit, time}
    end
  end
  if not lost then return latest, limits end
  if lost > 0 then latest, limits = math.max(latest, lost), {} end
  if change then note(limits, change) end
  if looks then return latest, limits end
  local text, lives = struct.pack('<dd', -1, latest), redis.call('PTTL', key)
  for i = 1, #limits do text = text .. struct.pack('<dd', limits[i][1], limits[i][2]) end
  if given then
    redis.call('SET', name, text)
  else
    -- A state that never expires: a rule of a year is the longest.
    if lives == -1 then lives = 31622400000 end
    lives = math.min(math.max(lives, ms or 0, redis.call('PTTL', name), 1), 31622400000)
    redis.call('SET', name, text, 'PX', string.format('%d', lives))
  end
  return latest, limits
end

-- Returns the amount drained since units were taken, as the time that it takes at the limit of an argument, in
-- microseconds and parts of 1/n, as in a level; nil if all of them have drained.
function drained(taken, at, arg)
  local N, W = struct.unpack('<I4I6', arg, 3)
  local n, limits, begin = struct.unpack('<d', arg, 50), taken.limits, taken.since
  local last = limits[#limits]
  -- Taken before any limit that is known: all have drained.
  if begin < 0 or limits[1] and begin < limits[1][2] then return nil end
  if taken.under and (not last or begin > last[2]) then
    -- No change is known since then. If there was one, the level was empty in between.
    if taken.under ~= N then return nil end
    last, limits = nil, {}
  end
  local us, rest, unit = 0, 0, N
  if N == 0 then unit = W end
  for i = 1, #limits + 1 do
    local limit, till = N, at
    if limits[i] then limit = limits[i][1] end
    if limits[i + 1] then till = math.min(limits[i + 1][2], at) end
    -- The present limit may have begun since without a note: the faster of both counts.
    if limits[i] == last and limit < N then limit = N end
    if till > begin then
      local q, r = till - begin, 0
      -- As the time that this takes at the present limit.
      if limit ~= unit then q, r = muldiv(q, limit, unit) end
      us, rest, begin = us + q, rest + r, till
    end
  end
  us, rest = us + (rest - rest % unit) / unit, rest % unit
  if n == 0 then return rest > 0 and us + 1 or us, 0 end
  -- A part of 1/n is so many of 1/N.
  local part = unit / n
  rest = (rest + -rest % part) / part
  if rest == n then return us + 1, 0 end
  return us, rest
end
