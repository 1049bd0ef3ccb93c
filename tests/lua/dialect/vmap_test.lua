-- torch.vmap computes all examples at once where it can, and gives what a loop over the examples gives.
local nn, F, func = torch.nn, torch.nn.functional, torch.func

-- f for every example of the arguments, with and without vmap; `calls` times f is called by vmap.
local function same(calls, f, ...)
  local args, count = table.pack(...), 0
  local function counted(...)
    count = count + 1
    return f(...)
  end
  local got, want = table.pack(torch.vmap(counted)(...)), {}
  check.equal(count, calls)
  for i = 1, args[1]:size(1) do
    local one = {}
    for k = 1, args.n do one[k] = args[k][i] end
    for k, r in ipairs({f(table.unpack(one, 1, args.n))}) do
      want[k] = want[k] or {}
      want[k][i] = r
    end
  end
  for k = 1, got.n do
    local w = torch.stack(want[k])
    check.equal(got[k].dtype, w.dtype)
    check.close(got[k]:double(), w:double(), 1e-4)
  end
end

local x = torch.randn(4, 3, 5)
local weight, kernel = torch.randn(6, 5), torch.randn(4, 3, 3, 3)

test("views, rows, reductions, products and sorting take one call for all examples", function()
  same(1, function(a) return a.T, a:reshape(-1), a:view(5, 3), a:unsqueeze(-1), a[1], a[{{}, 2}], a:permute(2, 1), a:expand(2, 3, 5), a:diagonal() end, x)
  same(1, function(a) return a * a[1] + 2, a:exp() / 3, torch.where(a:gt(0), a, 0), a:double(), a:long() // 2, a[1][1] + torch.ones(2) end, x)
  same(1, function(a) return a:sum(), a:mean(1), a:std(), a:amax(2), a:argmax(2), a:logsumexp(1), a:norm(), a:prod(1), a:isnan():any() end, x)
  same(1, function(a) return a:cumsum(1), (a:sort(2)), (a:topk(2, 2)), a:flip(1), a:roll(1, 1), a:softmax(-1), a:log_softmax(1) end, x)
  same(1, function(a)
    local m = a:matmul(a.T)
    return m, a:matmul(a[1]), m:mm(m), a[1]:dot(a[2]), torch.outer(a[1], a[2]), torch.einsum("ij,kj->ik", a, a), torch.linalg.inv(m + torch.eye(3) * 9)
  end, x)
  same(1, function(a) return torch.cat({a, a}, 1), torch.stack({a, a * 2}, 2), (a:chunk(3, 1)), torch.cat({a[1], torch.zeros(2)}) end, x)
end)

test("layers and losses take one call for all examples", function()
  same(1, function(a) return F.linear(a, weight), F.layer_norm(a, {5}), F.gelu(a), F.mse_loss(a, a * 2) end, x)
  same(1, function(a) return F.conv2d(a, kernel, nil, {padding = 1}), F.max_pool2d(a, 2), F.avg_pool2d(a, 2), F.conv2d(a[1], kernel) end, torch.randn(4, 2, 3, 8, 8))
  same(1, function(w, b) return F.conv2d(torch.ones(2, 3, 6, 6), w, b), F.linear(torch.ones(2, 5), b:outer(torch.ones(5)), b) end, torch.randn(3, 4, 3, 3, 3), torch.randn(3, 4))
  for _, reduction in ipairs {"mean", "sum", "none"} do
    same(1, function(a, y) return F.cross_entropy(a, y, {reduction = reduction, ignore_index = 2}), F.cross_entropy(a[1], y[1], {reduction = reduction}) end, x, torch.randint(1, 6, {4, 3}))
  end
  same(1, function(q) return F.scaled_dot_product_attention(q, q, q) end, torch.randn(3, 2, 2, 4, 8))
end)

test("gradients of every sample are those of single samples, for a network of each kind", function()
  local function samples(net, loss_of, inputs, targets)
    local params = {}
    for _, named in ipairs(net:named_parameters()) do params[named[1]] = named[2]:detach() end
    local calls = 0
    local function loss(p, one, y)
      calls = calls + 1
      return loss_of(func.functional_call(net, p, one:unsqueeze(1)), y:unsqueeze(1))
    end
    local each = torch.vmap(func.grad(loss), {in_dims = {torch.none, 1, 1}})(params, inputs, targets)
    check.equal(calls, 1)
    for i = 1, inputs:size(1) do
      for name, g in pairs(func.grad(loss)(params, inputs[i], targets[i])) do
        check.close(each[name][i], g, 1e-4)
        check.no(each[name].requires_grad)
      end
    end
  end
  local labels = torch.randint(1, 4, {4})
  samples(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), F.cross_entropy, torch.randn(4, 5), labels)
  samples(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)), F.cross_entropy, torch.randn(4, 3, 8, 8), labels)
  samples(nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Tanh(), nn.Linear(8, 3)), F.mse_loss, torch.randn(4, 5), torch.randn(4, 3))
