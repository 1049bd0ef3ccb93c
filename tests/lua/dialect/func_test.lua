-- torch.func and torch.autograd.functional: values are PyTorch's.
local func, nn = torch.func, torch.nn
local A, x = torch.tensor {{1.0, 2.0}, {3.0, -1.0}}, torch.tensor {0.5, -1.5}
local function f(v) return torch.tanh(A:matmul(v)) end
local function g(v) return (f(v) ^ 2):sum() end
local both = torch.stack {x, x * 2}

test("jacobians row by row, column by column and products with them are PyTorch's", function()
  local J = {{0.026592, 0.053184}, {0.029598, -0.009866}}
  check.close(func.jacrev(f)(x), J)
  check.close(func.jacfwd(f)(x), J)
  local y, moved = func.jvp(f, x, torch.tensor {1.0, 2.0})
  check.close(y, {-0.986614, 0.995055})
  check.close(moved, {0.132961, 0.009866})
  local _, pull = func.vjp(f, x)
  check.close(pull(torch.tensor {1.0, 2.0}), {0.085788, 0.033453})
  check.close(pull(torch.tensor {1.0, 2.0}), {0.085788, 0.033453}, 1e-5)  -- as often as one likes
  local value, push = func.linearize(f, x)
  check.close(value, y)
  check.close(push(torch.tensor {1.0, 2.0}), moved)
  check.close(push(torch.tensor {2.0, 4.0}), moved * 2)
end)

test("derivatives nest", function()
  check.close(func.grad(func.grad(func.grad(torch.sin)))(torch.tensor(0.3)):item(), -0.955337)
  local H = {{-0.452045, -0.087613}, {-0.087613, -0.447384}}
  check.close(func.hessian(g)(x), H, 1e-5)
  check.close(func.jacfwd(func.jacrev(g))(x), H, 1e-5)
  check.close(func.jacrev(func.jacfwd(g))(x), H, 1e-5)
  check.close(func.jacfwd(func.jacfwd(g))(x), H, 1e-5)
  local e = torch.tensor {1.0, 0.0}
  local gradient, row = func.jvp(func.grad(g), x, e)
  check.close(gradient, {0.006431, -0.124580}, 1e-5)
  check.close(row, H[1])
  check.close(func.grad(function(v) return (select(2, func.jvp(g, v, e))) end)(x), H[1])
  check.close(func.vmap(func.grad(g))(both), {{0.006431, -0.124580}, {-0.000216, -0.000775}}, 1e-5)
  check.close(func.jacrev(func.vmap(g))(both), {{{0.006431, -0.12458}, {0, 0}}, {{0, 0}, {-0.000216, -0.000775}}}, 1e-5)
  check.close(func.vmap(func.jacfwd(f))(both)[2], {{1.815475e-04, 3.630950e-04}, {7.367089e-05, -2.455696e-05}}, 1e-7)
end)

test("an inner derivative does not see the outer variable", function()
  local inner = function(v) return v * func.grad(function(y) return v + y end)(torch.tensor(1.0)) end
  check.equal(func.grad(inner)(torch.tensor(2.0)):item(), 1.0)
end)

test("gradients join the caller's graph where there is one, and only there", function()
  local w = torch.tensor(3.0, {requires_grad = true})
  local gradient = func.grad(function(v) return w * v ^ 2 end)(torch.tensor(2.0))
  check.equal(gradient:item(), 12.0)
  check.equal(torch.autograd.grad(gradient, {w}):item(), 4.0)
  local v = torch.tensor(2.0, {requires_grad = true})
  check.equal(torch.autograd.grad(func.grad(function(t) return t ^ 3 end)(v), {v}):item(), 12.0)
  check.no(func.grad(function(t) return t ^ 3 end)(torch.tensor(2.0)).requires_grad)
  check.no(torch.no_grad(function() return func.grad(function(t) return t ^ 3 end)(v) end).requires_grad)
  check.equal(torch.no_grad(function() return func.grad(function(t) return t ^ 3 end)(v) end):item(), 12.0)
  check.equal(v.grad, nil)
  local value = select(2, func.grad_and_value(function(t) return t ^ 3 end)(torch.tensor(2.0)))
  check.no(value.requires_grad)
  local out, pull = func.vjp(function(t) return t ^ 3 end, v)
  local twice = pull(torch.tensor(1.0))
  check.equal(torch.autograd.grad(twice, {v}):item(), 12.0)
  check.equal(out:item(), 8.0)
end)

