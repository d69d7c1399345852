-- New keys that may have no space: a rule may keep a bounded number of keys, and the store may have no memory.
--
-- Each rule that counts its keys has a sorted set of them, by expiry. The set lives on the node that runs this script,
-- which may keep as many keys as its part of the slots. New keys are created as long as there is space.

local memory, counts, node = ARGV[tail + 3], ARGV[tail + 5] or '', ARGV[tail + 6] or ''
-- The resource that each new key lacks, by the number of the key: `F` for space, `O` for memory.
local lacks = {}

-- Returns the resource that each of the first keys, or of the keys with these numbers, lacks, followed by an empty
-- text; nil if none lacks anything.
function no_space(count, ks)
  local lacking
  for i = 1, count do
    if lacks[ks and ks[i] or i] then lacking = {} end
  end
  if lacking then
    for i = 1, count do lacking[i] = lacks[ks and ks[i] or i] or '' end
    lacking[count + 1] = ''
  end
  return lacking
end

-- The server has no memory left: existing limiters go on, and none is created. After a first write a script cannot
-- fail for lack of memory. This command counts as a write, and changes nothing.
if memory == 'full' then
  for k = 1, math.max(#flags, 1) do
    if call('TYPE', KEYS[k]).ok == 'none' then lacks[k] = 'O' end
  end
  redis.pcall('ZREMRANGEBYRANK', KEYS[1], '1', '0')
end

local slots, tag = 16384, ''
if node ~= '' then
  slots, tag = string.match(node, '^(%d+)(.*)$')
  slots = tonumber(slots)
end
local counted, space, place = {}, {}, 1
local function space_of(counter, most)
  local expired = redis.pcall('ZCOUNT', counter, '-inf', string.format('%d', now))
  -- The slot of the set has moved to another node. Keys are counted again once that is known.
  if type(expired) ~= 'number' then return most end
  local all = call('ZCARD', counter)
  if expired > 0 then
    local last = expired - 1
    -- A few at a time, to bound the time of a call. The result leaves out all that have expired.
    if last > 63 then last = 63 end
    call('ZREMRANGEBYRANK', counter, '0', string.format('%d', last))
  end
  most = most * slots / 16384
  most = most - most % 1
  -- Else a node with few slots would keep no key at all.
  if most < 1 then most = 1 end
  return most - (all - expired)
end
while place <= #counts do
  local k, most, prefix, counter
  k, most, prefix, counter, place = struct.unpack('<I4dI2c0I2c0', counts, place)
  counter = prefix .. tag .. counter
  local is_new = call('TYPE', KEYS[k]).ok == 'none'
  -- A key that was removed before its expiry no longer counts. Without memory this fails before anything is
  -- written.
  local done = is_new and redis.pcall('ZADD', counter, 'XX', '0', KEYS[k])
  if type(done) == 'table' and string.find(done.err, 'OOM') then return done end
  counted[#counted + 1] = {k = k, key = KEYS[k], most = most, counter = counter, is_new = is_new}
end
for _, one in ipairs(counted) do
  if one.is_new and not lacks[one.k] then
    local left = space[one.counter] or space_of(one.counter, one.most)
    if left < 1 then lacks[one.k] = 'F' else left = left - 1 end
    space[one.counter] = left
  end
end

-- Counts the keys that the step has created, and returns its reply.
function finish(reply)
  for _, one in ipairs(counted) do
    local left, counter, expires = call('PTTL', one.key), one.counter
    if left >= 0 then
      expires = now + left * 1000
    elseif left == -1 then
      expires = 9007199254740991
    elseif not one.is_new then
      -- Removed by this step: it counts as expired.
      expires = 0
    end
    if expires and type(redis.pcall('ZADD', counter, string.format('%d', expires), one.key)) == 'number' then
      -- The set expires after its keys. Its expiry is not moved a little for each of them.
      local ms = (now - now % 1000) / 1000 + 2 * left
      if left == -1 then ms = 9007199254740991 / 1000 end
      if left == -1 or call('PTTL', counter) < left then
        call('PEXPIREAT', counter, string.format('%d', ms))
      end
    end
  end
  return reply
end

