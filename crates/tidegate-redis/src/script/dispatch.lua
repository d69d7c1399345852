-- One step over all limiters: all are read and decide, and then each takes, if none that is enforced refuses.
--
-- A flag for each limiter, odd if its rule is enforced. The remainder of its division by 8 is for a state that was
-- written under other values: from 2 it stays as it is unless something is taken, from 4 the reply has the wait until
-- it would be admitted, and from 6 the values of the limiter have a later revision. A limiter that is asked for a
-- unit that it does not take has 8 more.
--
-- Returns, for one limiter without a flag: its state, if units were taken at the reading of the clock, or else the
-- verdict, the reading, the time that counts and the state; for `decide` the time that counts, or -1 minus it if it
-- refuses. For several: a number that says if the step goes on (0 or 1; 2 for a remembered answer), the reading, and
-- for each limiter its verdict, the time that counts and its state; a state that stays under other values comes with
-- the wait until it would be admitted, and the wait until it is idle. If a limiter was written under other values and
-- nothing was done: the first 33 bytes of each such state, an empty text for the other limiters, and one more empty
-- text. If new limiters have no space: the resource that each lacks, likewise. If a state was lost: `L`, likewise.

local sub, count, goes_on = string.sub, 1, true
local out, others, states, heads, newers, amendings
if algorithms then count, out, states, heads, newers, amendings = #flags, {1, now}, {}, {}, {}, {} end
if changes then
  if verb == 'reset' then return changes.reset() end
  if verb == 'give_back' then
    keys, args, flags = changes.give_back()
    if not args then return keys end
    -- Only keys with a state are left, with arguments of their own.
    count, first = #keys, 0
  end
end

if no_space then
  local lacks = no_space(count)
  if lacks then return finish(lacks) end
end

-- The remembered answer of this request's id. It holds its time, because a key cannot expire by the microsecond. The
-- name of the first request's reservation, and the time since then, follow a repeated answer.
local remember, reservation
if algorithms and keys[count + 1] then
  local answer_key, dedupe = keys[count + 1], struct.unpack('<d', args[first + count + 1])
  reservation = sub(args[first + count + 1], 9)
  function remember(answer, since)
    -- Rounded up to milliseconds.
    local ms = since + dedupe + 999
    if verb == 'peek' then return end
    if given then return call('SET', answer_key, answer) end
    call('SET', answer_key, answer, 'PXAT', string.format('%d', (ms - ms % 1000) / 1000))
  end
  local answer = call('GET', answer_key)
  if answer then
    local since = struct.unpack('<d', answer)
    -- The clock stepped back: the answer is remembered from now on, and for no longer than it may be.
    if since - now > dedupe then
      since = now
      remember(struct.pack('<d', since) .. sub(answer, 9), since)
    end
    if now - since < dedupe then
      answer = cmsgpack.unpack(sub(answer, 9))
      answer[1] = 2
      if #answer % 3 == 0 then answer[#answer + 1] = math.max(now - since, 0) end
      return finish and finish(answer) or answer
    end
  end
end

