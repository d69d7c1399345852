-- Returns a * b / c in whole numbers, and the remainder; a and b are below 2^53, c below 2^52.
local function muldiv(a, b, c)
  -- The product of such numbers has more than the 53 bits of a double. So it is added up bit
  -- by bit of b, and divided on the way: r stays below c, and twice c is a whole number still.
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