test("arguments and results may be tables, several, and besides", function()
  local function h(p, t) return {sum = (p.a * t):sum(), all = p.b * t} end
  local p, t = {a = torch.tensor(2.0), b = torch.tensor {1.0, 2.0}}, torch.tensor {3.0, 4.0}
  local J = func.jacrev(h)(p, t)
  check.equal(J.sum.a:item(), 7.0)
  check.equal(J.sum.b, {0, 0})
  check.equal(J.all.b, {{3, 0}, {0, 4}})
  check.equal(J.all.a, {0, 0})
  local out, pull = func.vjp(h, p, t)
  local gp, gt = pull {sum = torch.tensor(1.0), all = torch.tensor {1.0, 1.0}}
  check.equal(out.all, {3, 8})
  check.equal(gp.b, {3, 4})
  check.equal(gt, {3, 4})
  local gx, gy = func.grad(function(a, b) return a * b * b end, {argnums = {1, 2}})(torch.tensor(2.0), torch.tensor(3.0))
  check.equal(gx:item(), 9.0)
  check.equal(gy:item(), 12.0)
  check.equal(func.grad(function(a, b) return a * b * b end, {argnums = -1})(torch.tensor(2.0), torch.tensor(3.0)):item(), 12.0)
  local gradient, note = func.grad(function(a) return a * a, {seen = a} end, {has_aux = true})(torch.tensor(2.0))
  check.equal(gradient:item(), 4.0)
  check.equal(note.seen:item(), 2.0)
  check.no(note.seen.requires_grad)
  local _, pair = func.grad_and_value(function(a) return a * a, "word" end, {has_aux = true})(torch.tensor(2.0))
  check.equal(pair[1]:item(), 4.0)
  check.equal(pair[2], "word")
  local j1, j2 = func.jacrev(function(a) return a:sum(), a end)(torch.ones(2))
  check.equal(j1, {1, 1})
  check.equal(j2, {{1, 0}, {0, 1}})
  local both_values, moved = func.jvp(function(a, b) return a * b, a + b end, {torch.tensor(2.0), torch.tensor(3.0)}, {torch.tensor(1.0), torch.tensor(0.0)})
  check.equal({both_values[1]:item(), both_values[2]:item(), moved[1]:item(), moved[2]:item()}, {6.0, 5.0, 3.0, 1.0})
  local _, p2, seen = func.vjp(function(a) return a * 2, "besides" end, torch.tensor(1.0), {has_aux = true})
  check.equal(p2(torch.tensor(1.0)):item(), 2.0)
  check.equal(seen, "besides")
end)

test("what a result does not depend on has zero derivatives", function()
  check.equal(func.grad(function() return torch.tensor(1.0) end)(torch.ones(2)), {0, 0})
  check.equal(func.jacfwd(function() return torch.ones(2) end)(x), {{0, 0}, {0, 0}})
  check.equal(func.jacrev(function(v) return v:detach() end)(x), {{0, 0}, {0, 0}})
  local _, moved = func.jvp(function(v) return v * 3, torch.ones(1) end, x, torch.ones(2))
  check.equal(moved[1], {3, 3})
  check.equal(moved[2], {0})
end)

test("the determinant of a singular matrix has second derivatives", function()
  local a = torch.tensor({{1, 2, 0.5}, {2, 4, 1}, {0, 1, 3}}, {dtype = "float64"})
  local H = func.hessian(torch.det)(a):reshape(9, 9)
  check.close(H[1], {0, 0, 0, 0, 3, -1, 0, -1, 4}, 1e-12)
  check.close(H[4], {0, -3, 1, 0, 0, 0, 0, 0.5, -2}, 1e-12)
  check.close(H[9], {4, -2, 0, -2, 1, 0, 0, 0, 0}, 1e-12)
  check.close(func.jacrev(func.grad(function(m) return torch.det(m):sum() end))(torch.zeros(2, 2, 2))[{1, 1, 1, 1}], {{0, 0}, {0, 1}})
  check.close(func.hessian(torch.det)(torch.zeros(1, 1)):item(), 0)
end)

