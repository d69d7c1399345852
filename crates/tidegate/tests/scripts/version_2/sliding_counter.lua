local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local LAST, NEVER = 9007199254740991, 9007199254740992
-- What stands for a revision where there is none: it is earlier than all.
local NONE = string.rep('\0', 11)

-- a * b / c in whole numbers, and the remainder; a and b below 2^53, c below 2^52.
local function muldiv(a, b, c)
  local q, r = 0, 0
  local a_rest = a % c
  local a_whole = (a - a_rest) / c
  local bit = 1
  while bit * 2 <= b do bit = bit * 2 end
  while bit >= 1 do
    q, r = q + q, r + r
    if r >= c then q, r = q + 1, r - c end
    if b >= bit then
      b, q, r = b - bit, q + a_whole, r + a_rest
      if r >= c then q, r = q + 1, r - c end
    end
    bit = bit / 2
  end
  return q, r
end

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
local head, stamp, cost, W, N = unpack('<c22c11ddd', arg)

local v = call('GET', key)

if v and sub(v, 1, 22) ~= head then
return {sub(v, 1, 33), ''}
elseif v and sub(v, 23, 33) ~= stamp then
stamp, newer = latest(stamp, v)
end
local window, current, previous, last = 0, 0, 0, 0
if v then window, current, previous, last = unpack('<dddd', v, 34) end
if current > 0 then expires = (window + 2) * W end

local at = now
if now < last then
  if last - now <= W then
    at = last
  else
window = window - ((last - last % W) - (now - now % W)) / W
if window < 0 then window = 0 end

    last, moved = now, true
  end
end
local elapsed = at % W
local number, overlap = (at - elapsed) / W, W - elapsed
local cur, prev = 0, 0
if number <= window then
  cur, prev = current, previous
elseif number == window + 1 then
  prev = current
end

local verdict = 0
if cost > 0 then
if cost > N then
  verdict = 2
else
  local free, weighted = N - cost - cur, prev * overlap
  if free < 0 then
    verdict = 1
  elseif weighted < LAST then
    if weighted > free * W then verdict = 1 end
  else
    local whole, part = muldiv(prev, overlap, W)
    if whole > free or (whole == free and part > 0) then verdict = 1 end
  end
end

end
local takes = verdict == 0 and cost > 0
if takes then
window, current, previous, last = number, cur + cost, prev, at
if current > LAST then current = LAST end

end
local value, gone, told
if takes or moved or not v then
value = pack('<dddd', window, current, previous, last)
gone = 0
if current > 0 then
  gone = (window + 2) * W
elseif previous > 0 then
  gone = (window + 1) * W
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
