-- Optimisers beyond what the vectors cover: spelling of arguments, groups, saved state, half types,
-- simulated devices, hooks, LBFGS's misuse.
local optim = torch.optim

local names = {"SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop"}

-- Three steps down (w - 3)^2 from 0; gives w.
local function descend(name, options, tensor_options)
  local w = torch.zeros(5, tensor_options):requires_grad_()
  local opt = optim[name]({w}, options)
  for _ = 1, 3 do
    opt:zero_grad()
    local loss = ((w - 3) ^ 2):sum()
    loss:backward()
    opt:step()
  end
  return w:detach(), opt
end

test("every optimiser goes downhill, in all floating point types, and close to float64", function()
  for _, name in ipairs(names) do
    local exact = descend(name, {}, {dtype = "float64"})
    check.yes(exact[1]:item() > 0)
    check.close(descend(name, {}, {dtype = "float32"}):double(), exact, 1e-4)
    check.close(descend(name, {}, {dtype = "bfloat16"}):double(), exact, 0.03)
    check.close(descend(name, {}, {dtype = "float16"}):double(), exact, 0.01)
  end
end)

test("maximize climbs as far as the descent goes down", function()
  for _, name in ipairs(names) do
    local w = torch.ones(3, {requires_grad = true})
    local v = torch.ones(3, {requires_grad = true})
    local up, down = optim[name]({w}, {maximize = true}), optim[name]({v})
    for _ = 1, 2 do
      w.grad, v.grad = torch.full({3}, 2.0), torch.full({3}, -2.0)
      up:step()
      down:step()
    end
    check.close(w:detach(), v:detach())
  end
end)

test("a step on a simulated device is the step on the CPU", function()
  local r = check.tycho({"-e", [[
    for _, name in ipairs{"SGD", "AdamW", "NAdam", "RMSprop", "Rprop", "ASGD"} do
      local got = {}
      for i, device in ipairs{"cpu", "cuda"} do
        local w = torch.ones(7, {device = device}):requires_grad_()
        local opt = torch.optim[name]({w}, {lr = 0.1})
        for step = 1, 3 do w.grad = torch.full({7}, 0.5 * step, {device = device}) opt:step() end
        got[i] = w:detach():cpu()
      end
      assert(torch.equal(got[1], got[2]), name)
    end
    print "same"
  ]]}, {env = {TYCHO_SIMULATE_CUDA = "1"}})
  check.contains(r.out, "same")
end)

test("columns of a tensor, and tensors of any layout, are trained where they are", function()
  for _, name in ipairs(names) do
    local whole = torch.zeros(4, 3)
    local column = whole:t():detach():requires_grad_()
    local straight = torch.zeros(3, 4, {requires_grad = true})
    local a, b = optim[name]({column}), optim[name]({straight})
    for _ = 1, 2 do
      column.grad, straight.grad = torch.ones(3, 4), torch.ones(3, 4)
      a:step()
      b:step()
    end
    check.close(column:detach(), straight:detach())
    check.close(whole[{1, 1}]:item(), straight[{1, 1}]:item())
  end
end)

test("options stand in the second argument, in the table of the parameters, or as a rate", function()
  local w = torch.zeros(1, {requires_grad = true})
  check.equal(optim.SGD({w}, {lr = 0.5}).param_groups[1].lr, 0.5)
  check.equal(optim.SGD({w}, 0.5).param_groups[1].lr, 0.5)
  check.equal(optim.SGD{{w}, lr = 0.5}.param_groups[1].lr, 0.5)
  check.equal(optim.Adam({w}, {foreach = true, fused = false}).param_groups[1].foreach, nil)
end)

test("options stand by position in PyTorch's order, too, and none is dropped", function()
  local w = torch.zeros(1, {requires_grad = true})
  local g = optim.SGD({w}, 0.1, 0.9, nil, 0.5).param_groups[1]
  check.equal({g.lr, g.momentum, g.dampening, g.weight_decay}, {0.1, 0.9, 0, 0.5})
  check.equal(optim.SGD({w}, 0.1, 0.9, {nesterov = true}).param_groups[1].nesterov, true)
  check.equal(optim.Adam({w}, nil, {0.5, 0.9}).param_groups[1].betas, {0.5, 0.9})
  check.equal(optim.Adam({w}, 0.1, nil, 1e-4).param_groups[1].eps, 1e-4)
  check.equal(optim.LBFGS({w}, 1, 7).param_groups[1].max_iter, 7)
  check.raises("argument", "at most 5 options by position", optim.SGD, {w}, 0.1, 0, 0, 0, false, 1)
  check.raises("argument", '"lr" is given twice', optim.SGD, {w}, 0.1, {lr = 0.2})
end)

