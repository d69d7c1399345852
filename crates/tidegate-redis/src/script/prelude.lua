-- Tidegate's limiters in a store. A script is this file, files of algorithms, and a file that runs a step:
-- dispatch.lua, batch.lua or each.lua. Between them stand amend.lua if limiters may have been written under another
-- rule, give_back.lua if units are settled or undone, bar.lua before both, space.lua if new keys may have no space, and
-- carry.lua if units are carried to a store that lost them.
--
-- KEYS     the keys of the limiters, then the key of a remembered answer, if there is one, or of the record of
--          leases (lease.lua)
-- ARGV     for `each`: see each.lua. For one limiter: its argument, then the verb, `ask` by default. Otherwise:
--   1        the verb: `ask` decides and takes, and returns states; `decide` returns verdicts alone; `peek` takes
--            nothing; `report` takes usage, and refuses nothing; `settle` takes or gives back a difference; `undo`
--            gives back taken units; `renew` makes permits last from now, and denies if they are out no more;
--            `give_back` gives back under any rule; `reset` forgets; `lease` takes units ahead
--            for one limiter; `batch` asks for many requests, and `each` for many of one limiter each
--   2        a character for each limiter: see dispatch.lua. Empty if there is one limiter; the reply then
--            has the form for one. For a batch, its plan: see batch.lua
--   then     an argument for each key: for a remembered answer, its time as a double, and the name of a reservation; for the record
--            of leases, the lease
--   then     arguments that are empty unless they are given, and may be left out from the end: the time, in place
--            of the store's, and then nothing expires; the life of a `lease`; `full` if the store has no memory for
--            new keys; the keys that are counted, and the part of the cluster's node: see space.lua
--
-- The argument of a limiter is the beginning of its state, in the bytes 1 to 33, and then doubles: the cost (below
-- zero: units to give back), the window, and the numbers that the algorithm asks for; then a byte if a level opens
-- a reservation, and two bytes if the node knows of units that count, so that a state must be there. A stored state
-- begins with its version (byte 1), the number of the algorithm (2), limit (3 to 6), window (7 to 12), two numbers of
-- the algorithm (13 to 18, 19 to 22), and the revision of these values (23 to 26 and 27 to 33); integers, low byte
-- first.
--
-- Times are in microseconds. Integers stay below 2^53, so doubles hold them exactly.
--
-- Each algorithm is a function. Captures and calls cost the store more than the computations of a script, so the
-- function runs the verbs of its algorithm in their order, each under its name:
--
--   step(key, v, arg, now, verb, full, amended, taken)
--     key      only for data that is not in `v`
--     v        the stored text, or false
--     verb     `ask` decides, and takes if that is admitted; `look` only decides; any other takes without
--              deciding. A cost below zero is given back with any verb. `used` returns other values than
--              these: the time that counts, the units in use, and the time of the last unit.
--              `renew` makes the permit that the argument names last from now, and denies if it is out no more
--     full     true if the reply needs the state
--     amended  false, or why the state changes even if nothing is taken: `replaced` if `v` is not in the store,
--              `in place` if it is
--     taken    of units that are given back, if it is known when they were taken: `since` when they count as taken,
--              the amount that a level has `drained` since then, true if they were taken for a lease (`leased`), and
--              when the reservation that is settled took its units, if there is one (`opened`)
--   returns the verdict (0 admits, 1 denies, 2 never admits), the time that counts, true if units were taken or given
--   back, true if the state changed (the time before, if the clock has moved it back), its text from byte 34, and when
--   it expires; then, where the algorithm knows, when the stored text expires, how to write it (`whole` if its length
--   changed, and `parts` or a table for `write` if more of it stays in the store), the text of the reply in place of
--   the state, and the number of units that came back.
--
--   front        the last byte of a state that is read at first, if not all of it is, counted from 0
--   fetch(key)   reads a state that is no string
--   write(key, v, head, value, parts, newer, amended)   writes parts of such a state; `head` is its beginning, and
--                `newer` is true if its revision replaces the stored revision

-- The algorithm of this script, if there is one; with more, all of them by number.
local step, fetch, front, write, algorithms
-- The additions of the files between.
local changes, settles, bar, drained, no_space, finish, prepare

local keys, args, verb, flags, first, tail, given = KEYS, ARGV, 'ask', '', 0, 1, nil
if args[2] then
  if args[3] then
    verb, flags, first, tail = args[1], args[2], 2, 2 + #keys
    -- The limiters of a batch share arguments, so the last
    -- six are counted from the end, where all are given.
    if verb == 'batch' then tail = #args - 6 end
    if flags ~= '' then algorithms = {} end
    given = tonumber(args[tail + 1])
  else
    verb = args[2]
  end
end

local call, now = redis.call, given
if not given then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local is_later, expire_later
if algorithms then
  -- Returns whether the revision of `one`, an argument or a state, is later than the revision of `other`.
  function is_later(one, other)
    local word, time = struct.unpack('<I4I7', one, 23)
    local word2, time2 = struct.unpack('<I4I7', other, 23)
    return word > word2 or word == word2 and time > time2
  end
  if verb == 'each' or verb == 'batch' then
    -- Moves the expiry of a stored key to a time, rounded up to milliseconds, but never to an earlier time: units may
    -- have come back, and a node that knows of them would take a key that is gone for lost.
    function expire_later(key, gone)
      local ms = gone + 999
      ms = (ms - ms % 1000) / 1000
      if redis.REDIS_VERSION_NUM then
        call('PEXPIREAT', key, string.format('%d', ms), 'GT')
      elseif now / 1000 + call('PTTL', key) < ms then
        -- Redis 6 has no `GT`.
        call('PEXPIREAT', key, string.format('%d', ms))
      end
    end
  end
end
