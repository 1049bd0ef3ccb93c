-- The dialect, pages "Scopes" and "Autograd".
local function leaf(values, dtype) return torch.tensor(values, {dtype = dtype or "float32", requires_grad = true}) end

test("a scope given a function returns what the function returns", function()
  local on, five = torch.no_grad(function() return torch.is_grad_enabled(), 5 end)
  check.equal(on, false)
  check.equal(five, 5)
  check.yes(torch.is_grad_enabled())
  check.no(torch.set_grad_enabled(false, function() return torch.is_grad_enabled() end))
  torch.no_grad(function()
    check.yes(torch.enable_grad(function() return torch.is_grad_enabled() end))
    check.no(torch.is_grad_enabled())
  end)
  check.dtype(torch.autocast("cpu", {dtype = "bfloat16"}, function() return torch.ones(2, 2):mm(torch.ones(2, 2)) end), "bfloat16")
  check.yes(torch.is_grad_enabled())
end)

test("a scope closes at the end of its block, on break, return and error", function()
  do
    local _ <close> = torch.no_grad()
    check.no(torch.is_grad_enabled())
  end
  check.yes(torch.is_grad_enabled())
  for _ = 1, 3 do
    local _ <close> = torch.no_grad()
    break
  end
  check.yes(torch.is_grad_enabled())
  local function f()
    local _ <close> = torch.no_grad()
    return torch.is_grad_enabled()
  end
  check.no(f())
  check.yes(torch.is_grad_enabled())
  check.no(pcall(function()
    local _ <close> = torch.inference_mode()
    error("x")
  end))
  check.yes(torch.is_grad_enabled())
  check.no(pcall(torch.no_grad, function() error("x") end))
  check.yes(torch.is_grad_enabled())
  do
    local _ <close> = torch.autocast("cpu", {dtype = "bfloat16"})
    check.dtype(torch.ones(2, 2):mm(torch.ones(2, 2)), "bfloat16")
    check.dtype(torch.ones(2):exp(), "float32")
  end
  check.dtype(torch.ones(2, 2):mm(torch.ones(2, 2)), "float32")
end)

test("a coroutine that yields inside a scope leaves the resumer's mode alone", function()
  local step = coroutine.wrap(function()
    local _ <close> = torch.no_grad()
    coroutine.yield(torch.is_grad_enabled())
    return torch.is_grad_enabled()
  end)
  check.equal(step(), false)
  check.yes(torch.is_grad_enabled())
  check.equal(step(), false)
  check.yes(torch.is_grad_enabled())
  torch.no_grad(function()
    local co = coroutine.wrap(function()
      local _ <close> = torch.enable_grad()
      coroutine.yield()
    end)
    co()
    check.no(torch.is_grad_enabled())
    co()
    check.no(torch.is_grad_enabled())
  end)
end)

test("inference mode makes tensors that join no graph", function()
  local x = torch.inference_mode(function() return torch.ones(2) end)
  check.no(x.requires_grad)
  check.raises("autograd", nil, function() x:requires_grad_() end)
  check.shape(x + 1, {2})
end)

test("torch.scope frees what was made inside but what is returned", function()
  local a, b = torch.scope(function()
    local dead = torch.ones(1000)
    return dead:sum(), torch.ones(2)
  end)
  check.equal(a:item(), 1000.0)
  check.equal(b, {1, 1})
  local list = {}
  torch.scope(function() list[1] = torch.ones(3) end)
  check.equal(list[1], {1, 1, 1})
end)

test("gradients accumulate until they are cleared", function()
  local x = leaf {1, 2}
  for _ = 1, 2 do (x * x):sum():backward() end
  check.equal(x.grad, {4, 8})
  x.grad:zero_()
  check.equal(x.grad, {0, 0})
  x.grad = nil
  check.equal(x.grad, nil)
  x.grad = torch.tensor {5.0, 6.0}
  check.equal(x.grad, {5, 6})
end)

test("backward takes weights, by position or name", function()
  local x = leaf {1, 1}
  local y = x * 2
  y:backward(torch.tensor {1.0, 3.0})
  check.equal(x.grad, {2, 6})
  x.grad = nil
  y = x * 2
  y:backward {gradient = torch.tensor {1.0, 3.0}, retain_graph = true}
  y:backward {gradient = torch.tensor {1.0, 1.0}}
  check.equal(x.grad, {4, 8})
end)