test("misuse of derivatives is named", function()
  check.raises("shape", "one number", function() func.grad(function(v) return v * 2 end)(x) end)
  check.raises("dtype", "floating point", function() func.grad(function(v) return v:sum() end)(torch.tensor {1, 2}) end)
  check.raises("argument", "argnums names argument 3", function() func.grad(g, {argnums = 3})(x) end)
  check.raises("index", "from 1", function() func.grad(g, {argnums = 0}) end)
  check.raises("argument", "has_aux", function() func.grad(g, {aux = true}) end)
  check.raises(nil, "wants a function first", function() func.jacrev(x) end)
  check.raises(nil, "must return tensors", function() func.jacrev(function() return 3 end)(x) end)
  check.raises("shape", "[3]", function() func.jvp(f, x, torch.ones(3)) end)
  check.raises("shape", "[3]", function() select(2, func.vjp(f, x))(torch.ones(3)) end)
  check.raises("argument", "arranged", function() select(2, func.vjp(f, x))({torch.ones(2), torch.ones(2)}) end)
end)

test("vmap maps any dimension, tables and several results, and nests", function()
  local y = func.vmap(func.vmap(function(a, b) return a * b + 1 end, {in_dims = {torch.none, 1}}), {in_dims = {1, torch.none}, out_dims = 2})(
    torch.tensor {1.0, 2.0, 3.0}, torch.tensor {10.0, 20.0})
  check.equal(y, {{11, 21, 31}, {21, 41, 61}})
  local m = torch.arange(6.0):view(3, 2)
  check.equal(torch.vmap(function(v) return v * 2 end, {out_dims = -1})(m).shape, {2, 3})
  check.equal(torch.vmap(torch.sum, {in_dims = -1})(m), {6, 9})
  check.equal(torch.vmap(function(d) return d.a end, {in_dims = {{a = 2}}})({a = m}), m:t())
  check.equal(torch.vmap(function(s, d) return d.a * s end, {in_dims = {nil, 1}})(2, {a = m}), m * 2, "an argument that is not mapped")
  local total, parts = torch.vmap(function(v) return v:sum(), {first = v[1], rest = {v[2]}} end, {out_dims = {1, 1}})(m)
  check.equal(total, {1, 5, 9})
  check.equal(parts.first, {0, 2, 4})
  check.equal(parts.rest[1], {1, 3, 5})
  check.equal(torch.vmap(function(v) return v:item() > 2 and v or -v end)(torch.tensor {1.0, 3.0}), {-1, 3})
  check.equal(torch.vmap(function(v) return v:sum(1) end)(torch.zeros(0, 3, 4)).shape, {0, 4})
  local w = torch.ones(2, {requires_grad = true})
  torch.vmap(function(v) return (v * w):sum() end)(m):sum():backward()
  check.equal(w.grad, {6, 9})
end)

test("vmap says how examples share random numbers", function()
  local zeros = torch.zeros(3, 2)
  local function noisy(v) return v + torch.rand(2) end
  check.raises("value", 'randomness = "different"', function() torch.vmap(noisy)(zeros) end)
  torch.manual_seed(1)
  local same = torch.vmap(noisy, {randomness = "same"})(zeros)
  check.equal(same[1], same[3])
  torch.manual_seed(1)
  check.equal(torch.rand(2), same[1])
  check.close(torch.rand(2), (function()
    torch.manual_seed(1)
    torch.vmap(noisy, {randomness = "same"})(zeros)
    return torch.rand(2)
  end)(), 0)
  torch.manual_seed(1)
  local different = torch.vmap(noisy, {randomness = "different"})(zeros)
  check.no(torch.equal(different[1], different[2]))
end)

