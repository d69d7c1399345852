-- Takes units as a lease, which is to be spent elsewhere within `life`: the last argument but those that may follow it.
-- The state is prepared, decides, and takes. A lease that is not granted leaves it as it was. The reply is that of
-- one limiter: its state and the time that counts say when the lease ends.

local life, ask = tonumber(args[tail + 2]), step

function step(key, v, arg, now, verb, full, amended)
  local prepared = v
  if prepare then prepared = prepare(key, v, arg, now, life) end
  local verdict, at, takes, changed, value, gone, expires, parts, state =
    ask(key, prepared, arg, now, 'ask', full, amended)
  if verdict ~= 0 then return verdict, select(2, ask(key, v, arg, now, 'look', full, amended)) end
  return verdict, at, takes, changed, value, gone, expires, parts, state
end
