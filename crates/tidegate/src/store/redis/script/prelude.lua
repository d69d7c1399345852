-- The frame of every script, around the paragraphs of the algorithms. An algorithm that knows when its stored
-- state expires sets `expires`, so that an unchanged expiry is not sent again.

-- @names
local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local LAST, NEVER = 9007199254740991, 9007199254740992
-- Stands for a missing revision; it is earlier than all others.
local NONE = string.rep('\0', 11)

-- @rep
local rep = string.rep

-- @digits
local digits = string.format

-- @clock
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- @clock_given
local now = tonumber(ARGV[#ARGV])

-- @fetch
local v = call('GET', key)

-- @fetch_beginning
local v = call('GETRANGE', key, '0', '236')
if v == '' then v = false end

-- @fetch_any
local v = call('TYPE', key).ok
if v == 'string' then
  v = call('GETRANGE', key, '0', '4199')
  if v == '' then v = false end
elseif v == 'zset' then
  v = call('ZRANGE', key, '0', '0')[1]
elseif v == 'none' then
  v = false
end

-- @latest
-- Returns the later one of a revision and that of a stored state, and whether it is the former.
local function latest(stamp, v)
  local word, time = unpack('<I4I7', stamp)
  local word2, time2 = unpack('<I4I7', v, 23)
  if word > word2 or (word == word2 and time > time2) then return stamp, true end
  return sub(v, 23, 33), false
end

-- @under_others
-- Some limiters were written under other values: returns the first bytes of their states, and empty texts for
-- the others.
local function under_others(others, count)
  for i = 1, count + 1 do others[i] = others[i] or '' end
  return others
end

-- @keep
if gone <= at then
  call('DEL', key)
elseif gone > LAST then
  call('SET', key, head .. stamp .. value)
else
  local ms = gone + 999
  ms = digits('%d', (ms - ms % 1000) / 1000)
  call('SET', key, head .. stamp .. value, 'PXAT', ms)
end

-- @keep_in_place
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
    -- A key whose expiry cannot be set would stay forever.
    if redis.pcall('PEXPIREAT', key, ms) ~= 1 then
      call('DEL', key)
      call('PEXPIREAT', key, ms)
    end
  end
end

-- @keep_given
if gone <= at then
  call('DEL', key)
else
  call('SET', key, head .. stamp .. value)
end

-- @keep_in_place_given
if gone <= at then
  call('DEL', key)
elseif v and not amended then
  call('SETRANGE', key, '22', stamp .. value)
else
  call('SET', key, head .. stamp .. value)
end

-- @expire
local ms, ms_before = gone + 999, expires + 999
ms = ms - ms % 1000
if amended or ms ~= ms_before - ms_before % 1000 then
  ms = digits('%d', ms / 1000)
  if redis.pcall('PEXPIREAT', key, ms) ~= 1 then
    if not v then call('DEL', key) end
    call('PEXPIREAT', key, ms)
  end
end

-- @expire_given

-- @since
local since = tonumber(ARGV[#ARGV])

-- @since_counted
local since = tonumber(ARGV[#ARGV - 2])

-- @since_given
local since = tonumber(ARGV[#ARGV - 1])

-- @muldiv
-- Returns a * b / c in whole numbers, and the remainder; a and b are below 2^53, c below 2^52.
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

-- @lowest
local function lowest(n, w)
  local a, b = n, w
  while b > 0 do a, b = b, a % b end
  return n / a, w / a
end

-- @upgrade
-- Returns a state of version 1 as one of version 2, with the earliest revision. A log is rewritten as a whole,
-- once.
local function upgrade(key, v, known)
  if string.byte(v, 1) ~= 1 or #v < 22 or not known[string.byte(v, 2)] then return v end
  if call('TYPE', key).ok == 'string' then
    local all = call('GET', key)
    all = '\2' .. sub(all, 2, 22) .. NONE .. sub(all, 23)
    call('SET', key, all, 'KEEPTTL')
    return sub(all, 1, 4200)
  end
  local first = '\2' .. sub(v, 2, 22) .. NONE .. sub(v, 23)
  call('ZADD', key, '-inf', first)
  call('ZREMRANGEBYRANK', key, '0', '0')
  return first
end

-- @amend
-- Returns a state of another rule as one of the rule in `arg`: what was used stays used.
-- Returns false if nothing is left of it, or the state, then whether it replaces the stored one.
-- Returns nil, then the version, if no limiter of this version wrote it, and nil, then its first bytes, if its
-- revision is later. Versions are below 32, so that no text looks like one.
local function amend(key, v, arg, now)
  local version, version2 = string.byte(v, 1) or 0, string.byte(arg, 1)
  if version ~= version2 then return nil, version > 0 and version < 32 and version or nil end
  if #v < 33 then return nil end
  local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
  local kind2, N2, W2, a2, b2 = unpack('<BI4I6I6I4', arg, 2)
  local settle = old[kind]
  if not settle then return nil end
  local stamp, head2 = sub(arg, 23, 33), sub(arg, 1, 33)
  if stamp ~= NONE then
    local _, newer = latest(stamp, v)
    if not newer then return nil, sub(v, 1, 33) end
  end
  local at, same, used = settle(key, v, kind == kind2, head2, N, W, a, b, N2, W2, a2, b2, now)
  if same ~= nil then return same, same and not in_parts[kind] end
  return charge[kind2](key, arg, at, used), true
end

-- @seeing_the_clock
-- Returns a stored state after it has seen the clock. `amend` handles states that no limiter of this version
-- wrote.
local function see_clock(key, v)
  local version, version2 = string.byte(v, 1), string.byte(ARGV[1], 1)
  if version ~= version2 or #v < 33 then return v end
  local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
  if not rewound[kind] or not rewound[kind](key, v, N, W, a, b) then return v end

-- @trying
-- Returns when a state is idle, under the rule that it was written under, if nothing more is taken.
local function new_again(key, v, replaced)
  local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
  local gone = empty[kind](key, v, N, W, a, b, replaced)
  if gone > LAST then return LAST end
  if gone < now then return now end
  return gone
end
-- Returns a stored state as though the values in `arg` had been in force since its last unit was taken: all
-- usage counts as of then. It counts up to their limit plus the former debt, so nobody waits longer than these
-- values ever require, although a refusal does not put them in force.
local function dated(key, v, arg)
  local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
  local kind2, N2, W2, a2, b2 = unpack('<BI4I6I6I4', arg, 2)
  local since = last_of[kind](key, v, N, W, a, b)
  local at, _, used = old[kind](key, v, false, '', N, W, a, b, N2, W2, a2, b2, since)
  if not used then return false end
  local most, debt = most_of[kind2](N2, a2), used - most_of[kind](N, a)
  if debt > 0 then most = most + debt end
  if used > most then used = most end
  return charge[kind2](key, arg, at, used)
end
-- Whether the cost is admitted when the stored state is amended at `now`. `since` is that state as of its last
-- unit, if that may admit the cost as well.
local function admits(key, v, arg, now, since)
  local kind, v, replaced = string.byte(arg, 2), amend(key, v, arg, now)
  return admitted[kind](key, v, replaced, arg, now)
    or (since and admitted[kind](key, since, true, arg, now))
end
-- Of a stored state amended now, and amended as of its last unit, returns the one that admits the cost, or else
-- the one with less usage.
local function better(key, v, replaced, since, arg, cost, now)
  local kind, N, W, a, b = unpack('<BI4I6I6I4', arg, 2)
  if not v or not since then return v, replaced end
  if cost > 0 then
    if admitted[kind](key, v, replaced, arg, now) then return v, replaced end
    if admitted[kind](key, since, true, arg, now) then return since, true end
  end
  local _, _, used = old[kind](key, v, false, '', N, W, a, b, N, W, a, b, now, replaced)
  local _, _, used2 = old[kind](key, since, false, '', N, W, a, b, N, W, a, b, now, true)
  if (used2 or 0) < (used or 0) then return since, true end
  return v, replaced
end
-- Returns the least wait until the cost is admitted, and the wait until the state is idle if it is not asked
-- meanwhile; nil if no wait is long enough. A bisection is right because usage only falls.
local function wait_of(key, v, arg, exactly, since)
  local least, most = now, new_again(key, v)
  if since then
    local gone = new_again(key, since, true)
    if gone < most then most = gone end
  end
  local reset = most
  if not admits(key, v, arg, most, since) then return nil end
  while exactly and least < most do
    local middle = least + (most - least - (most - least) % 2) / 2
    if admits(key, v, arg, middle, since) then most = middle else least = middle + 1 end
  end
  if reset < most then reset = most end
  return most - now, reset - now
end

-- @several
-- A flag for each limiter, odd if its rule is enforced. The remainder of a division by 8 is for a state that
-- was written under other values: from 2 it stays as it is unless something is taken, from 4 the reply has the
-- wait until it would be admitted, and from 6 the values of the limiter have a later revision. A limiter that
-- is asked for a unit that it does not take has 8 more.
local goes_on, out, ends, others = true, {1, now}, {}, false
local flags = ARGV[count + 1]
for i = 1, count do
  local flag = string.byte(flags, i)
  local verdict, finish = rooms[string.byte(ARGV[i], 2)](KEYS[i], ARGV[i], flag)
  if not verdict then
    if type(finish) ~= 'string' then return finish end
    others = others or {}
    others[i] = finish
  end
  if verdict ~= 0 and flag % 2 == 1 then goes_on = false end
  out[3 * i], ends[i] = verdict, finish
end
if others then return under_others(others, count) end
if not goes_on then out[1] = 0 end
for i = 1, count do
  out[3 * i + 1], out[3 * i + 2] = ends[i](goes_on)
end

-- @each_key
for i = 1, #KEYS do
  local key = KEYS[i]

-- @known
  if v then v = upgrade(key, v, back) end
  local version, version2 = v and string.byte(v, 1) or 0, tonumber(ARGV[1])
  if v and version ~= version2 then return version > 0 and version < 32 and version or nil end
  if v and (#v < 33 or not back[string.byte(v, 2)]) then return nil end
end

-- @giving_back
  -- The state itself identifies the rule that it was written under.
  if v then
    local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
    back[kind](key, v, tonumber(ARGV[i + 1]), N, W, a, b)
  end
end
return {1, now}

-- @first_answer
-- The remembered answer of this request's id, with `2` as its verdict. It contains its time, because a key
-- cannot expire by the microsecond.
local count, answer_key, dedupe = #KEYS - 1, KEYS[#KEYS], tonumber(ARGV[#KEYS + 1])
local first = call('GET', answer_key)
if first then
  local since = unpack('<d', first)
  if since - now > dedupe then
    since = now
    first = pack('<d', since) .. sub(first, 9)
    remember(answer_key, first, since + dedupe)
  end
  if now - since < dedupe then
    first = cmsgpack.unpack(sub(first, 9))
    first[1] = 2
    return first
  end
end

-- @remember
local function remember(answer_key, answer, gone)
  local ms = gone + 999
  call('SET', answer_key, answer, 'PXAT', digits('%d', (ms - ms % 1000) / 1000))
end

-- @remember_given
local function remember(answer_key, answer)
  call('SET', answer_key, answer)
end

-- @remember_peek
local function remember() end

-- @keep_answer
if goes_on then
  remember(answer_key, pack('<d', now) .. cmsgpack.pack(out), now + dedupe)
end