test("named parameters keep their names", function()
  local net = torch.nn.Linear(2, 1)
  local opt = optim.SGD(net:named_parameters(), {lr = 0.1})
  check.equal(opt.param_groups[1].param_names, {"weight", "bias"})
  check.equal(#opt.param_groups[1].params, 2)
end)

test("groups have options of their own, also when added later", function()
  local a, b, c = torch.zeros(1, {requires_grad = true}), torch.zeros(1, {requires_grad = true}), torch.zeros(1, {requires_grad = true})
  local opt = optim.SGD({{params = {a}}, {params = b, lr = 1.0}}, {lr = 0.1})
  opt:add_param_group{params = {c}, lr = 10.0}
  for _, p in ipairs{a, b, c} do p.grad = torch.ones(1) end
  opt:step()
  check.close(a:item(), -0.1)
  check.close(b:item(), -1)
  check.close(c:item(), -10)
end)

test("a parameter given twice is an error", function()
  local w = torch.zeros(1, {requires_grad = true})
  check.raises("value", "would take every step twice", optim.SGD, {w, w})
  local opt = optim.SGD({w})
  check.raises("value", "in another group already", opt.add_param_group, opt, {params = {w}})
end)

test("wrong options are errors that name what is right", function()
  local w = torch.zeros(1, {requires_grad = true})
  check.raises("value", "betas must be two numbers", optim.NAdam, {w}, {betas = {1, 2}})
  check.raises("value", "rho must be a number in [0, 1]", optim.Adadelta, {w}, {rho = 2})
  check.raises("value", "etas must be two numbers", optim.Rprop, {w}, {etas = {2, 1}})
  check.raises("value", "alpha must be", optim.RMSprop, {w}, {alpha = -1})
  check.raises("value", "nesterov needs a momentum", optim.SGD, {w}, {nesterov = true})
  check.raises("argument", 'no option "beta"', optim.Adam, {w}, {beta = 0.5})
  check.raises("value", '"strong_wolfe"', optim.LBFGS, {w}, {line_search_fn = "wolfe"})
end)

test("saved state is laid out as PyTorch's and goes on where it was", function()
  local _, opt = descend("Adam", {lr = 0.5})
  local saved = opt:state_dict()
  check.equal(saved.param_groups[1].params, {0})
  check.dtype(saved.state[0].step, "float32")
  check.equal(saved.state[0].step:item(), 3.0)
  check.shape(saved.state[0].exp_avg, {5})
  check.equal(saved.param_groups[1].betas, {0.9, 0.999})
  local w = torch.zeros(5, {dtype = "float64"}):requires_grad_()
  local other = optim.Adam({w})
  other:load_state_dict(saved)
  check.equal(other.param_groups[1].lr, 0.5)
  check.equal(other.state[w].step, 3)
  check.dtype(other.state[w].exp_avg, "float64")
  saved.state[0].exp_avg:zero_()
  check.yes(other.state[w].exp_avg:abs():sum():item() > 0)
end)

test("state that does not fit is refused before anything is taken over", function()
  local _, opt = descend("Adam", {})
  local saved = opt:state_dict()
  local two = optim.Adam({torch.zeros(1, {requires_grad = true}), torch.zeros(1, {requires_grad = true})}, {lr = 7})
  check.raises("shape", "group 1 had 1 parameters, here it has 2", two.load_state_dict, two, saved)
  check.raises("argument", "wants what state_dict() gives", two.load_state_dict, two, {})
  check.equal(two.param_groups[1].lr, 7)
end)

test("hooks run around a step until they are removed", function()
  local w = torch.zeros(1, {requires_grad = true})
  local opt, said = optim.SGD({w}), {}
  local before = opt:register_step_pre_hook(function() said[#said + 1] = "before" end)
  opt:register_step_post_hook(function() said[#said + 1] = "after" end)
  opt:step()
  before:remove()
  opt:step()
  check.equal(said, {"before", "after", "after"})
end)

test("a closure is called first and its loss comes back", function()
  local w = torch.ones(1, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.25})
  local loss = opt:step(function()
    opt:zero_grad()
    local y = (w ^ 2):sum()
    y:backward()
    return y
  end)
  check.equal(loss:item(), 1.0)
  check.close(w:item(), 0.5)
end)

test("LBFGS finds the minimum of a quadratic in one step, and says what it needs", function()
  local w = torch.zeros(3, {requires_grad = true})
  local opt = optim.LBFGS({w}, {line_search_fn = "strong_wolfe"})
  local function closure()
    opt:zero_grad()
    local y = ((w - torch.tensor{1.0, 2.0, 3.0}) ^ 2):sum()
    y:backward()
    return y
  end
  opt:step(closure)
  check.close(w:detach(), {1, 2, 3}, 1e-4)
  check.raises("argument", "step wants a closure", opt.step, opt)
  check.raises("argument", "must return the loss", opt.step, opt, function() end)
end)

test("an optimiser of one's own has groups, state and hooks as the others", function()
  local Sign = optim.class("Sign", {lr = 0.5}, function(self, group)
    for _, p in ipairs(group.params) do
      if p.grad then
        p:sub_(p.grad:sign() * group.lr)
        self.state[p] = {seen = (self.state[p] or {seen = 0}).seen + 1}
      end
    end
  end)
  local w = torch.ones(2, {requires_grad = true})
  local opt = Sign({w}, {lr = 0.25})
  w.grad = torch.tensor{3.0, -1.0}
  opt:step()
  check.close(w:detach(), {0.75, 1.25})
  check.equal(opt:state_dict().state[0].seen, 1)
  check.contains(tostring(opt), "Sign (")
  check.raises("argument", 'no option "rate"', Sign, {w}, {rate = 1})
  check.raises("argument", "wants a name", optim.class, {})
end)

test("what PyTorch saves is taken over: tensors of one element as numbers, its ways of computing left out", function()
  local w = torch.zeros(2, {requires_grad = true})
  local opt = optim.LBFGS({w}, {history_size = 3})
  opt:load_state_dict{
    param_groups = {{params = {0}, lr = 0.5, max_iter = 4, max_eval = 5, tolerance_grad = 1e-7, tolerance_change = 1e-9,
      history_size = 3, line_search_fn = torch.none, foreach = torch.none}},
    state = {[0] = {func_evals = 1, n_iter = 1, d = torch.ones(2), t = torch.tensor(0.5), old_dirs = {torch.ones(2)},
      old_stps = {torch.ones(2)}, ro = {torch.tensor(2.0)}, H_diag = torch.tensor(1.5), prev_flat_grad = torch.ones(2), prev_loss = 1.0}},
  }
  check.equal(opt.param_groups[1].lr, 0.5)
  check.equal(opt.param_groups[1].foreach, nil)
  check.equal(opt.state[w].ro, {2.0})
  check.equal(opt.state[w].H_diag, 1.5)
  opt:step(function()
    opt:zero_grad()
    local y = ((w - 1) ^ 2):sum()
    y:backward()
    return y
  end)
  check.yes(w:sum():item() ~= 0)
end)

test("a step without a closure returns nothing, so that the prompt shows nothing", function()
  local w = torch.ones(2, {requires_grad = true})
  local opt = torch.optim.SGD({w}, {lr = 0.1})
  w:sum():backward()
  check.equal(select("#", opt:step()), 0)
  check.equal(opt:step(function() return 5 end), 5)
end)

test("a step on bfloat16 parameters is the float32 step, rounded", function()
  torch.manual_seed(3)
  for _, name in ipairs {"AdamW", "SGD", "RMSprop"} do
    local values, slope = torch.randn(3, 1111):bfloat16(), torch.randn(3, 1111):bfloat16()
    local stepped = {}
    for _, dtype in ipairs {"float32", "bfloat16"} do
      local p = torch.nn.Parameter(values:to(dtype))
      p.grad = slope:to(dtype)
      torch.optim[name]({p}, {lr = 0.1}):step()
      stepped[#stepped + 1] = p:detach()
    end
    check.close(stepped[2]:float(), stepped[1]:bfloat16():float(), 0.01)
  end
end)