end)

test("a function that looks at one example is called for each, as if it had not been called before", function()
  same(5, function(a) return a:sum():item() > 0 and a or -a end, x)
  same(5, function(a) return a[a:gt(-100)] end, x)
  local counter = torch.zeros(1)
  same(5, function(a)
    counter:add_(1)
    return a * a[1][1]:item()
  end, x)
  check.equal(counter:item(), 8.0)  -- four by vmap, four by the loop
  local changed = torch.ones(3, 2)
  torch.vmap(function(a)
    a:mul_(2)
    return a * a[1]:item()
  end)(changed)
  check.equal(changed, torch.full({3, 2}, 2.0))
  local shared = torch.zeros(2)
  torch.vmap(function(a) return shared:add_(a):clone() end)(torch.ones(3, 2))
  check.equal(shared, {3, 3})
end)

test("changes in place are each example's own", function()
  same(1, function(a)
    local c = a:clone()
    c:add_(1)
    c:mul_(a)
    c:relu_()
    c:fill_(c:numel())
    return c, a:clone():copy_(a[1])
  end, x)
  same(5, function(a)
    local c = a:clone()
    c[1] = 0
    return c
  end, x)
end)

test("maps nest, and gradients go through them from outside", function()
  local a, b = torch.randn(3, 2), torch.randn(4, 2)
  local all = torch.vmap(function(u) return torch.vmap(function(v) return (u * v):sum() end)(b) end)(a)
  check.close(all, a:matmul(b.T), 1e-5)
  local w, v = torch.randn(2):requires_grad_(), torch.randn(5, 2):requires_grad_()
  torch.vmap(function(one) return (one * w):tanh():sum() end)(v):sum():backward()
  local gw, gv = w.grad:clone(), v.grad:clone()
  w.grad, v.grad = nil, nil;
  (v * w):tanh():sum():backward()
  check.close(gw, w.grad, 1e-5)
  check.close(gv, v.grad, 1e-5)
  local twice = torch.vmap(func.hessian(function(p) return (p ^ 3):sum() end))(a)
  for i = 1, 3 do check.close(twice[i], torch.diag(a[i] * 6), 1e-4) end
end)

test("chunks of examples give what all at once give", function()
  for _, size in ipairs {1, 3, 4, 100} do
    local calls = 0
    local sum, parts = torch.vmap(function(a)
      calls = calls + 1
      return a:sum(1), {first = a[1], rest = {a * 2}}
    end, {chunk_size = size, out_dims = {2, 1}})(x)
    check.equal(calls, math.ceil(4 / size))
    check.close(sum, x:sum(2).T)
    check.equal(parts.first, x[{{}, 1}])
    check.equal(parts.rest[1], x * 2)
  end
end)

test("a tensor of one example that is kept costs later changes nothing", function()
  local kept
  torch.vmap(function(a)
    kept = a
    return a * 2
  end)(torch.ones(3, 2))
  local w = torch.zeros(1 << 16)
  w:add_(1)
  collectgarbage()
  local before = torch.memory_allocated()
  for _ = 1, 50 do w:add_(1) end
  collectgarbage()
  check.yes(torch.memory_allocated() - before < 1 << 18)
  check.shape(kept, {2})
end)

test("a tensor of one example says so where its map has ended", function()
  local kept
  torch.vmap(function(a)
    kept = a
    return a * 2
  end)(torch.ones(3, 2))
  check.shape(kept, {2})
  check.raises("value", "one example", function() return kept:tolist() end)
end)
