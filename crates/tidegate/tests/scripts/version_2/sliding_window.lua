local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local LAST, NEVER = 9007199254740991, 9007199254740992
-- What stands for a revision where there is none: it is earlier than all.
local NONE = string.rep('\0', 11)

local rep = string.rep

local digits = string.format

-- Of a revision and that of what is stored the later one, and whether it is the former.
local function latest(stamp, v)
  local word, time = unpack('<I4I7', stamp)
  local word2, time2 = unpack('<I4I7', v, 23)
  if word > word2 or (word == word2 and time > time2) then return stamp, true end
  return sub(v, 23, 33), false
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local key, arg = KEYS[1], ARGV[1]
local moved, full, replaced, amended, expires = false, false, false, false, -1
local newer = false
local head, stamp, cost, W, N, width, span = unpack('<c22c11ddddd', arg)

local v = call('GET', key)

if v and sub(v, 1, 22) ~= head then
return {sub(v, 1, 33), ''}
elseif v and sub(v, 23, 33) ~= stamp then
stamp, newer = latest(stamp, v)
end
local newest, total, last, counters = 0, 0, 0, ''
if v then
  newest, total, last = unpack('<ddd', v, 34)
  counters = sub(v, 58)
else
  counters = rep('\0', 4 * span)
end

local at = now
if now < last then
  if last - now <= W then
    at = last
  else
newest = (now - now % width) / width

    last, moved = now, true
  end
end
local bucket = (at - at % width) / width
local passed, count = bucket - newest, total
if passed >= span then
  passed, count = span, 0
elseif passed < 0 then
  passed = 0
else
  for age = span - passed, span - 1 do
    count = count - unpack('<I4', counters, 4 * age + 1)
  end
end

local verdict = 0
if cost > 0 then
if cost > N then
  verdict = 2
elseif count + cost > N then
  verdict = 1
end

end
local takes = verdict == 0 and cost > 0
if takes then
local units = 0
if passed == 0 then
  units = unpack('<I4', counters)
  counters = sub(counters, 5)
else
  counters = rep('\0', 4 * (passed - 1)) .. sub(counters, 1, 4 * (span - passed))
end
local after = units + cost
if after > 4294967295 then after = 4294967295 end
counters = pack('<I4', after) .. counters
newest, total, last = bucket, count + after - units, at

end
local value, gone, told
if takes or moved or not v then
value = pack('<ddd', newest, total, last) .. counters
gone = 0
if total > 0 then
  for age = 0, span - 1 do
    if unpack('<I4', counters, 4 * age + 1) > 0 then
      gone = (newest + span - age) * width
      break
    end
  end
end

end
if (takes or moved) then
if gone <= at then
  call('DEL', key)
elseif gone > LAST then
  call('SET', key, head .. stamp .. value)
else
  local ms = gone + 999
  ms = (ms - ms % 1000) / 1000
  if amended then
    call('SET', key, head .. stamp .. value, 'PXAT', digits('%d', ms))
  elseif v then
    if newer then
      call('SETRANGE', key, '22', stamp .. value)
    else
      call('SETRANGE', key, '33', value)
    end
    if gone ~= expires then call('PEXPIREAT', key, digits('%d', ms)) end
  else
    ms = digits('%d', ms)
    call('SETRANGE', key, '0', head .. stamp .. value)
    -- One that could not be told when to expire would stay for ever.
    if redis.pcall('PEXPIREAT', key, ms) ~= 1 then
      call('DEL', key)
      call('PEXPIREAT', key, ms)
    end
  end
end

end
told = ''
if verdict == 0 then return at end
return -1 - at
