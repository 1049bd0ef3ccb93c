-- Adam and its relatives: AdamW, Adamax, NAdam, RAdam.
local torch = torch
local base = require "torch.optim.optimizer"
local at_least, rounded = base.at_least, base.rounded

local function check(g, name)
  at_least(g, name, "lr", 0)
  at_least(g, name, "eps", 0)
  at_least(g, name, "weight_decay", 0)
  base.betas(g, name)
  if g.momentum_decay then at_least(g, name, "momentum_decay", 0) end
end

local moments = {"exp_avg", "exp_avg_sq"}
local with_most = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
local function fresh(p) return {step = 0, exp_avg = torch.zeros_like(p), exp_avg_sq = torch.zeros_like(p)} end

local function adam_step(self, g)
  if g.amsgrad then
    for _, p in ipairs(g.params) do
      local s = self.state[p]
      if s then s.max_exp_avg_sq = s.max_exp_avg_sq or torch.zeros_like(p) end
    end
  end
  local flags = (g.amsgrad and 1 or 0) + (g.maximize and 2 or 0) + (g.decoupled_weight_decay and 4 or 0)
  local function make(p)
    local s = fresh(p)
    if g.amsgrad then s.max_exp_avg_sq = torch.zeros_like(p) end
    return s
  end
  base.each_step(self, g, make, g.amsgrad and with_most or moments, function(step, params, grads, avgs, squares, most)
    torch._fused_adam(params, grads, avgs, squares, most, step, g.lr, g.betas[1], g.betas[2], g.eps, g.weight_decay, flags)
  end)
end

base.class("Adam", "lr betas eps weight_decay amsgrad",
  {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false, maximize = false,
  decoupled_weight_decay = false}, check, adam_step)
base.class("AdamW", "lr betas eps weight_decay amsgrad",
  {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 1e-2, amsgrad = false, maximize = false,
  decoupled_weight_decay = true}, check, adam_step)

-- Adam with the maximum norm (Kingma and Ba 2015, section 7.1).
base.class("Adamax", "lr betas eps weight_decay",
  {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, maximize = false}, check,
  function(self, g)
    base.each_step(self, g, function(p)
      return {step = 0, exp_avg = torch.zeros_like(p), exp_inf = torch.zeros_like(p)}
    end, {"exp_avg", "exp_inf"}, function(step, params, grads, avgs, infs)
      torch._fused_adamax(params, grads, avgs, infs, g.betas[1], g.betas[2], g.eps, g.lr / (1 - g.betas[1] ^ step),
        g.weight_decay, 1, g.maximize)
    end)
  end)

-- Adam with Nesterov's momentum (Dozat 2016).
base.class("NAdam", "lr betas eps weight_decay momentum_decay decoupled_weight_decay",
  {lr = 2e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
  decoupled_weight_decay = false, maximize = false}, check,
  function(self, g)
    local function momentum(step) return g.betas[1] * (1 - 0.5 * 0.96 ^ (step * g.momentum_decay)) end
    base.each_step(self, g, function(p)
      local s = fresh(p)
      s.mu_product = 1.0
      return s
    end, moments, function(step, params, grads, avgs, squares)
      local mu, after = momentum(step), momentum(step + 1)
      -- Parameters with one count of steps share the product too.
      local product = rounded(self.state[params[1]].mu_product * rounded(mu))
      for _, p in ipairs(params) do self.state[p].mu_product = product end
      local root = math.sqrt(1 - g.betas[2] ^ step)
      local decay, shrink = base.decays(g)
      torch._fused_nadam(params, grads, avgs, squares, g.betas[1], g.betas[2], g.eps * root,
        g.lr * (1 - mu) / (1 - product) * root, g.lr * after / (1 - product * after) * root, decay, shrink, g.maximize)
    end)
  end)

-- Adam that waits until the variance of its rate can be told (Liu and others 2020).
base.class("RAdam", "lr betas eps weight_decay decoupled_weight_decay",
  {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, decoupled_weight_decay = false,
  maximize = false}, check,
  function(self, g)
    local beta1, beta2 = g.betas[1], g.betas[2]
    local most = 2 / (1 - beta2) - 1
    base.each_step(self, g, fresh, moments, function(step, params, grads, avgs, squares)
      local rest1, rest2 = 1 - beta1 ^ step, 1 - beta2 ^ step
      local rho = most - 2 * step * beta2 ^ step / rest2
      local rate, adaptive = g.lr / rest1, 0
      if rho > 5 then
        adaptive = 1
        rate = rate * math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)) * math.sqrt(rest2)
      end
      local decay, shrink = base.decays(g)
      torch._fused_radam(params, grads, avgs, squares, beta1, beta2, g.eps, rate, adaptive, decay, shrink, g.maximize)
    end)
  end)

return base.optim
