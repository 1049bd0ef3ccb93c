-- Elementwise rows and conversions take shorter paths for halves, small integers, values that repeat and
-- planes that lie across: each gives what the plain path gives.

local F = torch.nn.functional

-- x's values, lying the other way round.
local function turned(x)
  local order = {}
  for d = 1, x:dim() do order[d] = x:dim() + 1 - d end
  return x:permute(order):contiguous():permute(order)
end

-- nan is nan here, and the sign of 0 counts.
local function alike(a, b, note)
  check.equal(a.dtype, b.dtype)
  if a:is_floating_point() then
    local nan = a:isnan()
    check.yes(torch.equal(nan, b:isnan()), note)
    check.yes(torch.equal(a:signbit():logical_or(nan), b:signbit():logical_or(nan)), note)
    a, b = a:masked_fill(nan, 0), b:masked_fill(nan, 0)
  end
  check.yes(torch.equal(a, b), note)
end

local floats = {torch.float32, torch.float64, torch.bfloat16, torch.float16}

test("results that go past the caches are what their parts give", function()
  torch.manual_seed(2)
  local n = 9000001
  for _, first in ipairs {1, 2} do  -- at places that are no whole lines, too
    local x, y = torch.randn {n + 1}[{{first, n}}], torch.randn {n + 1}[{{first, n}}]
    local z, fused = x - y, torch.where(x:gt(y), x, y)
    for _, at in ipairs {1, 4500000, n - first - 100} do
      local part = {{at, at + 100}}
      alike(z[part], x[part]:clone() - y[part]:clone(), at)
      alike(fused[part], torch.maximum(x[part]:clone(), y[part]:clone()), at)
    end
  end
end)

test("rows with gaps, and a value for a whole row, give what rows without and values for each element give", function()
  torch.manual_seed(1)
  for _, dtype in ipairs {torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool} do
    for _, n in ipairs {1, 3, 8, 31, 63, 64, 65, 90, 127, 128, 200, 1030} do
      local x, column = torch.randint(0, 9, {5, n}):to(dtype), torch.randint(0, 9, {5, 1}):to(dtype)
      local spread = column:expand {5, n}:contiguous()
      alike(x + column, x + spread, n)
      alike(column * x, spread * x, n)
      alike(x:lt(column), x:lt(spread), n)
      alike(torch.where(x:gt(column), column, x), torch.where(x:gt(spread), spread, x), n)
      alike(column:to(torch.float32) + x, spread:to(torch.float32) + x, n)
      local wide = torch.randint(0, 9, {5, n + 5}):to(dtype)
      local part = wide[{{}, {3, n + 2}}]  -- rows with gaps between them
      alike(part + x, part:contiguous() + x, n)
      alike(part * column, part:contiguous() * spread, n)
      local out, kept = wide:clone(), wide:clone()
      torch.maximum(part, column, {out = out[{{}, {3, n + 2}}]})
      kept[{{}, {3, n + 2}}] = torch.maximum(part:contiguous(), spread)
      alike(out, kept, n)
      local row = wide[{1, {3, n + 2}}]
      alike(column + row, spread + row:expand {5, n}:contiguous(), n)
      alike(part:lt(row), part:contiguous():lt(row:expand {5, n}:contiguous()), n)
      local deep = torch.randint(0, 9, {5, 3, n}):to(dtype)
      alike(deep * part:unsqueeze(2), deep * part:contiguous():unsqueeze(2):expand {5, 3, n}:contiguous(), n)
      alike(deep:transpose(1, 2) + row, deep:transpose(1, 2):contiguous() + row:expand {3, 5, n}:contiguous(), n)
      local y = x:clone()
      y:add_(y[{{}, {1}}])  -- of what was there before
      alike(y, x + x[{{}, {1}}]:clone():expand {5, n}:contiguous(), n)
    end
  end
end)

test("elements that lie across are converted as those that lie row by row", function()
  torch.manual_seed(2)
  local types = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64}
  for _, size in ipairs {{4, 5}, {17, 9}, {130, 70}, {70, 200}, {9, 3, 40, 11}, {1, 300, 63}, {0, 5}} do
    for _, from in ipairs(types) do
      local x = torch.randint(0, 100, size):to(from)
      for _, to in ipairs(types) do
        local out = torch.zeros(size, {dtype = to})
        out:copy_(turned(x))
        alike(out, x:to(to), tostring(from) .. " to " .. tostring(to))
      end
    end
  end
