-- Distributions of real numbers whose samples are simple functions of uniform, normal or exponential ones.
local torch = torch
local base = require "torch.distributions.base"
local class, check, limits, extended, like = base.class, base.check, base.limits, base.extended, base.like
local kEuler = 0.57721566490153286061
local kLogSqrt2Pi = 0.5 * math.log(2 * math.pi)

local function uniform(self, shape, of, low, high)
  return torch.empty(extended(self, shape), like(of)):uniform_(low or 0, high or 1)
end

-- --- normal numbers and functions of them ---

local function loc_and_scale(self, given)
  base.broadcast(self, given, "loc", "scale")
  check(self, "scale", limits.positive, 5)
end

---The normal distribution: Normal(loc, scale).
local Normal = class("Normal", {"loc", "scale"}, loc_and_scale, {support = limits.real, lazy = {
  mean = function(d) return d.loc end, mode = function(d) return d.loc end, stddev = function(d) return d.scale end,
  variance = function(d) return d.scale ^ 2 end,
}})
Normal.has_rsample = true
function Normal:_draw(shape) return self.loc + torch.randn(extended(self, shape), like(self.loc)) * self.scale end
---The logarithm of the density at a value.
function Normal:log_prob(x) return -((self:_value(x) - self.loc) ^ 2) / (2 * self.scale ^ 2) - self.scale:log() - kLogSqrt2Pi end
---The entropy, in nats.
function Normal:entropy() return 0.5 + kLogSqrt2Pi + self.scale:log() end
---The probability of at most x.
function Normal:cdf(x) return 0.5 * (1 + torch.erf((self:_value(x) - self.loc) / self.scale / math.sqrt(2))) end
---The x that has a probability of at most it.
function Normal:icdf(p) return self.loc + self.scale * torch.erfinv(2 * p - 1) * math.sqrt(2) end

---Numbers whose logarithm is normal: LogNormal(loc, scale).
local LogNormal = class("LogNormal", {"loc", "scale"}, function(self, given)
  loc_and_scale(self, given)
  self._base = Normal(self.loc, self.scale)
end, {support = limits.positive, lazy = {
  mean = function(d) return (d.loc + d.scale ^ 2 / 2):exp() end, mode = function(d) return (d.loc - d.scale ^ 2):exp() end,
  variance = function(d)
    local s = d.scale ^ 2
    return s:expm1() * (2 * d.loc + s):exp()
  end,
}})
LogNormal.has_rsample = true
function LogNormal:_draw(shape) return self._base:_draw(shape):exp() end
---The logarithm of the density at a value.
function LogNormal:log_prob(x)
  local log = self:_value(x):log()
  return self._base:log_prob(log) - log
end
---The entropy, in nats.
function LogNormal:entropy() return self._base:entropy() + self.loc end
---The probability of at most x.
function LogNormal:cdf(x) return self._base:cdf(self:_value(x):log()) end
---The x that has a probability of at most it.
function LogNormal:icdf(p) return self._base:icdf(p):exp() end

local function only_scale(of)
  return function(self, given)
    base.broadcast(self, given, "scale")
    check(self, "scale", limits.positive, 5)
    self._base = base.made[of](torch.zeros_like(self.scale), self.scale)
  end
end
-- A distribution around 0, folded to the positive side.
local function folded(c)
  c.has_rsample = true
  function c:_draw(shape) return self._base:_draw(shape):abs() end
  function c:log_prob(x) return self._base:log_prob(self:_value(x)) + math.log(2) end
  function c:entropy() return self._base:entropy() - math.log(2) end
  function c:cdf(x) return 2 * self._base:cdf(self:_value(x)) - 1 end
  function c:icdf(p) return self._base:icdf((p + 1) / 2) end
end

---The size of normal numbers around 0: HalfNormal(scale).
folded(class("HalfNormal", {"scale"}, only_scale "Normal", {support = limits.at_least_0, lazy = {
  mean = function(d) return d.scale * math.sqrt(2 / math.pi) end, mode = function(d) return torch.zeros_like(d.scale) end,
  variance = function(d) return d.scale ^ 2 * (1 - 2 / math.pi) end,
}}))

