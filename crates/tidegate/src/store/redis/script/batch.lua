-- Several requests in one call, each decided in turn as though it had come alone.

-- @held
-- What is known of each key, by its number: `v`, as it was `read`; how it is `due` to be written once all is decided;
-- and under each argument the reply to it, if that changed nothing. An entry is replaced when `v` changes, so that a
-- request that fails puts back what was.
local in_hand, is_changed, written = {}, false, false

-- @write
local function write(key, it)
  local ms = it.gone + 999
  ms = digits('%d', (ms - ms % 1000) / 1000)
  if it.due == 'front' then
    call('SETRANGE', key, '0', it.v)
    call('PEXPIREAT', key, ms)
  elseif it.gone > LAST then
    call('SET', key, it.v)
  else
    call('SET', key, it.v, 'PXAT', ms)
  end
end

-- @write_given
local function write(key, it)
  if it.due == 'front' then
    call('SETRANGE', key, '0', it.v)
  else
    call('SET', key, it.v)
  end
end

-- @settle
local function message(why)
  return {type(why) == 'table' and why.err or why}
end
-- The requests so far: the numbers of their keys, that of the answer's (or 0), how often each has changed what is
-- stored, and their replies, each behind how often it was given.
local keys_of, answer_of, charged, out = {}, {}, {}, {}
-- What could not be written was not taken: whoever counted on it is told why.
local function lose(k, why)
  for r = 1, #out do
    local counted = false
    for _, other in ipairs(keys_of[r]) do counted = counted or other == k end
    if counted and charged[r] > 0 then
      if answer_of[r] > 0 then in_hand[answer_of[r]] = nil end
      local replies = {charged[r], message(why)}
      for place = 2 * charged[r] + 1, #out[r] do replies[#replies + 1] = out[r][place] end
      out[r], charged[r] = replies, 0
    end
  end
end
-- Writes what is due of a key, and forgets the key.
local function settle(k)
  local it = in_hand[k]
  in_hand[k] = nil
  if it and it.due then
    local done, why = pcall(write, KEYS[k], it)
    if not done then lose(k, why) end
  end
end

-- @hold
is_changed = true
if gone <= at then
  call('DEL', key)
  in_hand[k] = {v = false, read = 'whole'}
else
  in_hand[k] = {v = head .. value, read = 'whole', due = 'whole', gone = gone}
end

-- @hold_front
is_changed = true
if gone <= at then
  call('DEL', key)
  in_hand[k] = {v = false, read = 'front'}

