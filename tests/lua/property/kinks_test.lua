-- Gradients of first and second order at kinks, poles and ties are PyTorch's (property/kinks.lua holds the numbers).
local F = torch.nn.functional
local cases = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "kinks.lua")

local leaves
local makers = {
  F = F, torch = torch, inf = math.huge, nan = 0 / 0,
  t = function(x)
    local v = torch.tensor(x, {dtype = "float64"}):requires_grad_()
    leaves[#leaves + 1] = v
    return v
  end,
  c = function(x) return torch.tensor(x, {dtype = "float64"}) end,
  i = function(x) return torch.tensor(x, {dtype = "int64"}) end,
  b = function(x) return torch.tensor(x) end,
}

-- What comes in for the k-th tensor: 0.5 to 2.5, in an order of its own.
local function weights(x, k, step)
  return ((torch.arange(x:numel(), {dtype = "float64"}) * step + k) % 5 + 1):reshape(x.shape) / 2
end
local function numbers(x, like)
  return (x or torch.zeros_like(like)):detach():reshape(-1):tolist()
end
local function differ(got, want)
  for k = 1, #got do
    local x, y = got[k], want[k] or 0
    local same = x == y or (x ~= x and y ~= y) or math.abs(x - y) <= 1e-7 * (1 + math.abs(y))
    if not same then return ("element %d is %.9g, not %.9g"):format(k, x, y) end
  end
end

-- The gradients of the inputs, and of those the gradients of the inputs and of what came in.
local function gradients(call)
  leaves = {}
  local out, coming = {}, {}
  for _, y in ipairs {assert(load("return " .. call, call, "t", makers))()} do
    if y.requires_grad then
      out[#out + 1] = y
      coming[#coming + 1] = weights(y, #coming, 3):requires_grad_()
    end
  end
  local g = table.pack(torch.autograd.grad(out, leaves, {grad_outputs = coming, create_graph = true, allow_unused = true}))
  local second, seconds, inputs, first, h = {}, {}, {}, {}, {}
  for k, x in ipairs(leaves) do
    inputs[k], first[k] = x, numbers(g[k], x)
    if g[k] and g[k].requires_grad then
      second[#second + 1] = g[k]
      seconds[#seconds + 1] = weights(g[k], k - 1, 2)
    end
  end
  for _, v in ipairs(coming) do inputs[#inputs + 1] = v end
  if #second > 0 then h = table.pack(torch.autograd.grad(second, inputs, {grad_outputs = seconds, allow_unused = true})) end
  for k, x in ipairs(inputs) do h[k] = numbers(h[k], x) end
  return first, h
end

test("gradients of first and second order at kinks, poles and ties are PyTorch's", function()
  local wrong = {}
  for _, case in ipairs(cases) do
    local g, h = gradients(case[1])
    for name, pair in pairs {first = {g, case.g}, second = {h, case.h}} do
      for k, want in ipairs(pair[2] or {}) do
        local why = differ(pair[1][k], want)
        if why then wrong[#wrong + 1] = ("%s: %s gradient %d: %s"):format(case[1], name, k, why) end
      end
    end
  end
  check.equal(table.concat(wrong, "\n"), "")
end)

test("elements at the edge of softshrink and hardshrink are at it in half types, too", function()
  for _, dtype in ipairs {"bfloat16", "float16", "float32", "float64"} do
    for _, lambd in ipairs {0.1, 0.3, 0.7} do
      local x = torch.tensor({lambd, -lambd, 2.0}, {dtype = dtype}):requires_grad_()
      for _, f in ipairs {F.softshrink, F.hardshrink} do
        local y = f(x, lambd)
        check.equal(y:narrow(1, 1, 2):abs(), torch.zeros(2, {dtype = dtype}))
        check.equal(torch.autograd.grad(y:sum(), x), torch.tensor({0, 0, 1}, {dtype = dtype}))
      end
    end
  end
end)

test("gradients of float64 take numbers as they are", function()
  local function slope(f)
    local x = torch.tensor({2.0}, {dtype = "float64"}):requires_grad_()
    return torch.autograd.grad(f(x):sum(), x):item()
  end
  for _, case in ipairs {
    {function(x) return 0.7 ^ x end, math.log(0.7) * 0.7 ^ 2},
    {function(x) return x ^ 0.1 end, 0.1 * 2 ^ -0.9},
    {function(x) return torch.lerp(x, x:detach() * 2, 0.7) end, 1 - 0.7},
    {function(x) return F.softplus(x, 0.7) end, 1 / (1 + math.exp(-1.4))},
    {function(x) return torch.xlogy(x, 0.7) end, math.log(0.7)},
    {function(x) return F.huber_loss(x, torch.zeros_like(x), {delta = 0.7}) end, 0.7},
    {function(x) return F.elu(x - 2.5, 0.7) end, 0.7 * math.exp(-0.5)},
    {function(x) return F.celu(x - 2.5, 0.7) end, math.exp(-0.5 / 0.7)},
  } do
    check.close(slope(case[1]), case[2], 1e-14)
  end
end)

-- As PyTorch's lanes: what is equal to a bound stays, so a zero keeps its sign; nan stays, and a bound of nan is the result.
test("a zero between bounds of the other sign keeps its own, and nan is kept from every side", function()
  local F, nan = torch.nn.functional, 0 / 0
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "float16"} do
    for _, n in ipairs {1, 40, 50000} do
      local minus, plus = torch.full({n}, -0.0):to(torch[dtype]), torch.zeros(n):to(torch[dtype])
      for _, kept in ipairs {
        minus:clamp {min = 0.0}, minus:clamp(0.0, 1.0), F.hardtanh(minus, 0.0, 1.0), minus:clamp {min = plus}, minus:clamp(plus, plus + 1),
        plus:clamp {max = -0.0}:neg(), plus:clamp(-1.0, -0.0):neg(), F.hardtanh(plus, -1.0, -0.0):neg(), plus:clamp {max = minus}:neg(),
      } do check.yes(torch.signbit(kept):all():item()) end
      local x = torch.full({n}, nan):to(torch[dtype])
      for _, y in ipairs {
        x:clamp {min = 0.0}, x:clamp {max = 0.0}, x:clamp(0.0, 1.0), F.hardtanh(x), x:clamp(plus, plus),
        plus:clamp {min = nan}, plus:clamp {max = nan}, plus:clamp(nan, 1.0), plus:clamp(-1.0, nan), plus:clamp(x, plus), plus:clamp(plus, x),
      } do check.yes(y:isnan():all():item()) end
    end
  end
end)
