-- torch.utils.checkpoint and torch.autograd.graph: what backward needs is kept, packed, or computed again.
local nn, graph = torch.nn, torch.autograd.graph
local checkpoint, sequential = torch.utils.checkpoint.checkpoint, torch.utils.checkpoint.checkpoint_sequential

local function curve(v) return (v:tanh() * v):exp() end
local function checkpointed(v) return checkpoint(curve, v) end

-- Gradients of the parameters and the input of a module with dropout, and the next random numbers.
local function gradients(net, input, call)
  torch.manual_seed(5)
  net:zero_grad()
  local x = input:clone():requires_grad_()
  local y = call(x)
  ;(y * y):sum():backward()
  local all = {x.grad}
  for _, p in ipairs(net:parameters()) do all[#all + 1] = p.grad:clone() end
  all[#all + 1] = torch.rand(3)
  return all
end

test("a checkpointed network has the gradients of the plain one, dropout and the random stream included", function()
  local net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()), nn.Dropout(0.3))
  local input = torch.randn(4, 8)
  local plain = gradients(net, input, function(x) return net(x) end)
  check.equal(gradients(net, input, function(x) return checkpoint(net, x, {use_reentrant = false}) end), plain)
  check.equal(gradients(net, input, function(x) return sequential(net, 2, x) end), plain)
  check.equal(gradients(net, input, function(x) return sequential({net[1], net[2], net[3], net[4], net[5]}, 5, x, {use_reentrant = false}) end), plain)
  local nested = function(x) return checkpoint(function(v) return net[5](checkpoint(net[4], net[3](net[2](net[1](v))))) end, x) end
  check.equal(gradients(net, input, nested), plain)
end)

