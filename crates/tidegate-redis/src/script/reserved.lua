-- One record of a reservation: written, read, claimed or extended. A record is `+` and its content; a record that was
-- claimed is `-` and the number of the claim, until it would have ended. Its life is in milliseconds.
--
-- Returns 0 if there is no such record, 1 if it is done or was written before, 2 if another claim has the record, and for `read` the content
-- and the rest of its life.

local call, key, verb, argument, life = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if verb == 'write' then
  -- A node that repeats a request writes it again: only the first write counts.
  if call('SET', key, '+' .. argument, 'NX', 'PX', life) then return 1 end
  return string.sub(call('GET', key), 1, 1) == '+' and 1 or 2
end
local record = call('GET', key)
if not record then return 0 end
-- The same claim may be sent again.
if string.sub(record, 1, 1) == '-' then return verb == 'claim' and record == '-' .. argument and 1 or 2 end
local left = math.max(call('PTTL', key), 1)
if verb == 'read' then return {string.sub(record, 2), left} end
if verb == 'claim' then record, life = '-' .. argument, string.format('%d', left) end
call('SET', key, record, 'PX', life)
return 1
