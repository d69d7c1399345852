-- Decides several requests in one call, each as though it had come alone. A state is read once, and written once.
--
-- The plan (ARGV[2]). For each request: the number of times it is asked, the number of its limiters, the key of its
-- answer and the argument of that answer (0 for none; see dispatch.lua). For each limiter: its key, its argument, and its flag,
-- which is odd if the rule is enforced, and above 55 if the limiter is asked for a unit that it does not take.
--
-- For each request, returns pairs: the number of times that a reply was given, and the reply. An error stands alone in
-- an array.

-- By key number: `states`, each `read` in some way or unknown; the change that is `due` to be written after all
-- requests are decided; and the time when it is `gone`. `known` has, by argument, the replies that changed nothing.
local states, reads, dues, gones, known = {}, {}, {}, {}, {}
local is_changed, written = false, false
-- The keys of levels that are in the store.
local levels = {}
local sub, byte = string.sub, string.byte

local function write_whole(key, text, due, gone)
  -- Rounded up to milliseconds, so that no key expires before its state is idle.
  local ms = gone + 999
  ms = (ms - ms % 1000) / 1000
  if due == 'front' then
    -- In place: the ring of a log stays after it.
    call('SETRANGE', key, '0', text)
    if not given then expire_later(key, gone) end
  elseif given or gone > 9007199254740991 then
    call('SET', key, text)
  elseif levels[key] then
    call('SET', key, text, 'KEEPTTL')
    expire_later(key, gone)
  else
    call('SET', key, text, 'PXAT', string.format('%d', ms))
  end
end
local function message(why)
  return {type(why) == 'table' and why.err or why}
end
-- The requests so far: the numbers of their keys, the number of the answer's key (or 0), the number of times that each
-- request changed the store, and its replies, each after the number of times it was given.
local keys_of, answer_of, charged, out = {}, {}, {}, {}
-- A state that could not be written was not taken: each request that counted on it gets the error.
local function lose(k, why)
  for r = 1, #out do
    local counted = false
    for _, other in ipairs(keys_of[r]) do counted = counted or other == k end
    if counted and charged[r] > 0 then
      if answer_of[r] > 0 then dues[answer_of[r]] = nil end
      local replies = {charged[r], message(why)}
      for place = 2 * charged[r] + 1, #out[r] do replies[#replies + 1] = out[r][place] end
      out[r], charged[r] = replies, 0
    end
  end
end
-- Writes the due state of a key, and forgets the key.
local function settle(k)
  local due = dues[k]
  reads[k], dues[k], known[k] = nil, nil, nil
  if due then
    local done, why = pcall(write_whole, keys[k], states[k], due, gones[k])
    if not done then lose(k, why) end
  end
end

-- The state of a key, read unless it was read before in the same way. A log is known by its front, which is written
-- later; a state in parts is written at once.
local function read(k, its)
  local way = its.write and 'parts' or its.front and 'front' or 'whole'
  if reads[k] ~= way then
    settle(k)
    local v
    if its.write then
      v = its.fetch(keys[k])
    elseif its.front then
      v = call('GETRANGE', keys[k], '0', its.front)
      if v == '' then v = false end
    else
      v = call('GET', keys[k])
    end
    states[k], reads[k], levels[keys[k]] = v, way, v and its.most
  end
  return states[k]
