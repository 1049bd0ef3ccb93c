-- Rates scaled by the history of squared gradients: RMSprop, Adagrad, Adadelta.
local torch = torch
local base = require "torch.optim.optimizer"
local at_least = base.at_least

-- Hinton (2012); centred as Graves (2013).
base.class("RMSprop", "lr alpha eps weight_decay momentum centered",
  {lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false, maximize = false},
  function(g, name)
    for _, key in ipairs {"lr", "eps", "weight_decay", "momentum", "alpha"} do at_least(g, name, key, 0) end
  end,
  function(self, g)
    for _, p in ipairs(g.params) do
      local state = self.state[p]
      if state and g.momentum > 0 then state.momentum_buffer = state.momentum_buffer or torch.zeros_like(p) end
      if state and g.centered then state.grad_avg = state.grad_avg or torch.zeros_like(p) end
    end
    base.each_step(self, g, function(p)
      return {step = 0, square_avg = torch.zeros_like(p), momentum_buffer = g.momentum > 0 and torch.zeros_like(p) or nil,
        grad_avg = g.centered and torch.zeros_like(p) or nil}
    end, {"square_avg", "momentum_buffer", "grad_avg"}, function(_, params, grads, squares, buffers, averages)
      torch._fused_rmsprop(params, grads, squares, g.momentum > 0 and buffers or nil, g.centered and averages or nil,
        g.alpha, g.eps, g.lr, g.momentum, g.weight_decay, 1, g.maximize)
    end)
  end)

-- Duchi, Hazan and Singer (2011).
base.class("Adagrad", "lr lr_decay weight_decay initial_accumulator_value eps",
  {lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10, maximize = false},
  function(g, name)
    for _, key in ipairs {"lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value"} do at_least(g, name, key, 0) end
  end,
  function(self, g)
    base.each_step(self, g, function(p)
      return {step = 0, sum = torch.full_like(p, g.initial_accumulator_value)}
    end, {"sum"}, function(step, params, grads, sums)
      torch._fused_adagrad(params, grads, sums, g.eps, g.lr / (1 + (step - 1) * g.lr_decay), g.weight_decay, 1, g.maximize)
    end)
  end)

-- Zeiler (2012).
base.class("Adadelta", "lr rho eps weight_decay",
  {lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    at_least(g, name, "eps", 0)
    at_least(g, name, "weight_decay", 0)
    base.fraction(g, name, "rho", true)
  end,
  function(self, g)
    base.each_step(self, g, function(p)
      return {step = 0, square_avg = torch.zeros_like(p), acc_delta = torch.zeros_like(p)}
    end, {"square_avg", "acc_delta"}, function(_, params, grads, squares, deltas)
      torch._fused_adadelta(params, grads, squares, deltas, g.rho, g.eps, g.lr, g.weight_decay, 1, g.maximize)
    end)
  end)

return base.optim