test("autograd.grad gives several values, of any order", function()
  local x, w = leaf {1, 2}, leaf {3, 4}
  local y = (x * x * x * w):sum()
  local gx, gw = torch.autograd.grad(y, {x, w}, {create_graph = true})
  check.equal(gx, {9, 48})
  check.equal(gw, {1, 8})
  local g2 = torch.autograd.grad(gx:sum(), {x}, {create_graph = true})
  check.equal(g2, {18, 48})
  check.equal((torch.autograd.grad(g2:sum(), {x})), {18, 24})
  check.equal(x.grad, nil)
  local a, b = torch.autograd.grad((x * 2):sum(), {x, w}, {allow_unused = true})
  check.equal(a, {2, 2})
  check.equal(b, nil)
  check.raises("autograd", "allow_unused", function() torch.autograd.grad((x * 2):sum(), {w}) end)
  check.equal((torch.autograd.grad(x * 2, {x}, {grad_outputs = torch.tensor {1.0, 10.0}})), {2, 20})
end)

test("detach, requires_grad_ and retain_grad", function()
  local x = torch.ones(2):requires_grad_()
  check.yes(x.requires_grad)
  check.no(x:detach().requires_grad)
  local y = x * 2
  y:retain_grad()
  y:sum():backward()
  check.equal(y.grad, {1, 1})
  check.equal(x.grad, {2, 2})
  check.no(y.is_leaf)
  check.yes(x.is_leaf)
  check.raises("dtype", "int64", function() torch.tensor({1}):requires_grad_() end)
  check.raises("dtype", nil, function() torch.zeros(2, {dtype = "bool", requires_grad = true}) end)
end)

test("hooks see gradients, may replace them, and can be removed", function()
  local x, seen = leaf {1, 1}, 0
  local handle = x:register_hook(function(g)
    seen = seen + 1
    return g * 10
  end)
  x:sum():backward()
  check.equal(x.grad, {10, 10})
  handle:remove()
  x:sum():backward()
  check.equal(x.grad, {11, 11})
  check.equal(seen, 1)
  local y = x * 2
  y:register_hook(function(g) return g * 3 end)
  x.grad = nil
  y:sum():backward()
  check.equal(x.grad, {6, 6})
end)

test("autograd.Function has a gradient written by the user", function()
  local Exp = torch.autograd.Function("Exp")
  function Exp.forward(ctx, x)
    local y = x:exp()
    ctx:save_for_backward(y)
    return y
  end
  function Exp.backward(ctx, g) return g * ctx.saved_tensors[1] end
  local x = leaf({0, 1}, "float64")
  check.yes(torch.autograd.gradcheck(function(v) return Exp(v) end, {x}))
  check.close(Exp.apply(x), {1, math.exp(1)})
  local Bad = torch.autograd.Function("Bad")
  function Bad.forward(_, v) return v * 2 end
  function Bad.backward(_, g) return g:sum() * 3, g, g end
  check.no(pcall(function() Bad(leaf {1, 2}):sum():backward() end))
end)

test("an error in a hook or a user's backward comes out of backward, and the next one works", function()
  local x = leaf {1, 2}
  local handle = x:register_hook(function() error("from the hook") end)
  local ok, err = pcall(function() x:sum():backward() end)
  check.no(ok)
  check.contains(err, "from the hook")
  handle:remove()
  x.grad = nil
  x:sum():backward()
  check.equal(x.grad, {1, 1})
end)

test("gradcheck, gradgradcheck and the functional forms", function()
  local x = leaf({0.3, 0.7}, "float64")
  local f = function(v) return v:sin() * v end
  check.yes(torch.autograd.gradcheck(f, {x}))
  check.yes(torch.autograd.gradgradcheck(f, {x}))
  local square, v = function(t) return t * t end, torch.tensor {1.0, 2.0}
  check.equal(torch.autograd.functional.jacobian(square, v), {{2, 0}, {0, 4}})
  check.equal(torch.autograd.functional.hessian(function(t) return (t * t * t):sum() end, v), {{6, 0}, {0, 12}})
  local y, g = torch.autograd.functional.vjp(square, v, torch.tensor {1.0, 10.0})
  check.equal(y, {1, 4})
  check.equal(g, {2, 40})
  local _, j = torch.autograd.functional.jvp(square, v, torch.tensor {1.0, 10.0})
  check.equal(j, {2, 40})
end)