---Cauchy's distribution: Cauchy(loc, scale).
local Cauchy = class("Cauchy", {"loc", "scale"}, loc_and_scale, {support = limits.real, lazy = {
  mean = function(d) return torch.full_like(d.loc, 0 / 0) end, mode = function(d) return d.loc end,
  variance = function(d) return torch.full_like(d.loc, math.huge) end,
}})
Cauchy.has_rsample = true
function Cauchy:_draw(shape) return self.loc + torch.empty(extended(self, shape), like(self.loc)):cauchy_() * self.scale end
---The logarithm of the density at a value.
function Cauchy:log_prob(x) return -math.log(math.pi) - self.scale:log() - ((self:_value(x) - self.loc) / self.scale):square():log1p() end
---The entropy, in nats.
function Cauchy:entropy() return math.log(4 * math.pi) + self.scale:log() end
---The probability of at most x.
function Cauchy:cdf(x) return ((self:_value(x) - self.loc) / self.scale):atan() / math.pi + 0.5 end
---The x that has a probability of at most it.
function Cauchy:icdf(p) return torch.tan(math.pi * (p - 0.5)) * self.scale + self.loc end

---The size of Cauchy numbers around 0: HalfCauchy(scale).
folded(class("HalfCauchy", {"scale"}, only_scale "Cauchy", {support = limits.at_least_0, lazy = {
  mean = function(d) return torch.full_like(d.scale, math.huge) end, mode = function(d) return torch.zeros_like(d.scale) end,
  variance = function(d) return torch.full_like(d.scale, math.huge) end,
}}))

-- --- of uniform numbers ---

---The uniform distribution from low to high.
local Uniform = class("Uniform", {"low", "high"}, function(self, given)
  base.broadcast(self, given, "low", "high")
  if not self._unchecked and not self.low:lt(self.high):all():item() then torch._raise("Uniform: high must be above low", 4, "value") end
end, {support = {function(x, d) return x:ge(d.low) & x:le(d.high) end, "from low to high"}, lazy = {
  mean = function(d) return (d.low + d.high) / 2 end, mode = function(d) return torch.full_like(d.low, 0 / 0) end,
  variance = function(d) return (d.high - d.low) ^ 2 / 12 end, stddev = function(d) return (d.high - d.low) / math.sqrt(12) end,
}})
Uniform.has_rsample = true
function Uniform:_draw(shape) return self.low + torch.rand(extended(self, shape), like(self.low)) * (self.high - self.low) end
---The logarithm of the density at a value; -inf outside.
function Uniform:log_prob(x)
  x = self:_value(x)
  local inside = x:ge(self.low) & x:lt(self.high)
  return inside:to(self.low.dtype):log() - (self.high - self.low):log()
end
---The entropy, in nats.
function Uniform:entropy() return (self.high - self.low):log() end
---The probability of at most x.
function Uniform:cdf(x) return ((self:_value(x) - self.low) / (self.high - self.low)):clamp(0, 1) end
---The x that has a probability of at most it.
function Uniform:icdf(p) return p * (self.high - self.low) + self.low end

---Laplace's distribution: Laplace(loc, scale).
local Laplace = class("Laplace", {"loc", "scale"}, loc_and_scale, {support = limits.real, lazy = {
  mean = function(d) return d.loc end, mode = function(d) return d.loc end, variance = function(d) return 2 * d.scale ^ 2 end,
  stddev = function(d) return math.sqrt(2) * d.scale end,
}})
Laplace.has_rsample = true
function Laplace:_draw(shape)
  local u = uniform(self, shape, self.loc, torch.finfo(self.loc.dtype).eps - 1)
  return self.loc - self.scale * u:sign() * torch.log1p(-u:abs())