end)

test("float64 is rounded to halves once, many at a time as one by one", function()
  torch.manual_seed(3)
  local x = torch.randn({37}, {dtype = torch.float64})
  -- Beside the middle of two halves by less than float32 tells.
  x[{{1, 8}}] = torch.tensor({1 + 2 ^ -8 + 2 ^ -40, 1 + 2 ^ -8 - 2 ^ -40, 1 + 2 ^ -11 + 2 ^ -40, 1 + 2 ^ -11 - 2 ^ -40, -1 - 2 ^ -8 - 2 ^ -40, 1e300, -math.huge, 0 / 0}, {dtype = torch.float64})
  for _, dtype in ipairs {torch.bfloat16, torch.float16} do
    for n = 1, 37 do
      local many = x[{{1, n}}]:to(dtype)
      alike(many[{{n, n}}], x[{{n, n}}]:to(dtype), n)
    end
  end
  check.equal(x[{{1, 2}}]:to(torch.bfloat16):to(torch.float64):tolist(), {1 + 2 ^ -7, 1.0})
  check.equal(x[{{3, 4}}]:to(torch.float16):to(torch.float64):tolist(), {1 + 2 ^ -10, 1.0})
end)

test("rows of halves give what float32 gives, rounded, and comparisons the same", function()
  torch.manual_seed(4)
  local rows = {
    torch.sign, torch.sgn, torch.floor, torch.ceil, torch.trunc, torch.round, torch.frac, torch.sqrt, torch.rsqrt, torch.reciprocal,
    torch.rad2deg, torch.exp, torch.sigmoid, torch.tanh, torch.isnan, torch.isinf, torch.isfinite, torch.signbit, torch.logical_not,
    F.relu6, F.hardsigmoid, F.hardswish, F.softsign, F.silu, F.gelu, torch.isposinf, torch.isneginf,
    function(x) return F.hardshrink(x, 0.5) end, function(x) return F.softshrink(x, 0.5) end, function(x) return x ^ -2 end,
    function(x) return x:gt(0.5) end, function(x) return x:eq(0) end,
  }
  local pairs_of = {torch.fmax, torch.fmin, torch.copysign, torch.heaviside, torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge,
    torch.logical_and, torch.logical_or, torch.logical_xor}
  for _, dtype in ipairs {torch.bfloat16, torch.float16} do
    for _, n in ipairs {1, 7, 15, 16, 17, 31, 32, 33, 64, 65, 100} do
      local x, y = (torch.randn {n} * 2):to(dtype), torch.randn {n}:to(dtype)
      local special = {0 / 0, math.huge, -math.huge, -0.0, 0.0, 0.5}
      for i, v in ipairs(special) do
        if i < n then x[i], y[n - i] = v, special[#special + 1 - i] end
      end
      local function like(r) return r.dtype == torch.bool and r or r:to(dtype) end
      for k, f in ipairs(rows) do alike(f(x), like(f(x:float())), k) end
      for k, f in ipairs(pairs_of) do alike(f(x, y), like(f(x:float(), y:float())), k) end
    end
  end
end)

test("no integer is infinite or nan", function()
  for _, dtype in ipairs {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64} do
    for _, size in ipairs {{0}, {1}, {7, 5}, {200, 33}} do
      local x = torch.randint(0, 100, size):to(dtype)
      for _, y in ipairs {x, turned(x)} do
        local none = torch.zeros(size, {dtype = torch.bool})
        check.yes(torch.equal(torch.isnan(y), none))
        check.yes(torch.equal(torch.isinf(y), none))
        check.yes(torch.equal(torch.isposinf(y), none))
        check.yes(torch.equal(torch.isneginf(y), none))
        check.yes(torch.equal(torch.isfinite(y), none:logical_not()))
        if x:dim() == 2 then
          local out = torch.ones({x:size(1), 2 * x:size(2)}, {dtype = torch.bool})
          torch.isnan(y, {out = out[{{}, {1, -1, 2}}]})
          check.equal(out:sum():item(), x:numel())  -- what lies between stays
        end
      end
    end
  end
end)

test("divisors of integers side by side are those of each pair", function()
  local function gcd(a, b)
    while b ~= 0 do a, b = b, math.fmod(a, b) end
    return math.abs(a)
  end
  local values = {0, 1, -1, 2, 6, -6, 12, 35, 99, -100, 1 << 40, (1 << 40) * 6, (1 << 51) - 1, 1 << 51, 3 << 60, 97 * 89}
  local a, b, g = {}, {}, {}
  for _, x in ipairs(values) do
    for _, y in ipairs(values) do a[#a + 1], b[#b + 1], g[#g + 1] = x, y, gcd(x, y) end
  end
  local x, y = torch.tensor(a), torch.tensor(b)
  check.equal(torch.gcd(x, y):tolist(), g)
  for i = 1, #a do
    local l = g[i] == 0 and 0 or a[i] // g[i] * b[i]
    if l < 0 then l = -l end
    check.equal(torch.lcm(x[{{i, i}}], y[{{i, i}}]):item(), l)
  end
  check.yes(torch.equal(torch.lcm(x, y), torch.cat((function()
    local each = {}
    for i = 1, #a do each[i] = torch.lcm(x[{{i, i}}], y[{{i, i}}]) end
    return each
  end)())))
end)

test("powers of small integers are int64's, cut to their width", function()
  for _, dtype in ipairs {torch.uint8, torch.int8, torch.int16, torch.int32} do
    for _, n in ipairs {1, 5, 33, 100} do
      local x, y = torch.randint(0, 200, {n}):to(dtype), torch.randint(0, 12, {n}):to(dtype)
      if dtype ~= torch.uint8 then x = x - 90 end
      check.yes(torch.equal(x ^ y, (x:to(torch.int64) ^ y:to(torch.int64)):to(dtype)))
    end
  end
end)

test("powers of 2 are exp2, also with gradients", function()
  torch.manual_seed(5)
  for _, dtype in ipairs(floats) do
    local x = (torch.randn {77} * 4):to(dtype)
    alike(2.0 ^ x, torch.exp2(x))
    alike(torch.pow(2, x), torch.exp2(x))
  end
  local x = torch.tensor({-math.huge, -3, 0, 1, 10, math.huge, 0 / 0}, {dtype = torch.float64})
  check.equal((2.0 ^ x)[{{1, 6}}]:tolist(), {0.0, 0.125, 1.0, 2.0, 1024.0, math.huge})
  check.yes((2.0 ^ x)[7]:isnan():item())
  local z = torch.randn({9}, {dtype = torch.float64}):requires_grad_()
  check.close(torch.autograd.grad((2.0 ^ z):sum(), {z}), (torch.exp2(z:detach()) * math.log(2)), 1e-12)
  check.equal(torch.pow(2, torch.tensor {3, 5}):tolist(), {8, 32})
end)

test("one value goes where a mask of the tensor's shape holds, with its gradient", function()
  torch.manual_seed(6)
  for _, size in ipairs {{0}, {1}, {7, 5}, {130, 70}} do
    local x = torch.randn(size)
    local mask = x:gt(0.3)
    local wanted = x:masked_fill(mask, 1.5)
    for _, y in ipairs {x:clone(), turned(x)} do
      y[mask] = 1.5
      check.yes(torch.equal(y, wanted))
      local z = turned(x)
      z:index_put_({mask}, torch.tensor(1.5))
      check.yes(torch.equal(z, wanted))
    end
  end
  local x, v = torch.randn(4, 3):requires_grad_(), torch.tensor(2.0):requires_grad_()
  local mask = x:detach():gt(0)
  x:index_put({mask}, v):sum():backward()
  check.yes(torch.equal(x.grad, mask:logical_not():float()))
  check.equal(v.grad:item(), mask:sum():item() + 0.0)
  local y = torch.zeros(4, 3):to(torch.int32)
  y[mask] = 7
  check.yes(torch.equal(y, mask:to(torch.int32) * 7))
end)

test("glu is one half times the sigmoid of the other, also in its gradients", function()
  torch.manual_seed(7)
  local x = torch.randn({6, 10}, {dtype = torch.float64}):requires_grad_()
  for dim = 1, 2 do
    local n = x:size(dim) // 2
    local a, b = x:narrow(dim, 1, n), x:narrow(dim, n + 1, n)
    local wanted, y = a * torch.sigmoid(b), F.glu(x, dim)
    check.close(y:detach(), wanted:detach(), 1e-12)
    local g = torch.randn(y:size(), {dtype = torch.float64})
    check.close(torch.autograd.grad((y * g):sum(), {x}), torch.autograd.grad((wanted * g):sum(), {x}), 1e-12)
  end
end)
