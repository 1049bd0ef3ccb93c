-- kl_divergence: the Kullback-Leibler divergence of one distribution from another, by the kinds of both.
local torch = torch
local base = require "torch.distributions.base"
local error = torch._raise
local pairs_of = {}  -- "Normal|Normal" -> function

local function of(p, q, f) pairs_of[p .. "|" .. q] = f end
local function each(names, f)
  for name in names:gmatch "%S+" do f(name) end
end
-- Divergences that have no end: q has no density where p may lie.
local function endless(p, names)
  each(names, function(q)
    of(p, q, function(a, b) return torch.full(torch.broadcast_shapes(a.batch_shape, b.batch_shape), math.huge, base.like(a._like)) end)
  end)
end

local kEuler = 0.57721566490153286061
local kLog2Pi = math.log(2 * math.pi)

-- --- two of one kind ---

of("Normal", "Normal", function(p, q)
  local ratio = (p.scale / q.scale) ^ 2
  return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ^ 2 - 1 - ratio:log())
end)
of("LogNormal", "LogNormal", function(p, q) return pairs_of["Normal|Normal"](p, q) end)
of("HalfNormal", "HalfNormal", function(p, q) return pairs_of["Normal|Normal"](p._base, q._base) end)
of("Cauchy", "Cauchy", function(p, q)
  return ((p.scale + q.scale) ^ 2 + (p.loc - q.loc) ^ 2):log() - (4 * p.scale * q.scale):log()
end)
of("Uniform", "Uniform", function(p, q)
  local inside = q.low:le(p.low) & q.high:ge(p.high)
  return torch.where(inside, ((q.high - q.low) / (p.high - p.low)):log(), math.huge)
end)
of("Laplace", "Laplace", function(p, q)
  local apart = (p.loc - q.loc):abs()
  return (q.scale / p.scale):log() + apart / q.scale + p.scale / q.scale * torch.exp(-apart / p.scale) - 1
end)
of("Gumbel", "Gumbel", function(p, q)
  local ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
  return ratio * kEuler - ratio:log() + apart + torch.exp((1 + ratio):lgamma() - apart) - (1 + kEuler)
end)
of("Exponential", "Exponential", function(p, q)
  local ratio = q.rate / p.rate
  return ratio - ratio:log() - 1
end)
of("Pareto", "Pareto", function(p, q)
  local ratio = q.alpha / p.alpha
  local divergence = q.alpha * (p.scale / q.scale):log() - ratio:log() + ratio - 1
  return torch.where(p.scale:lt(q.scale), math.huge, divergence)
end)
of("Gamma", "Gamma", function(p, q)
  local a, b = p.concentration, q.concentration
  return b * (p.rate / q.rate):log() + b:lgamma() - a:lgamma() + (a - b) * a:digamma() + (q.rate - p.rate) * (a / p.rate)
end)
of("Dirichlet", "Dirichlet", function(p, q)
  local a, b = p.concentration, q.concentration
  local total = a:sum(-1)
  return total:lgamma() - b:sum(-1):lgamma() + (b:lgamma() - a:lgamma()):sum(-1) + ((a - b) * (a:digamma() - total:digamma():unsqueeze(-1))):sum(-1)
end)
of("Beta", "Beta", function(p, q) return pairs_of["Dirichlet|Dirichlet"](p._base, q._base) end)
of("Bernoulli", "Bernoulli", function(p, q)
  local t = p.probs * torch.where(q.probs:eq(0), math.huge, (p.probs / q.probs):log())
  t = torch.where(p.probs:eq(0), 0, t)
  local u = (1 - p.probs) * torch.where(q.probs:eq(1), math.huge, ((1 - p.probs) / (1 - q.probs)):log())
  return t + torch.where(p.probs:eq(1), 0, u)
end)
of("Geometric", "Geometric", function(p, q) return -p:entropy() - torch.log1p(-q.probs) / p.probs - q.logits end)
of("Poisson", "Poisson", function(p, q) return p.rate * (p.rate:log() - q.rate:log()) - (p.rate - q.rate) end)
of("Binomial", "Binomial", function(p, q)
  if p.total_count:lt(q.total_count):any():item() then error("kl_divergence: Binomial: the first has fewer trials than the second, which has no closed form", 3, "value") end
  local divergence = p.total_count * (p.probs * (p.logits - q.logits) + torch.log1p(-p.probs) - torch.log1p(-q.probs))
  return torch.where(p.total_count:gt(q.total_count), math.huge, divergence)
end)
of("Categorical", "Categorical", function(p, q)
  local t = p.probs * (p.logits - q.logits)
  t = torch.where(q.probs:eq(0):expand(t.shape), math.huge, t)
  return torch.where(p.probs:eq(0):expand(t.shape), 0, t):sum(-1)
end)
of("OneHotCategorical", "OneHotCategorical", function(p, q) return pairs_of["Categorical|Categorical"](p._categorical, q._categorical) end)
of("MultivariateNormal", "MultivariateNormal", function(p, q)
  if p.event_shape ~= q.event_shape then
    error(("kl_divergence: the events have shapes %s and %s"):format(tostring(p.event_shape), tostring(q.event_shape)), 3, "shape")
  end
  local n = p.event_shape[1]
  local shape = base.list_of(torch.broadcast_shapes(p.batch_shape, q.batch_shape), {n, n})
  local ratio = torch.linalg.solve_triangular(q._tril:expand(shape), p._tril:expand(shape), {upper = false})
  return q._log_det - p._log_det + 0.5 * (ratio:square():sum {dim = {-2, -1}} + q:_distance(q.loc - p.loc) - n)
end)
of("Independent", "Independent", function(p, q)
  if p.reinterpreted_batch_ndims ~= q.reinterpreted_batch_ndims then error("kl_divergence: Independent: they take different numbers of dimensions", 3, "value") end
  return base.sum_last(require("torch.distributions").kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
end)

-- --- two kinds: minus p's entropy, less the mean of q's log-density under p ---

-- Under p, whose mean and variance are enough.
each("Exponential Gamma Gumbel Laplace Beta Uniform Pareto", function(name)
  of(name, "Normal", function(p, q)
    local finite = name == "Pareto" and torch.where(p.alpha:le(2), math.huge, p.variance) or p.variance
    return -p:entropy() + 0.5 * kLog2Pi + q.scale:log() + 0.5 * (finite + (p.mean - q.loc) ^ 2) / q.scale ^ 2
  end)
end)
each("Gamma Beta Uniform Pareto", function(name)
  of(name, "Exponential", function(p, q)
    local divergence = -p:entropy() - q.rate:log() + q.rate * p.mean
    return name == "Uniform" and torch.where(p.low:lt(0), math.huge, divergence) or divergence
  end)
end)
-- The mean of log x under p.
local log_mean = {
  Exponential = function(p) return -p.rate:log() - kEuler end,
  Beta = function(p) return p.concentration1:digamma() - (p.concentration1 + p.concentration0):digamma() end,
  Pareto = function(p) return p.scale:log() + 1 / p.alpha end,
  Uniform = function(p) return (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low)) / (p.high - p.low) - 1 end,
}
for name, mean in pairs(log_mean) do
  of(name, "Gamma", function(p, q)
    local divergence = -p:entropy() - q.concentration * q.rate:log() + q.concentration:lgamma() - (q.concentration - 1) * mean(p) + q.rate * p.mean
    return name == "Uniform" and torch.where(p.low:lt(0), math.huge, divergence) or divergence
  end)
