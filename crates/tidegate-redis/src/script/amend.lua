-- States that were written under another rule come under the argument's rule, and usage carries over. The algorithm may
-- be another. A rule is known by the first 33 bytes of its states, so an argument can be made for the rule of any
-- state, and the algorithm's own function finds the usage under it.
--
-- An algorithm whose states are not in units, or where a change lets no caller wait longer, has functions for this
-- next to its own:
--   numbers(cost, N, W, a, b)  the doubles of an argument, from the numbers that a state begins with
--   with_cost(arg, cost)       an argument with another cost
--   units(left, part, N, W)    the units in use, from what `used` returned
--   owed(at, left, part, eased, N, W, a)  all units in use, also those that make no caller wait, and how many are a debt
--   refit(at, left, last, part, eased, N, W, a, N2, W2, a2, mark)  the state under another limit, from that and the
--              bytes after it; nil if it has another meaning there
--   mark_at(mark, left, part, N, W, N2, W2)  the mark of open reservations under another limit
--   eased(at, value, N, W, a, debt)  the text of a state that begins with units in use, in which no caller waits for
--              more than one window because of the change
--   most(N, a)                 the maximum units that can be in use without a debt
-- and `keeps` says that a state has the same meaning under any other limit and window, `permits` that the fourth double of
-- an argument is a token.

changes = {}
local NONE = string.rep('\0', 11)
local sub, byte, unpack, pack = string.sub, string.byte, struct.unpack, struct.pack

