-- Distributions of counts and positions.
local torch = torch
local F = torch.nn.functional
local base = require "torch.distributions.base"
local class, check, limits, extended, like = base.class, base.check, base.limits, base.extended, base.like

-- Probabilities away from 0 and 1, where logarithms have no end.
local function clamped(p)
  local eps = torch.finfo(p.dtype).eps
  return p:clamp(eps, 1 - eps)
end

-- Of success, by its probability or its score.
local both = {
  probs = function(d) return torch.sigmoid(rawget(d, "logits")) end,
  logits = function(d) return torch.logit(clamped(d.probs)) end,
}
local function lazily(more)
  for k, f in pairs(both) do more[k] = more[k] or f end
  return more
end

---1 with a probability, else 0: Bernoulli(probs), Bernoulli{logits = scores}.
local Bernoulli = class("Bernoulli", {"probs", "logits"}, function(self, given)
  local _, key = base.one_of(self, given)
  base.broadcast(self, given, key)
  check(self, "probs", limits.probability)
end, {support = limits.zero_or_one, lazy = lazily {
  mean = function(d) return d.probs end, variance = function(d) return d.probs * (1 - d.probs) end,
  mode = function(d) return torch.where(d.probs:eq(0.5), 0 / 0, d.probs:ge(0.5):to(d.probs.dtype)) end,
}})
function Bernoulli:_draw(shape) return torch.bernoulli(self.probs:expand(extended(self, shape))) end
---The logarithm of the probability of a value, 0 or 1.
function Bernoulli:log_prob(x)
  local logits, value = torch.broadcast_tensors(self.logits, self:_value(x):to(self.logits.dtype))
  return -F.binary_cross_entropy_with_logits(logits, value, {reduction = "none"})