end
---The logarithm of the density at a value.
function Laplace:log_prob(x) return -torch.log(2 * self.scale) - (self:_value(x) - self.loc):abs() / self.scale end
---The entropy, in nats.
function Laplace:entropy() return 1 + torch.log(2 * self.scale) end
---The probability of at most x.
function Laplace:cdf(x)
  local apart = self:_value(x) - self.loc
  return 0.5 - 0.5 * apart:sign() * torch.expm1(-apart:abs() / self.scale)
end
---The x that has a probability of at most it.
function Laplace:icdf(p)
  local side = p - 0.5
  return self.loc - self.scale * side:sign() * torch.log1p(-2 * side:abs())
end

---Gumbel's distribution, that of the largest of many numbers: Gumbel(loc, scale).
local Gumbel = class("Gumbel", {"loc", "scale"}, loc_and_scale, {support = limits.real, lazy = {
  mean = function(d) return d.loc + d.scale * kEuler end, mode = function(d) return d.loc end,
  stddev = function(d) return math.pi / math.sqrt(6) * d.scale end, variance = function(d) return d.stddev ^ 2 end,
}})
Gumbel.has_rsample = true
function Gumbel:_draw(shape)
  local f = torch.finfo(self.loc.dtype)
  local u = f.tiny + torch.rand(extended(self, shape), like(self.loc)) * (1 - f.eps - f.tiny)
  return self.loc - self.scale * (-u:log()):log()
end
---The logarithm of the density at a value.
function Gumbel:log_prob(x)
  local y = (self.loc - self:_value(x)) / self.scale
  return y - y:exp() - self.scale:log()
end
---The entropy, in nats.
function Gumbel:entropy() return self.scale:log() + (1 + kEuler) end
---The probability of at most x.
function Gumbel:cdf(x) return torch.exp(-torch.exp((self.loc - self:_value(x)) / self.scale)) end
---The x that has a probability of at most it.
function Gumbel:icdf(p) return self.loc - self.scale * (-p:log()):log() end

---Kumaraswamy's distribution, much like a beta distribution: Kumaraswamy(concentration1, concentration0).
local Kumaraswamy = class("Kumaraswamy", {"concentration1", "concentration0"}, function(self, given)
  base.broadcast(self, given, "concentration1", "concentration0")
  check(self, "concentration1", limits.positive)
  check(self, "concentration0", limits.positive)
end, {support = limits.probability, lazy = {
  mean = function(d) return d:_moment(1) end, variance = function(d) return d:_moment(2) - d.mean ^ 2 end,
  mode = function(d)
    local a, b = d.concentration1, d.concentration0
    local mode = ((a - 1) / (a * b - 1)) ^ (1 / a)
    return torch.where(a:lt(1) | b:lt(1) | (a:eq(1) & b:eq(1)), 0 / 0, mode)
  end,
}})
Kumaraswamy.has_rsample = true
function Kumaraswamy:_moment(n)
  local a, b = self.concentration1, self.concentration0
  return b * torch.exp((1 + n / a):lgamma() + b:lgamma() - (1 + b + n / a):lgamma())
end
function Kumaraswamy:_draw(shape)
  local f = torch.finfo(self.concentration1.dtype)
  local u = f.tiny + torch.rand(extended(self, shape), like(self.concentration1)) * (1 - f.eps / 2 - f.tiny)
  return (1 - u ^ (1 / self.concentration0)) ^ (1 / self.concentration1)
end
---The logarithm of the density at a value.
function Kumaraswamy:log_prob(x)
  x = self:_value(x)
  local a, b = self.concentration1, self.concentration0
  return a:log() + b:log() + (a - 1) * x:log() + (b - 1) * torch.log1p(-(x ^ a))
end
---The entropy, in nats.
function Kumaraswamy:entropy()
  local a, b = self.concentration1, self.concentration0
  return (1 - 1 / b) + (1 - 1 / a) * ((b + 1):digamma() + kEuler) - a:log() - b:log()
end
---The probability of at most x.
function Kumaraswamy:cdf(x) return 1 - (1 - self:_value(x) ^ self.concentration1) ^ self.concentration0 end

-- --- of exponential numbers ---

