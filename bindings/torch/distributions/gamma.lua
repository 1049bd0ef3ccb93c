-- The gamma distribution and what is made of gamma numbers: beta, Dirichlet, chi-squared, Student's t, Fisher and Snedecor's.
local torch = torch
local base = require "torch.distributions.base"
local class, check, limits, extended, like = base.class, base.check, base.limits, base.extended, base.like

local function no_zeros(x) return x:clamp_min(torch.finfo(x.dtype).tiny) end

---The gamma distribution: Gamma(concentration, rate).
local Gamma = class("Gamma", {"concentration", "rate"}, function(self, given)
  base.broadcast(self, given, "concentration", "rate")
  check(self, "concentration", limits.positive)
  check(self, "rate", limits.positive)
end, {support = limits.at_least_0, lazy = {
  mean = function(d) return d.concentration / d.rate end, mode = function(d) return ((d.concentration - 1) / d.rate):clamp_min(0) end,
  variance = function(d) return d.concentration / d.rate ^ 2 end,
}})
Gamma.has_rsample = true
function Gamma:_draw(shape)
  local size = extended(self, shape)
  return no_zeros(torch._standard_gamma(self.concentration:expand(size)) / self.rate:expand(size))
end
---The logarithm of the density at a value.
function Gamma:log_prob(x)
  x = self:_value(x)
  return torch.xlogy(self.concentration, self.rate) + torch.xlogy(self.concentration - 1, x) - self.rate * x - self.concentration:lgamma()
end
---The entropy, in nats.
function Gamma:entropy()
  local c = self.concentration
  return c - self.rate:log() + c:lgamma() + (1 - c) * c:digamma()
end

---The sum of squares of df normal numbers: Chi2(df).
class("Chi2", {"df"}, function(self, given)
  base.broadcast(self, given, "df")
  check(self, "df", limits.positive)
  self.concentration, self.rate = 0.5 * self.df, torch.full_like(self.df, 0.5)
end, {parent = Gamma, support = limits.at_least_0})

---1 / a gamma number: InverseGamma(concentration, rate).
local InverseGamma = class("InverseGamma", {"concentration", "rate"}, function(self, given)
  base.broadcast(self, given, "concentration", "rate")
  check(self, "concentration", limits.positive)
  check(self, "rate", limits.positive)
  self._base = Gamma(self.concentration, self.rate)
end, {support = limits.positive, lazy = {
  mean = function(d) return torch.where(d.concentration:gt(1), d.rate / (d.concentration - 1), math.huge) end,
  mode = function(d) return d.rate / (d.concentration + 1) end,
  variance = function(d)
    local c = d.concentration
    return torch.where(c:gt(2), d.rate ^ 2 / ((c - 1) ^ 2 * (c - 2)), math.huge)
  end,
}})
InverseGamma.has_rsample = true
function InverseGamma:_draw(shape) return 1 / self._base:_draw(shape) end
---The logarithm of the density at a value.
function InverseGamma:log_prob(x)
  x = self:_value(x)
  return self._base:log_prob(1 / x) - 2 * x:log()
end
---The entropy, in nats.
function InverseGamma:entropy()
  local c = self.concentration
  return c + self.rate:log() + c:lgamma() - (1 + c) * c:digamma()
end

---Shares that sum to 1, along the last dimension: Dirichlet(concentration).
local Dirichlet = class("Dirichlet", {"concentration"}, function(self, given)
  local c = given.concentration
  if not torch.is_tensor(c) or c.ndim < 1 then torch._raise("Dirichlet: wants a concentration with at least one dimension", 3, "shape") end
  self.concentration = c
  check(self, "concentration", limits.positive)
  self.batch_shape, self.event_shape = base.part(c.shape, 1, -2), base.part(c.shape, c.ndim, -1)
end, {support = limits.simplex, dims = {concentration = 1}, lazy = {
  mean = function(d) return d.concentration / d.concentration:sum(-1, true) end,
  mode = function(d)
    local above = (d.concentration - 1):clamp_min(0)
    local mode = above / above:sum(-1, true)
    -- Where no concentration is above 1, all lies in the corner of the largest.
    local corner = torch.nn.functional.one_hot(d.concentration:argmax(-1), d.concentration:size(-1)):to(mode.dtype)
    return torch.where(d.concentration:lt(1):all(-1, true), corner, mode)
  end,
  variance = function(d)
    local total = d.concentration:sum(-1, true)
    return d.concentration * (total - d.concentration) / (total ^ 2 * (total + 1))
  end,
}})
Dirichlet.has_rsample = true
function Dirichlet:_draw(shape) return torch._sample_dirichlet(self.concentration:expand(extended(self, shape))) end
---The logarithm of the density at a value.
function Dirichlet:log_prob(x)
  local c = self.concentration
  return torch.xlogy(c - 1, self:_value(x)):sum(-1) + c:sum(-1):lgamma() - c:lgamma():sum(-1)
