-- unique, unique_consecutive, searchsorted and bincount of random values against their definition: which way they go
-- (counting, sorting, several tables) depends on types, ranges and sizes.
local function random(dtype, n, most)
  if dtype == "bool" then return torch.rand(n):gt(0.5) end
  local x = torch.randint(dtype == "uint8" and 0 or -most, most, {n})
  return x:to(torch[dtype])
end

test("unique finds each value once, where it was and how often", function()
  torch.manual_seed(9)
  for _, dtype in ipairs {"bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "bfloat16"} do
    for _, n in ipairs {1, 5, 300} do
      for _, most in ipairs {3, 100} do
        local x = random(dtype, n, most)
        if n == 300 then x = x:reshape(20, 15):t() end
        local values, inverse, counts = torch.unique(x, {return_inverse = true, return_counts = true})
        check.equal(values.dtype, x.dtype)
        check.equal(torch.equal(values:gather(1, inverse:flatten()):reshape(x.shape), x), true)
        check.equal(counts:sum():item(), n)
        local wide = values:to(torch.float64)
        check.equal(wide:diff():gt(0):all():item(), true)
        check.equal(counts:tolist(), torch.bincount(inverse:flatten() - 1):tolist())
      end
    end
  end
end)

test("unique_consecutive cuts where neighbours differ", function()
  for _, dtype in ipairs {"bool", "uint8", "int64", "float32", "bfloat16"} do
    for _, n in ipairs {1, 7, 3000} do
      local x = random(dtype, n, 2)
      local values, inverse, counts = torch.unique_consecutive(x, {return_inverse = true, return_counts = true})
      check.equal(torch.equal(values:gather(1, inverse), x), true)
      check.equal(torch.equal(torch.repeat_interleave(values, counts), x), true)
      if #values > 1 then check.equal(values[{{2, -1}}]:ne(values[{{1, -2}}]):all():item(), true) end
    end
  end
  check.equal(#torch.unique_consecutive(torch.tensor {0 / 0, 0 / 0, 0.0, -0.0}), 3)
end)

test("searchsorted counts what lies before a value", function()
  torch.manual_seed(4)
  for _, n in ipairs {1, 2, 3, 20, 77} do
    for _, right in ipairs {false, true} do
      local line = torch.randint(0, 30, {n}):to(torch.float32):sort()
      local wanted = torch.randint(-1, 32, {61}):to(torch.float32)
      local before = right and line:unsqueeze(1):le(wanted:unsqueeze(2)) or line:unsqueeze(1):lt(wanted:unsqueeze(2))
      check.equal(torch.searchsorted(line, wanted, {right = right}):tolist(), (before:sum(2) + 1):tolist())
      check.equal(torch.searchsorted(line:long(), wanted:long(), {right = right}):tolist(), (before:sum(2) + 1):tolist())
    end
  end
  check.equal(torch.searchsorted(torch.tensor {1.0, 2.0}, torch.tensor {0 / 0}):tolist(), {3})
end)

test("bincount adds weights where values are, in few bins and in many", function()
  for _, bins in ipairs {3, 500, 9000} do
    local x = torch.randint(0, bins, {4001})
    local w = torch.rand(4001):double()
    local want = torch.zeros(bins):double():index_add(1, x + 1, w)
    check.close(torch.bincount(x, {weights = w, minlength = bins}):tolist(), want:tolist(), 1e-9)
    check.equal(torch.bincount(x, {minlength = bins}):sum():item(), 4001)
  end
  check.raises("value", "counts values from 0, and element 2 is -1", torch.bincount, torch.tensor {3, -1})
end)
