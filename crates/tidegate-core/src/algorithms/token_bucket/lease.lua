-- Raises a level for leased units: they drain only after the end of the lease, as though they were taken then.

function prepare(key, v, arg, now, life)
  local at, left_us, last, left_part, eased = level(key, v, arg, now, 'used', true)
  if left_us >= life then return v end
  if not v then last = at end
  local mark = v and string.sub(v, 58, 97) or ''
  if mark ~= '' then
    -- The level was as low as it is before it is raised.
    local first, open, began, least_us, least_part = struct.unpack('<ddddd', mark)
    if eased then left_us, left_part = eased[1], eased[2] end
    if left_us < least_us or left_us == least_us and left_part < least_part then
      mark = struct.pack('<ddddd', first, open, began, left_us, left_part)
    end
  end
  return string.sub(arg, 1, 33) .. struct.pack('<ddd', at - last + life, 0, last) .. mark .. string.sub(v or '', 98)
end
