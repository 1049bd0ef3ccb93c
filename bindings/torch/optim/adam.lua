-- Adam and its relatives: AdamW, Adamax, NAdam, RAdam.
local torch = torch
local base = require "torch.optim.optimizer"
local active, at_least, direction, rounded = base.active, base.at_least, base.direction, base.rounded

local function check(g, name)
  at_least(g, name, "lr", 0)
  at_least(g, name, "eps", 0)
  at_least(g, name, "weight_decay", 0)
  base.betas(g, name)
  if g.momentum_decay then at_least(g, name, "momentum_decay", 0) end
end

local function fresh(p) return {step = 0, exp_avg = torch.zeros_like(p), exp_avg_sq = torch.zeros_like(p)} end

local function adam_step(self, g)
  local params, grads, states, n = active(self, g, fresh)
  if n == 0 then return end
  local flags = (g.amsgrad and 1 or 0) + (g.maximize and 2 or 0) + (g.decoupled_weight_decay and 4 or 0)
  -- Parameters that joined at different times have different step counts.
  local by_step, order = {}, {}
  for i = 1, n do
    local s = states[i]
    s.step = s.step + 1
    local l = by_step[s.step]
    if not l then
      l = {{}, {}, {}, {}, g.amsgrad and {} or nil}
      by_step[s.step] = l
      order[#order + 1] = s.step
    end
    local k = #l[1] + 1
    l[1][k], l[2][k], l[3][k], l[4][k] = params[i], grads[i], s.exp_avg, s.exp_avg_sq
    if g.amsgrad then
      s.max_exp_avg_sq = s.max_exp_avg_sq or torch.zeros_like(params[i])
      l[5][k] = s.max_exp_avg_sq
    end
  end
  for _, step in ipairs(order) do
    local l = by_step[step]
    torch._fused_adam(l[1], l[2], l[3], l[4], l[5], step, g.lr, g.betas[1], g.betas[2], g.eps, g.weight_decay, flags)
  end
end

base.class("Adam", {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false, maximize = false,
  decoupled_weight_decay = false}, check, adam_step)
base.class("AdamW", {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 1e-2, amsgrad = false, maximize = false,
  decoupled_weight_decay = true}, check, adam_step)

-- Adam with the maximum norm (Kingma and Ba 2015, section 7.1).
base.class("Adamax", {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, maximize = false}, check,
  function(self, g)
    local params, grads, states, n = active(self, g, function(p)
      return {step = 0, exp_avg = torch.zeros_like(p), exp_inf = torch.zeros_like(p)}
    end)
    torch.no_grad(function()
      for i = 1, n do
        local p, s = params[i], states[i]
        s.step = s.step + 1
        local d = direction(g, p, grads[i], g.weight_decay)
        s.exp_avg:lerp_(d, 1 - g.betas[1])
        s.exp_inf:copy_(torch.maximum(s.exp_inf * g.betas[2], d:abs() + g.eps))
        p:addcdiv_(s.exp_avg, s.exp_inf, {value = -g.lr / (1 - g.betas[1] ^ s.step)})
      end
    end)
  end)

-- The moments of a step; also decays the weights.
local function moments(g, p, s, grad)
  s.step = s.step + 1
  local decay = g.weight_decay
  if decay ~= 0 and g.decoupled_weight_decay then
    p:mul_(1 - g.lr * decay)
    decay = 0
  end
  local d = direction(g, p, grad, decay)
  s.exp_avg:lerp_(d, 1 - g.betas[1])
  s.exp_avg_sq:mul_(g.betas[2]):addcmul_(d, d, {value = 1 - g.betas[2]})
  return d
end

-- Adam with Nesterov's momentum (Dozat 2016).
base.class("NAdam", {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
  decoupled_weight_decay = false, maximize = false}, check,
  function(self, g)
    local params, grads, states, n = active(self, g, function(p)
      local s = fresh(p)
      s.mu_product = 1.0
      return s
    end)
    torch.no_grad(function()
      for i = 1, n do
        local p, s = params[i], states[i]
        local d = moments(g, p, s, grads[i])
        local mu = g.betas[1] * (1 - 0.5 * 0.96 ^ (s.step * g.momentum_decay))
        local after = g.betas[1] * (1 - 0.5 * 0.96 ^ ((s.step + 1) * g.momentum_decay))
        s.mu_product = rounded(s.mu_product * rounded(mu))
        local root = (s.exp_avg_sq / (1 - g.betas[2] ^ s.step)):sqrt_():add_(g.eps)
        p:addcdiv_(d, root, {value = -g.lr * (1 - mu) / (1 - s.mu_product)})
        p:addcdiv_(s.exp_avg, root, {value = -g.lr * after / (1 - s.mu_product * after)})
      end
    end)
  end)

-- Adam that waits until the variance of its rate can be told (Liu and others 2020).
base.class("RAdam", {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, decoupled_weight_decay = false,
  maximize = false}, check,
  function(self, g)
    local params, grads, states, n = active(self, g, fresh)
    local beta1, beta2 = g.betas[1], g.betas[2]
    local most = 2 / (1 - beta2) - 1
    torch.no_grad(function()
      for i = 1, n do
        local p, s = params[i], states[i]
        moments(g, p, s, grads[i])
        local rest1, rest2 = 1 - beta1 ^ s.step, 1 - beta2 ^ s.step
        local rho = most - 2 * s.step * beta2 ^ s.step / rest2
        if rho > 5 then
          local rect = math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
          p:addcdiv_(s.exp_avg, s.exp_avg_sq:sqrt():add_(g.eps), {value = -g.lr * rect * math.sqrt(rest2) / rest1})
        else
          p:add_(s.exp_avg, {alpha = -g.lr / rest1})
        end
      end
    end)
  end)

return base.optim
