-- Rates scaled by the history of squared gradients: RMSprop, Adagrad, Adadelta.
local torch = torch
local base = require "torch.optim.optimizer"
local active, at_least, direction = base.active, base.at_least, base.direction

-- Hinton (2012); centred as Graves (2013).
base.class("RMSprop", {lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false, maximize = false},
  function(g, name)
    for _, key in ipairs {"lr", "eps", "weight_decay", "momentum", "alpha"} do at_least(g, name, key, 0) end
  end,
  function(self, g)
    local params, grads, states, n = active(self, g, function(p)
      return {step = 0, square_avg = torch.zeros_like(p), momentum_buffer = g.momentum > 0 and torch.zeros_like(p) or nil,
        grad_avg = g.centered and torch.zeros_like(p) or nil}
    end)
    torch.no_grad(function()
      for i = 1, n do
        local p, s = params[i], states[i]
        s.step = s.step + 1
        local d = direction(g, p, grads[i], g.weight_decay)
        s.square_avg:mul_(g.alpha):addcmul_(d, d, {value = 1 - g.alpha})
        local root = s.square_avg
        if g.centered then
          s.grad_avg:lerp_(d, 1 - g.alpha)
          root = root:addcmul(s.grad_avg, s.grad_avg, {value = -1})
        end
        root = root:sqrt():add_(g.eps)
        if g.momentum > 0 then
          s.momentum_buffer:mul_(g.momentum):addcdiv_(d, root)
          p:add_(s.momentum_buffer, {alpha = -g.lr})
        else
          p:addcdiv_(d, root, {value = -g.lr})
        end
      end
    end)
  end)

-- Duchi, Hazan and Singer (2011).
base.class("Adagrad", {lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10, maximize = false},
  function(g, name)
    for _, key in ipairs {"lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value"} do at_least(g, name, key, 0) end
  end,
  function(self, g)
    local params, grads, states, n = active(self, g, function(p)
      return {step = 0, sum = torch.full_like(p, g.initial_accumulator_value)}
    end)
    torch.no_grad(function()
      for i = 1, n do
        local p, s = params[i], states[i]
        s.step = s.step + 1
        local d = direction(g, p, grads[i], g.weight_decay)
        s.sum:addcmul_(d, d)
        p:addcdiv_(d, s.sum:sqrt():add_(g.eps), {value = -g.lr / (1 + (s.step - 1) * g.lr_decay)})
      end
    end)
  end)

-- Zeiler (2012).
base.class("Adadelta", {lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    at_least(g, name, "eps", 0)
    at_least(g, name, "weight_decay", 0)
    base.fraction(g, name, "rho", true)
  end,
  function(self, g)
    local params, grads, states, n = active(self, g, function(p)
      return {step = 0, square_avg = torch.zeros_like(p), acc_delta = torch.zeros_like(p)}
    end)
    torch.no_grad(function()
      for i = 1, n do
        local p, s = params[i], states[i]
        s.step = s.step + 1
        local d = direction(g, p, grads[i], g.weight_decay)
        s.square_avg:mul_(g.rho):addcmul_(d, d, {value = 1 - g.rho})
        local delta = (s.acc_delta + g.eps):sqrt_():div_((s.square_avg + g.eps):sqrt_()):mul_(d)
        s.acc_delta:mul_(g.rho):addcmul_(delta, delta, {value = 1 - g.rho})
        p:add_(delta, {alpha = -g.lr})
      end
    end)
  end)

return base.optim
