-- torch.distributions: probability distributions that are sampled, and whose log-probabilities have gradients.
local torch = torch
local error = torch._raise
local F = torch.nn.functional
local distributions = {}

-- --- what all share ---

local Distribution = {}
distributions.Distribution = Distribution

local function size_of(shape) return type(shape) == "number" and {shape} or shape or {} end
-- The shape of samples: a wanted shape in front of the distribution's own.
local function extended(self, shape)
  local out = {}
  for _, n in ipairs(size_of(shape)) do out[#out + 1] = n end
  for _, n in ipairs(self.batch_shape) do out[#out + 1] = n end
  return out
end

---A sample, or as many as a shape says; no gradient flows through it.
---@param shape? integer[]
function Distribution:sample(shape) return torch.no_grad(function() return self:_draw(shape) end) end
---A sample made so that gradients flow to the parameters.
---@param shape? integer[]
function Distribution:rsample(shape)
  if not self.has_rsample then error(("rsample: samples of %s have no gradient; use sample and log_prob"):format(self._name), 2, "autograd") end
  return self:_draw(shape)
end
function Distribution:_value(x)
  if not torch.is_tensor(x) then x = torch.tensor(x) end
  return x
end

local function check_parameter(name, key, v, ok, wants)
  if torch.is_tensor(v) and v:numel() > 0 and not ok(v):all():item() then
    error(("%s: %s must be %s"):format(name, key, wants), 4, "value")
  end
end
local function positive(v) return v:gt(0) end
local function probability(v) return v:ge(0) & v:le(1) end

-- Arguments by position or by name.
local function arguments(name, names, ...)
  local first, out = ..., {}
  if type(first) == "table" and getmetatable(first) == nil and select("#", ...) == 1 and next(first) ~= nil and type(next(first)) == "string" then
    for k, v in pairs(first) do
      local known = k == "validate_args"
      for _, n in ipairs(names) do known = known or n == k end
      if not known then error(('%s: no argument "%s" (it has: %s)'):format(name, tostring(k), table.concat(names, ", ")), 4) end
      out[k] = v
    end
  else
    for i, n in ipairs(names) do out[n] = (select(i, ...)) end
    local last = select("#", ...) > 0 and select(select("#", ...), ...)
    if type(last) == "table" and getmetatable(last) == nil then
      for _, n in ipairs(names) do
        if out[n] == last then out[n] = nil end
        if last[n] ~= nil then out[n] = last[n] end
      end
    end
  end
  -- Numbers go to the first tensor's device, as in PyTorch.
  local there = torch._default_device()
  for _, n in ipairs(names) do
    if torch.is_tensor(out[n]) then there = out[n].device break end
  end
  for _, n in ipairs(names) do
    local v = out[n]
    if type(v) == "table" then v = torch.tensor(v, {device = there}) end
    if type(v) == "number" then v = torch.tensor(v + 0.0, {device = there}) end
    if torch.is_tensor(v) and not v:is_floating_point() then v = v:to(torch.get_default_dtype()) end
    out[n] = v
  end
  return out
end

local function class(name, names, init)
  local c = {_name = name, __name = name}
  c.__index = function(self, key)
    local lazy = c._lazy and c._lazy[key]
    if lazy then
      local v = lazy(self)
      rawset(self, key, v)
      return v
    end
    return c[key]
  end
  c.__tostring = function(self)
    local parts = {}
    for _, n in ipairs(names) do
      local v = rawget(self, n)
      if v then parts[#parts + 1] = v.ndim == 0 and ("%s = %.6g"):format(n, v:item()) or ("%s = %s"):format(n, tostring(v.shape)) end
    end
    return ("%s(%s)"):format(name, table.concat(parts, ", "))
  end
  distributions[name] = setmetatable(c, {__index = Distribution, __name = name, __call = function(_, ...)
    local self = setmetatable({}, c)
    init(self, arguments(name, names, ...))
    self.event_shape = self.event_shape or torch.Size {}
    return self
  end})
  return c
end

local function both(name, self, a, b, first, second)
  if not torch.is_tensor(a) or not torch.is_tensor(b) then
    error(("%s: wants %s and %s"):format(name, first, second), 4)
  end
  self[first], self[second] = torch.broadcast_tensors(a, b)
  self.batch_shape = self[first].shape
end

-- --- continuous ---

---The normal distribution: Normal(loc, scale).
local Normal = class("Normal", {"loc", "scale"}, function(self, a)
  both("Normal", self, a.loc, a.scale, "loc", "scale")
  check_parameter("Normal", "scale", self.scale, positive, "above 0")
end)
Normal.has_rsample = true
Normal._lazy = {mean = function(d) return d.loc end, stddev = function(d) return d.scale end, variance = function(d) return d.scale ^ 2 end}
function Normal:_draw(shape)
  local size = extended(self, shape)
  return self.loc + torch.randn(size, {dtype = self.loc.dtype, device = self.loc.device}) * self.scale
end
---The logarithm of the density at a value.
function Normal:log_prob(x)
  x = self:_value(x)
  return -((x - self.loc) ^ 2) / (2 * self.scale ^ 2) - self.scale:log() - math.log(math.sqrt(2 * math.pi))
end
---The entropy, in nats.
function Normal:entropy() return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale:log() end
---The probability of at most x.
function Normal:cdf(x) return 0.5 * (1 + torch.erf((self:_value(x) - self.loc) / self.scale / math.sqrt(2))) end

---The uniform distribution from low to high.
local Uniform = class("Uniform", {"low", "high"}, function(self, a)
  both("Uniform", self, a.low, a.high, "low", "high")
  check_parameter("Uniform", "high", self.high - self.low, positive, "above low")
end)
Uniform.has_rsample = true
Uniform._lazy = {mean = function(d) return (d.low + d.high) / 2 end, variance = function(d) return (d.high - d.low) ^ 2 / 12 end,
  stddev = function(d) return (d.high - d.low) / math.sqrt(12) end}
function Uniform:_draw(shape)
  return self.low + torch.rand(extended(self, shape), {dtype = self.low.dtype, device = self.low.device}) * (self.high - self.low)
end
---The logarithm of the density at a value; -inf outside.
function Uniform:log_prob(x)
  x = self:_value(x)
  local inside = x:ge(self.low) & x:lt(self.high)
  return inside:to(self.low.dtype):log() - (self.high - self.low):log()
end
---The entropy, in nats.
function Uniform:entropy() return (self.high - self.low):log() end

---The exponential distribution of a rate.
local Exponential = class("Exponential", {"rate"}, function(self, a)
  if not a.rate then error("Exponential: wants a rate", 3) end
  self.rate, self.batch_shape = a.rate, a.rate.shape
  check_parameter("Exponential", "rate", self.rate, positive, "above 0")
end)
Exponential.has_rsample = true
Exponential._lazy = {mean = function(d) return 1 / d.rate end, stddev = function(d) return 1 / d.rate end, variance = function(d) return 1 / d.rate ^ 2 end}
function Exponential:_draw(shape)
  return torch.empty(extended(self, shape), {dtype = self.rate.dtype, device = self.rate.device}):exponential_() / self.rate
end
---The logarithm of the density at a value.
function Exponential:log_prob(x) return self.rate:log() - self.rate * self:_value(x) end
---The entropy, in nats.
function Exponential:entropy() return 1 - self.rate:log() end

-- --- discrete ---

local function one_of(name, a)
  if (a.probs == nil) == (a.logits == nil) then error(name .. ": wants either probs or logits: {logits = scores}", 4) end
  return a.probs or a.logits
end

---1 with a probability, else 0: Bernoulli(probs), Bernoulli{logits = scores}.
local Bernoulli = class("Bernoulli", {"probs", "logits"}, function(self, a)
  self.batch_shape = one_of("Bernoulli", a).shape
  self.probs, self.logits = a.probs, a.logits
  check_parameter("Bernoulli", "probs", a.probs, probability, "between 0 and 1")
end)
Bernoulli._lazy = {probs = function(d) return torch.sigmoid(rawget(d, "logits")) end,
  logits = function(d)
    local eps = torch.finfo(d.probs.dtype).eps
    return torch.logit(d.probs:clamp(eps, 1 - eps))
  end,
  mean = function(d) return d.probs end, variance = function(d) return d.probs * (1 - d.probs) end,
  stddev = function(d) return (d.probs * (1 - d.probs)):sqrt() end}
function Bernoulli:_draw(shape) return torch.bernoulli(self.probs:expand(extended(self, shape))) end
---The logarithm of the probability of a value, 0 or 1.
function Bernoulli:log_prob(x)
  local logits, value = torch.broadcast_tensors(self.logits, self:_value(x):to(self.logits.dtype))
  return -F.binary_cross_entropy_with_logits(logits, value, {reduction = "none"})
end
---The entropy, in nats.
function Bernoulli:entropy() return F.binary_cross_entropy_with_logits(self.logits, self.probs, {reduction = "none"}) end

---A position from 1 with a probability for each, along the last dimension: Categorical(probs), Categorical{logits = scores}.
local Categorical = class("Categorical", {"probs", "logits"}, function(self, a)
  local v = one_of("Categorical", a)
  if v.ndim < 1 then error("Categorical: wants at least one dimension", 3, "shape") end
  check_parameter("Categorical", "probs", a.probs, function(p) return p:ge(0) end, "at least 0")
  self.probs = a.probs and a.probs / a.probs:sum(-1, true)
  self.logits = a.logits and a.logits - a.logits:logsumexp(-1, true)
  local shape = {}
  for d = 1, v.ndim - 1 do shape[d] = v:size(d) end
  self.batch_shape = torch.Size(shape)
  self._num_events = v:size(-1)
end)
Categorical._lazy = {probs = function(d) return F.softmax(rawget(d, "logits"), -1) end,
  logits = function(d)
    local eps = torch.finfo(d.probs.dtype).eps
    return d.probs:clamp(eps, 1 - eps):log()
  end}
function Categorical:_draw(shape)
  local size = extended(self, shape)
  local n = 1
  for _, k in ipairs(size_of(shape)) do n = n * k end
  local rows = self.probs:reshape(-1, self._num_events)
  return torch.multinomial(rows, n, true):t():reshape(size)
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

-- --- divergences ---

---The Kullback-Leibler divergence of two distributions of one kind: Normal, Uniform, Exponential, Bernoulli, Categorical.
function distributions.kl_divergence(p, q)
  local class_of = getmetatable(p)
  if class_of == nil or class_of ~= getmetatable(q) then
    error(("kl_divergence: wants two distributions of one kind, not %s and %s"):format(tostring(class_of and class_of._name or type(p)),
      tostring(getmetatable(q) and getmetatable(q)._name or type(q))), 2)
  end
  if class_of == Normal then
    local ratio = (p.scale / q.scale) ^ 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ^ 2 - 1 - ratio:log())
  elseif class_of == Uniform then
    local inside = q.low:le(p.low) & q.high:ge(p.high)
    return torch.where(inside, ((q.high - q.low) / (p.high - p.low)):log(), math.huge)
  elseif class_of == Exponential then
    local ratio = q.rate / p.rate
    return ratio - ratio:log() - 1
  elseif class_of == Bernoulli then
    return p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits)) + (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
  end
  return (p.probs * (p.logits - q.logits)):sum(-1)
end

return torch._strict(distributions, "torch.distributions")
