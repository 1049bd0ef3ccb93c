-- Reductions of small random tensors of every type and layout against their definition, element by element: the ways
-- through the folds (runs, columns, narrow and turned blocks, small integers as they lie) differ by shape.

local function random(dtype, sizes)
  if dtype == "bool" then return torch.rand(sizes):gt(0.5) end
  if dtype:find "int" then return torch.randint(dtype == "uint8" and 0 or -100, 100, sizes):to(torch[dtype]) end
  return torch.randn(sizes):to(torch[dtype])
end

local layouts = {
  function(x) return x end,
  function(x) return x:transpose(1, -1) end,
  function(x) return x[{torch.ellipsis, {1, x:size(-1), 2}}] end,
  function(x) return x:unsqueeze(2):expand(x:size(1), 3, table.unpack(x.shape, 2)) end,
}

-- What meets what: a result so far and the next element.
local joins = {
  sum = function(a, b) return a + b end, prod = function(a, b) return a * b end,
  amax = torch.maximum, amin = torch.minimum,
}

local function by_definition(x, dim, join)
  local out = x:select(dim, 1)
  for i = 2, x:size(dim) do out = join(out, x:select(dim, i)) end
  return out
end

test("a reduction joins the elements of its dimension, whatever their type and layout", function()
  torch.manual_seed(3)
  local tolerance = {float32 = 1e-4, float64 = 1e-9, bfloat16 = 2e-2}
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"} do
    for turn = 1, 24 do
      local sizes = {}
      for i = 1, math.random(1, 3) do sizes[i] = math.random(1, turn % 4 == 0 and 70 or 9) end
      local x = layouts[turn % #layouts + 1](random(dtype, sizes))
      local wide = x:to(tolerance[dtype] and torch.float64 or torch.int64):contiguous()
      local what = dtype .. " " .. tostring(x.shape)
      for dim = 1, x:dim() do
        for name, join in pairs(joins) do
          if dtype ~= "bool" or name == "sum" then
            local got, want = torch[name](x, dim):to(wide.dtype), by_definition(wide, dim, join)
            local near = tolerance[dtype] or 0
            if not torch.allclose(got, want, near, near, true) then error(what .. " " .. name .. " " .. dim) end
          end
        end
        check.yes(x:count_nonzero(dim):eq(by_definition(wide:ne(0):to(torch.int64), dim, joins.sum)):all():item())
        if dtype ~= "bool" then
          local best = wide:gather(dim, x:argmax(dim):unsqueeze(dim)):squeeze(dim)
          check.yes(best:eq(wide:amax(dim)):all():item())
        end
      end
    end
  end
end)

test("a nan is the result of every extreme and sum that it is in", function()
  for n = 1, 40 do
    local x = torch.randn(5, n)
    x[{3, math.random(n)}] = 0 / 0
    for _, name in ipairs {"sum", "amax", "amin", "prod"} do
      local nans = torch[name](x, 2):isnan()
      check.equal(nans:tolist(), {false, false, true, false, false})
      check.equal(torch[name](x:t():contiguous(), 1):isnan():tolist(), {false, false, true, false, false})
    end
  end
end)

test("a product of floats is right where it is large or small on the way", function()
  torch.manual_seed(5)
  for _, sizes in ipairs {{7, 5}, {8, 33}, {5, 9}, {3, 700}, {12, 70}} do
    for dim = 1, 2 do
      local n = math.min(sizes[dim], 14)
      local x = torch.full(sizes, 1e-30):narrow(dim, 1, n)
      x:narrow(dim, 1, n // 2):fill_(1e30)   -- all of them come first
      local got, want = x:prod(dim), n % 2 == 0 and 1 or 1e-30
      check.yes((got / want - 1):abs():lt(1e-4):all():item())
      check.yes(x:narrow(dim, n // 2 + 1, n - n // 2):prod(dim):eq(n > 2 and 0 or 1e-30):all():item())
    end
  end
  local z = torch.rand(2000, 40) + 0.5
  local exact = z:to(torch.float64)
  for dim = 1, 2 do
    local got, want = z:prod(dim):to(torch.float64), exact:prod(dim)
    local fits = want:abs():gt(1e-37)
    check.yes(((got - want):abs() / want):masked_select(fits):lt(1e-4):all():item())
  end
  z[{3, 7}] = 0
  check.equal(z:prod(2)[{3}]:item(), 0.0)
  check.equal(z:prod(1)[{7}]:item(), 0.0)
end)

test("what is repeated along a dimension counts as often as it is there", function()
  torch.manual_seed(6)
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "uint8", "bool"} do
    local base = random(dtype, {5, 1, 3, 1})
    if not dtype:find "int" and dtype ~= "bool" then base = base / 4 + 1 end
    local x = base:expand(5, 4, 3, 7)
    local y = x:contiguous()
    for _, dims in ipairs {{2}, {4}, {2, 4}, {1, 2}, {1, 2, 3, 4}, {3, 4}, {1}} do
      for _, name in ipairs {"sum", "count_nonzero", "any", "all", "amax", "amin"} do
        if name == "any" or name == "all" or dtype ~= "bool" then
          local a, b = x[name](x, dims):to(torch.float64), y[name](y, dims):to(torch.float64)
          if not torch.allclose(a, b, 1e-2, 1e-4) then error(dtype .. " " .. name .. " " .. #dims) end
        end
      end
      if torch.is_floating_point(x) then
        for _, name in ipairs {"mean", "var", "std", "norm", "logsumexp", "nansum"} do
          local a, b
          if name == "norm" then a, b = torch.linalg.vector_norm(x, 2, dims), torch.linalg.vector_norm(y, 2, dims)
          else a, b = x[name](x, dims), y[name](y, dims) end
          if not torch.allclose(a:to(torch.float64), b:to(torch.float64), 1e-2, 1e-3) then error(dtype .. " " .. name .. " " .. #dims) end
        end
      end
    end
    if dtype ~= "bool" then
      check.yes(torch.allclose(x:prod(2):to(torch.float64), y:prod(2):to(torch.float64), 2e-2))
      check.equal(x:argmax(2):tolist(), y:argmax(2):tolist())
      check.equal(x:argmin(3):tolist(), y:argmin(3):tolist())
    end
  end
end)

test("many short lines fold as each of them does", function()
  torch.manual_seed(7)
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "int16", "uint8"} do
    for _, n in ipairs {2, 3, 4, 5, 7, 8, 9, 15, 24, 25} do
      for _, step in ipairs {1, 2} do
        local x = random(dtype, {301, n * step})[{{}, {1, n * step, step}}]
        local wide = x:to(torch.float64):contiguous()
        local near = dtype == "bfloat16" and 4e-2 or 1e-4
        for name, join in pairs(joins) do
          if name ~= "prod" or not dtype:find "int" then
            check.yes(torch.allclose(torch[name](x, 2):to(torch.float64), by_definition(wide, 2, join), near, near))
          end
        end
        for _, name in ipairs {"max", "min"} do
          local value, at = torch[name](x, 2)
          check.yes(value:to(torch.float64):eq(torch["a" .. name](wide, 2)):all():item())
          check.yes(wide:gather(2, at:unsqueeze(2)):squeeze(2):eq(value:to(torch.float64)):all():item())
        end
      end
    end
  end
end)

test("truths of long rows of bytes are counted beyond what a byte holds", function()
  for _, n in ipairs {255, 256, 257, 1023, 70000, 300001} do
    local x = torch.ones(n):to(torch.uint8)
    check.equal(x:count_nonzero():item(), n)
    check.yes(x:all():to(torch.bool):item())
    check.equal((x * 255):sum():item(), 255 * n)
    check.equal((x:to(torch.int8) * -128):sum():item(), -128 * n)
    x[{n}] = 0
    check.no(x:all():to(torch.bool):item())
    check.yes((1 - x):any():to(torch.bool):item())
    local rows = torch.ones(n, 3):to(torch.bool)
    check.equal(rows:count_nonzero(1):tolist(), {n, n, n})
    rows[{n, 2}] = false
    check.equal(rows:all(1):tolist(), {true, false, true})
  end
end)

test("a norm loses neither small nor large numbers", function()
  torch.manual_seed(8)
  for _, sizes in ipairs {{5, 7}, {100, 64}, {3, 5000}, {5000, 3}} do
    for _, scale in ipairs {1, 1e-30, 1e-22, 1e-13, 1e18, 1e25} do
      local x = torch.randn(sizes) * scale
      x[{1, 1}] = 0
      local exact = x:to(torch.float64)
      for dim = 1, 2 do
        local got, want = torch.linalg.vector_norm(x, 2, dim):to(torch.float64), torch.linalg.vector_norm(exact, 2, dim)
        check.yes(((got - want):abs() / want):lt(1e-6):all():item())
      end
      check.yes(math.abs(torch.linalg.vector_norm(x):item() / torch.linalg.vector_norm(exact):item() - 1) < 1e-6)
    end
  end
  check.equal(torch.linalg.vector_norm(torch.zeros(1000)):item(), 0.0)
  check.equal(torch.linalg.vector_norm(torch.tensor {1 / 0, 2}):item(), 1 / 0)
  check.yes(torch.linalg.vector_norm(torch.tensor {0 / 0, 2}):isnan():item())
end)

test("columns of 16-bit floats and steps fold over any depth and width as float64 does", function()
  torch.manual_seed(17)
  for _, depth in ipairs {1, 2, 8, 9, 31, 100, 128, 129, 300} do
    for _, columns in ipairs {8, 63, 64, 65, 200, 1023, 1030} do
      local wide = torch.randint(-8, 9, {depth, columns}, {dtype = torch.float64})
      for _, x in ipairs {
        wide:to(torch.bfloat16), wide:to(torch.float16), wide:to(torch.int16),
        torch.stack({wide, wide}, 3):to(torch.float32):select(3, 2),
      } do
        check.equal(torch.equal(x:sum {dim = 1, dtype = torch.float64}, wide:sum(1)), true)
        check.equal(torch.equal(x:amax(1):to(torch.float64), wide:amax(1)), true)
        check.equal(torch.equal(x:argmin(1), wide:argmin(1)), true)
        if x:is_floating_point() and depth > 1 then
          check.close(x:to(torch.float32):var(1):to(torch.float64), wide:var(1), 1e-4, 1e-4)
          check.close(x:var(1):to(torch.float64), wide:var(1), 1e-2, 1e-2)
        end
      end
    end
  end
end)

test("blocks of short rows fold as they do alone, however long the dimension beside them is", function()
  torch.manual_seed(18)
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "uint8"} do
    for _, long in ipairs {300, 1024, 1025, 1737, 4100} do
      for _, sizes in ipairs {{3, long, 2}, {2, long, 5}, {20, long, 3}, {2, 3, long, 2}} do
        local base = torch.randint(0, 9, sizes)
        local turn = #sizes == 3 and {3, 2, 1} or {4, 3, 2, 1}
        local x, straight = base:to(torch[dtype]):permute(turn), base:permute(turn):contiguous()
        for dim = 1, #sizes do
          if dtype ~= "bfloat16" then check.equal(torch.equal(x:sum(dim):to(torch.int64), straight:sum(dim)), true) end
          check.equal(torch.equal(x:amax(dim):to(torch.int64), straight:amax(dim)), true)
          check.equal(torch.equal(x:argmax(dim), straight:argmax(dim)), true)
        end
      end
    end
  end
end)

test("runs of some elements that lie apart fold as one long run does, and products leave out one element each", function()
  torch.manual_seed(19)
  for _, dtype in ipairs {"float64", "float32", "bfloat16", "int64"} do
    for _, n in ipairs {31, 32, 35, 100, 256, 257} do
      local wide = torch.randint(-8, 9, {9, 3, n}, {dtype = torch.float64})
      local x, line = wide:to(torch[dtype]), wide:transpose(1, 2):reshape(3, -1)
      check.equal(torch.equal(x:amax {1, 3}:to(torch.float64), line:amax(2)), true)
      if dtype ~= "bfloat16" then check.equal(torch.equal(x:sum {1, 3}:to(torch.float64), line:sum(2)), true) end
      if dtype:find "float" then check.close(x:to(torch.float64):var {1, 3}, line:var(2), 1e-9, 1e-9) end
    end
  end
  for _, size in ipairs {{1, 1}, {3, 7}, {9, 8}, {17, 20}, {2, 99}} do
    for dim = 1, 2 do
      local x = (torch.rand(size, {dtype = torch.float64}) + 0.5):requires_grad_()
      x:prod(dim):sum():backward()
      check.close(x.grad, (x:prod(dim, true) / x):detach(), 1e-9, 1e-9)
    end
  end
end)

test("of dimensions without elements sums are 0, wherever they stand", function()
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "int8", "uint8", "bool"} do
    for _, sizes in ipairs {{40, 0, 2}, {2, 0, 40}, {0, 3}, {70, 0}, {5, 0, 9, 3}} do
      local x = torch.ones(sizes):to(torch[dtype])
      for dim = 1, x:dim() do
        check.equal(x:sum(dim):eq(0):all():item(), true)
        check.equal(x:sum(dim):numel(), x:size(dim) == 0 and x:sum(dim, true):numel() or 0)
      end
    end
  end
end)

test("rows of bytes of any length and place give what their numbers give", function()
  for _, dtype in ipairs {"bool", "uint8", "int8"} do
    for n = 1, 300 do
      local wide = torch.randn(7, n + 3)
      wide = dtype == "bool" and wide:gt(0.5) or (wide * 90):to(torch[dtype])
      local x = wide:narrow(2, n % 3 + 1, n)
      local want = x:to(torch.int64)
      check.yes(torch.equal(x:sum {dim = 2}, want:sum {dim = 2}), dtype .. n)
      check.yes(torch.equal(x:count_nonzero(2), want:ne(0):to(torch.int64):sum {dim = 2}), dtype .. n)
      if dtype == "bool" then
        check.yes(torch.equal(x:any {dim = 2}, want:sum {dim = 2}:gt(0)), dtype .. n)
        check.yes(torch.equal(x:all {dim = 2}, want:sum {dim = 2}:eq(n)), dtype .. n)
      else
        check.yes(torch.equal(x:amax {dim = 2}:to(torch.int64), want:amax {dim = 2}), dtype .. n)
        check.yes(torch.equal(x:amin {dim = 2}:to(torch.int64), want:amin {dim = 2}), dtype .. n)
      end
    end
  end
end)

test("softmax of short rows is that of wider numbers, and of a row alone that of many", function()
  torch.manual_seed(16)
  local tolerance = {float32 = 1e-5, float64 = 1e-13, bfloat16 = 4e-2, float16 = 5e-3}
  for i = 1, 60 do
    local n, m = torch.randint(2, 450, {1}):item(), torch.randint(1, 40, {1}):item()
    for dtype, most in pairs(tolerance) do
      local x, g = (torch.randn(m, n) * 4):to(torch[dtype]), torch.randn(m, n):to(torch[dtype])
      if i % 5 == 0 then x[{1, 1}] = -math.huge end
      if i % 7 == 0 then x[{m, n}] = 0 / 0 end
      if i % 9 == 0 then x[{1}] = -math.huge end
      for _, name in ipairs {"softmax", "log_softmax"} do
        local a, b = x:clone():requires_grad_(), x:double():clone():requires_grad_()
        local y, wide = torch[name](a, 2), torch[name](b, 2)
        y:backward(g)
        wide:backward(g:double())
        for _, pair in ipairs {{y, wide}, {a.grad, b.grad}} do
          local got, want = pair[1]:double(), pair[2]
          check.yes(torch.equal(got:isnan(), want:isnan()), dtype .. n)
          local off = (got - want):abs():nan_to_num(0, 0, 0):div(want:abs():nan_to_num(0, 0, 0) + 1)
          check.yes(off:max():item() <= most, ("%s %s [%d, %d]: %g"):format(name, dtype, m, n, off:max():item()))
        end
        local row = x:narrow(1, (m + 1) // 2, 1)
        local two = torch[name](torch.cat {row, row}, 2)
        check.yes(torch.equal(two:narrow(1, 1, 1):nan_to_num(7), two:narrow(1, 2, 1):nan_to_num(7)))
        if m > 1 then check.yes(torch.equal(two:narrow(1, 1, 1):nan_to_num(7), y:narrow(1, (m + 1) // 2, 1):nan_to_num(7))) end
      end
    end
  end
end)

test("logsumexp of few columns beside each other, and of single elements, is that of each line", function()
  torch.manual_seed(31)
  for _, sizes in ipairs {{9, 3, 1, 2}, {7, 30, 3}, {1, 200, 7}, {40, 2, 2}, {5, 1, 4}, {6, 5, 9}} do
    for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
      local x = (torch.randn(sizes) * 20):to(torch[dtype])
      x[{1, 1}], x[{-1, -1}] = math.huge, -math.huge
      if sizes[1] > 4 then x[{3, 1}] = 0 / 0 end
      for _, y in ipairs {x, x:transpose(1, -1), x:flip(2), torch.cat({x, x}, -1)[{torch.ellipsis, {1, 2 * sizes[#sizes], 2}}]} do
        for dim = 1, #sizes do
          local lines = y:movedim(dim, -1):contiguous()
          check.yes(torch.equal(y:logsumexp(dim):nan_to_num(7), lines:logsumexp(-1):nan_to_num(7)) or
            torch.allclose(y:logsumexp(dim), lines:logsumexp(-1), {rtol = dtype == "bfloat16" and 1e-2 or 1e-6, atol = dtype == "bfloat16" and 1e-2 or 1e-5, equal_nan = true}), dtype .. dim)
          if y:size(dim) == 1 then check.equal(y:logsumexp(dim), y:squeeze(dim)) end
        end
      end
    end
  end
end)