test("preserve_rng_state = false draws other numbers the second time", function()
  local x, masks = torch.ones(64, {requires_grad = true}), {}
  local function drop(v)
    masks[#masks + 1] = torch.rand(64)
    return v:sin() * masks[#masks]
  end
  checkpoint(drop, x, {preserve_rng_state = false}):sum():backward()
  check.no(torch.equal(masks[1], masks[2]))
  masks = {}
  checkpoint(drop, x):sum():backward()
  check.equal(masks[1], masks[2])
end)

test("several arguments and results, tables, and arguments without gradients", function()
  local a, b = torch.tensor({2.0}, {requires_grad = true}), torch.tensor {3.0}
  local function f(p, q, more) return p * q * more.scale, {p * p, "word"} end
  local y, rest = checkpoint(f, a, b, {scale = 10})
  ;(y + rest[1]):sum():backward()
  check.equal(a.grad:item(), 34.0)
  check.equal(b.grad, nil)
  check.equal(rest[2], "word")
  local w = torch.tensor({5.0}, {requires_grad = true})  -- only a captured tensor wants its gradient
  checkpoint(function(q) return (w * q):exp():log() end, b):sum():backward()
  check.close(w.grad:item(), 3.0)
  check.no(torch.no_grad(function() return checkpoint(f, a, b, {scale = 1}) end).requires_grad)
end)

test("second derivatives, autograd.grad and two passes over one graph", function()
  local function second(f)
    local v = torch.tensor({0.1, 0.2, 0.3}, {requires_grad = true})
    local first = torch.autograd.grad(f(v):sum(), {v}, {create_graph = true})
    return torch.autograd.grad(first:sum(), {v})
  end
  check.close(second(checkpointed), second(curve), 1e-7)
  check.close(second(function(v) return checkpoint(checkpointed, v) end), second(curve), 1e-7)
  local v = torch.tensor({0.1, 0.2}, {requires_grad = true})
  local y = checkpointed(v):sum()
  y:backward {retain_graph = true}
  local once = v.grad:clone()
  y:backward()
  check.close(v.grad, once * 2)
  check.raises("autograd", "already used", function() y:backward() end)
  check.close(torch.func.grad(function(t) return checkpointed(t):sum() end)(torch.tensor {0.1, 0.2}), once)
  local inner = checkpoint(function(t) return torch.func.grad(function(u) return (u ^ 3):sum() end)(t) end, v)
  check.close(torch.autograd.grad(inner:sum(), {v}), {0.6, 1.2})
end)

test("a Function of one's own keeps nothing either", function()
  local Cube = torch.autograd.Function "Cube"
  function Cube.forward(ctx, x)
    local y = x * x * x
    ctx:save_for_backward(x, y)
    return y
  end
  function Cube.backward(ctx, g)
    local x, y = table.unpack(ctx.saved_tensors)
    return g * (3 * y / x)
  end
  local v = torch.tensor({2.0}, {requires_grad = true})
  local first = torch.autograd.grad(checkpoint(Cube, v), {v}, {create_graph = true})
  check.equal(first:item(), 12.0)
  check.close(torch.autograd.grad(first, {v}):item(), 12.0)
end)

test("a checkpoint keeps its arguments alone", function()
  local function layer(x) return x:sin():cos():exp():tanh() end
  local function held(call)
    collectgarbage()
    local x = torch.zeros(100000, {requires_grad = true})
    local before = torch.memory_allocated()
    local y = call(x)
    collectgarbage()
    collectgarbage()
    local bytes = torch.memory_allocated() - before
    y:sum():backward()
    check.equal(x.grad.shape, {100000})
    return bytes / 400000
  end
  local layers = {}
  for i = 1, 8 do layers[i] = layer end
  local function all(x)
    for _, f in ipairs(layers) do x = f(x) end
    return x
  end
  check.yes(held(all) > 23)
  check.yes(held(function(x) return checkpoint(all, x) end) < 2)
  check.yes(held(function(x)
    for _, f in ipairs(layers) do x = checkpoint(f, x) end
    return x
  end) < 9)
  check.yes(held(function(x) return sequential(layers, 4, x) end) < 11)
end)

test("the peak of a training step falls", function()
  local function peak(wrap)
    return tonumber(check.tycho({"-e", ([[
      local wrap = %s
      local x = torch.zeros(1000000, {requires_grad = true})
      local y = x
      for i = 1, 12 do y = wrap(function(v) return v:sin():cos():exp():tanh() end, y) end
      y:sum():backward()
      print(torch.max_memory_allocated() // 1000000)]]):format(wrap)}).out)
  end
  local plain, less = peak "function(f, x) return f(x) end", peak "torch.utils.checkpoint.checkpoint"
  check.yes(less < 0.7 * plain, ("%s of %s MB"):format(less, plain))
end)

test("the second run has the autocast region of the first", function()
  local layer, x = nn.Linear(4, 4), torch.randn(2, 4)
  local function run(call)
    layer:zero_grad()
    local y = torch.autocast("cpu", {dtype = "bfloat16"}, function() return call(layer, x) end)
    y:sum():backward()
    return y.dtype, layer.weight.grad:clone()
  end
  local dtype, grad = run(function(f, v) return f(v) end)
  local other, same = run(checkpoint)
  check.equal(other, dtype)
  check.equal(same, grad)
  check.no(torch.is_autocast_enabled())
end)

test("a function that does something else the second time is an error that says so", function()
  local x, calls = torch.ones(3, {requires_grad = true}), 0
  local function once(first, later)
    calls = 0
    return checkpoint(function(v)
      calls = calls + 1
      return (calls == 1 and first or later)(v)
    end, x):sum()
  end
  local long = function(v) return v:sin():cos() end
  check.raises("autograd", "float32 [2] where it saved float32 [3]", function() once(long, function(v) return long(v:narrow(1, 1, 2)) end):backward() end)
  check.raises("autograd", "1 tensors and not 2", function() once(long, torch.sin):backward() end)
  check.raises(nil, "boom", function() once(long, function() error "boom" end):backward() end)
  check.yes(torch.is_grad_enabled())
  check.raises(nil, "wants a function or a module first", function() checkpoint(x) end)
  check.raises("value", "segments must be 1 to 2", function() sequential({torch.sin, torch.cos}, 3, x) end)
  check.raises(nil, "item 2 is no function", function() sequential({torch.sin, 2}, 1, x) end)
end)

test("saved_tensors_hooks sees what is saved and decides its form", function()
  local x, seen = torch.tensor({0.5, 1.0}, {requires_grad = true}), 0
  local function packed(v)
    return graph.saved_tensors_hooks(function(t)
      check.no(t.requires_grad)
      seen = seen + 1
      return {half = t:to("float16")}
    end, function(kept) return kept.half:to("float32") end, function() return curve(v) end)
  end
  local plain = torch.autograd.grad(curve(x):sum(), {x}, {create_graph = true})
  local rough = torch.autograd.grad(packed(x):sum(), {x}, {create_graph = true})
  check.equal(seen, 4)  -- tanh and exp keep their results, * keeps both factors
  check.close(rough, plain, 2e-3)
  check.close(torch.autograd.grad(rough:sum(), {x}), torch.autograd.grad(plain:sum(), {x}), 5e-3)
  check.close(torch.autograd.grad(graph.save_on_cpu(function() return curve(x):sum() end), {x}), plain:detach(), 1e-7)
  check.raises("autograd", "changed its tensor in place", function() graph.saved_tensors_hooks(function(t) return t:add_(1) end, function(t) return t end, function() return x:exp() end) end)
  check.raises("argument", "what unpack returned", function()
    graph.saved_tensors_hooks(function(t) return t end, function() return 3 end, function() return x:exp() end):sum():backward()
  end)
  check.raises(nil, "unpack must be a function", function() graph.saved_tensors_hooks(print, 3, print) end)
  check.no(pcall(graph.saved_tensors_hooks, print, print, function() error "out" end))
  check.yes(x:exp().requires_grad)
end)

test("a scope that a hook opens in backward leaves the modes of coroutines alone", function()
  local x = torch.ones(2, {requires_grad = true})
  local y = x * 2
  y:register_hook(function(g) return torch.no_grad(function() return g * 3 end) end)
  y:sum():backward()
  coroutine.wrap(function() end)()
  check.yes(torch.is_grad_enabled())
  check.equal(x.grad, {6, 6})
end)
