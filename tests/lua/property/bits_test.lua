-- Bits of small integers and booleans that lie together: the same as one by one, at every length, off a word's edge too,
-- in place and between types.
local function some(kind, size)
  local x = torch.randint(kind == "bool" and 0 or kind == "uint8" and 0 or -100, kind == "bool" and 2 or 120, {size}):to(kind)
  x[{{1, size, 3}}] = 0
  return x
end
local function stepped(x) return torch.stack({x, x}, 2)[{{}, 1}] end
local function off_word(x) return torch.cat({x[{{1, 3}}], x})[{{4, -1}}] end

test("operations on bits are the same together and one by one", function()
  for _, kind in ipairs {"bool", "uint8", "int8", "int16", "int32"} do
    for _, size in ipairs {257, 1021} do
      local a, b = some(kind, size), some(kind, size)
      for _, op in ipairs {"bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"} do
        local r = a[op](a, b)
        check.yes(torch.equal(r, stepped(a)[op](stepped(a), stepped(b))))
        check.yes(torch.equal(r, off_word(a)[op](off_word(a), off_word(b))))
        if r.dtype == a.dtype then check.yes(torch.equal(a:clone()[op .. "_"](a:clone(), b), r)) end
      end
      for _, op in ipairs {"bitwise_not", "logical_not"} do
        check.yes(torch.equal(a[op](a), stepped(a)[op](stepped(a))))
        check.yes(torch.equal(a[op](a), off_word(a)[op](off_word(a))))
      end
    end
  end
end)

test("conversions of small integers and booleans are the same for every layout", function()
  for _, from in ipairs {"bool", "uint8", "int8", "int16", "int32"} do
    local a = some(from, 1021)
    for _, to in ipairs {"bool", "uint8", "int8", "int16", "int32", "int64", "float32"} do
      check.yes(torch.equal(a:to(to), stepped(a):to(to)))
      if to == "bool" then check.yes(torch.equal(a:to(to), a:ne(0))) end
    end
  end
end)

test("a power of 1 in place changes nothing, and nan stays nan", function()
  local x = torch.tensor{1.5, 0 / 0, -2}
  x:pow_(1)
  check.equal(x[1]:item(), 1.5)
  check.yes(x[2]:isnan():item())
end)
