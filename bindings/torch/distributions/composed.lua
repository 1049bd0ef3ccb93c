-- Distributions made of others: independent ones as one event, mixtures, samples sent through a function, and the
-- relaxed forms of choices, whose samples have gradients. The normal distribution of several dimensions.
local torch = torch
local F = torch.nn.functional
local error = torch._raise
local base = require "torch.distributions.base"
local transforms = require "torch.distributions.transforms"
local class, check, limits, extended, like = base.class, base.check, base.limits, base.extended, base.like

local function want_distribution(self, key, d)
  if type(d) ~= "table" or not d.batch_shape then error(("%s: %s must be a distribution, not a %s"):format(self._name, key, type(d)), 4) end
end

---The last dimensions of a batch as one event: Independent(base, number of dimensions).
local Independent = class("Independent", {"base_dist", "reinterpreted_batch_ndims"}, function(self, given)
  local d, n = given.base_dist, given.reinterpreted_batch_ndims
  want_distribution(self, "base_dist", d)
  n = torch.is_tensor(n) and math.tointeger(n:item()) or 0
  if n > #d.batch_shape then
    error(("Independent: base_dist has %d batch dimensions, and %d were to be taken"):format(#d.batch_shape, n), 3, "value")
  end
  self.base_dist, self.reinterpreted_batch_ndims, self.has_rsample = d, n, d.has_rsample
  self.batch_shape = base.part(d.batch_shape, 1, -1 - n)
  self.event_shape = torch.Size(base.list_of(base.part(d.batch_shape, #d.batch_shape - n + 1, -1), d.event_shape))
end, {lazy = {
  mean = function(d) return d.base_dist.mean end, mode = function(d) return d.base_dist.mode end,
  variance = function(d) return d.base_dist.variance end, _like = function(d) return d.base_dist._like end,
}})
function Independent:_draw(shape) return self.base_dist:_draw(shape) end
function Independent:rsample(shape) return self.base_dist:rsample(shape) end
---The logarithm of the density of events.
function Independent:log_prob(x) return base.sum_last(self.base_dist:log_prob(x), self.reinterpreted_batch_ndims) end
---The entropy, in nats.
function Independent:entropy() return base.sum_last(self.base_dist:entropy(), self.reinterpreted_batch_ndims) end
function Independent:expand(shape)
  local taken = base.part(self.base_dist.batch_shape, #self.base_dist.batch_shape - self.reinterpreted_batch_ndims + 1, -1)
  return Independent(self.base_dist:expand(base.list_of(shape, taken)), self.reinterpreted_batch_ndims)
end

---A distribution drawn by a Categorical, from one batch of distributions: MixtureSameFamily(mixture, components).
local Mixture = class("MixtureSameFamily", {"mixture_distribution", "component_distribution"}, function(self, given)
  local m, c = given.mixture_distribution, given.component_distribution
  want_distribution(self, "mixture_distribution", m)
  want_distribution(self, "component_distribution", c)
  if m._name ~= "Categorical" then error("MixtureSameFamily: mixture_distribution must be a Categorical, not " .. tostring(m), 3) end
  if c.batch_shape[#c.batch_shape] ~= m._num_events then
    error(("MixtureSameFamily: mixture_distribution has %d categories, and component_distribution batches of shape %s"):format(m._num_events,
      tostring(c.batch_shape)), 3, "shape")
  end
  self.mixture_distribution, self.component_distribution = m, c
  self.batch_shape, self.event_shape = base.part(c.batch_shape, 1, -2), c.event_shape
end, {lazy = {
  mean = function(d) return d:_mixed(d.component_distribution.mean) end,
  variance = function(d)
    local c = d.component_distribution
    return d:_mixed(c.variance) + d:_mixed((c.mean - d.mean:unsqueeze(-1 - #d.event_shape)) ^ 2)
  end, _like = function(d) return d.component_distribution._like end,
}})
-- One dimension of weights, in front of the event's.
function Mixture:_weights(w)
  for _ = 1, #self.event_shape do w = w:unsqueeze(-1) end
  return w
end
function Mixture:_mixed(x) return (self:_weights(self.mixture_distribution.probs) * x):sum(-1 - #self.event_shape) end
function Mixture:_draw(shape)
  local which = self:_weights(self.mixture_distribution:_draw(shape):unsqueeze(-1))
  local x = self.component_distribution:_draw(shape)
  local size = {table.unpack(x.shape)}
  size[x.ndim - #self.event_shape] = 1
  local dim = -1 - #self.event_shape
  return x:gather(dim, which:expand(size)):squeeze(dim)
end
---The logarithm of the density at a value.
function Mixture:log_prob(x)
  if not torch.is_tensor(x) then x = torch.tensor(x) end
  local each = self.component_distribution:log_prob(x:unsqueeze(-1 - #self.event_shape))
  return (each + F.log_softmax(self.mixture_distribution.logits, -1)):logsumexp(-1)
end

---Samples of a distribution sent through one or several transforms: TransformedDistribution(base, {transforms}).
local Transformed = class("TransformedDistribution", {"base_dist", "transforms"}, function(self, given)
  want_distribution(self, "base_dist", given.base_dist)
  local list = self._given.transforms
  if transforms.is(list) then list = {list} end
  for _, t in ipairs(type(list) == "table" and list or {}) do
    if not transforms.is(t) then error("TransformedDistribution: wants a list of transforms", 3) end
  end
  self.base_dist, self.transforms = given.base_dist, list
  self.has_rsample, self.batch_shape, self.event_shape = given.base_dist.has_rsample, given.base_dist.batch_shape, given.base_dist.event_shape
end, {lazy = {_like = function(d) return d.base_dist._like end}})
function Transformed:_draw(shape)
  local x = self.base_dist:_draw(shape)
  for _, t in ipairs(self.transforms) do x = t(x) end
  return x
end
---The logarithm of the density at a value.
function Transformed:log_prob(y)
  if not torch.is_tensor(y) then y = torch.tensor(y) end
  local log = 0
  for i = #self.transforms, 1, -1 do
    local t = self.transforms[i]
    local x = t.inv(y)
    log = log - base.sum_last(t:log_abs_det_jacobian(x, y), #self.event_shape)
    y = x
  end
  return log + self.base_dist:log_prob(y)
end
---The probability of at most y.
function Transformed:cdf(y)
  local sign = 1
  for i = #self.transforms, 1, -1 do
    local t = self.transforms[i]
    sign, y = sign * t.sign, t.inv(y)
  end
  local p = self.base_dist:cdf(y)
  return sign * (p - 0.5) + 0.5
end
function Transformed:expand(shape) return Transformed(self.base_dist:expand(shape), self.transforms) end

-- --- relaxed choices ---

local function clamped(p)
  local eps = torch.finfo(p.dtype).eps
  return p:clamp(eps, 1 - eps)
end

---A number between 0 and 1 near one of them, the nearer the lower the temperature: RelaxedBernoulli{temperature = 1, probs = p}.
local RelaxedBernoulli = class("RelaxedBernoulli", {"temperature", "probs", "logits"}, function(self, given)
  local _, key = base.one_of(self, given)
  base.broadcast(self, given, key)
  self.temperature = given.temperature
  check(self, "probs", limits.probability)
end, {dims = {temperature = false}, support = limits.probability, lazy = {
  probs = function(d) return torch.sigmoid(rawget(d, "logits")) end, logits = function(d) return torch.logit(clamped(d.probs)) end,
}})
RelaxedBernoulli.has_rsample = true
function RelaxedBernoulli:_draw(shape)
  local size = extended(self, shape)
  local p, u = clamped(self.probs:expand(size)), clamped(torch.rand(size, like(self.probs)))
  return transforms.sigmoid((u:log() - torch.log1p(-u) + p:log() - torch.log1p(-p)) / self.temperature)
end
---The logarithm of the density at a value.
function RelaxedBernoulli:log_prob(y)
  y = self:_value(y)
  local x = transforms.logit(y)
  local apart = self.logits - x * self.temperature
  return self.temperature:log() + apart - 2 * torch.log1p(apart:exp()) + F.softplus(-x) + F.softplus(x)
end

---Shares near a 1 among zeros, the nearer the lower the temperature: RelaxedOneHotCategorical{temperature = 1, logits = scores}.
local RelaxedOneHot = class("RelaxedOneHotCategorical", {"temperature", "probs", "logits"}, function(self, given)
  self._categorical = base.made.Categorical {probs = given.probs, logits = given.logits}
  self.temperature, self.batch_shape = given.temperature, self._categorical.batch_shape
  self.event_shape = torch.Size {self._categorical._num_events}
end, {dims = {temperature = false, probs = 1, logits = 1}, support = limits.simplex, lazy = {
  probs = function(d) return d._categorical.probs end, logits = function(d) return d._categorical.logits end,
}})
RelaxedOneHot.has_rsample = true
function RelaxedOneHot:_draw(shape)
  local u = clamped(torch.rand(extended(self, shape), like(self.logits)))
  local scores = (self.logits - (-u:log()):log()) / self.temperature
  return (scores - scores:logsumexp(-1, true)):exp()
end
---The logarithm of the density at a value.
function RelaxedOneHot:log_prob(y)
  local log = self:_value(y):log()
  local k = self._categorical._num_events
  local score = self.logits - log * self.temperature
  score = (score - score:logsumexp(-1, true)):sum(-1)
  return score + torch.lgamma(torch.full_like(self.temperature, k)) + self.temperature:log() * (k - 1) - log:sum(-1)
end

-- --- several dimensions ---

---The normal distribution of vectors: MultivariateNormal(loc, covariance_matrix), or with scale_tril or precision_matrix by name.
local MultivariateNormal = class("MultivariateNormal", {"loc", "covariance_matrix", "precision_matrix", "scale_tril"}, function(self, given)
  local loc = given.loc
  if not torch.is_tensor(loc) or loc.ndim < 1 then error("MultivariateNormal: loc must have at least one dimension", 3, "shape") end
  local key
  for _, k in ipairs {"covariance_matrix", "precision_matrix", "scale_tril"} do
    if given[k] then
      if key then error("MultivariateNormal: wants one of covariance_matrix, precision_matrix and scale_tril", 3) end
      key = k
    end
  end
  if not key then error("MultivariateNormal: wants one of covariance_matrix, precision_matrix and scale_tril", 3) end
  local matrix, n = given[key], loc:size(-1)
  if matrix.ndim < 2 or matrix:size(-1) ~= n or matrix:size(-2) ~= n then
    error(("MultivariateNormal: %s must be [.., %d, %d], as loc is %s, not %s"):format(key, n, n, tostring(loc.shape), tostring(matrix.shape)), 3, "shape")
  end
  self.batch_shape = torch.broadcast_shapes(base.part(matrix.shape, 1, -3), base.part(loc.shape, 1, -2))
  self.event_shape = torch.Size {n}
  self.loc = loc:expand(base.list_of(self.batch_shape, {n}))
  self[key] = matrix:expand(base.list_of(self.batch_shape, {n, n}))
  if key == "scale_tril" then
    self._tril = matrix
    if not self._unchecked and not (matrix:diagonal({dim1 = -2, dim2 = -1}):gt(0):all() & matrix:eq(matrix:tril()):all()):item() then
      error("MultivariateNormal: scale_tril must be lower triangular with a diagonal above 0", 3, "value")
    end
    return
  end
  if not self._unchecked and not torch.allclose(matrix, matrix.mT, {atol = 1e-6}) then
    error(("MultivariateNormal: %s must be symmetric and positive definite"):format(key), 3, "value")
  end
  local ok, tril = pcall(torch.linalg.cholesky, key == "precision_matrix" and torch.linalg.inv(matrix) or matrix)
  if not ok then error(("MultivariateNormal: %s must be symmetric and positive definite"):format(key), 3, "value") end
  self._tril = tril
end, {dims = {loc = 1, covariance_matrix = 2, precision_matrix = 2, scale_tril = 2}, support = {function(x) return x:eq(x):all(-1) end, limits.real[2]}, lazy = {
  mean = function(d) return d.loc end, mode = function(d) return d.loc end,
  scale_tril = function(d) return d._tril:expand(base.list_of(d.batch_shape, d.event_shape, d.event_shape)) end,
  covariance_matrix = function(d) return d.scale_tril:matmul(d.scale_tril.mT) end,
  precision_matrix = function(d) return torch.linalg.inv(d.covariance_matrix) end,
  variance = function(d) return d.scale_tril:square():sum(-1) end,
  _log_det = function(d) return d._tril:diagonal({dim1 = -2, dim2 = -1}):log():sum(-1) end,
}})
MultivariateNormal.has_rsample = true
function MultivariateNormal:_draw(shape)
  local x = torch.randn(extended(self, shape), like(self.loc))
  return self.loc + self._tril:matmul(x:unsqueeze(-1)):squeeze(-1)
end
-- The squared distance of a difference from 0, in units of the distribution.
function MultivariateNormal:_distance(apart)
  local n = apart:size(-1)
  local rows = apart:reshape(-1, n)
  if self._tril.ndim == 2 then
    return torch.linalg.solve_triangular(self._tril, rows:t(), {upper = false}):square():sum(1):reshape(base.part(apart.shape, 1, -2))
  end
  local tril = self._tril:expand(base.list_of(base.part(apart.shape, 1, -2), {n, n}))
  return torch.linalg.solve_triangular(tril, apart:unsqueeze(-1), {upper = false}):squeeze(-1):square():sum(-1)
end
---The logarithm of the density at a vector.
function MultivariateNormal:log_prob(x)
  return -0.5 * (self.loc:size(-1) * math.log(2 * math.pi) + self:_distance(self:_value(x) - self.loc)) - self._log_det
end
---The entropy, in nats.
function MultivariateNormal:entropy()
  local h = 0.5 * self.loc:size(-1) * (1 + math.log(2 * math.pi)) + self._log_det
  return h:expand(self.batch_shape)
end
