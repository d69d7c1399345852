-- Removes limiters and all that is known of them. Returns the number of limiters that existed.
local count = redis.call('UNLINK', unpack(KEYS))
for i = 1, #KEYS do
  local name = KEYS[i] .. '?taken'
  if not string.find(KEYS[i], '{', 1, true) then name = KEYS[i] .. '{' .. KEYS[i] .. '}?taken' end
  redis.call('UNLINK', name)
end
return count