end
of("Beta", "Uniform", function(p, q)
  return torch.where(q.low:gt(0) | q.high:lt(1), math.huge, -p:entropy() + (q.high - q.low):log())
end)
of("Uniform", "Beta", function(p, q)
  local a, b = q.concentration1, q.concentration0
  local function log_mean_of(low, high) return (torch.xlogy(high, high) - torch.xlogy(low, low)) / (high - low) - 1 end
  local lbeta = a:lgamma() + b:lgamma() - (a + b):lgamma()
  local divergence = -p:entropy() + lbeta - (a - 1) * log_mean_of(p.low, p.high) - (b - 1) * log_mean_of(1 - p.high, 1 - p.low)
  return torch.where(p.high:gt(1) | p.low:lt(0), math.huge, divergence)
end)
of("Normal", "Laplace", function(p, q)
  local z = (p.loc - q.loc) / (p.scale * math.sqrt(2))
  local apart = math.sqrt(2 / math.pi) * p.scale * torch.exp(-z ^ 2) + (p.loc - q.loc) * torch.erf(z)
  return -p:entropy() + torch.log(2 * q.scale) + apart / q.scale
end)
of("Normal", "Gumbel", function(p, q)
  local loc = (p.loc - q.loc) / q.scale
  return -p:entropy() + q.scale:log() + loc + torch.exp(-loc + 0.5 * (p.scale / q.scale) ^ 2)
end)
of("Exponential", "Gumbel", function(p, q)
  local product = p.rate * q.scale
  return -p:entropy() + q.scale:log() + 1 / product - q.loc / q.scale + torch.exp(q.loc / q.scale) * product / (product + 1)
end)
of("Gamma", "Gumbel", function(p, q)
  return -p:entropy() + q.scale:log() + (p.mean - q.loc) / q.scale + torch.exp(q.loc / q.scale) * (1 + 1 / (p.rate * q.scale)) ^ -p.concentration
end)
of("Uniform", "Gumbel", function(p, q)
  local high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
  return -p:entropy() + q.scale:log() + 0.5 * (high + low) - (torch.exp(-high) - torch.exp(-low)) / (high - low)
end)
of("Uniform", "Pareto", function(p, q)
  local divergence = -p:entropy() - q.alpha:log() - q.alpha * q.scale:log() + (q.alpha + 1) * log_mean.Uniform(p)
  return torch.where(p.low:lt(q.scale), math.huge, divergence)
end)
of("Bernoulli", "Poisson", function(p, q) return -p:entropy() - (p.probs * q.rate:log() - q.rate) end)
endless("Beta", "Pareto")
endless("Exponential", "Beta Pareto Uniform")
endless("Gamma", "Beta Pareto Uniform")
endless("Gumbel", "Beta Exponential Gamma Pareto Uniform")
endless("Laplace", "Beta Exponential Gamma Pareto Uniform")
endless("Normal", "Beta Exponential Gamma Pareto Uniform")
endless("Pareto", "Beta Uniform")
endless("Poisson", "Bernoulli Binomial")

---The Kullback-Leibler divergence of q from p, of two distributions whose kinds have one in closed form.
---@param p table
---@param q table
local function kl_divergence(p, q)
  local function kind(d)
    local name = type(d) == "table" and d._name
    return name == "OneHotCategoricalStraightThrough" and "OneHotCategorical" or name == "Chi2" and "Gamma" or name or type(d)
  end
  local f = pairs_of[kind(p) .. "|" .. kind(q)]
  if not f then
    error(("kl_divergence: knows no closed form for %s and %s"):format(type(p) == "table" and p._name or type(p), type(q) == "table" and q._name or type(q)), 2)
  end
  return f(p, q)
end

return kl_divergence
