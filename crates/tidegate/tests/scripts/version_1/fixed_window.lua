local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local LAST, NEVER = 9007199254740991, 9007199254740992

local digits = string.format

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local key, arg = KEYS[1], ARGV[1]
local moved, full, replaced, amended, expires = false, false, false, false, -1
local head, cost, W, N, anchored = unpack('<c22dddd', arg)

local v = call('GET', key)

if v and sub(v, 1, 22) ~= head then
return nil
end
local ends, count, last = 0, 0, 0
if v then ends, count, last = unpack('<ddd', v, 23) end
expires = ends

local at = now
if now < last then
  if last - now <= W then
    at = last
  else
if anchored == 1 then
  ends = ends - (last - now)
  if ends < 0 then ends = 0 end
else
  ends = now + W - now % W
end

    last, moved = now, true
  end
end
local inside = count
if ends <= at then inside = 0 end

local verdict = 0
if cost > 0 then
if cost > N then
  verdict = 2
elseif inside + cost > N then
  verdict = 1
end

end
local takes = verdict == 0 and cost > 0
if takes then
if inside == 0 then
  ends = at + W
  if anchored == 0 then ends = ends - at % W end
end
count = inside + cost
if count > LAST then count = LAST end
last = at

end
local value, gone, told
if takes or moved or not v then
value = pack('<ddd', ends, count, last)
gone = ends
if count == 0 then gone = 0 end

else
  value = sub(v, 23)
end
if takes or moved then
if gone <= at then
  call('DEL', key)
elseif gone > LAST then
  call('SET', key, head .. value)
else
  local ms = gone + 999
  ms = (ms - ms % 1000) / 1000
  if v and not amended then
    call('SETRANGE', key, '22', value)
    if gone ~= expires then call('PEXPIREAT', key, digits('%d', ms)) end
  else
    call('SET', key, head .. value, 'PXAT', digits('%d', ms))
  end
end

end
told = ''
if verdict == 0 then return at end
return -1 - at