-- All are read, and all but the last decide. `v` is the state, `head` its beginning; `newer` is true if the revision of
-- the argument replaces the stored revision, and `amending` holds the facts about a state that comes under this rule.
local key, arg, flag, v, head, newer, amending = keys[1], args[first + 1], 1
for i = 1, count do
  if algorithms then
    key, arg = keys[i], args[first + i]
    local its = algorithms[string.byte(arg, 2)]
    step, fetch, front, flag = its.step, its.fetch, its.front, string.byte(flags, i)
    newer, amending = false, nil
  end
  if changes then
    v = changes.fetch(key)
  elseif front then
    v = call('GETRANGE', key, '0', front)
    if v == '' then v = false end
  elseif fetch then
    v = fetch(key)
  else
    v = call('GET', key)
  end
  head = sub(arg, 1, 33)
  if v and sub(v, 1, 33) ~= head then
    local other
    if changes then v = changes.seen(key, v, head, flag) end
    if sub(v, 1, 22) == sub(head, 1, 22) then
      -- Only the revision differs: the later revision is kept.
      local word, time, word2, time2 = struct.unpack('<I4I7I4I7', sub(head, 23) .. sub(v, 23, 33))
      newer = word > word2 or word == word2 and time > time2
      if not newer then head = sub(v, 1, 33) end
    elseif changes then
      amending, other = changes.amend(key, v, arg, flag)
      if amending then v = amending.state end
      if not amending and type(other) ~= 'string' then return finish and finish(other) or other end
    else
      other = sub(v, 1, 33)
    end
    if other then
      others = others or {}
      others[i] = other
    end
  -- A state that must be there was lost: the argument has two bytes more (prelude.lua).
  elseif not v and #arg % 8 > 2 then
    others = others or {}
    others[i] = 'L'
  end
  if algorithms then
    states[i], heads[i], newers[i], amendings[i] = v, head, newer, amending
    -- The last decides when it takes, below. Of a report, only limiters that are asked for a unit decide.
    if not others and (i < count and (verb == 'ask' or verb == 'decide') or verb == 'report' and flag > 55) then
      local verdict = step(key, v, arg, now, 'look', false, amending and amending.how)
      if verdict ~= 0 and flag % 2 == 1 then goes_on = false end
    end
  end
end
if others then
  for i = 1, count + 1 do others[i] = others[i] or '' end
  return finish and finish(others) or others
end

