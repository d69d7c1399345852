local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local LAST, NEVER = 9007199254740991, 9007199254740992
-- What stands for a revision where there is none: it is earlier than all.
local NONE = string.rep('\0', 11)

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
local head, stamp, cost, W, n, w, cost_us, cost_part, most_us, most_part, start_us, start_part =
  unpack('<c22c11dddddddddd', arg)

local v = call('GET', key)

if v and sub(v, 1, 22) ~= head then
return {sub(v, 1, 33), ''}
elseif v and sub(v, 23, 33) ~= stamp then
stamp, newer = latest(stamp, v)
end
local level_us, level_part, last = 0, 0, 0
if v then
  level_us, level_part, last = unpack('<ddd', v, 34)
elseif start_us > 0 or start_part > 0 then
  level_us, level_part, last, moved = start_us, start_part, now, true
end

local at = now
if now < last then
  if last - now <= W then
    at = last
  else

    last, moved = now, true
  end
end
local drained = at - last
if n == 0 then drained = 0 end
local left_us, left_part = level_us - drained, level_part
if left_us < 0 then left_us, left_part = 0, 0 end

local verdict = 0
if cost > 0 then
if most_us < 0 then
  verdict = 2
elseif left_us > most_us or (left_us == most_us and left_part > most_part) then
  verdict = 1
end

end
local takes = verdict == 0 and cost > 0
if takes then
level_us, level_part = left_us + cost_us, left_part + cost_part
if level_part >= n and n > 0 then level_us, level_part = level_us + 1, level_part - n end
if level_us > LAST then level_us, level_part = LAST, 0 end
last = at

end
local value, gone, told
if takes or moved or not v then
value = pack('<ddd', level_us, level_part, last)
gone = last + level_us
if level_part > 0 then gone = gone + 1 end
if start_us > 0 or start_part > 0 or (n == 0 and level_us > 0) then gone = NEVER end

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
