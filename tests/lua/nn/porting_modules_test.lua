-- Modules and optimisers as PyTorch's scripts use them: states, hooks, classes of one's own.
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

test("load_state_dict tells what is wrong by cause, and how to mend it", function()
  local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
  local state = net:state_dict()
  local answer, unexpected = net:load_state_dict(state)
  check.equal(tostring(answer), "<All keys matched successfully>")
  check.equal(#unexpected, 0)
  local some = net:load_state_dict({["0.weight"] = torch.ones(3, 2), extra = torch.ones(1)}, {strict = false})
  check.equal(some.missing_keys, {"0.bias"})
  check.equal(some.unexpected_keys, {"extra"})
  check.raises("argument", "missing: 0.bias; unexpected: extra", net.load_state_dict, net, {["0.weight"] = torch.ones(3, 2), extra = torch.ones(1)})
  check.raises("shape", "0.weight is [3, 2] here and [3, 3] there", net.load_state_dict, net, {["0.weight"] = torch.ones(3, 3)}, {strict = false})
  check.raises("argument", 'net:load_state_dict(state["model"])', net.load_state_dict, net, {epoch = 3, model = state})
  check.raises("argument", 'load with {strip="module."}', net.load_state_dict, net, {["module.0.weight"] = torch.ones(3, 2)})
  check.raises("argument", 'no argument "stict"', net.load_state_dict, net, state, {stict = false})
  local given = torch.ones(3, 2, {dtype = "float64"})
  net:load_state_dict({["0.weight"] = given, ["0.bias"] = torch.zeros(3, {dtype = "float64"})}, {assign = true})
  check.equal(net[1].weight.dtype, torch.float64)
  given:fill_(5)
  check.equal(net[1].weight[{1, 1}]:item(), 5.0)
end)

test("a module in two places is saved under both names, and hooks see the state", function()
  local Twin = nn.class("Twin")
  function Twin:init()
    self.a = nn.Linear(2, 2, {bias = false})
    self.b = self.a
  end
  function Twin:get_extra_state() return {calls = 3} end
  function Twin:set_extra_state(state) rawset(self, "calls", state.calls) end
  local net = Twin()
  local seen = {}
  local handle = net:register_state_dict_post_hook(function(_, state, prefix) seen[#seen + 1] = prefix .. tostring(state["a.weight"] ~= nil) end)
  net:register_load_state_dict_pre_hook(function(_, state) state["b.weight"] = state["b.weight"] or state["a.weight"] end)
  local state = net:state_dict()
  check.yes(state["a.weight"] and state["b.weight"])
  check.equal(state._extra_state, {calls = 3})
  check.equal(seen, {"true"})
  handle.remove()
  state["b.weight"] = nil
  net:load_state_dict(state)
  check.equal(rawget(net, "calls"), 3)
  check.equal(seen, {"true"})
  check.equal(#net:parameters(), 1)
  local names = {}
  for _, pair in ipairs(net:named_modules("net", false)) do names[#names + 1] = pair[1] end
  check.equal(names, {"net", "net.a", "net.b"})
end)

test("forward hooks may stand first and see named arguments", function()
  local Scale = nn.class("Scale")
  function Scale:forward(x, options) return x * (options and options.by or 1) end
  local net, log = Scale(), {}
  net:register_forward_pre_hook(function() log[#log + 1] = "second" end)
  net:register_forward_pre_hook(function() log[#log + 1] = "first" end, {prepend = true})
  net:register_forward_pre_hook(function(_, args, kwargs) return args, {by = kwargs.by * 2} end, {with_kwargs = true})
  net:register_forward_hook(function(_, _, kwargs, output) return output + kwargs.by end, {with_kwargs = true})
  check.equal(net(torch.ones(1), {by = 3}), {12.0})
  check.equal(log, {"first", "second"})
  check.raises("argument", 'no argument "prepand"', function() net:register_forward_hook(print, {prepand = true}) end)
end)

test("isinstance knows classes, their bases and lists of them", function()
  local Net = nn.class("Net")
  local Deep = nn.class("Deep", Net)
  local net = Deep()
  check.yes(torch.isinstance(net, Net))
  check.yes(torch.isinstance(net, nn.Module))
  check.no(torch.isinstance(net, nn.Linear))
  check.yes(torch.isinstance(nn.Linear(2, 2), {nn.Conv2d, nn.Linear}))
  check.yes(torch.isinstance(nn.Linear(2, 2).weight, nn.Parameter))
  check.yes(torch.isinstance(torch.ones(1), torch.Tensor))
  check.no(torch.isinstance(3, nn.Module))
  check.raises("argument", "wants a class", torch.isinstance, net, "Net")
end)

test("an optimiser may be written as a subclass with a step of its own", function()
  local Mine = optim.class("Mine")
  function Mine:init(params, options) optim.Optimizer.init(self, params, {lr = options.lr or 1e-2, momentum = 0.5}) end
  function Mine:step(closure)
    local loss = closure and closure()
    torch.no_grad(function()
      for _, group in ipairs(self.param_groups) do
        for _, p in ipairs(group.params) do
          if p.grad then
            local state = self.state[p]
            if not state.m then state.m = torch.zeros_like(p) end
            state.m:mul_(group.momentum):add_(p.grad)
            p:add_(state.m, {alpha = -group.lr})
          end
        end
      end
    end)
    return loss
  end
  local p = torch.zeros(2, {requires_grad = true})
  local opt, calls = Mine({p}, {lr = 0.5}), 0
  opt:register_step_post_hook(function() calls = calls + 1 end)
  local schedule = optim.lr_scheduler.StepLR(opt, {step_size = 1, gamma = 0.1})
  for _ = 1, 2 do
    opt:zero_grad()
    p:sum():backward()
    opt:step()
    schedule:step()
  end
  check.close(p, {-0.575, -0.575})
  check.equal(calls, 2)
  local saved = opt:state_dict()
  opt:load_state_dict(saved)
  check.close(opt.state[p].m, {1.5, 1.5})
  check.contains(tostring(opt), "momentum = 0.5")
  check.raises("argument", "base of classes", optim.Optimizer)
  local Empty = optim.class("Empty")
  check.raises("argument", "has no init", Empty, {p})
end)

test("a rate may be a tensor that is changed in place", function()
  local p, rate = torch.zeros(1, {requires_grad = true}), torch.tensor(0.5)
  local opt = optim.SGD({p}, {lr = rate})
  p:sum():backward()
  opt:step()
  rate:fill_(0.25)
  opt:step {accumulated = 2}
  check.close(p, {-0.75})
  check.yes(rawequal(opt.param_groups[1].lr, rate))
  check.raises("value", "lr", optim.SGD, {p}, {lr = torch.tensor(-1.0)})
end)

test("Adafactor and Muon train matrices, with PyTorch's state", function()
  torch.manual_seed(0)
  local net, x = nn.Linear(7, 9), torch.randn(16, 7)
  local y = x:matmul(torch.randn(7, 9))
  local function loss_after(opt, steps)
    local loss
    for _ = 1, steps do
      opt:zero_grad()
      loss = F.mse_loss(net(x), y)
      loss:backward()
      opt:step()
    end
    return loss:item()
  end
  local start = F.mse_loss(net(x), y):item()
  local opt = optim.Adafactor(net:parameters(), {lr = 0.1})
  check.yes(loss_after(opt, 30) < start)
  check.equal(opt.state[net.weight].row_var.shape, torch.Size {9, 1})
  check.yes(opt.state[net.bias].variance)
  local muon = optim.Muon({net.weight}, {lr = 0.05})
  check.yes(loss_after(muon, 30) < start * 0.5)
  check.raises("shape", "takes matrices alone", optim.Muon, net:parameters())
end)

test("hooks of an optimiser's state see and change it", function()
  local p = torch.zeros(1, {requires_grad = true})
  local opt = optim.SGD({p}, {lr = 0.1, momentum = 0.9})
  local log = {}
  opt:register_state_dict_pre_hook(function() log[#log + 1] = "save" end)
  opt:register_state_dict_post_hook(function(_, state)
    state.note = "kept"
    return state
  end)
  opt:register_load_state_dict_pre_hook(function(_, state) log[#log + 1] = state.note end)
  opt:register_load_state_dict_post_hook(function() log[#log + 1] = "loaded" end)
  opt:load_state_dict(opt:state_dict())
  check.equal(log, {"save", "kept", "loaded"})
end)

test("a Sequential grows by name", function()
  local net = nn.Sequential()
  net:add_module("conv_1", nn.Linear(2, 3))
  net.relu = nn.ReLU()
  net:append(nn.Linear(3, 1))
  check.equal(#net, 3)
  check.equal(net(torch.ones(4, 2)).shape, torch.Size {4, 1})
  check.yes(rawequal(net.conv_1, net[1]))
  local names = {}
  for i, pair in ipairs(net:named_parameters()) do names[i] = pair[1] end
  check.equal(names, {"conv_1.weight", "conv_1.bias", "2.weight", "2.bias"})
  local other = nn.Linear(2, 3)
  net:add_module("conv_1", other)
  check.equal(#net, 3)
  check.yes(rawequal(net[1], other))
  check.raises("argument", "without dots", function() net:add_module("a.b", nn.ReLU()) end)
  check.raises("argument", "not a module", function() net:add_module("a", 3) end)
end)

test("a group keeps fields of the user's own, unless they look like a misspelt option", function()
  local opt = optim.SGD({{params = {torch.ones(1)}, name = "head", lr_scale = 0.5}}, {lr = 0.1})
  check.equal(opt.param_groups[1].name, "head")
  check.equal(opt:state_dict().param_groups[1].lr_scale, 0.5)
  opt:add_param_group {params = {torch.ones(2)}, name = "body"}
  check.equal(opt.param_groups[2].name, "body")
  check.raises("argument", 'no option "momentm"', optim.SGD, {{params = {torch.ones(1)}, momentm = 0.5}}, {lr = 0.1})
  check.raises("argument", 'no option "name"', optim.SGD, {torch.ones(1)}, {lr = 0.1, name = "head"})
end)

test("apply visits the parts first, in their order", function()
  local names = {}
  nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU(), nn.Tanh())):apply(function(m) names[#names + 1] = m._name end)
  check.equal(names, {"Linear", "ReLU", "Tanh", "Sequential", "Sequential"})
end)