-- The last decides and takes, then the others take.
for i = count, 1, -1 do
  if algorithms then
    key, arg = keys[i], args[first + i]
    local its = algorithms[string.byte(arg, 2)]
    step, write, flag = its.step, its.write, string.byte(flags, i)
    v, head, newer, amending = states[i], heads[i], newers[i], amendings[i]
  end
  local does, asks = verb, verb == 'ask' or verb == 'decide'
  -- Above 55 a limiter is asked for a unit that it does not take (`flag` in limiter.rs).
  if asks and goes_on and flag < 56 then
    does = 'ask'
  elseif asks or verb == 'peek' or flag > 55 then
    does = 'look'
  end
  local amended, taken, cut = amending and amending.how
  if settles then
    taken = settles.taken(key, v, arg, now, amending)
    arg, cut = settles.cut(key, v, arg, now, amended)
  end
  local verdict, at, takes, changed, value, gone, expires, parts, state, back = step(
    key, v, arg, now, does, verb ~= 'decide', amended, taken)
  if verdict ~= 0 and flag % 2 == 1 then goes_on = false end

  local stays, wait, reset
  if amending then
    flag = amending.flag
    if flag % 8 > 3 and verdict == 0 then
      wait, reset = 0, 0
    elseif flag % 8 > 3 and verdict == 1 then
      wait, reset = changes.wait(key, amending, arg, verb ~= 'decide')
    end
    -- A state that was only tried stays as it is. The exception is a denial for which no wait
    -- is long enough: then the new values take effect, because waiting alone would not help.
    stays = flag % 8 > 1 and (verb == 'peek' or not takes and (wait or flag % 8 < 4 or verdict ~= 1))
    if not stays then changes.bars(key, amending) end
    -- Nothing is left of the old state, and the writes below rely on a key that is not there.
    if not v and not stays then call('DEL', key) end
  end

  -- A limiter that would begin now is kept if it is asked for units.
  if changed and not stays and (takes or v or asks or verb == 'report') then
    if changed ~= true and type(changed) == 'number' then
      -- The clock has moved the state back: units taken before come back no more (bar.lua).
      local name = string.find(key, '{', 1, true) and key .. '?taken' or key .. '{' .. key .. '}?taken'
      local lives = math.max(call('PTTL', key), call('PTTL', name), 1)
      call('SETRANGE', name, #(call('GET', name) or ''), struct.pack('<dd', -1, changed + 1))
      if not given then call('PEXPIREAT', name, string.format('%d', now / 1000 + 1 + lives)) end
    end
    -- Rounded up to milliseconds, so that no key expires before its state is idle.
    local ms = gone + 999
    ms = (ms - ms % 1000) / 1000
    -- A key lives on for as long as units that came back could have been in use: a node that knows of them would take
    -- it for lost. A level may have got units back before its values changed. A key that is counted makes space, and
    -- leaves a note, as does a state that cannot be empty.
    local lives, later
    if (settles or amending or verb == 'undo') and v and not given and type(changed) ~= 'number'
      and (gone ~= expires or gone <= at)
      and ((settles or verb == 'undo') and struct.unpack('<d', arg, 34) < 0
        or amending and algorithms[string.byte(arg, 2)].most) then
      local left = call('PTTL', key)
      -- The server rounds down.
      lives = left < 0 and 31622400000 or left + 1
      if amending then lives = math.min(lives, amending.ms) end
      if gone <= at and (no_space or write) then
        bar(key, now + 1)
      elseif gone < now + lives * 1000 then
        gone = now + lives * 1000
        ms = math.max(ms, (gone - gone % 1000) / 1000)
        if left > 0 and not amending then expires = gone end
      end
    end
    if v and gone > at and gone <= 9007199254740991 and not (amending or given)
      and (not (parts or newer) or parts == 'whole' and not write) then
      -- The usual case first.
      later = gone ~= expires
      if parts then
        call('SET', key, head .. value, 'KEEPTTL')
      else
        call('SETRANGE', key, '33', value)
      end
    elseif gone <= at then
      call('DEL', key)
    else
      local in_place = v and parts ~= 'whole' and amended ~= 'replaced'
      if gone > 9007199254740991 or (given or v or parts) and not in_place and not write then
        if given or gone > 9007199254740991 then
          call('SET', key, head .. value)
        else
          call('SET', key, head .. value, 'PXAT', string.format('%d', ms))
        end
      else
        if write then
          write(key, v, head, value, parts, newer, amended)
        elseif not v or amended == 'in place' then
          call('SETRANGE', key, '0', head .. value)
        elseif newer then
          -- From the revision on.
          call('SETRANGE', key, '22', sub(head, 23) .. value)
        else
          call('SETRANGE', key, '33', value)
        end
        local before = in_place and amended ~= 'in place' and expires and expires + 999
        if given or gone == expires or before and (before - before % 1000) / 1000 == ms then
          -- It expires when it did.
        elseif v then
          later = true
        elseif redis.pcall('PEXPIREAT', key, string.format('%d', ms)) ~= 1 then
          -- A key whose expiry cannot be set would stay forever.
          call('DEL', key)
          call('PEXPIREAT', key, string.format('%d', ms))
        end
      end
    end
    if later then
      local text = string.format('%d', ms)
      if redis.REDIS_VERSION_NUM and not (lives or amending) then
        -- Not to an earlier time: units may have come back.
        call('PEXPIREAT', key, text, 'GT')
      elseif lives or amending or now / 1000 + call('PTTL', key) < ms then
        -- Redis 6 has no `GT`.
        call('PEXPIREAT', key, text)
      end
    end
  end

  if algorithms then
    state = verb == 'decide' and '' or state or value or sub(v, 34)
    if settles then
      state = {state, back or 0, cut}
    elseif wait and stays then
      state = {state, wait, reset}
    end
    out[3 * i], out[3 * i + 1], out[3 * i + 2] = verdict, at, state
  else
    if verb == 'decide' then
      out = verdict == 0 and at or -1 - at
    elseif takes and at == now and verb == 'ask' then
      out = state or value
    else
      out = {verdict, now, at, state or value or sub(v, 34)}
    end
    return finish and finish(out) or out
  end
end

if not goes_on then out[1] = 0 end
if remember and goes_on then
  if reservation ~= '' then out[3 * count + 3] = reservation end
  remember(struct.pack('<d', now) .. cmsgpack.pack(out), now)
  out[3 * count + 3] = nil
end
return finish and finish(out) or out
