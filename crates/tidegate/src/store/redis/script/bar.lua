-- The bar of a limiter, beside its state: units that were taken before one time come back no more, because the rule got
-- another meaning, the clock stepped back or a reset forgot them; and units drain at the present rate since another. It is
-- a list of such pairs, of which the latest times hold. A step that moves a state back with the clock adds one by itself,
-- because a script without a use for this file should not carry it.

-- Moves the bar to these times, if there are any; it stays for as long as the state, and `ms` at least. Returns both times.
function bar(key, lost, rated, ms)
  local name = string.find(key, '{', 1, true) and key .. '?taken' or key .. '{' .. key .. '}?taken'
  local pairs, latest, latest_rated = redis.call('GET', name) or '', lost or 0, rated or 0
  for place = 1, #pairs, 16 do
    local one, other = struct.unpack('<dd', pairs, place)
    latest, latest_rated = math.max(latest, one), math.max(latest_rated, other)
  end
  if lost then
    local text, lives = struct.pack('<dd', latest, latest_rated), redis.call('PTTL', key)
    if given then return redis.call('SET', name, text) end
    -- A state that never expires: a rule of a year is the longest.
    if lives == -1 then lives = 31622400000 end
    lives = math.min(math.max(lives, ms or 0, redis.call('PTTL', name), 1), 31622400000)
    redis.call('SET', name, text, 'PX', string.format('%d', lives))
  end
  return latest, latest_rated
end

