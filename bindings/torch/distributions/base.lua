-- What all distributions share: how they take their arguments, the shapes of their samples, and checks of parameters
-- and values.
local torch = torch
local error = torch._raise
local base = {}

-- --- shapes ---

local function list_of(...)
  local out = {}
  for _, shape in ipairs {...} do
    for _, n in ipairs(shape) do out[#out + 1] = n end
  end
  return out
end
base.list_of = list_of

function base.size_of(shape) return type(shape) == "number" and {shape} or shape or {} end

-- The sizes from one position to another (-1: the last), as a torch.Size.
function base.part(shape, from, to)
  local out = {}
  for d = from, to < 0 and #shape + 1 + to or to do out[#out + 1] = shape[d] end
  return torch.Size(out)
end

-- The shape of samples: a wanted shape in front of the distribution's own.
function base.extended(self, shape) return list_of(base.size_of(shape), self.batch_shape, self.event_shape) end

-- How tensors are made that go with another.
function base.like(t) return {dtype = t.dtype, device = t.device} end

-- Sums the last n dimensions.
function base.sum_last(x, n)
  for _ = 1, n do x = x:sum(-1) end
  return x
end

-- --- limits, of parameters and of values: {test, words} ---

local limits = {
  real = {function(v) return v:eq(v) end, "numbers, not nan"},
  positive = {function(v) return v:gt(0) end, "above 0"},
  at_least_0 = {function(v) return v:ge(0) end, "at least 0"},
  probability = {function(v) return v:ge(0) & v:le(1) end, "between 0 and 1"},
  inside = {function(v) return v:gt(0) & v:lt(1) end, "between 0 and 1, which are left out"},
  zero_or_one = {function(v) return v:eq(0) | v:eq(1) end, "0 or 1"},
  count = {function(v) return v:ge(0) & v:eq(v:floor()) end, "a whole number, at least 0"},
}
-- Shares that sum to 1, and a 1 among zeros, along the last dimension.
limits.simplex = {function(v) return v:ge(0):all(-1) & (v:sum(-1) - 1):abs():lt(1e-6) end, "numbers that sum to 1 along the last dimension"}
limits.one_hot = {function(v) return (v:eq(0) | v:eq(1)):all(-1) & v:sum(-1):eq(1) end, "one 1 among zeros along the last dimension"}
base.limits = limits

-- Raises where a parameter is not within its limit.
function base.check(self, key, limit, level)
  local v = rawget(self, key)
  if self._unchecked or not torch.is_tensor(v) or v:numel() == 0 then return end
  if not limit[1](v):all():item() then error(("%s: %s must be %s"):format(self._name, key, limit[2]), level or 4, "value") end
end

-- --- arguments ---

-- A list of numbers, or of such lists.
local function is_numbers(v)
  if type(v) ~= "table" or getmetatable(v) ~= nil then return false end
  repeat v = v[1] until type(v) ~= "table"
  return type(v) == "number" or type(v) == "boolean"
end

-- By position or by name.
local function arguments(name, names, ...)
  local first, out = ..., {}
  local count = select("#", ...)
  local function take(options)
    for k, v in pairs(options) do
      local known = k == "validate_args"
      for _, n in ipairs(names) do known = known or n == k end
      if not known then error(('%s: no argument "%s" (it has: %s)'):format(name, tostring(k), table.concat(names, ", ")), 5) end
      out[k] = v
    end
  end
  local function is_options(v) return type(v) == "table" and getmetatable(v) == nil and type(next(v)) == "string" end
  if count == 1 and is_options(first) then
    take(first)
  else
    for i, n in ipairs(names) do out[n] = (select(i, ...)) end
    local last = count > 0 and select(count, ...)
    if is_options(last) then
      if count <= #names then out[names[count]] = nil end
      take(last)
    end
  end
  -- Numbers go to the first tensor's device, with its type, as in PyTorch.
  local there, dtype = torch._default_device(), torch.get_default_dtype()
  for _, n in ipairs(names) do
    if torch.is_tensor(out[n]) then
      there = out[n].device
      if out[n]:is_floating_point() then dtype = out[n].dtype end
      break
    end
  end
  for _, n in ipairs(names) do
    local v = out[n]
    if is_numbers(v) then v = torch.tensor(v, {device = there}) end
    if type(v) == "number" then v = torch.tensor(v + 0.0, {device = there, dtype = dtype}) end
    if torch.is_tensor(v) and not v:is_floating_point() then v = v:to(torch.get_default_dtype()) end
    out[n] = v
  end
  return out
end

---Broadcasts parameters to one shape, which is the batch's, and keeps them in the object.
---@param self table
---@param given table arguments by name
---@param ... string their names
function base.broadcast(self, given, ...)
  local names, tensors = {...}, {}
  for i, n in ipairs(names) do
    if not torch.is_tensor(given[n]) then error(("%s: wants %s"):format(self._name, table.concat(names, " and ")), 4) end
    tensors[i] = given[n]
  end
  for i, t in ipairs {torch.broadcast_tensors(table.unpack(tensors))} do self[names[i]] = t end
  self.batch_shape = self[names[1]].shape
end

---Probabilities or scores, either of which gives the other.
function base.one_of(self, given)
  if (given.probs == nil) == (given.logits == nil) then error(self._name .. ": wants either probs or logits: {logits = scores}", 4) end
  return given.probs or given.logits, given.probs and "probs" or "logits"
end

-- --- the class of all ---

local Distribution = {}
base.Distribution = Distribution

---A sample, or as many as a shape says; no gradient flows through it.
---@param shape? integer[]
function Distribution:sample(shape) return torch.no_grad(function() return self:_draw(shape) end) end
---A sample made so that gradients flow to the parameters.
---@param shape? integer[]
function Distribution:rsample(shape)
  if not self.has_rsample then error(("rsample: samples of %s have no gradient; use sample and log_prob"):format(self._name), 2, "autograd") end
  return self:_draw(shape)
end
---The same distribution with its parameters expanded to a batch shape.
---@param shape integer[]
function Distribution:expand(shape)
  local given = {validate_args = false}
  for name, v in pairs(self._given) do
    local kept = rawget(self, name)
    if kept ~= nil and not torch.is_tensor(kept) then
      v = kept  -- one number for all, such as a Multinomial's total_count
    elseif torch.is_tensor(v) and self._dims[name] ~= false then
      local own = v.ndim - (self._dims[name] or 0)
      v = v:expand(list_of(shape, base.part(v.shape, own + 1, -1)))
    end
    given[name] = v
  end
  return base.made[self._name](given)
end
---e to the power of the entropy.
function Distribution:perplexity() return self:entropy():exp() end
function Distribution:cdf() error(("cdf: %s has none in closed form here"):format(self._name), 2, "value") end
function Distribution:icdf() error(("icdf: %s has none in closed form here"):format(self._name), 2, "value") end
function Distribution:enumerate_support() error(("enumerate_support: %s has no finite support"):format(self._name), 2, "value") end
function Distribution:entropy() error(("entropy: that of %s has no closed form"):format(self._name), 2, "value") end
-- A value as a tensor within the support.
function Distribution:_value(x)
  if not torch.is_tensor(x) then
    local like = self._like
    x = torch.tensor(x, like and {device = like.device})
  end
  local limit = self._support
  if limit and not self._unchecked and x:numel() > 0 and not limit[1](x, self):all():item() then
    error(("log_prob: values of %s must be %s"):format(self._name, limit[2]), 3, "value")
  end
  return x
end

-- What every distribution has without saying so.
local common = {
  stddev = function(d) return d.variance:sqrt() end,
  -- A tensor of the distribution's type and device.
  _like = function(d)
    for _, v in pairs(d._given) do
      if torch.is_tensor(v) then return v end
    end
    return nil
  end,
}

base.made = {Distribution = Distribution}

---A new class of distributions.
---@param name string
---@param names string[] its arguments
---@param init fun(self, given) keeps the parameters, and sets batch_shape
---@param more? table `lazy`: values computed when first asked for; `support`: the limit of values; `dims`: of each
---argument how many dimensions are one event's, false where it is the batch's as a whole; `parent`: another class
function base.class(name, names, init, more)
  more = more or {}
  local c = {_name = name, __name = name, _dims = more.dims or {}, _support = more.support}
  local lazy = more.lazy or {}
  local parent = more.parent or Distribution
  c._lazy = lazy
  c.__index = function(self, key)
    local f = lazy[key] or parent._lazy and parent._lazy[key] or common[key]
    if f then
      -- Kept for whoever asks next: a sample, which asks without a graph, must not take the gradient away from log_prob.
      local v = torch.enable_grad(function() return f(self) end)
      rawset(self, key, v)
      return v
    end
    return c[key]
  end
  c.__tostring = function(self)
    local parts = {}
    for _, n in ipairs(names) do
      local v = rawget(self, n)
      if torch.is_tensor(v) then
        parts[#parts + 1] = v.ndim == 0 and ("%s = %.6g"):format(n, v:item()) or ("%s = %s"):format(n, tostring(v.shape))
      elseif v ~= nil then
        parts[#parts + 1] = ("%s = %s"):format(n, tostring(v))
      end
    end
    return ("%s(%s)"):format(name, table.concat(parts, ", "))
  end
  base.made[name] = setmetatable(c, {__index = parent, __name = name, __call = function(_, ...)
    local given = arguments(name, names, ...)
    local self = setmetatable({_unchecked = given.validate_args == false}, c)
    given.validate_args = nil
    self._given = given
    init(self, given)
    self.event_shape = rawget(self, "event_shape") or torch.Size {}
    return self
  end})
  return c
end

return base
