-- Raises a level for leased units: they drain only after the end of the lease, as though they were taken then.

function prepare(key, v, arg, now, life)
  local at, left_us, last = level(key, v, arg, now, 'used', true)
  if left_us >= life then return v end
  if not v then last = at end
  return string.sub(arg, 1, 33) .. struct.pack('<ddd', at - last + life, 0, last)
end
