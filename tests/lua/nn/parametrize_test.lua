-- Weights that are computed from others (parametrize, parametrizations, prune), lazy layers, fused layers.
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim
local parametrize, parametrizations, prune = nn.utils.parametrize, nn.utils.parametrizations, nn.utils.prune

local Symmetric = nn.class("Symmetric")
function Symmetric:forward(x) return x:triu() + x:triu(1).mT end

local function names_of(net)
  local out = {}
  for i, pair in ipairs(net:named_parameters()) do out[i] = pair[1] end
  return table.concat(out, " ")
end

test("a parametrised weight is computed when read, and its original is trained", function()
  local net = nn.Linear(3, 3)
  local before = net.weight
  parametrize.register_parametrization(net, "weight", Symmetric())
  check.equal(names_of(net), "bias parametrizations.weight.original")
  check.equal(net.weight, net.weight.mT)
  check.yes(rawequal(net.parametrizations.weight.original, before))
  net(torch.ones(1, 3)):sum():backward()
  check.equal(before.grad, {{1.0, 2, 2}, {0, 1, 2}, {0, 0, 1}})
  check.yes(torch.isinstance(net, nn.Linear))
  check.yes(parametrize.type_before_parametrizations(net) == nn.Linear)
  check.contains(tostring(net), "ParametrizedLinear")
  check.yes(parametrize.is_parametrized(net, "weight"))
  check.no(parametrize.is_parametrized(net, "bias"))
  check.equal(net:clone().weight, net.weight)
  check.raises("argument", "no right_inverse", function() net.weight = torch.ones(3, 3) end)
  local value = net.weight:detach():clone()
  parametrize.remove_parametrizations(net, "weight")
  check.equal(net.weight, value)
  check.yes(rawequal(net.weight, before))
  check.equal(tostring(net), tostring(nn.Linear(3, 3)))
  check.raises("argument", "not parametrised", parametrize.remove_parametrizations, net, "weight")
end)

test("a parametrisation that changes the shape is refused, and the layer is left as it was", function()
  local Row = nn.class("Row")
  function Row:forward(x) return x[1] end
  local net = nn.Linear(3, 2)
  check.raises("shape", "Row gives shape [3], weight of Linear has [2, 3]", parametrize.register_parametrization, net, "weight", Row())
  check.equal(names_of(net), "weight bias")
  check.raises("argument", 'no tensor "wait"', parametrize.register_parametrization, net, "wait", Row())
  parametrize.register_parametrization(net, "weight", Row(), {unsafe = true})
  check.equal(net.weight.shape, torch.Size {3})
end)

test("parametrize.cached computes each tensor once", function()
  local net = nn.Linear(2, 2)
  parametrize.register_parametrization(net, "weight", Symmetric())
  parametrize.cached(function() check.yes(rawequal(net.weight, net.weight)) end)
  check.no(rawequal(net.weight, net.weight))
  do
    local _ <close> = parametrize.cached()
    check.yes(rawequal(net.weight, net.weight))
  end
  check.raises("value", "stop", parametrize.cached, function() torch._raise("stop", 1, "value") end)
  check.no(rawequal(net.weight, net.weight))
end)

test("weight_norm, spectral_norm and orthogonal hold what they promise while training", function()
  local norm = parametrizations.weight_norm(nn.Linear(4, 3))
  check.equal(names_of(norm), "bias parametrizations.weight.original0 parametrizations.weight.original1")
  norm.weight = torch.ones(3, 4)
  check.close(norm.weight, torch.ones(3, 4))
  check.close(norm.parametrizations.weight.original0, {{2.0}, {2.0}, {2.0}})
  local spectral = parametrizations.spectral_norm(nn.Linear(5, 4))
  for _ = 1, 200 do local _ = spectral.weight end  -- a step of the iteration each; values close together take many
  check.close(torch.linalg.svdvals(spectral.weight:detach())[1], 1, 1e-2)
  for _, map in ipairs {"matrix_exp", "cayley", "householder"} do
    for _, size in ipairs {{4, 4}, {5, 3}, {3, 5}} do
      local net = parametrizations.orthogonal(nn.Linear(size[2], size[1]), "weight", {orthogonal_map = map})
      local opt = optim.SGD(net:parameters(), {lr = 0.3})
      for _ = 1, 3 do
        opt:zero_grad()
        local loss = (net(torch.ones(2, size[2])) ^ 2):sum()
        loss:backward()
        opt:step()
      end
      local q = net.weight:detach()
      if size[1] < size[2] then q = q.T end
      check.close(q.T:matmul(q), torch.eye(q:size(2)), 1e-4)
    end
  end
  check.raises("value", "orthogonal_map", parametrizations.orthogonal, nn.Linear(2, 2), "weight", {orthogonal_map = "qr"})
  check.close(torch.matrix_exp(torch.tensor {{0.0, 1.0}, {-1.0, 0.0}}), {{math.cos(1), math.sin(1)}, {-math.sin(1), math.cos(1)}})
end)

