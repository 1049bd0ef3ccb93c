-- What all of torch.metrics share: classes with update, compute and reset, sums that are those of all ranks when
-- compute asks for them, and predictions made classes.
local torch = torch
local error = torch._raise
local base = {}

local Metric = {}
base.Metric = Metric

---A class of metrics. `fields` holds its methods: init(self, options), _update(self, ...) and _value(self, state), and
---_fresh(self), which gives the state before the first update: tensors by name, whose sums over updates (and ranks) count.
---@param name string
---@param fields table
function base.class(name, fields)
  local c = setmetatable(fields, {__index = Metric, __call = function(class, ...)
    local self = setmetatable({}, class)
    self:init(...)
    self.state = self:_fresh()
    return self
  end})
  c._name, c.__name, c.__index = name, name, c
  c.__call = function(self, ...) return self:forward(...) end
  c.__tostring = c.__tostring or function(self) return ("%s: %d updates"):format(name, self.updates or 0) end
  return c
end

local function check_self(self, method)
  if type(self) ~= "table" or type(rawget(self, "state")) ~= "table" then
    error(("metrics: %s wants a metric before the colon, as in metric:%s(..), not %s"):format(method, method,
      type(self) == "table" and rawget(self, "_name") and "the class " .. self._name or "a " .. type(self)), 3)
  end
end

---Counts a batch.
---@param preds any predictions
---@param target? any what is true
function Metric:update(preds, target)
  check_self(self, "update")
  torch.no_grad(function() self:_update(preds, target) end)
  self.gathered = nil
  self.updates = (self.updates or 0) + 1
end

---Counts a batch, and gives the value of that batch alone: metric(scores, labels).
function Metric:forward(...)
  check_self(self, "forward")
  local before, updates = self.state, self.updates
  self.state = self:_fresh()
  local ok, why = pcall(self.update, self, ...)
  local batch = self.state
  self.state, self.updates = before, updates
  if not ok then error(why, 0) end
  local value = torch.no_grad(function() return self:_value(batch) end)
  self.state, self.updates, self.gathered = self:_add(before, batch), (updates or 0) + 1, nil
  return value
end

-- The sum of two states; those of classes that are still being found grow.
function Metric:_add(a, b)
  local out = {}
  for name, v in pairs(a) do out[name] = v + b[name] end
  return out
end

-- How many ranks count together.
function Metric:_world()
  local dist = rawget(torch, "distributed")
  if self.options.sync_on_compute == false then return 1 end
  return dist and dist.is_initialized() and dist.get_world_size() or 1
end

-- The state over all ranks, which all ask for it. What this rank has counted stays its own.
function Metric:_over_ranks()
  local dist = rawget(torch, "distributed")
  if self:_world() == 1 then return self.state end
  local state, names = self:_same_size(dist), {}
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  local out, nccl = {}, dist.get_backend() == "nccl"
  for _, name in ipairs(names) do
    local t = nccl and state[name]:to("cuda") or state[name]:clone()
    dist.all_reduce(t)
    out[name] = t:cpu()
  end
  return out
end
function Metric:_same_size() return self.state end

---The value over everything that was counted since reset; in a process group over all ranks, which all call it.
---@return torch.Tensor
function Metric:compute()
  check_self(self, "compute")
  if (self.updates or 0) == 0 and self:_world() == 1 then
    error(("%s: nothing was counted%s; update(predictions, target) comes first"):format(self._name, self.updates and " since reset" or ""), 2, "value")
  end
  return torch.no_grad(function()
    self.gathered = self:_over_ranks()
    return self:_value(self.gathered)
  end)
end

-- What is shown: what compute has gathered from all ranks, or what this one has counted; one rank may show it alone.
function Metric:_shown() return self.gathered or self.state end

---Counts from nothing again.
function Metric:reset()
  check_self(self, "reset")
  self.state, self.updates, self.gathered = self:_fresh(), 0, nil
end

---Metrics count on the CPU whatever device the values come from: this changes nothing.
function Metric:to() return self end

-- --- Options ---