end
-- Remembers a new state, and writes it later if that is possible.
local function hold(k, its, at, v, head, value, gone, parts, newer)
  local key = keys[k]
  is_changed, known[k] = true, nil
  if its.write then
    reads[k] = nil
    if gone <= at then
      call('DEL', key)
    else
      its.write(key, v, head, value, parts, newer)
      local ms = gone + 999
      ms = string.format('%d', (ms - ms % 1000) / 1000)
      if not given and redis.pcall('PEXPIREAT', key, ms) ~= 1 then
        if not v then call('DEL', key) end
        call('PEXPIREAT', key, ms)
      end
    end
  elseif gone <= at then
    call('DEL', key)
    states[k], dues[k], levels[key] = false, nil, nil
  elseif parts == 'parts' then
    states[k], dues[k], gones[k] = head .. value .. sub(v, 34 + #value), dues[k] or 'front', gone
  -- A log with a ring is longer than its front: it is written now, and only the front is remembered.
  elseif parts == 'whole' and its.front and #value > 204 then
    write_whole(key, head .. value, 'whole', gone)
    states[k], dues[k] = sub(head .. value, 1, 237), nil
  else
    -- Overwriting a stored state of the same length costs the store less.
    local in_place = not parts and dues[k] ~= 'whole' and v and #v == 33 + #value and gone <= 9007199254740991
    states[k], dues[k], gones[k] = head .. value, in_place and 'front' or 'whole', gone
  end
end
-- One limiter decides, and takes if `does` is `ask`. Returns what `step` returns, or false and the first bytes of a
-- state that was written under other values.
local function run(k, arg, does, full)
  local its = algorithms[byte(arg, 2)]
  local v, head, newer = read(k, its), sub(arg, 1, 33), false
  if v and sub(v, 1, 33) ~= head then
    if sub(v, 1, 22) ~= sub(head, 1, 22) then return false, sub(v, 1, 33) end
    newer = is_later(head, v)
    if not newer then head = sub(v, 1, 33) end
  -- A state that must be there was lost: the argument has two bytes more (prelude.lua).
  elseif not v and #arg % 8 > 2 then
    return false, 'L'
  end
  local verdict, at, takes, changed, value, gone, _, parts, state =
    its.step(keys[k], v, arg, now, does, full, false)
  if not full then return verdict end
  if changed then
    local key = keys[k]
    if changed ~= true and type(changed) == 'number' then
      -- The clock has moved the state back: units taken before come back no more (bar.lua).
      local name = string.find(key, '{', 1, true) and key .. '?taken' or key .. '{' .. key .. '}?taken'
      local lives = math.max(call('PTTL', key), call('PTTL', name), 1)
      call('SETRANGE', name, #(call('GET', name) or ''), struct.pack('<dd', -1, changed + 1))
      if not given then call('PEXPIREAT', name, string.format('%d', now / 1000 + 1 + lives)) end
    end
    hold(k, its, at, v, head, value, gone, parts, newer)
  end
  return verdict, at, state or value or sub(v, 34), takes
end
-- The due states of a request's keys before it took anything, to be restored if it fails.
local saved, states_before, dues_before, gones_before = false, {}, {}, {}
local function save(ks)
  saved = true
  for i = 1, #ks do
    local k = ks[i]
    states_before[i], dues_before[i], gones_before[i] = states[k], dues[k], gones[k]
  end
end
local function put_back(ks)
  for i = 1, #ks do
    local k = ks[i]
    -- Without a due change the store may have another state
    -- by now than the remembered state: it is read again.
    if not dues_before[i] then reads[k] = nil end
    states[k], dues[k], gones[k] = states_before[i], dues_before[i], gones_before[i]
    known[k] = nil
  end
end
-- Returns the remembered answer to a request with an id.
local function first_answer(k, dedupe)
  if reads[k] ~= 'whole' then
    settle(k)
    states[k], reads[k] = call('GET', keys[k]), 'whole'
  end
  local first = states[k]
  if not first then return end
  local since = struct.unpack('<d', first)
  -- The clock stepped back: the answer is remembered from now on, and for no longer than it may be.
  if since - now > dedupe then
    since, is_changed = now, true
    first = struct.pack('<d', since) .. sub(first, 9)
    states[k], dues[k], gones[k] = first, 'whole', since + dedupe
  end
  if now - since < dedupe then
    first = cmsgpack.unpack(sub(first, 9))
    first[1] = 2
    if #first % 3 == 0 then first[#first + 1] = math.max(now - since, 0) end
    return first
  end
end
-- One limiter decides and takes. An unchanged state gives the same reply.
local function ask_one(ks, arg)
  local k = ks[1]
  local replies = known[k]
  local reply = replies and replies[arg]
  if reply then return reply end
  save(ks)
  local verdict, at, state, takes = run(k, arg, 'ask', true)
  if not verdict then return {at, ''} end
  if takes and at == now then return state end
  reply = {verdict, now, at, state}
  if not is_changed then
    if not replies then
      replies = {}
      known[k] = replies
    end
    replies[arg] = reply
  end
  return reply
end
-- One of several limiters decides, and takes if `goes_on`. Returns the reply of `ask_one`.
local function step(k, arg, goes_on)
  local replies = known[k]
  local reply = replies and replies[arg]
  if reply then return reply end
  -- Here it says only if this limiter changes.
  local changed_before = is_changed
  is_changed = false
  local verdict, at, state = run(k, arg, goes_on and 'ask' or 'look', true)
  if not verdict then return false, at end
  reply = {verdict, now, at, state}
  if verdict ~= 0 and not is_changed then
    if not known[k] then known[k] = {} end
    known[k][arg] = reply
  end
  is_changed = is_changed or changed_before
  return reply
end
-- Some limiters were written under other values: returns the first bytes of their states, and empty texts for the
-- others.
local function under_others(others, count)
  for i = 1, count + 1 do others[i] = others[i] or '' end
  return others
end
-- All but the last limiter decide. Then the last decides and takes, then the others take, if no enforced limiter
-- refuses.
local function ask_several(count, ks, args, flags, remembers)
  local answer_key, dedupe = ks[count + 1], remembers and struct.unpack('<d', remembers)
  local first = answer_key and first_answer(answer_key, dedupe)
  if first then return first end
  local goes_on, reply, others = true, {1, now}, false
  for i = 1, count - 1 do
    local k, arg = ks[i], args[i]
    local replies = known[k]
    local verdict, begins = replies and replies[arg]
    if verdict then verdict = verdict[1]
    else
      verdict, begins = run(k, arg, 'look', false)
      if not verdict then
        others = others or {}
        others[i] = begins
      end
    end
    if verdict ~= 0 and flags[i] % 2 == 1 then goes_on = false end
  end
  if others then
    local verdict, begins = run(ks[count], args[count], 'look', false)
    if not verdict then others[count] = begins end
    return under_others(others, count)
  end
  save(ks)
  for i = count, 1, -1 do
    local one, begins = step(ks[i], args[i], goes_on and flags[i] < 56)
    if not one then return under_others({[count] = begins}, count) end
    reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = one[1], one[3], one[4]
    if one[1] ~= 0 and flags[i] % 2 == 1 then goes_on = false end
  end
  if not goes_on then reply[1] = 0 end
  if answer_key and goes_on then
    is_changed = true
    if #remembers > 8 then reply[3 * count + 3] = sub(remembers, 9) end
    states[answer_key] = struct.pack('<d', now) .. cmsgpack.pack(reply)
    reply[3 * count + 3] = nil
    dues[answer_key], gones[answer_key] = 'whole', now + dedupe
  end
  return reply
end
-- After a first write a script cannot fail for lack of memory. So the first change is written immediately.
local function ask(count, ks, args, flags, remembers)
  local reply = no_space and no_space(count, ks)
  if reply then return reply end
  if #ks == 1 and flags[1] < 56 then
    reply = ask_one(ks, args[1])
  else
    reply = ask_several(count, ks, args, flags, remembers)
  end
  if is_changed and not written then
    for i = 1, #ks do
      local k = ks[i]
      if dues[k] then
        write_whole(keys[k], states[k], dues[k], gones[k])
        dues[k] = nil
      end
    end
    written = true
  end
  return reply
end
local plan, place, args, enforced = flags, 1, {}, {}
while place <= #plan do
  local times, count, answer_key, remembers, arg
  local ks, r, replies = {}, #out + 1
  times, count, answer_key, remembers, place = struct.unpack('<I4I4I4I4', plan, place)
  for i = 1, count do
    ks[i], arg, enforced[i], place = struct.unpack('<I4I4B', plan, place)
    args[i] = ARGV[first + arg]
  end
  if answer_key > 0 then ks[count + 1] = answer_key end
  remembers = remembers > 0 and ARGV[first + remembers]
  keys_of[r], answer_of[r], charged[r] = ks, answer_key, 0
  while times > 0 do
    is_changed, saved = false, false
    local done, reply = pcall(ask, count, ks, args, enforced, remembers)
    if not done then
      if saved then put_back(ks) end
      reply = message(reply)
    end
    -- Asking again at the same instant, with unchanged states, would give the same reply.
    local given = done and is_changed and 1 or times
    if replies then
      replies[#replies + 1], replies[#replies + 2] = given, reply
    else
      replies = {given, reply}
    end
    times = times - given
    if done and is_changed then charged[r] = charged[r] + 1 end
  end
  out[r] = replies
end
-- An answer may be remembered only if its units were taken, so limiters are written first.
for k = 1, #keys do
  local remembered = false
  for r = 1, #out do remembered = remembered or answer_of[r] == k end
  if not remembered then settle(k) end
end
for k = 1, #keys do settle(k) end
return finish and finish(out) or out