-- @hold_behind
  local front = head .. value .. sub(v, 23 + #value)
  in_hand[k] = {v = front, read = 'front', due = in_hand[k].due or 'front', gone = gone}
elseif #value <= 204 then
  in_hand[k] = {v = head .. value, read = 'front', due = 'whole', gone = gone}
else
  value = head .. value
  write(key, {v = value, due = 'whole', gone = gone})
  in_hand[k] = {v = sub(value, 1, 226), read = 'front'}
end

-- @hold_parts
is_changed = true
in_hand[k] = nil

-- @decide
-- What each limiter was before the request took something, to be put back where that fails.
local before = {}
-- The answer that a request was given before, under its id.
local function first_answer(k, dedupe)
  local it = in_hand[k]
  if not it or it.read ~= 'whole' then
    settle(k)
    it = {v = call('GET', KEYS[k]), read = 'whole'}
    in_hand[k] = it
  end
  local first = it.v
  if not first then return end
  local since = unpack('<d', first)
  if since - now > dedupe then
    since, is_changed = now, true
    first = pack('<d', since) .. sub(first, 9)
    in_hand[k] = {v = first, read = 'whole', due = 'whole', gone = since + dedupe}
  end
  if now - since < dedupe then
    first = cmsgpack.unpack(sub(first, 9))
    first[1] = 2
    return first
  end
end
-- One limiter decides and takes. What has not changed since replies the same.
local function ask_one(k, arg)
  local it = in_hand[k]
  if it and it[arg] then return it[arg] end
  before[1] = it or false
  local verdict, at, told, takes = steps[string.byte(arg, 2)](KEYS[k], arg, k, true)
  if not verdict then return false end
  if takes and at == now then return told end
  local reply = {verdict, now, at, told}
  if not is_changed then in_hand[k][arg] = reply end
  return reply
end
-- Several decide, then take if none refuses that may.
local function ask_several(count, ks, args, flags, dedupe)
  local answer_key = ks[count + 1]
  local first = answer_key and first_answer(answer_key, dedupe)
  if first then return first end
  local goes_on, reply = true, {1, now}
  for i = 1, count do
    local k, arg = ks[i], args[i]
    local it = in_hand[k]
    local verdict
    if it and it[arg] then verdict = it[arg][1] else
      verdict = verdicts[string.byte(arg, 2)](KEYS[k], arg, k)
      if not verdict then return false end
    end
    if verdict ~= 0 and flags[i] == 49 then goes_on = false end
    reply[3 * i] = verdict
  end
  if not goes_on then reply[1] = 0 end
  for i = 1, #ks do before[i] = in_hand[ks[i]] end
  for i = 1, count do
    local k, arg = ks[i], args[i]
    local it = in_hand[k]
    local known = it[arg]
    if not known then
      local verdict, at, told = steps[string.byte(arg, 2)](KEYS[k], arg, k, goes_on)
      known = {verdict, now, at, told}
      if verdict ~= 0 and in_hand[k] == it then it[arg] = known end
    end
    reply[3 * i + 1], reply[3 * i + 2] = known[3], known[4]
  end
  if answer_key and goes_on then
    local answer = pack('<d', now) .. cmsgpack.pack(reply)
    is_changed = true
    in_hand[answer_key] = {v = answer, read = 'whole', due = 'whole', gone = now + dedupe}
  end
  return reply
end
-- Once something is written nothing fails any more for want of memory. The first to be written is, at once.
local function ask(count, ks, args, flags, dedupe)
  local reply
  if #ks == 1 then reply = ask_one(ks[1], args[1])
  else reply = ask_several(count, ks, args, flags, dedupe) end
  if is_changed and not written then
    for i = 1, #ks do
      local it = in_hand[ks[i]]
      if it and it.due then
        write(KEYS[ks[i]], it)
        in_hand[ks[i]] = {v = it.v, read = it.read}
      end
    end
    written = true
  end
  return reply
end

-- @batch
-- The plan: for each request how often it is asked, how many limiters it has, the key of its answer (0 for none)
-- and how long that is remembered; and for each limiter its key, its argument, and its flag.
local plan, place, args, flags = ARGV[1], 1, {}, {}
while place <= #plan do
  local times, count, answer_key, dedupe, arg
  local ks, replies, r = {}, {}, #out + 1
  times, count, answer_key, dedupe, place = unpack('<I4I4I4d', plan, place)
  for i = 1, count do
    ks[i], arg, flags[i], place = unpack('<I4I4B', plan, place)
    args[i] = ARGV[arg]
  end
  if answer_key > 0 then ks[count + 1] = answer_key end
  keys_of[r], answer_of[r], charged[r] = ks, answer_key, 0
  while times > 0 do
    is_changed = false
    for i = 1, #ks do before[i] = nil end
    local done, reply = pcall(ask, count, ks, args, flags, dedupe)
    if not done then
      for i = 1, #ks do
        local it = before[i]
        if it ~= nil then in_hand[ks[i]] = it and it.due and it or nil end
      end
      reply = message(reply)
    end
    -- Asked again at the same instant of the same states, it would be answered the same.
    local given = done and is_changed and 1 or times
    replies[#replies + 1], replies[#replies + 2], times = given, reply, times - given
    if done and is_changed then charged[r] = charged[r] + 1 end
  end
  out[r] = replies
end
-- Answers are remembered of what was taken.
for k = 1, #KEYS do
  local remembered = false
  for r = 1, #out do remembered = remembered or answer_of[r] == k end
  if not remembered then settle(k) end
end
for k = 1, #KEYS do settle(k) end
return out