function changes.fetch(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then
    -- Longer than any state but a long log, whose front is enough, and many permits, which are read in full.
    local v = redis.call('GETRANGE', key, '0', '4199')
    local its = #v == 4200 and algorithms[byte(v, 2)]
    if its and its.keeps then v = redis.call('GET', key) end
    return v ~= '' and v
  elseif kind == 'zset' then
    return redis.call('ZRANGE', key, '0', '0')[1]
  elseif kind == 'none' then
    return false
  end
  -- The name of any other type stands for a state that no version knows.
  return kind
end

-- Returns whether parts of a stored state may change in place.
local function in_parts(kind) return algorithms[kind].front or algorithms[kind].write end

-- The argument of the rule that a state was written under.
local function rule_of(v, cost)
  -- The number of the algorithm, limit, window, and the two numbers of the algorithm (prelude.lua).
  local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
  local numbers = algorithms[kind].numbers
  if numbers then return sub(v, 1, 33) .. numbers(cost, N, W, a, b) end
  return sub(v, 1, 33) .. pack('<ddddd', cost, W, N, a, b)
end

-- The time that counts for a state, the units in use under the rule that it was written under, and the time of its
-- last unit; then what `used` returned, for `refit`.
local function used_of(key, v, amended, now)
  local kind, N, W = unpack('<BI4I6', v, 2)
  local its = algorithms[kind]
  local at, left, last, part, eased = its.step(key, v, rule_of(v, 0), now, 'used', true, amended)
  return at, its.units and its.units(left, part, N, W) or left, last, left, part, eased
end

-- The state of a limiter that begins with units in use. It is eased if the debt among them is given.
local function charged(key, arg, at, used, debt)
  local its = algorithms[byte(arg, 2)]
  if its.with_cost then
    arg = its.with_cost(arg, used)
  else
    arg = sub(arg, 1, 33) .. pack('<d', used) .. sub(arg, 42)
  end
  -- All units are taken from a fresh state at once; `charge` takes without deciding.
  local _, _, _, _, value = its.step(key, false, arg, at, 'charge', false, 'in place')
  if its.eased and debt then
    local N, W, a = unpack('<I4I6I6', arg, 3)
    value = its.eased(at, value, N, W, a, debt)
  end
  return sub(arg, 1, 33) .. value
end

-- Returns whether this version reads a state. If not, also returns the version that wrote it, if any did: versions are
-- below 32, so that no text looks like one.
local function is_known(v)
  local version = byte(v, 1) or 0
  if version ~= 1 then return false, version > 0 and version < 32 and version or nil end
  return #v >= 33 and algorithms[byte(v, 2)] ~= nil
end

-- Returns a stored state as one of this version, after it has seen the clock: before it is tried under other values
-- it is advanced, and kept so. An idle state is idle at any reading.
function changes.seen(key, v, head, flag)
  -- Only a state that may stay under other values.
  if flag % 8 < 2 or sub(v, 1, 22) == sub(head, 1, 22) or not is_known(v) then return v end
  local its = algorithms[byte(v, 2)]
  local _, at, _, changed, value, gone, _, parts = its.step(key, v, rule_of(v, 0), now, 'look', false, false)
  if not changed or gone <= at then return v end
  bar(key, changed + 1)
  if its.write then
    its.write(key, v, sub(v, 1, 33), value, parts)
  elseif parts == 'whole' then
    redis.call('SET', key, sub(v, 1, 33) .. value, 'KEEPTTL')
  else
    redis.call('SETRANGE', key, '33', value)
  end
  -- Rounded up to milliseconds, so that no key expires before its state is idle.
  local ms = gone + 999
  if not given and gone <= 9007199254740991 then
    redis.call('PEXPIREAT', key, string.format('%d', (ms - ms % 1000) / 1000))
  end
  return changes.fetch(key)
end

-- The time before which nothing comes back because the clock has moved the state back; 0 if it has not.
local function rewound_from(key, v)
  local _, W = unpack('<I4I6', v, 3)
  -- A limit of 0 without a window has the longest.
  if W == 0 then W = 31622400000000 end
  -- At a reading after all others the clock moves no state, so this is the time as it is stored.
  local _, _, last = used_of(key, v, false, 9007199254740992)
  return last - now > W and last + 1 or 0
end

-- Returns a state of another rule as a state of the rule in `arg`, and whether it replaces the stored state. Then the
-- time since which returned units were taken under the new meaning, and the change of the limit of a level: the old and
-- the new limit, since when, the units in use then, and the longest time in which they drained before. Returns false if
-- nothing is left of it; and nil, then the version, if no limiter of this version wrote it, or then its first bytes, if
-- its revision is later.
local function amended(key, v, arg, now)
  local known, version = is_known(v)
  if not known then return nil, version end
  if sub(arg, 23, 33) ~= NONE and not is_later(arg, v) then return nil, sub(v, 1, 33) end
  local kind, N, W, a, b = unpack('<BI4I6I6I4', v, 2)
  local kind2, N2, W2, a2, b2 = unpack('<BI4I6I6I4', arg, 2)
  local its = algorithms[kind]
  local at, used, last, left, part, eased = used_of(key, v, false, now)
  local debt = 0
  if its.owed then used, debt = its.owed(at, left, part, eased, N, W, a) end
  if kind == kind2 then
    local value, how
    if its.refit then
      -- The mark goes when the clock moves the state back.
      local mark = rewound_from(key, v) > 0 and '' or sub(v, 58, 97)
      value = its.refit(at, left, last, part, eased, N, W, a, N2, W2, a2, mark)
    elseif its.keeps or W == W2 and a == a2 and b == b2 then
      local _
      _, _, _, _, value = its.step(key, v, rule_of(v, 0), now, 'look', false, 'in place')
      -- A log has more bytes after the part that changes.
      if in_parts(kind) then value = value .. sub(v, 34 + #value) end
    end
    if value then
      if N == 0 and used == 0 then return false, 'in place', at end
      value, how = sub(arg, 1, 33) .. value, in_parts(kind) and 'in place' or 'replaced'
      -- Of a level whose values stay, and of any other state, no limit ends.
      if not its.most or N == N2 and a == a2 then return value, how, 0 end
      -- All units taken before have drained.
      if used == 0 then return value, how, at end
      local gone = 0
      if N > 0 then gone = muldiv(math.max(used, a, a2), W, N) + 1 end
      return value, how, 0, {was = N, is = N2, at = at, used = used, gone = gone}
    end
  end
  if N == 0 and used == 0 then return false, 'in place', at end
  return charged(key, arg, at, used, debt), 'replaced', at
end

-- Returns whether the cost is admitted from a state that is not stored yet.
local function admitted(key, v, how, arg, now)
  return algorithms[byte(arg, 2)].step(key, v, arg, now, 'look', false, how) == 0
end

-- Returns a stored state as though the values in `arg` had been in force since its last unit was taken: all usage
-- counts as of then, eased so that no caller waits more than one window because of values that a refusal does not put
-- in force. Also returns that time.
local function dated(key, v, arg)
  local kind, N, W, a = unpack('<BI4I6I6', v, 2)
  local kind2, N2, W2 = unpack('<BI4I6', arg, 2)
  local its = algorithms[kind]
  -- Permits mean the same under any values.
  if kind == kind2 and its.keeps then return false end
  local _, _, last = used_of(key, v, false, 9007199254740992)
  local at, used, _, left, part, eased = used_of(key, v, false, last)
  if N == 0 and used == 0 then return false end
  local debt = math.max(used - N, 0)
  if its.owed then used, debt = its.owed(at, left, part, eased, N, W, a) end
  local state, mark = charged(key, arg, at, used, debt), sub(v, 58, 97)
  -- All usage counts as of then, so the level was never lower since its reservations began.
  if kind == kind2 and its.mark_at and W == W2 and mark ~= '' then
    if eased then left, part = eased[1], eased[2] end
    mark = its.mark_at(mark, left, part, N, W, N2, W2)
    if mark ~= '' then state = sub(state, 1, 57) .. mark .. sub(state, 98) end
  end
  return state, at
end

-- Returns the better of two states, amended now and amended as of its last unit: the state that admits the cost, or
-- else the state with less usage. Also returns how it changes the stored state.
local function better(key, v, how, since, arg, cost)
  if not v or not since then return v, how end
  if cost > 0 then
    if admitted(key, v, how, arg, now) then return v, how end
    if admitted(key, since, 'replaced', arg, now) then return since, 'replaced' end
  end
  local _, used = used_of(key, v, how, now)
  local _, used2 = used_of(key, since, 'replaced', now)
  if used2 < used then return since, 'replaced' end
  return v, how
end

-- The milliseconds in which as many units as are in use, or as an old rule allows, have drained or left under the rule of the argument.
local function drains_in(v, arg, used)
  local _, N, _, a = unpack('<BI4I6I6', v, 2)
  local kind2, N2, W2 = unpack('<BI4I6', arg, 2)
  local most = math.max(used, algorithms[byte(v, 2)].most and math.max(N, a) or N)
  -- A counter counts its units for two windows, and no other algorithm for longer.
  if not algorithms[kind2].most or N2 == 0 then return 2 * W2 / 1000 end
  return math.min((2 + most / N2) * W2 / 1000, 9007199254740)
end

-- Brings a state under the rule of the argument. Values of a later revision than the state's take effect with units
-- taken under them; values without a revision, such as plans, take effect this way only next to values with a
-- revision.
function changes.amend(key, v, arg, flag)
  if flag % 8 < 4 and (verb == 'ask' or verb == 'decide' or verb == 'peek' or verb == 'report')
    and sub(arg, 23, 33) ~= NONE and sub(v, 23, 33) ~= NONE then
    flag = flag - flag % 8 + 6 + flag % 2
  end
  local stored, since = v, false
  local state, how, lost, change = amended(key, v, arg, now)
  if state == nil then return nil, how end
  if flag % 8 > 5 then
    local before, counts_since = state
    since, counts_since = dated(key, stored, arg)
    state, how = better(key, state, how, since, arg, (unpack('<d', arg, 34)))
    -- The level drains at the new limit since its last unit.
    if change and state ~= before then change.at = counts_since end
  end
  return {state = state, how = how, flag = flag, stored = stored, since = since,
    lost = math.max(lost, rewound_from(key, stored)), change = change,
    ms = drains_in(stored, arg, change and change.used or 0)}
end

-- Moves the bar of a limiter that has come under the rule of an argument.
function changes.bars(key, amending)
  if amending.lost > 0 or amending.change then bar(key, amending.lost, amending.change, amending.ms) end
end

-- Returns the shortest wait until the cost is admitted, and the wait until the state is idle if it is not asked before;
-- nil if no wait is long enough. A bisection is right because usage only falls.
function changes.wait(key, amending, arg, exactly)
  local v, since = amending.stored, amending.since
  -- The time when a state is idle, under the rule that it was written under.
  local function idle(v, how)
    local kind, N, W, a = unpack('<BI4I6I6', v, 2)
    local its = algorithms[kind]
    -- Without tokens that are missing at the start: a state with such is never idle.
    local rule = its.numbers and sub(v, 1, 33) .. its.numbers(0, N, W, a, 0) or rule_of(v, 0)
    local _, _, _, _, _, gone, _, _, digest = its.step(key, v, rule, now, 'look', its.keeps, how)
    -- Such a state may be kept after the end of its last permit.
    if its.keeps then gone = unpack('<d', digest, 25) end
    if gone > 9007199254740991 then return 9007199254740991 end
    return gone < now and now or gone
  end
  local function admits(now)
    local state, how = amended(key, v, arg, now)
    return admitted(key, state, how, arg, now) or since and admitted(key, since, 'replaced', arg, now)
  end
  local least, most = now, idle(v, 'in place')
  if since then
    local gone = idle(since, 'replaced')
    if gone < most then most = gone end
  end
  local reset = most
  if not admits(most) then return nil end
  -- `decide` only needs to know if any wait is long enough.
  while exactly and least < most do
    -- In whole numbers: the remainder is taken off first.
    local middle = least + (most - least - (most - least) % 2) / 2
    if admits(middle) then most = middle else least = middle + 1 end
  end
  if reset < most then reset = most end
  return most - now, reset - now
end

-- `give_back`: an argument is a number of units, the token of their permit (0 if they are none) and, as in give_back.lua,
-- four numbers about them; the state itself says under which rule they are given back. A key without a state stays so; if
-- this version does not know a state, nothing is done. Returns the keys, the arguments and the flags.
function changes.give_back()
  local keys, args = {}, {}
  for i = 1, #KEYS do
    local v = changes.fetch(KEYS[i])
    if v then
      local known, version = is_known(v)
      if not known then return version end
      local units, token = unpack('<dd', ARGV[first + i])
      local arg = rule_of(v, -units)
      if algorithms[byte(v, 2)].permits then arg = sub(arg, 1, 57) .. pack('<d', token) .. sub(arg, 66) end
      keys[#keys + 1], args[#args + 1] = KEYS[i], arg .. sub(ARGV[first + i], 17)
    end
  end
  return keys, args, string.rep('1', #keys)
end

-- `reset`: nothing counts as used, and units taken before do not come back. A bucket that begins with fewer tokens
-- becomes full. The keys after the limiters' keys are records of leases, which are removed. Returns the number of
-- limiters that existed.
function changes.reset()
  local count = 0
  for i = #flags + 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
  for i = 1, #flags do
    local key = KEYS[i]
    local v = changes.fetch(key)
    if v then
      local full
      count = count + 1
      if is_known(v) then
        local kind, _, _, _, missing = unpack('<BI4I6I6I4', v, 2)
        local _, _, last = used_of(key, v, false, 9007199254740992)
        local _, at, _, _, _, gone = algorithms[kind].step(key, v, rule_of(v, 0), now, 'look', false, 'in place')
        -- Also if nothing is in use: a node that knows of units that came back would take this key for lost. Units that
        -- are taken in this microsecond are not forgotten then.
        bar(key, (gone > at or last > at) and math.max(last, at) + 1 or at)
        if algorithms[kind].most and missing > 0 then full = sub(v, 1, 33) .. pack('<ddd', 0, 0, 0) end
      end
      redis.call('DEL', key)
      -- It never expires, like any bucket that begins with fewer tokens.
      if full then redis.call('SET', key, full) end
    end
  end
  return count
end