test("wrong uses of backward are named", function()
  local x = leaf {1, 2}
  check.raises("autograd", "shape [2]", function() (x * 2):backward() end)
  check.raises("autograd", "already used", function()
    local y = (x * x):sum()
    y:backward()
    y:backward()
  end)
  check.raises("autograd", "no graph", function() torch.ones(2):sum():backward() end)
  check.raises("autograd", "leaf", function() x:add_(1) end)
  local err = check.raises("autograd", "changed it in place", function()
    local y = x:exp()
    y:add_(1)
    y:sum():backward()
  end)
  check.contains(err, "exp at tests/lua/dialect/dialect_autograd_test.lua:" .. 0 + debug.getinfo(1, "l").currentline - 4)
  -- The line is the user's, also where torch's own Lua code makes the call, each time from another one.
  local act = torch.nn.Sigmoid()
  act(x)
  err = check.raises("autograd", "changed it in place", function()
    local y = act(x)
    y:add_(1)
    y:sum():backward()
  end)
  check.contains(err, "sigmoid at tests/lua/dialect/dialect_autograd_test.lua:" .. 0 + debug.getinfo(1, "l").currentline - 4)
  check.raises(nil, nil, function() (x * 2):backward(torch.ones(3)) end)
  check.raises(nil, nil, function() x.grad = torch.ones(3) end)
  check.raises(nil, nil, function() x.grad = torch.ones(2, {dtype = "float64"}) end)
  check.raises("argument", nil, function() x.grad = 5 end)
  check.raises("argument", nil, function() torch.autograd.grad((x * 2):sum(), {torch.none}) end)
end)

test("in-place changes under no_grad update a parameter", function()
  local w = leaf {1, 2}
  local loss = (w * w):sum()
  loss:backward()
  torch.no_grad(function() w:sub_(w.grad * 0.5) end)
  check.equal(w, {0, 0})
  check.yes(w.requires_grad)
  w.data = torch.tensor {7.0, 8.0}
  check.equal(w, {7, 8})
end)

test("a graph of a hundred thousand steps goes backward and is freed", function()
  local x = leaf {1}
  local y = x
  for _ = 1, 100000 do y = y + 1 end
  y:sum():backward()
  check.equal(x.grad, {1})
end)

test("gradients pass through a layer of width 0", function()
  local F = torch.nn.functional
  local x, first, second = torch.randn(2, 8, {requires_grad = true}), torch.randn(0, 8, {requires_grad = true}), torch.randn(10, 0, {requires_grad = true})
  F.linear(F.linear(x, first), second):sum():backward()
  check.shape(first.grad, {0, 8})
  check.shape(second.grad, {10, 0})
  check.equal(x.grad, torch.zeros(2, 8))
end)

test("the gradient of a number that was stretched in bfloat16 is rounded once", function()
  torch.manual_seed(1)
  for i = 1, 20 do
    local b = torch.zeros(1, 1, {dtype = "bfloat16"}):requires_grad_()
    local g = torch.rand(8, 30, 40):sub(0.5):to("bfloat16")
    local have = torch.autograd.grad(torch.zeros_like(g) + b, {b}, {grad_outputs = g})
    check.equal(have:item(), g:double():sum():to("bfloat16"):item())
  end
end)

test("gradcheck and its relatives leave their inputs as they were, also where the function fails", function()
  local function state(t) return {t:tolist(), t.requires_grad, t.grad and t.grad:tolist() or false, t.is_leaf} end
  local f = function(a, b) return (a * b * b):sum() end
  for _, g in ipairs {f, function() error "no" end} do
    local x, y = torch.tensor({1, 2}, {dtype = "float64"}), torch.tensor({3, 4}, {dtype = "float64", requires_grad = true})
    y.grad = torch.tensor({7, 7}, {dtype = "float64"})
    local before = {state(x), state(y)}
    for _, name in ipairs {"gradcheck", "gradgradcheck"} do
      pcall(torch.autograd[name], g, {x, y})
      check.equal({state(x), state(y)}, before, name)
    end
    for _, name in ipairs {"jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"} do
      pcall(torch.autograd.functional[name], function(a) return g(a, y) end, x, x)
      pcall(torch.autograd.functional[name], function(a) return g(a, x) end, y, x)
      check.equal({state(x), state(y)}, before, name)
    end
    for _, name in ipairs {"grad", "hessian", "jacrev", "jacfwd"} do
      pcall(torch.func[name](function(a) return g(a, x) end), y)
      check.equal({state(x), state(y)}, before, name)
    end
  end
end)
