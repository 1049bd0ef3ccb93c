-- Results that no cache holds are stored past the caches: each gives the bits that its pieces give, which the
-- caches hold, wherever it begins and however its rows lie.
local n <const> = 1024 * 9000  -- 36 MB of float32: four of them are more than any last cache counts for
local piece <const> = 1024 * 100

local function same(got, f, ...)
  local inputs = {...}
  got = got:reshape(-1)
  local step = piece * 7
  for at = 1, got:size(1), step do
    local last = math.min(at + step - 1, got:size(1))
    for first = at, last, piece do
      local stop = math.min(first + piece - 1, last)
      local parts = {}
      for k, x in ipairs(inputs) do parts[k] = x:reshape(-1):narrow(1, first, stop - first + 1):clone() end
      local want = f(table.unpack(parts))
      check.yes(torch.equal(got:narrow(1, first, stop - first + 1), want), ("elements %d to %d"):format(first, stop))
    end
  end
end

local forms = {
  {"a sum", function(x, y) return x + y end},
  {"a number's product", function(x) return x * 3 end},
  {"three operands", function(x, y, z) return torch.addcmul(x, y, z) end},
  {"a choice", function(x, y, z) return torch.where(x:gt(0), y, z) end},
  {"a truth", function(x, y) return x:gt(y) end},
  {"a function", function(x) return x:exp() end},
  {"a chain", function(x, y, z) return ((x * y + z):relu() * 2 - y):abs() end},
  {"a chain that is read twice", function(x, y) local a = x * y return (a + x) * (a - y) end},
  {"a conversion", function(x, y) return (x + y):bfloat16() end},
  {"an integer", function(x) return (x * 1000):int() end},
  {"a smaller integer", function(x) return (x * 1000):long():int() end},
}

for _, dtype in ipairs {"float32", "float64"} do
  local size = dtype == "float64" and n // 2 or n
  local x, y, z = torch.randn(size + 3), torch.randn(size + 3), torch.randn(size + 3)
  if dtype == "float64" then x, y, z = x:double(), y:double(), z:double() end
  for _, form in ipairs(forms) do
    test(("%s of %s is the same past the caches"):format(form[1], dtype), function()
      for offset = 1, 4, 3 do
        local a, b, c = x:narrow(1, offset, size), y:narrow(1, offset, size), z:narrow(1, offset, size)
        same(form[2](a, b, c), form[2], a, b, c)
      end
    end)
  end
  test(("out= at any place of %s is the same past the caches"):format(dtype), function()
    for offset = 1, 4 do
      local out = torch.zeros({size + 8}, {dtype = torch[dtype]})
      local a, b = x:narrow(1, 1, size), y:narrow(1, 1, size)
      torch.add(a, b, {out = out:narrow(1, offset, size)})
      same(out:narrow(1, offset, size), torch.add, a, b)
      check.equal(out:narrow(1, offset + size, 8 - offset):count_nonzero():item(), 0)
      check.yes(offset == 1 or out:narrow(1, 1, offset - 1):count_nonzero():item() == 0)
    end
  end)
  test(("rows of %s that repeat or lie apart are the same past the caches"):format(dtype), function()
    for _, columns in ipairs {1024, 1000, 36} do
      local rows = size // columns
      local a, row = x:narrow(1, 1, rows * columns):reshape(rows, columns), y:narrow(1, 1, columns):clone()
      local column = z:narrow(1, 1, rows):reshape(rows, 1):clone()
      for _, part in ipairs {a, a:narrow(2, 5, columns - 8)} do
        local r = row:narrow(1, 1, part:size(2))
        same(part + r, function(p, q) return p + q end, part, r:expand_as(part))
        same(part * column, function(p, q) return p * q end, part, column:expand_as(part))
      end
    end
  end)
end
