-- The number of edits that turn text a into b, neighbours swapped counting as one (Damerau); more than
-- `most` when it is more: only so far from the diagonal is looked at. For "did you mean" everywhere in Lua.
local one, two, row = {}, {}, {}
return function(a, b, most)
  local n, m = #a, #b
  if n - m > most or m - n > most then return most + 1 end
  local far = most + 1
  for j = 0, math.min(m, far) do one[j] = j end
  for i = 1, n do
    local first, last = math.max(1, i - most), math.min(m, i + most)
    local least, byte = far, a:byte(i)
    row[first - 1] = first == 1 and i or far
    for j = first, last do
      local to = b:byte(j)
      local d = one[j - 1] + (byte == to and 0 or 1)
      if row[j - 1] < d then d = row[j - 1] + 1 end
      if j < i + most and one[j] < d then d = one[j] + 1 end
      if i > 1 and j > 1 and byte == b:byte(j - 1) and a:byte(i - 1) == to and j - i < most and i - j < most and two[j - 2] < d then
        d = two[j - 2] + 1
      end
      row[j] = d
      if d < least then least = d end
    end
    if least > most then return far end
    two, one, row = one, row, two
  end
  return one[m]
end