test("misuse of vmap is named", function()
  local function id(...) return ... end
  check.raises("shape", "argument 1 has 3 examples and argument 2 has 4", function() torch.vmap(torch.add)(torch.ones(3), torch.ones(4)) end)
  check.raises("argument", "torch.none", function() torch.vmap(torch.add)(torch.ones(3), 2.0) end)
  check.equal(torch.vmap(torch.add, {in_dims = {1, nil}})(torch.ones(3), 2.0), {3, 3, 3})
  check.raises("argument", "speaks of 3", function() torch.vmap(torch.add, {in_dims = {1, nil, 1}})(torch.ones(3), 2.0) end)
  check.raises("dim", "dimension 1 for argument 1 of shape []", function() torch.vmap(id)(torch.tensor(1.0)) end)
  check.raises("dim", "dimension 0", function() torch.vmap(id, {in_dims = 0})(torch.ones(3)) end)
  check.raises(nil, "must return tensors", function() torch.vmap(function() return 2 end)(torch.ones(3)) end)
  check.raises(nil, "nothing to map", function() torch.vmap(id, {in_dims = torch.none})(torch.ones(3)) end)
  check.raises("argument", "out_dims", function() torch.vmap(function(v) return v, v end, {out_dims = {1, 1, 1}})(torch.ones(3)) end)
  check.raises("argument", "differs", function() torch.vmap(id, {out_dims = torch.none})(torch.tensor {1, 2}) end)
  check.raises("shape", "example 2", function() torch.vmap(function(v) return torch.ones(v:item()) end)(torch.tensor {1, 2}) end)
  check.raises("value", "randomness", function() torch.vmap(id, {randomness = "some"}) end)
  check.raises("value", "chunk_size", function() torch.vmap(id, {chunk_size = 0}) end)
end)

local function linear()
  local net = nn.Linear(2, 1)
  torch.no_grad(function()
    net.weight:copy_(torch.tensor {{0.5, -0.25}})
    net.bias:fill_(0.1)
  end)
  return net
end

test("gradients of every sample: vmap of grad of functional_call", function()
  local net, params = linear(), {}
  for _, pair in ipairs(net:named_parameters()) do params[pair[1]] = pair[2]:detach() end
  local inputs, targets = torch.tensor {{1.0, 2.0}, {3.0, -1.0}, {0.0, 4.0}}, torch.tensor {{1.0}, {0.0}, {-1.0}}
  local function loss(p, one, target) return ((func.functional_call(net, p, one) - target) ^ 2):mean() end
  local each = torch.vmap(func.grad(loss), {in_dims = {torch.none, 1, 1}})(params, inputs, targets)
  check.close(each.weight, {{{-1.8, -3.6}}, {{11.1, -3.7}}, {{0, 0.8}}})
  check.close(each.bias, {{-1.8}, {3.7}, {0.2}})
  local whole = func.grad(loss)(params, inputs, targets)
  check.close(each.weight:mean(1), whole.weight)
end)

test("a neural tangent kernel is the same from jacobians and from products in three maps", function()
  local net, params = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), {}
  for _, pair in ipairs(net:named_parameters()) do params[pair[1]] = pair[2]:detach() end
  local function single(p, one) return func.functional_call(net, p, one) end
  local x1, x2 = torch.randn(3, 4), torch.randn(2, 4)
  local each = torch.vmap(func.jacrev(single), {in_dims = {nil, 1}})
  local j1, j2, explicit = each(params, x1), each(params, x2), 0
  for name, a in pairs(j1) do explicit = explicit + torch.einsum("Naf,Mbf->NMab", a:flatten(3), j2[name]:flatten(3)) end
  local function kernel(a, b)
    local _, pull = func.vjp(function(p) return single(p, a) end, params)
    return torch.vmap(function(v)
      return (select(2, func.jvp(function(p) return single(p, b) end, params, (pull(v)))))
    end)(torch.eye(2))
  end
  local implicit = torch.vmap(torch.vmap(kernel, {in_dims = {nil, 1}}), {in_dims = {1, nil}})(x1, x2)
  check.close(implicit, explicit, 1e-5)
end)

