-- Decides requests of one limiter each, whose limiters have nothing in common, in one call: each as though it had come
-- alone. A call of the store costs more than the work of most scripts.
--
-- ARGV[2] has a character for each key, from 1 up, for the number of its argument; ARGV[3] and so on are the
-- arguments, each once.
--
-- Returns a reply for each key, like dispatch.lua for one limiter. An error stands alone in an array.

local sub, byte, format = string.sub, string.byte, string.format

local function expire(key, gone)
  local ms = gone + 999
  return call('PEXPIREAT', key, format('%d', (ms - ms % 1000) / 1000))
end

local function save(key, v, head, value, its, at, gone, expires, parts, newer)
  if gone <= at then
    call('DEL', key)
  elseif its.write then
    its.write(key, v, head, value, parts, newer)
    -- A key whose expiry cannot be set would stay forever.
    if not given and gone ~= expires and not pcall(expire, key, gone) then
      -- The key is deleted first: the second attempt fails with the error that the caller gets.
      if not v then call('DEL', key) end
      expire(key, gone)
    end
  elseif v and parts ~= 'whole' and gone <= 9007199254740991 then
    if newer then
      call('SETRANGE', key, '22', sub(head, 23) .. value)
    else
      call('SETRANGE', key, '33', value)
    end
    if not given and gone ~= expires then expire_later(key, gone) end
  elseif given or gone > 9007199254740991 then
    call('SET', key, head .. value)
  elseif v then
    call('SET', key, head .. value, 'KEEPTTL')
    expire_later(key, gone)
  else
    local ms = gone + 999
    call('SET', key, head .. value, 'PXAT', format('%d', (ms - ms % 1000) / 1000))
  end
end

local function ask(key, arg)
  local its, v = algorithms[byte(arg, 2)]
  if its.front then
    v = call('GETRANGE', key, '0', its.front)
    if v == '' then v = false end
  elseif its.fetch then
    v = its.fetch(key)
  else
    v = call('GET', key)
  end
  local head, newer = sub(arg, 1, 33), false
  if v and sub(v, 1, 33) ~= head then
    if sub(v, 1, 22) ~= sub(head, 1, 22) then return {sub(v, 1, 33), ''} end
    newer = is_later(head, v)
    if not newer then head = sub(v, 1, 33) end
  -- A state that must be there was lost: the argument has two bytes more (prelude.lua).
  elseif not v and #arg % 8 > 2 then
    return {'L', ''}
  end
  local verdict, at, takes, changed, value, gone, expires, parts, state =
    its.step(key, v, arg, now, 'ask', true)
  if changed then
    if changed ~= true and type(changed) == 'number' then
      -- The clock has moved the state back: units taken before come back no more (bar.lua).
      local name = string.find(key, '{', 1, true) and key .. '?taken' or key .. '{' .. key .. '}?taken'
      local lives = math.max(call('PTTL', key), call('PTTL', name), 1)
      call('SETRANGE', name, #(call('GET', name) or ''), struct.pack('<dd', -1, changed + 1))
      if not given then call('PEXPIREAT', name, string.format('%d', now / 1000 + 1 + lives)) end
    end
    save(key, v, head, value, its, at, gone, expires, parts, newer)
  end
  if takes and at == now then return state or value end
  return {verdict, now, at, state or value or sub(v, 34)}
end

local out = {}
for i = 1, #keys do
  local done, reply = pcall(ask, keys[i], args[2 + byte(flags, i)])
  out[i] = done and reply or {type(reply) == 'table' and reply.err or reply}
end
return out