test("pruned elements stay 0, and remove makes a plain parameter", function()
  local net = nn.Linear(4, 3)
  prune.l1_unstructured(net, "weight", {amount = 0.5})
  check.equal(net.weight:eq(0):sum():item(), 6)
  check.equal(net.weight_mask:sum():item(), 6.0)
  check.yes(net:state_dict().weight_orig)
  prune.ln_structured(net, "weight", {amount = 1, n = 2, dim = 1})
  check.yes(net.weight:eq(0):sum():item() >= 6)
  check.yes(prune.is_pruned(nn.Sequential(net)))
  local opt = optim.SGD(net:parameters(), {lr = 0.1})
  net(torch.randn(2, 4)):sum():backward()
  check.equal(net.weight_orig.grad * (1 - net.weight_mask), torch.zeros(3, 4))
  opt:step()
  net(torch.randn(2, 4))
  local value = net.weight:detach():clone()
  prune.remove(net, "weight")
  check.equal(net.weight, value)
  check.equal(#net:parameters(), 2)
  check.no(prune.is_pruned(net))
  local a, b = nn.Linear(4, 3), nn.Linear(3, 2)
  prune.global_unstructured({{a, "weight"}, {b, "weight"}}, {pruning_method = prune.L1Unstructured, amount = 0.5})
  check.equal((a.weight:eq(0):sum() + b.weight:eq(0):sum()):item(), 9)
  check.raises("value", "fraction", prune.l1_unstructured, a, "weight", 1.5)
  check.raises("value", "not pruned", prune.remove, net, "weight")
end)

test("a lazy layer takes its size from the first input, or from a saved state", function()
  local function make() return nn.Sequential(nn.LazyConv2d(4, 3, {padding = 1}), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)) end
  local net, x = make(), torch.randn(2, 3, 5, 5)
  local opt = optim.SGD(net:parameters(), {lr = 0.1})  -- before the sizes are known
  check.contains(tostring(net), "LazyLinear(in_features=?, out_features=2)")
  check.equal(net(x).shape, torch.Size {2, 2})
  check.equal(tostring(net[5]), tostring(nn.Linear(100, 2)))
  local before = net[5].weight:detach():clone()
  net(x):sum():backward()
  opt:step()
  check.no(torch.equal(net[5].weight:detach(), before))
  local other = make()
  other:load_state_dict(net:state_dict())
  check.equal(other:eval()(x), net:eval()(x))
  check.raises("shape", "LazyConv2d", nn.LazyConv2d(4, 3), torch.ones(3))
  check.equal(nn.LazyConvTranspose1d(4, 3)(torch.ones(1, 2, 5)).shape, torch.Size {1, 4, 7})
  check.equal(nn.LazyInstanceNorm2d {affine = true}(torch.randn(1, 2, 3, 3)).shape, torch.Size {1, 2, 3, 3})
end)

test("a convolution and the normalisation after it become one layer", function()
  for _, pair in ipairs {{nn.Conv2d(3, 4, 3), false}, {nn.ConvTranspose2d(3, 4, 3, {bias = false}), true}} do
    local conv, norm, x = pair[1], nn.BatchNorm2d(4), torch.randn(1, 3, 6, 6)
    norm(torch.randn(4, 4, 3, 3))
    check.raises("value", "evaluation", nn.utils.fuse_conv_bn_eval, conv, norm)
    conv:eval()
    norm:eval()
    check.close(nn.utils.fuse_conv_bn_eval(conv, norm, pair[2])(x), norm(conv(x)), 1e-5)
  end
  torch.manual_seed(3)
  nn.utils.skip_init(nn.Linear, 4, 5)
  local a = torch.rand(1)
  torch.manual_seed(3)
  check.equal(torch.rand(1), a)
end)