---Checks options by name: {name = "integer"|"number"|"boolean"|"string"|"table"|function that gives nil or what is wanted}.
function base.options(who, allowed, o)
  if o == nil then o = {} end
  allowed.sync_on_compute = "boolean"
  if type(o) == "number" and allowed.num_classes then o = {num_classes = o} end
  if type(o) ~= "table" or torch.is_tensor(o) then
    error(("%s: wants options in a table, as in metrics.%s{num_classes = 10}; predictions go to update"):format(who, who), 4)
  end
  local names = {}
  for name in pairs(allowed) do names[#names + 1] = name end
  table.sort(names)
  for name, v in pairs(o) do
    local want = allowed[name]
    if not want then error(('%s: no option "%s" (it has: %s)'):format(who, tostring(name), table.concat(names, ", ")), 4) end
    local ok = type(want) == "table" or type(v) == want or want == "integer" and math.tointeger(v)
    if type(want) == "table" then
      ok = false
      for _, word in ipairs(want) do ok = ok or v == word end
      want = 'one of "' .. table.concat(want, '", "') .. '"'
    elseif ok and name ~= "threshold" and name ~= "ignore_index" and (want == "integer" or want == "number") then
      ok = v >= 1
      want = want .. " of at least 1"
    else
      want = (want:find "^[aeiou]" and "an " or "a ") .. want
    end
    if not ok then error(("%s: %s must be %s, not %s"):format(who, name, want, tostring(v)), 4, "value") end
  end
  return o
end

-- --- Predictions and labels ---

local function tensor_of(who, what, v)
  if type(v) == "number" or type(v) == "boolean" or type(v) == "table" and getmetatable(v) == nil then v = torch.tensor(v) end
  if not torch.is_tensor(v) then error(("%s: %s must be a tensor, not a %s"):format(who, what, type(v)), 5) end
  return v:detach()
end
base.tensor_of = tensor_of

---Two tensors of one shape, as float64 on the CPU: for regressions.
function base.pair(who, preds, target)
  preds, target = tensor_of(who, "predictions", preds), tensor_of(who, "target", target)
  if preds.shape ~= target.shape then
    local one = preds:numel() == target:numel()
    error(("%s: predictions have shape %s and the target %s%s"):format(who, tostring(preds.shape), tostring(target.shape),
      one and "; preds:view_as(target) gives them one shape" or ""), 4, "shape")
  end
  return preds:cpu():double(), target:cpu():double()
end

---Classes from 1, as int64 vectors on the CPU, and how many there are at least. Predictions are classes as the target's,
---or scores with a dimension for the classes after the first; of two classes (target 0 or 1) also one score or
---probability for each.
---@return torch.Tensor predicted, torch.Tensor truth, integer classes, torch.Tensor? scores [n, classes]
function base.classes(who, preds, target, o)
  preds, target = tensor_of(who, "predictions", preds), tensor_of(who, "target", target)
  local scores
  local binary = o.task == "binary"
  if preds.ndim == target.ndim + 1 and preds.ndim >= 2 then
    if preds.shape[2] == 1 then
      error(("%s: predictions of shape %s have one score for each item; of two classes: preds:squeeze(2), with a target of 0 and 1"):format(who,
        tostring(preds.shape)), 4, "shape")
    end
    scores = preds:movedim(2, -1):reshape(-1, preds.shape[2])
    local rest = {table.unpack(preds.shape)}
    table.remove(rest, 2)
    local same = true
    for i, n in ipairs(rest) do same = same and n == target.shape[i] end
    if not same then
      error(("%s: scores of shape %s want a target of shape [%s], not %s"):format(who, tostring(preds.shape), table.concat(rest, ", "),
        tostring(target.shape)), 4, "shape")
    end
    preds = scores:argmax(2)
  elseif preds.shape ~= target.shape then
    local hint = preds:numel() == target:numel() and "; preds:view_as(target) gives them one shape" or ""
    error(("%s: predictions of shape %s want a target of the same shape, or scores [n, classes] a target [n]; the target is %s%s"):format(who,
      tostring(preds.shape), tostring(target.shape), hint), 4, "shape")
  elseif preds:is_floating_point() and not binary then
    if o.num_classes and o.num_classes ~= 2 then
      error(("%s: predictions of type %s and shape %s are neither classes nor scores [n, %d]; scores:argmax(2) gives classes"):format(who,
        tostring(preds.dtype), tostring(preds.shape), o.num_classes), 4, "dtype")
    end
    binary = true
  elseif preds.dtype == torch.bool or target.dtype == torch.bool then
    binary = true
  end
  preds, target = preds:reshape(-1):cpu(), target:reshape(-1):cpu()
  if binary and not scores then
    if preds:is_floating_point() then
      if preds:numel() > 0 and (preds:lt(0):any():item() or preds:gt(1):any():item()) then preds = preds:sigmoid() end
      preds = preds:gt(o.threshold or 0.5)
    end
    preds, target = preds:long() + 1, target:double()
    if not (target:eq(0) | target:eq(1)):all():item() then
      local odd = target[(~(target:eq(0) | target:eq(1))):nonzero()[{1, 1}]]:item()
      error(("%s: of two classes, the target is 0 or 1 (false or true), not %g"):format(who, odd), 4, "value")
    end
    target = target:long() + 1
  end
  if target:is_floating_point() then
    if target:frac():abs():sum():item() ~= 0 then
      error(("%s: the target holds classes, whole numbers from 1; it is %s with fractions"):format(who, tostring(target.dtype)), 4, "dtype")
    end
    target = target:long()
  end
  preds, target = preds:long(), target:long()
  if o.ignore_index then
    local kept = target:ne(o.ignore_index)
    preds, target, scores = preds[kept], target[kept], scores and scores[kept:to(scores.device)]
  end
  local n = binary and 2 or o.num_classes or scores and scores.shape[2] or 0
  if scores and o.num_classes and scores.shape[2] ~= o.num_classes then
    error(("%s: scores of shape %s are of %d classes; num_classes is %d"):format(who, tostring(scores.shape), scores.shape[2], o.num_classes), 4, "shape")
  end
  if target:numel() > 0 then
    for what, t in pairs {target = target, predictions = preds} do
      local low, high = t:min():item(), t:max():item()
      if low < 1 then
        error(("%s: classes count from 1, but %s %s %d%s"):format(who, what == "target" and "the target holds" or "predictions hold", "the class",
          low, low == 0 and "; + 1 makes 0, 1, .. classes from 1" or ""), 4, "value")
      end
      if (o.num_classes or scores) and high > n then
        error(("%s: %s %d, but there are %d classes"):format(who, what == "target" and "the target holds class" or "predictions hold class", high, n), 4, "value")
      end
      n = math.max(n, high)
    end
  end
  if n > 4096 and not o.num_classes then
    error(("%s: class %d would make a table of %d x %d; num_classes = %d says that it is meant"):format(who, n, n, n, n), 4, "value")
  end
  return preds, target, n, scores
end

return base