end
---The entropy, in nats.
function Dirichlet:entropy()
  local c = self.concentration
  local k, total = c:size(-1), c:sum(-1)
  return c:lgamma():sum(-1) - total:lgamma() - (k - total) * total:digamma() - ((c - 1) * c:digamma()):sum(-1)
end

---The beta distribution, of numbers between 0 and 1: Beta(concentration1, concentration0).
local Beta = class("Beta", {"concentration1", "concentration0"}, function(self, given)
  base.broadcast(self, given, "concentration1", "concentration0")
  check(self, "concentration1", limits.positive)
  check(self, "concentration0", limits.positive)
  self._base = Dirichlet(torch.stack({self.concentration1, self.concentration0}, -1), {validate_args = false})
end, {support = limits.probability, lazy = {
  mean = function(d) return d.concentration1 / (d.concentration1 + d.concentration0) end,
  mode = function(d) return d._base.mode:select(-1, 1) end,
  variance = function(d)
    local total = d.concentration1 + d.concentration0
    return d.concentration1 * d.concentration0 / (total ^ 2 * (total + 1))
  end,
}})
Beta.has_rsample = true
function Beta:_draw(shape) return self._base:_draw(shape):select(-1, 1) end
---The logarithm of the density at a value.
function Beta:log_prob(x)
  x = self:_value(x)
  return self._base:log_prob(torch.stack({x, 1 - x}, -1))
end
---The entropy, in nats.
function Beta:entropy() return self._base:entropy() end

---Student's t distribution: StudentT(df, loc, scale).
local StudentT = class("StudentT", {"df", "loc", "scale"}, function(self, given)
  given.loc, given.scale = given.loc or torch.zeros({}, like(given.df)), given.scale or torch.ones({}, like(given.df))
  base.broadcast(self, given, "df", "loc", "scale")
  check(self, "df", limits.positive)
  check(self, "scale", limits.positive)
  self._chi2 = base.made.Chi2(self.df)
end, {support = limits.real, lazy = {
  mean = function(d) return torch.where(d.df:le(1), 0 / 0, d.loc) end, mode = function(d) return d.loc end,
  variance = function(d)
    local v = torch.where(d.df:gt(2), d.scale ^ 2 * d.df / (d.df - 2), math.huge)
    return torch.where(d.df:le(1), 0 / 0, v)
  end,
}})
StudentT.has_rsample = true
function StudentT:_draw(shape)
  local x = torch.randn(extended(self, shape), like(self.df))
  return self.loc + self.scale * x * (self._chi2:_draw(shape) / self.df):rsqrt()
end
---The logarithm of the density at a value.
function StudentT:log_prob(x)
  local y = (self:_value(x) - self.loc) / self.scale
  local norm = self.scale:log() + 0.5 * self.df:log() + 0.5 * math.log(math.pi) + (0.5 * self.df):lgamma() - (0.5 * (self.df + 1)):lgamma()
  return -0.5 * (self.df + 1) * torch.log1p(y ^ 2 / self.df) - norm
end
---The entropy, in nats.
function StudentT:entropy()
  local half = 0.5 * self.df
  local lbeta = math.log(math.pi) / 2 + half:lgamma() - (0.5 + half):lgamma()
  return self.scale:log() + 0.5 * (self.df + 1) * ((0.5 * (self.df + 1)):digamma() - half:digamma()) + 0.5 * self.df:log() + lbeta
end

---The ratio of two chi-squared numbers, each over its degrees of freedom: FisherSnedecor(df1, df2).
local FisherSnedecor = class("FisherSnedecor", {"df1", "df2"}, function(self, given)
  base.broadcast(self, given, "df1", "df2")
  check(self, "df1", limits.positive)
  check(self, "df2", limits.positive)
  self._gamma1, self._gamma2 = Gamma(0.5 * self.df1, self.df1), Gamma(0.5 * self.df2, self.df2)
end, {support = limits.positive, lazy = {
  mean = function(d) return torch.where(d.df2:le(2), 0 / 0, d.df2 / (d.df2 - 2)) end,
  mode = function(d) return torch.where(d.df1:le(2), 0 / 0, (d.df1 - 2) / d.df1 * d.df2 / (d.df2 + 2)) end,
  variance = function(d)
    local a, b = d.df1, d.df2
    return torch.where(b:le(4), 0 / 0, 2 * b ^ 2 * (a + b - 2) / (a * (b - 2) ^ 2 * (b - 4)))
  end,
}})
FisherSnedecor.has_rsample = true
function FisherSnedecor:_draw(shape)
  local x = self._gamma1:_draw(shape)
  return no_zeros(x / no_zeros(self._gamma2:_draw(shape)))
end
---The logarithm of the density at a value.
function FisherSnedecor:log_prob(x)
  x = self:_value(x)
  local a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
  return (a + b):lgamma() - a:lgamma() - b:lgamma() + a * ratio:log() + (a - 1) * x:log() - (a + b) * torch.log1p(ratio * x)
end