test("functional_call swaps tensors for one call and puts them back, also after an error", function()
  local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
  local before, seen = net[1].weight, nil
  local w = torch.zeros(3, 2)
  net[1]:register_forward_hook(function(m) seen = m.weight end)
  func.functional_call(net, {["0.weight"] = w}, {torch.ones(1, 2)})
  check.yes(rawequal(seen, w))
  check.yes(rawequal(net[1].weight, before))
  check.raises("shape", nil, function() func.functional_call(net, {["0.weight"] = torch.zeros(3, 5)}, torch.ones(1, 2)) end)
  check.yes(rawequal(net[1].weight, before))
  local y = func.functional_call(net, {{["0.weight"] = w}, {["0.bias"] = torch.ones(3)}}, torch.ones(1, 2))
  check.close(y, net[3](torch.ones(1, 3)))
  check.equal(#net:parameters(), 4)
  check.equal(func.functional_call(net, {nothing = w}, torch.ones(1, 2)).shape, {1, 1})
  check.raises(nil, "unexpected: nothing", function() func.functional_call(net, {nothing = w}, torch.ones(1, 2), nil, {strict = true}) end)
  check.raises(nil, "missing: 0.bias", function() func.functional_call(net, {["0.weight"] = w}, torch.ones(1, 2), nil, {strict = true}) end)
  check.raises(nil, "is no tensor", function() func.functional_call(net, {["0.weight"] = 3}, torch.ones(1, 2)) end)
  check.raises(nil, "wants a module", function() func.functional_call(torch.ones(1), {}, torch.ones(1, 2)) end)
end)

test("functional_call replaces tied weights under all their names", function()
  local Tied = nn.class "Tied"
  function Tied:init()
    self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
    self.b.weight = self.a.weight
    self.c = self.a
  end
  function Tied:forward(v, scale) return self.c(self.b(self.a(v))) * (scale and scale.by or 1) end
  local net, one, zero = Tied(), torch.eye(2), torch.zeros(2)
  local biases = {["a.bias"] = zero, ["b.bias"] = zero}
  check.equal(func.functional_call(net, {{["a.weight"] = one * 2}, biases}, torch.ones(1, 2)), {{8, 8}})
  check.equal(func.functional_call(net, {{["b.weight"] = one * 2}, biases}, torch.ones(1, 2), {by = 10}), {{80, 80}})
  check.equal(func.functional_call(net, {{["c.weight"] = one * 2}, biases}, {torch.ones(1, 2), {by = 2}}), {{16, 16}})
  check.raises(nil, "another name", function() func.functional_call(net, {["a.weight"] = one, ["b.weight"] = one * 3}, torch.ones(1, 2)) end)
  check.equal(func.functional_call(net, {{["a.weight"] = one, ["b.weight"] = one * 3}, biases}, torch.ones(1, 2), nil, {tie_weights = false}), {{3, 3}})
end)

test("stack_module_state makes one function of several networks", function()
  local nets = {linear(), linear(), linear()}
  torch.no_grad(function() nets[2].bias:fill_(1) end)
  local params, buffers = func.stack_module_state(nets)
  check.equal(params.weight.shape, {3, 1, 2})
  check.yes(params.weight.requires_grad and params.weight.is_leaf)
  check.equal(next(buffers), nil)
  local input = torch.ones(4, 2)
  local out = torch.vmap(function(p, v) return func.functional_call(nets[1], p, v) end, {in_dims = {1, torch.none}})(params, input)
  check.close(out[2]:detach(), nets[2](input):detach())
  check.raises(nil, "training mode", function() func.stack_module_state {nets[1], linear():eval()} end)
  check.raises(nil, "one class", function() func.stack_module_state {nets[1], nn.ReLU()} end)
end)

test("torch.autograd.functional takes tables of inputs and gives tables of results", function()
  local AF, y = torch.autograd.functional, torch.tensor {0.2, 0.7}
  local function h(a, b) return (a * b):sum() ^ 3 end
  local H = AF.hessian(h, {x, y})
  check.close(H[1][1], {{-0.228, -0.798}, {-0.798, -2.793}})
  check.close(H[1][2], {{2.1375, 1.71}, {-1.995, 8.6925}})
  check.close(H[2][1], H[1][2]:t())
  check.close(H[2][2], {{-1.425, 4.275}, {4.275, -12.825}})
  for _, product in ipairs {AF.hvp, AF.vhp} do
    local value, Hv = product(h, {x, y}, {torch.ones(2), torch.zeros(2)})
    check.close(value:item(), -0.857375)
    check.close(Hv[1], {-1.026, -3.591})
    check.close(Hv[2], {0.1425, 10.4025})
  end
  local J = AF.jacobian(function(a, b) return a * b:exp(), (a * b):sum() end, {x, y})
  check.close(J[1][1], {{1.221403, 0}, {0, 2.013753}})
  check.close(J[1][2], {{0.610701, 0}, {0, -3.020629}})
  check.close(J[2][2], {0.5, -1.5})
  check.close(AF.jacobian(f, x, {strategy = "forward-mode"}), AF.jacobian(f, x))
  check.raises("autograd", "does not depend", function() AF.jacobian(function(a, b) return a:sum() end, {x, y}, {strict = true}) end)
  local w = torch.tensor({2.0}, {requires_grad = true})
  check.yes(AF.jacobian(function(v) return v ^ 3 end, w, {create_graph = true}).requires_grad)
  check.no(AF.jacobian(function(v) return v ^ 3 end, w).requires_grad)
  check.raises(nil, "a direction v", function() AF.vjp(f, x) end)
end)

test("a jacobian's rows and columns are computed at once, in pieces or one by one, with the same values", function()
  torch.manual_seed(5)
  local F, w, k = nn.functional, torch.randn(5, 6), torch.randn(2, 1, 3, 3)
  local table_of = torch.randn(7, 6)
  local functions = {
    function(v) return F.linear(v, w) end,
    function(v) return F.softmax(v, -1) * v:flip(1) end,
    function(v) return F.layer_norm(v, {6}, w[1], w[2]) end,
    function(v) return F.conv2d(v:repeat_interleave(6):view(1, 1, 6, 6), k):sum {2, 3} end,
    function(v) return F.max_pool1d(v:view(1, 1, 6), 2):view(-1):exp() end,
    function(v) return v:sort():cumsum(1) end,
    function(v) return torch.cat {v[{{2, 4}}], v:view(2, 3):t():reshape(-1), v:prod():view(1)} end,
    function(v) return torch.where(v:gt(0), v * v, v:sin())[torch.tensor {1, 1, 6, 3}] end,
    function(v) return F.embedding(torch.tensor {2, 7, 2}, table_of):matmul(v) end,
    function(v) return F.scaled_dot_product_attention(v:view(1, 2, 3), v:view(1, 2, 3) * 2, v:view(1, 2, 3):cos()) end,
    function(v)
      local y = v * 2
      y[{{1, 3}}]:mul_(v[{{4, 6}}])
      return y:sum(), y:amax(), y:view(3, 2)
    end,
    function(v) return v:sum() + 1, torch.ones(2), v:new_zeros(0) end,
    function(v)  -- whose gradient only single examples have: it looks at a value
      v:register_hook(function(g) return g * g:abs():max():item() end)
      return v:sin():mul(3)
    end,
  }
  for number, h in ipairs(functions) do
    for _, at in ipairs {torch.randn(6), torch.randn(6, {dtype = "float64"})} do
      local g = function(v) return h(v:to(torch.float32)) end
      local ys, pull = func.vjp(function(v) return {g(v)} end, at)
      for _, how in ipairs {{}, {chunk_size = 1}, {chunk_size = 4}} do
        local J, K = {func.jacrev(g, how)(at)}, {func.jacfwd(g, how)(at)}
        for i, y in ipairs(ys) do
          check.equal(#J, #ys)
          for row = 1, y:numel() do
            local units = {}
            for m, other in ipairs(ys) do units[m] = torch.zeros_like(other) end
            units[i]:view(-1)[row] = 1
            local want = pull(units)
            check.close(J[i]:reshape(y:numel(), 6)[row], want, 1e-4)
            if number < #functions then check.close(K[i]:reshape(y:numel(), 6)[row]:to(want.dtype), want, 1e-4) end
          end
        end
      end
    end
  end
end)

test("a jacobian of many numbers takes one sweep, or one for each piece", function()
  local sweeps = 0
  local h = function(v)
    v:register_hook(function() sweeps = sweeps + 1 end)
    return (v * v):sin()
  end
  func.jacrev(h)(torch.randn(20))
  check.equal(sweeps, 1)
  func.jacrev(h, {chunk_size = 8})(torch.randn(20))
  check.equal(sweeps, 4)
end)