---The exponential distribution of a rate.
local Exponential = class("Exponential", {"rate"}, function(self, given)
  base.broadcast(self, given, "rate")
  check(self, "rate", limits.positive)
end, {support = limits.at_least_0, lazy = {
  mean = function(d) return 1 / d.rate end, mode = function(d) return torch.zeros_like(d.rate) end,
  stddev = function(d) return 1 / d.rate end, variance = function(d) return 1 / d.rate ^ 2 end,
}})
Exponential.has_rsample = true
function Exponential:_draw(shape) return torch.empty(extended(self, shape), like(self.rate)):exponential_() / self.rate end
---The logarithm of the density at a value.
function Exponential:log_prob(x) return self.rate:log() - self.rate * self:_value(x) end
---The entropy, in nats.
function Exponential:entropy() return 1 - self.rate:log() end
---The probability of at most x.
function Exponential:cdf(x) return 1 - torch.exp(-self.rate * self:_value(x)) end
---The x that has a probability of at most it.
function Exponential:icdf(p) return -torch.log1p(-p) / self.rate end

---Weibull's distribution, that of lifetimes: Weibull(scale, concentration).
local Weibull = class("Weibull", {"scale", "concentration"}, function(self, given)
  base.broadcast(self, given, "scale", "concentration")
  check(self, "scale", limits.positive)
  check(self, "concentration", limits.positive)
end, {support = limits.positive, lazy = {
  mean = function(d) return d.scale * torch.exp((1 + 1 / d.concentration):lgamma()) end,
  mode = function(d)
    local c = d.concentration
    return torch.where(c:gt(1), d.scale * ((c - 1) / c) ^ (1 / c), 0)
  end,
  variance = function(d)
    return d.scale ^ 2 * (torch.exp((1 + 2 / d.concentration):lgamma()) - torch.exp(2 * (1 + 1 / d.concentration):lgamma()))
  end,
}})
Weibull.has_rsample = true
function Weibull:_draw(shape)
  return self.scale * torch.empty(extended(self, shape), like(self.scale)):exponential_() ^ (1 / self.concentration)
end
---The logarithm of the density at a value.
function Weibull:log_prob(x)
  local y = self:_value(x) / self.scale
  return (self.concentration / self.scale):log() + (self.concentration - 1) * y:log() - y ^ self.concentration
end
---The entropy, in nats.
function Weibull:entropy() return kEuler * (1 - 1 / self.concentration) + (self.scale / self.concentration):log() + 1 end
---The probability of at most x.
function Weibull:cdf(x) return -torch.expm1(-((self:_value(x) / self.scale) ^ self.concentration)) end

---Pareto's distribution, from scale on with a power for a tail: Pareto(scale, alpha).
local Pareto = class("Pareto", {"scale", "alpha"}, function(self, given)
  base.broadcast(self, given, "scale", "alpha")
  check(self, "scale", limits.positive)
  check(self, "alpha", limits.positive)
end, {support = {function(x, d) return x:ge(d.scale) end, "at least its scale"}, lazy = {
  mean = function(d) return torch.where(d.alpha:le(1), math.huge, d.alpha * d.scale / (d.alpha - 1)) end,
  mode = function(d) return d.scale end,
  variance = function(d)
    return torch.where(d.alpha:le(2), math.huge, d.scale ^ 2 * d.alpha / ((d.alpha - 1) ^ 2 * (d.alpha - 2)))
  end,
}})
Pareto.has_rsample = true
function Pareto:_draw(shape)
  return self.scale * torch.exp(torch.empty(extended(self, shape), like(self.scale)):exponential_() / self.alpha)
end
---The logarithm of the density at a value.
function Pareto:log_prob(x) return self.alpha:log() + self.alpha * self.scale:log() - (self.alpha + 1) * self:_value(x):log() end
---The entropy, in nats.
function Pareto:entropy() return (self.scale / self.alpha):log() + (1 + 1 / self.alpha) end
---The probability of at most x.
function Pareto:cdf(x) return 1 - (self.scale / self:_value(x)) ^ self.alpha end
