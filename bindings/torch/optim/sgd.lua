-- Gradient descent: SGD with momentum, averaged SGD (ASGD), and Rprop, which looks at signs alone.
local torch = torch
local error = torch._raise
local base = require "torch.optim.optimizer"
local active, at_least, rounded = base.active, base.at_least, base.rounded

base.class("SGD", "lr momentum dampening weight_decay nesterov",
  {lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    at_least(g, name, "momentum", 0)
    at_least(g, name, "weight_decay", 0)
    if g.nesterov and (g.momentum == 0 or g.dampening ~= 0) then
      error(name .. ": nesterov needs a momentum and no dampening", 5, "value")
    end
  end,
  function(self, g)
    if g.momentum == 0 then
      local params, grads, _, n = active(self, g)
      if n > 0 then
        torch._fused_sgd(params, grads, nil, g.lr, 0, 0, g.weight_decay, false, g.maximize, false)
      end
      return
    end
    local params, grads, states, n = active(self, g, function() return {} end)
    local buffers, started = {}, true
    for i = 1, n do
      buffers[i] = states[i].momentum_buffer
      started = started and buffers[i] ~= nil
    end
    local function go(p, d, b, first)
      if #p > 0 then torch._fused_sgd(p, d, b, g.lr, g.momentum, g.dampening, g.weight_decay, g.nesterov, g.maximize, first) end
    end
    if started then return go(params, grads, buffers, false) end
    -- A parameter's first step starts its buffer; the others go together.
    local fresh, old = {{}, {}, {}}, {{}, {}, {}}
    for i, p in ipairs(params) do
      local l = states[i].momentum_buffer and old or fresh
      local buffer = states[i].momentum_buffer or torch.zeros_like(p)
      states[i].momentum_buffer = buffer
      l[1][#l[1] + 1], l[2][#l[2] + 1], l[3][#l[3] + 1] = p, grads[i], buffer
    end
    go(fresh[1], fresh[2], fresh[3], true)
    go(old[1], old[2], old[3], false)
  end)

-- Polyak and Juditsky (1992), in the form of Bottou that PyTorch has.
base.class("ASGD", "lr lambd alpha t0 weight_decay",
  {lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    at_least(g, name, "weight_decay", 0)
  end,
  function(self, g)
    base.each_step(self, g, function(p)
      return {step = 0, eta = rounded(g.lr), mu = 1.0, ax = torch.zeros_like(p)}
    end, {"ax"}, function(step, params, grads, averages)
      -- Parameters with one count of steps share eta and mu too.
      local s = self.state[params[1]]
      torch._fused_asgd(params, grads, averages, s.eta, s.mu, g.weight_decay, 1 - g.lambd * s.eta, g.maximize)
      local eta = rounded(g.lr / (1 + g.lambd * g.lr * step) ^ g.alpha)
      local mu = rounded(1 / math.max(1, step - g.t0))
      for _, p in ipairs(params) do self.state[p].eta, self.state[p].mu = eta, mu end
    end)
  end)

-- Riedmiller and Braun (1993).
base.class("Rprop", "lr etas step_sizes",
  {lr = 1e-2, etas = {0.5, 1.2}, step_sizes = {1e-6, 50}, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    local e = g.etas
    if type(e) ~= "table" or type(e[1]) ~= "number" or type(e[2]) ~= "number" or not (0 < e[1] and e[1] < 1 and 1 < e[2]) then
      error(name .. ": etas must be two numbers, one in (0, 1) and one above 1, as in {0.5, 1.2}", 5, "value")
    end
    local s = g.step_sizes
    if type(s) ~= "table" or type(s[1]) ~= "number" or type(s[2]) ~= "number" or s[1] > s[2] then
      error(name .. ": step_sizes must be the smallest and the largest step, as in {1e-6, 50}", 5, "value")
    end
  end,
  function(self, g)
    base.each_step(self, g, function(p)
      return {step = 0, prev = torch.zeros_like(p), step_size = torch.full_like(p, g.lr)}
    end, {"prev", "step_size"}, function(_, params, grads, before, sizes)
      torch._fused_rprop(params, grads, before, sizes, g.etas[1], g.etas[2], g.step_sizes[1], g.step_sizes[2], 0, 1, g.maximize)
    end)
  end)

return base.optim
