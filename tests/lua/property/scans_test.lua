-- Scans by lanes, columns and several rows at a time against one element after the other, in float64.

local layouts = {
  function(x) return x end,
  function(x) return x:t():contiguous():t() end,
  function(x) return torch.cat({x, x}, 2)[{{}, {1, x:size(2)}}] end,
}
-- f(row) for every row of x along dim, stacked again.
local function by_rows(x, dim, f)
  local turned = dim == 1 and x:t() or x
  local rows = {}
  for i = 1, turned:size(1) do rows[i] = torch.tensor(f(turned[i]:tolist()), {dtype = torch.float64}) end
  local y = torch.stack(rows)
  return dim == 1 and y:t() or y
end
local sizes = {{1, 1}, {3, 9}, {6, 24}, {5, 41}, {9, 70}, {70, 9}, {2, 600}}

test("logcumsumexp holds small, large, distant and infinite values in every layout", function()
  torch.manual_seed(1)
  local inf = math.huge
  for _, dtype in ipairs {torch.float32, torch.float64} do
    for _, size in ipairs(sizes) do
      for kind = 1, 5 do
        local x = torch.randn(size, {dtype = torch.float64}) * ({1, 60, 1, 400, 1})[kind]
        if kind == 3 then x[{1, 1}] = -inf; x[{1, -1}] = inf end
        if kind == 4 then x[{{}, 1}] = -700 end
        if kind == 5 then x[{{}, 1}] = -inf; x[{-1, -1}] = 0 / 0 end
        x = x:to(dtype)
        for dim = 1, 2 do
          local exact = by_rows(x:to(torch.float64), dim, function(row)
            local out, carry = {}, -inf
            for i, v in ipairs(row) do
              local high, low = math.max(carry, v), math.min(carry, v)
              if carry ~= carry or v ~= v then carry = 0 / 0
              elseif high == -inf or high == inf then carry = high
              else carry = high + math.log(1 + math.exp(low - high)) end
              out[i] = carry
            end
            return out
          end)
          for k, layout in ipairs(layouts) do
            local y = torch.logcumsumexp(layout(x), dim):to(torch.float64)
            check.equal(torch.equal(y:isnan(), exact:isnan()), true, k)
            local finite = exact:isfinite()
            check.equal(torch.equal(y[exact:isinf()], exact[exact:isinf()]), true, k)
            local off = ((y - exact):abs() / (exact:abs() + 1))[finite]
            check.yes(off:numel() == 0 or off:max():item() < (dtype == torch.float32 and 3e-7 or 1e-13), off:numel() > 0 and off:max():item())
          end
        end
      end
    end
  end
end)

test("running products, sums from both ends and extremes go along any dimension", function()
  torch.manual_seed(2)
  for _, dtype in ipairs {torch.int64, torch.float32, torch.float64} do
    for _, size in ipairs(sizes) do
      local x = torch.randint(-3, 4, size):to(dtype)
      if dtype ~= torch.int64 and size[2] > 20 then x[{1, 7}], x[{1, 12}] = 0 / 0, 0 / 0 end
      for dim = 1, 2 do
        local function exact(f)
          return by_rows(x:to(torch.float64), dim, function(row)
            local out, carry = {}, nil
            for i, v in ipairs(row) do carry = f(carry, v, i); out[i] = carry end
            return out
          end)
        end
        local sums, products = exact(function(c, v) return (c or 0) + v end), nil
        local small = torch.where(x:eq(0) | x:ne(x), torch.ones_like(x), x:sign())
        products = by_rows(small:to(torch.float64), dim, function(row)
          local out, carry = {}, 1
          for i, v in ipairs(row) do carry = carry * v; out[i] = carry end
          return out
        end)
        local places = {}
        for _, largest in ipairs {true, false} do
          local best
          places[largest] = exact(function(c, v, i)
            if not c then best = nil end
            if not best or v ~= v or (best[1] == best[1] and (largest and v >= best[1] or not largest and v <= best[1])) then best = {v, i} end
            return best[2]
          end)
        end
        for k, layout in ipairs(layouts) do
          local y = layout(x)
          check.equal(torch.equal(torch.nan_to_num(y:cumsum(dim):to(torch.float64), 99), torch.nan_to_num(sums, 99)), true, k)
          check.equal(torch.equal(layout(small):cumprod(dim):to(torch.float64), products), true, k)
          for _, largest in ipairs {true, false} do
            local v, at = table.unpack {(largest and torch.cummax or torch.cummin)(y, dim)}
            check.equal(torch.equal(at:to(torch.float64), places[largest]), true, k)
            check.equal(torch.equal(torch.nan_to_num(v:to(torch.float64), 99), torch.nan_to_num(y:gather(dim, at):to(torch.float64), 99)), true, k)
          end
        end
      end
    end
  end
end)

test("scans of long lines are those of their first elements, wherever the lines lie", function()
  torch.manual_seed(21)
  for _, dtype in ipairs {"float32", "float64", "int64"} do
    for _, sizes in ipairs {{1, 300}, {3, 300, 2}, {300, 5}, {2, 257, 7}, {301}} do
      local x = torch.randn(sizes)
      x = (dtype == "int64" and (x * 3):round() or x / 8 + 1):to(torch[dtype])
      for _, y in ipairs {x, x:flip(1), x:transpose(1, -1)} do
        for dim = 1, y:dim() do
          local n = y:size(dim)
          local sum, product = y:cumsum(dim):to(torch.float64), y:cumprod(dim):to(torch.float64)
          for _, k in ipairs {1, 2, 3, 4, 5, n - 1, n} do
            if k >= 1 and k <= n then
              local first = y:narrow(dim, 1, k):to(torch.float64)
              check.yes(torch.allclose(sum:select(dim, k), first:sum(dim), 1e-5, 1e-5))
              if dtype ~= "int64" then check.yes(torch.allclose(product:select(dim, k), first:prod(dim), 1e-4, 1e-5)) end
            end
          end
        end
      end
    end
  end
  local x = torch.ones(40)
  x[{6}], x[{19}] = 1 / 0, -1 / 0
  local sums = x:cumsum(1):tolist()
  check.equal(sums[5], 5.0)
  check.equal(sums[18], 1 / 0)
  check.yes(sums[19] ~= sums[19] and sums[40] ~= sums[40])
end)

test("scans along steps between columns are those of the columns laid side by side", function()
  torch.manual_seed(41)
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int32", "int64"} do
    for _, sizes in ipairs {{479, 140}, {300, 3, 70}, {20, 700}, {3, 40, 64}} do
      local wide = (torch.randn(sizes) * 4):to(torch[dtype])
      local last = sizes[#sizes]
      for _, x in ipairs {wide[{torch.ellipsis, {1, last, 2}}], wide[{torch.ellipsis, {2, last, 3}}], wide[{torch.ellipsis, {3, last}}]} do
        for dim = 1, #sizes - 1 do
          check.yes(torch.equal(x:cumsum(dim), x:contiguous():cumsum(dim)), dtype .. dim)
          check.yes(torch.equal((x:cummax(dim)), (x:contiguous():cummax(dim))), dtype .. dim)
        end
      end
    end
  end
end)
