-- torch.metrics: how good predictions are, counted batch by batch: update, compute and reset as in torchmetrics. Classes
-- count from 1. In a process group compute gives the value over all ranks.
local torch = torch
local error = torch._raise
local base = require "torch.metrics.base"
local metrics = {}

for name, value in pairs(require "torch.metrics.confusion") do metrics[name] = value end

-- --- Means ---

local function zero() return torch.zeros({}, {dtype = "float64"}) end

metrics.MeanMetric = base.class("MeanMetric", {
  init = function(self, o) self.options = base.options("MeanMetric", {}, o) end,
  _fresh = function() return {sum = zero(), weight = zero()} end,
  _update = function(self, value, weight)
    if value == nil then error("MeanMetric: update wants a value, and maybe how many it stands for: mean:update(loss, #images)", 4) end
    value = base.tensor_of("MeanMetric", "the value", value):cpu():double()
    weight = weight == nil and torch.ones_like(value) or base.tensor_of("MeanMetric", "the weight", weight):cpu():double():expand_as(value)
    if value:isnan():any():item() then error("MeanMetric: the value is nan; see where it comes from with %nan, or leave such values out", 4, "value") end
    self.state.sum = self.state.sum + (value * weight):sum()
    self.state.weight = self.state.weight + weight:sum()
  end,
  _value = function(_, s) return (s.sum / s.weight):float() end,
  __tostring = function(self)
    local s = rawget(self, "state") and self:_shown()
    if not s or s.weight:item() == 0 then return "MeanMetric: nothing counted" end
    return ("MeanMetric: %.6g over %.6g"):format((s.sum / s.weight):item(), s.weight:item())
  end,
})

-- --- Regressions ---

-- The mean over all elements of f(prediction, target), finished by `last`.
local function error_metric(name, f, options, last)
  return base.class(name, {
    init = function(self, o) self.options = base.options(name, options or {}, o) end,
    _fresh = function() return {sum = zero(), count = zero()} end,
    _update = function(self, preds, target)
      preds, target = base.pair(name, preds, target)
      self.state.sum = self.state.sum + f(preds, target):sum()
      self.state.count = self.state.count + preds:numel()
    end,
    _value = function(self, s)
      local mean = s.sum / s.count
      return (last and last(self, mean) or mean):float()
    end,
  })
end
metrics.MeanSquaredError = error_metric("MeanSquaredError", function(p, t) return (p - t) ^ 2 end, {squared = "boolean"},
  function(self, mean) return self.options.squared == false and mean:sqrt() or mean end)
metrics.MeanAbsoluteError = error_metric("MeanAbsoluteError", function(p, t) return (p - t):abs() end)

metrics.R2Score = base.class("R2Score", {
  init = function(self, o) self.options = base.options("R2Score", {}, o) end,
  _fresh = function() return {left = zero(), sum = zero(), squares = zero(), count = zero()} end,
  _update = function(self, preds, target)
    preds, target = base.pair("R2Score", preds, target)
    local s = self.state
    s.left, s.sum = s.left + ((preds - target) ^ 2):sum(), s.sum + target:sum()
    s.squares, s.count = s.squares + (target ^ 2):sum(), s.count + target:numel()
  end,
  _value = function(_, s)
    if s.count:item() < 2 then error("R2Score: wants two values or more", 4, "value") end
    return (1 - s.left / (s.squares - s.sum ^ 2 / s.count)):float()
  end,
})

-- --- Several at once ---

local Collection = {_name = "MetricCollection", __name = "MetricCollection"}
Collection.__index = Collection
metrics.MetricCollection = setmetatable(Collection, {__call = function(_, list)
  if type(list) ~= "table" or getmetatable(list) ~= nil or next(list) == nil then
    error("MetricCollection: wants metrics by name, as in {acc = metrics.Accuracy(), f1 = metrics.F1Score()}", 2)
  end
  local by_name = {}
  for k, m in pairs(list) do
    if type(m) ~= "table" or type(m.compute) ~= "function" or not rawget(m, "state") then
      error(("MetricCollection: %s is no metric%s"):format(tostring(k), type(m) == "table" and rawget(m, "_name") and "; call the class: " .. m._name .. "()" or ""), 2)
    end
    by_name[type(k) == "string" and k or m._name] = m
  end
  return setmetatable({metrics = by_name}, Collection)
end})
local function in_order(self)
  local names = {}
  for name in pairs(self.metrics) do names[#names + 1] = name end
  table.sort(names)
  local i = 0
  return function()
    i = i + 1
    return names[i], self.metrics[names[i]]
  end
end

---Counts a batch in every metric.
function Collection:update(...)
  for _, m in in_order(self) do m:update(...) end
end
---The values by name.
---@return table
function Collection:compute()
  local out = {}
  for name, m in in_order(self) do out[name] = m:compute() end
  return out
end
---Counts from nothing again.
function Collection:reset()
  for _, m in in_order(self) do m:reset() end
end
Collection.__call = function(self, ...)
  local out = {}
  for name, m in in_order(self) do out[name] = m(...) end
  return out
end
Collection.__tostring = function(self)
  local parts = {}
  for name, m in in_order(self) do parts[#parts + 1] = name .. ": " .. tostring(m) end
  return table.concat(parts, "\n")
end

-- --- As functions of all predictions at once ---

local function function_of(class)
  return function(preds, target, options)
    local m = class(options)
    m:update(preds, target)
    return torch.no_grad(function() return m:_value(m.state) end)
  end
end

---The share of predictions that are right; see torch.metrics.Accuracy.
---@param preds torch.Tensor classes [n], or scores [n, classes]
---@param target torch.Tensor classes [n]
---@param options? {num_classes: integer, average: string, top_k: integer, task: string}
---@return torch.Tensor
metrics.accuracy = function_of(metrics.Accuracy)
metrics.precision = function_of(metrics.Precision)
metrics.recall = function_of(metrics.Recall)
metrics.f1_score = function_of(metrics.F1Score)
metrics.confusion_matrix = function_of(metrics.ConfusionMatrix)
metrics.mean_squared_error = function_of(metrics.MeanSquaredError)
metrics.mean_absolute_error = function_of(metrics.MeanAbsoluteError)
metrics.r2_score = function_of(metrics.R2Score)

return torch._strict(metrics, "torch.metrics")