end
---The entropy, in nats.
function Bernoulli:entropy() return F.binary_cross_entropy_with_logits(self.logits, self.probs, {reduction = "none"}) end
---All values, along a new first dimension.
---@param expand? boolean to the batch's shape, unless false
function Bernoulli:enumerate_support(expand)
  local values = torch.arange(2, like(self._like)):reshape(base.list_of({2}, torch.ones(#self.batch_shape):long():tolist()))
  return expand == false and values or values:expand(base.list_of({2}, self.batch_shape))
end

---Failures before the first success: Geometric(probs), Geometric{logits = scores}.
local Geometric = class("Geometric", {"probs", "logits"}, function(self, given)
  local _, key = base.one_of(self, given)
  base.broadcast(self, given, key)
  check(self, "probs", {function(p) return p:gt(0) & p:le(1) end, "above 0, and at most 1"})
end, {support = limits.count, lazy = lazily {
  mean = function(d) return 1 / d.probs - 1 end, mode = function(d) return torch.zeros_like(d.probs) end,
  variance = function(d) return (1 / d.probs - 1) / d.probs end,
}})
function Geometric:_draw(shape)
  local u = torch.rand(extended(self, shape), like(self.probs)):clamp_min(torch.finfo(self.probs.dtype).tiny)
  return (u:log() / torch.log1p(-self.probs)):floor()
end
---The logarithm of the probability of a count.
function Geometric:log_prob(x)
  local value, p = torch.broadcast_tensors(self:_value(x), self.probs)
  p = torch.where(p:eq(1) & value:eq(0), 0, p)
  return value * torch.log1p(-p) + self.probs:log()
end
---The entropy, in nats.
function Geometric:entropy() return F.binary_cross_entropy_with_logits(self.logits, self.probs, {reduction = "none"}) / self.probs end

---Poisson's distribution: Poisson(rate).
local Poisson = class("Poisson", {"rate"}, function(self, given)
  base.broadcast(self, given, "rate")
  check(self, "rate", limits.at_least_0)
end, {support = limits.count, lazy = {
  mean = function(d) return d.rate end, mode = function(d) return d.rate:floor() end, variance = function(d) return d.rate end,
}})
function Poisson:_draw(shape) return torch.poisson(self.rate:expand(extended(self, shape))) end
---The logarithm of the probability of a count.
function Poisson:log_prob(x)
  local value, rate = torch.broadcast_tensors(self:_value(x), self.rate)
  return torch.xlogy(value, rate) - rate - (value + 1):lgamma()
end

-- total_count beside probs or logits.
local function trials(self, given)
  local _, key = base.one_of(self, given)
  given.total_count = given.total_count or torch.ones({}, like(given[key]))
  base.broadcast(self, given, "total_count", key)
  check(self, "total_count", limits.count, 5)
end

---Successes in a number of trials: Binomial(total_count, probs), Binomial{total_count = 5, logits = scores}.
local Binomial = class("Binomial", {"total_count", "probs", "logits"}, function(self, given)
  trials(self, given)
  check(self, "probs", limits.probability)
end, {support = {function(x, d) return x:ge(0) & x:le(d.total_count) & x:eq(x:floor()) end, "whole numbers from 0 to total_count"}, lazy = lazily {
  mean = function(d) return d.total_count * d.probs end, variance = function(d) return d.total_count * d.probs * (1 - d.probs) end,
  mode = function(d) return torch.minimum(((d.total_count + 1) * d.probs):floor(), d.total_count) end,
}})
function Binomial:_draw(shape)
  local size = extended(self, shape)
  return torch.binomial(self.total_count:expand(size), self.probs:expand(size))
end
---The logarithm of the probability of a count.
function Binomial:log_prob(x)
  x = self:_value(x)
  local n, s = self.total_count, self.logits
  local choices = (n + 1):lgamma() - (x + 1):lgamma() - (n - x + 1):lgamma()
  return x * s + choices + n * F.logsigmoid(-s)
end
---All counts, along a new first dimension, where all distributions have one number of trials.
---@param expand? boolean to the batch's shape, unless false
function Binomial:enumerate_support(expand)
  local n = self.total_count:max():item()
  if self.total_count:min():item() ~= n then torch._raise("enumerate_support: Binomial: wants one total_count for all", 2, "value") end
  local size = {n + 1}
  for d = 1, #self.batch_shape do size[d + 1] = 1 end
  local values = torch.arange(n + 1, like(self.total_count)):reshape(size)
  return expand == false and values or values:expand(base.list_of({n + 1}, self.batch_shape))
end
---The entropy, in nats.
function Binomial:entropy()
  local log = self:log_prob(self:enumerate_support(false))
  return -(log:exp() * log):sum(1)
end

---Successes before a number of failures: NegativeBinomial(total_count, probs), NegativeBinomial{total_count = 5, logits = scores}.
local NegativeBinomial = class("NegativeBinomial", {"total_count", "probs", "logits"}, function(self, given)
  trials(self, given)
  check(self, "probs", {function(p) return p:ge(0) & p:lt(1) end, "at least 0, and below 1"})
end, {support = limits.count, lazy = lazily {
  mean = function(d) return d.total_count * d.logits:exp() end, variance = function(d) return d.mean / torch.sigmoid(-d.logits) end,
  mode = function(d) return ((d.total_count - 1) * d.logits:exp()):floor():clamp_min(0) end,
}})
function NegativeBinomial:_draw(shape)
  local rates = base.made.Gamma(self.total_count, torch.exp(-self.logits), {validate_args = false})
  return torch.poisson(rates:_draw(shape))
end
---The logarithm of the probability of a count.
function NegativeBinomial:log_prob(x)
  x = self:_value(x)
  local n, s = self.total_count, self.logits
  local ways = (n + x):lgamma() - (1 + x):lgamma() - n:lgamma()
  return n * F.logsigmoid(-s) + x * F.logsigmoid(s) + torch.where((n + x):eq(0), 0, ways)
end

-- --- positions ---

local function categories(self, given)
  local v = base.one_of(self, given)
  if v.ndim < 1 then torch._raise(self._name .. ": wants at least one dimension", 4, "shape") end
  if given.probs then
    self.probs = v
    check(self, "probs", limits.at_least_0, 5)
    self.probs = v / v:sum(-1, true)
  else
    self.logits = v - v:logsumexp(-1, true)
  end
  self.batch_shape, self._num_events = base.part(v.shape, 1, -2), v:size(-1)
end
local of_categories = {
  probs = function(d) return F.softmax(rawget(d, "logits"), -1) end,
  logits = function(d) return clamped(d.probs):log() end,
}

---A position from 1 with a probability for each, along the last dimension: Categorical(probs), Categorical{logits = scores}.
local Categorical = class("Categorical", {"probs", "logits"}, categories, {
  dims = {probs = 1, logits = 1}, support = {function(x, d) return x:ge(1) & x:le(d._num_events) & x:eq(x:floor()) end, "positions from 1 on"}, lazy = {
    probs = of_categories.probs, logits = of_categories.logits, mode = function(d) return d.probs:argmax(-1) end,
    mean = function(d) return torch.full(d.batch_shape, 0 / 0, like(d.probs)) end,
    variance = function(d) return torch.full(d.batch_shape, 0 / 0, like(d.probs)) end,
  }})
function Categorical:_draw(shape)
  local n = 1
  for _, k in ipairs(base.size_of(shape)) do n = n * k end
  local rows = self.probs:reshape(-1, self._num_events)
  return torch.multinomial(rows, n, true):t():reshape(extended(self, shape))
end
---The logarithm of the probability of positions (from 1).
function Categorical:log_prob(x)
  x = self:_value(x):long():unsqueeze(-1)
  local shape = torch.broadcast_shapes(x.shape, self.logits:narrow(-1, 1, 1).shape)
  local wide = {table.unpack(shape)}
  wide[#wide] = self._num_events
  return self.logits:expand(wide):gather(-1, x:expand(shape)):squeeze(-1)
end
---The entropy, in nats.
function Categorical:entropy()
  local least = -torch.finfo(self.logits.dtype).max
  return -(self.logits:clamp_min(least) * self.probs):sum(-1)
end
---All positions, along a new first dimension.
---@param expand? boolean to the batch's shape, unless false
function Categorical:enumerate_support(expand)
  local size = {self._num_events}
  for d = 1, #self.batch_shape do size[d + 1] = 1 end
  local values = torch.arange(1, self._num_events + 1, {device = self._like.device}):reshape(size)
  return expand == false and values or values:expand(base.list_of({self._num_events}, self.batch_shape))
end

local function one_hot_of(self, positions) return F.one_hot(positions, self._num_events):to(self._like.dtype) end

---A 1 among zeros, along the last dimension: OneHotCategorical(probs), OneHotCategorical{logits = scores}.
local OneHotCategorical = class("OneHotCategorical", {"probs", "logits"}, function(self, given)
  categories(self, given)
  self._categorical = Categorical {probs = given.probs, logits = given.logits, validate_args = false}
  self.event_shape = torch.Size {self._num_events}
end, {dims = {probs = 1, logits = 1}, support = limits.one_hot, lazy = {
  probs = of_categories.probs, logits = of_categories.logits, mean = function(d) return d.probs end,
  mode = function(d) return one_hot_of(d, d.probs:argmax(-1)) end, variance = function(d) return d.probs * (1 - d.probs) end,
}})
function OneHotCategorical:_draw(shape) return one_hot_of(self, self._categorical:_draw(shape)) end
---The logarithm of the probability of values.
function OneHotCategorical:log_prob(x) return self._categorical:log_prob(self:_value(x):argmax(-1)) end
---The entropy, in nats.
function OneHotCategorical:entropy() return self._categorical:entropy() end

---OneHotCategorical whose samples let gradients through as if they were the probabilities.
local StraightThrough = class("OneHotCategoricalStraightThrough", {"probs", "logits"}, function(self, given)
  categories(self, given)
  self._categorical = Categorical {probs = given.probs, logits = given.logits, validate_args = false}
  self.event_shape = torch.Size {self._num_events}
end, {dims = {probs = 1, logits = 1}, support = limits.one_hot, parent = OneHotCategorical})
StraightThrough.has_rsample = true
function StraightThrough:rsample(shape)
  local p = self._categorical.probs
  return self:sample(shape) + (p - p:detach())
end

---How often each position comes in a number of draws: Multinomial(total_count, probs), Multinomial{total_count = 5, logits = scores}.
local Multinomial = class("Multinomial", {"total_count", "probs", "logits"}, function(self, given)
  local n = torch.is_tensor(given.total_count) and given.total_count:item() or 1
  if n ~= math.floor(n) or n < 0 then torch._raise(("Multinomial: total_count must be a whole number, at least 0, not %g"):format(n), 4, "value") end
  self.total_count = math.tointeger(n)
  categories(self, given)
  self._categorical = Categorical {probs = given.probs, logits = given.logits, validate_args = false}
  self.event_shape = torch.Size {self._num_events}
end, {dims = {probs = 1, logits = 1},
  support = {function(x, d) return (x:ge(0) & x:eq(x:floor())):all(-1) & x:sum(-1):eq(d.total_count) end, "counts that sum to total_count"}, lazy = {
    probs = of_categories.probs, logits = of_categories.logits, mean = function(d) return d.probs * d.total_count end,
    variance = function(d) return d.total_count * d.probs * (1 - d.probs) end,
  }})
function Multinomial:_draw(shape)
  local draws = self._categorical:_draw(base.list_of({self.total_count}, base.size_of(shape))):movedim(1, -1)
  return torch.zeros(extended(self, shape), like(self.probs)):scatter_add_(-1, draws, torch.ones(draws.shape, like(self.probs)))
end
---The logarithm of the probability of counts.
function Multinomial:log_prob(x)
  local logits, value = torch.broadcast_tensors(self.logits, self:_value(x))
  logits = torch.where(value:eq(0) & logits:eq(-math.huge), 0, logits)
  return (value:sum(-1) + 1):lgamma() - (value + 1):lgamma():sum(-1) + (logits * value):sum(-1)
end
---The entropy, in nats.
function Multinomial:entropy()
  local n = torch.tensor(self.total_count, like(self.probs))
  local counts = torch.arange(1, self.total_count + 1, like(self.probs))
  local size = {self.total_count}
  for d = 1, self.probs.ndim do size[d + 1] = 1 end
  local each = base.made.Binomial(n, self.probs, {validate_args = false})
  local weights = each:log_prob(counts:reshape(size)):exp()
  return n * self._categorical:entropy() - (n + 1):lgamma() + (weights * (counts:reshape(size) + 1):lgamma()):sum {dim = {1, -1}}
end
