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

test("square roots of float64 are rounded correctly, also those that lie nearly in the middle of two numbers", function()
  -- Whose squares differ from those of such a middle by the least.
  local hard = {
    4503599627370497, 18014398509481982, 12229483590213572, 8233674359446949, 4503599627370499,
    18014398509481978, 5260294500220744, 5161478502861812, 11776590070351698, 8613063800570571,
    4503599627370501, 18014398509481974, 7780471400773538, 13204068004119562, 7468007935834813,
    5190435713359146, 5211084258275080, 13660886811523434, 7131261283482639, 4503599627370503,
    18014398509481970, 6529697357028814, 9949698353471908, 5025703634653482, 12729398101772876,
    7832596519208111, 6767526937110803, 14175667448115794, 5016562740764439, 17029961451695424,
    4867181094540022, 4503599627370505, 18014398509481966, 7758367381958044, 9475170008135150,
    4974534772770429, 17107648573165680, 6319920530813328, 8682299446046386, 4738990312665130,
  }
  local x = {}
  for _, v in ipairs(hard) do
    for _, power in ipairs {0, -60, 130, -1060, 900} do x[#x + 1] = v * 2.0 ^ power end
  end
  for _, v in ipairs {0.0, -0.0, 1.0, 5e-324, 2.0 ^ -1022, 2.0 ^ -900, 2.0 ^ 900, 1.7976931348623157e308, math.huge} do x[#x + 1] = v end
  for k = 1, 2000 do x[#x + 1] = math.random() * 2.0 ^ math.random(-1000, 1000) end
  for k = 1, 2000 do x[#x + 1] = (k / 7) * (k / 7) end
  local roots = torch.tensor(x, {dtype = torch.float64}):sqrt():tolist()
  for k, v in ipairs(x) do check.equal(roots[k], math.sqrt(v)) end
  check.equal(torch.tensor({-1.0, 4.0, 0 / 0, -math.huge}, {dtype = torch.float64}):sqrt():isnan():tolist(), {true, false, true, true})
end)
