-- How often a class was taken for another: the confusion matrix, as a tensor, a table of text and a picture, and what is
-- counted from it: accuracy, precision, recall, F1.
local torch = torch
local error = torch._raise
local base = require "torch.metrics.base"
local columns = require "torch.columns"

local tasks = {"binary", "multiclass"}

local function value_text(v)
  if v:numel() == 1 then return ("%.4g"):format(v:item()) end
  local out = {}
  for i, each in ipairs(v:tolist()) do out[i] = ("%.4g"):format(each) end
  return table.concat(out, " ")
end

-- What all of them have: the matrix [truth, predicted] of all updates.
local Counting = {}

function Counting:_fresh()
  local n = self.options.task == "binary" and 2 or self.options.num_classes or 0
  return {matrix = torch.zeros(n, n, {dtype = "int64"})}
end

local function grown(matrix, n)
  local had = matrix.shape[1]
  if had >= n then return matrix end
  local out = torch.zeros(n, n, {dtype = "int64"})
  if had > 0 then out[{{1, had}, {1, had}}] = matrix end
  return out
end

function Counting:_add(a, b)
  local n = math.max(a.matrix.shape[1], b.matrix.shape[1])
  local out = {}
  for name, v in pairs(a) do out[name] = name == "matrix" and grown(v, n) + grown(b[name], n) or v + b[name] end
  return out
end

function Counting:_update(preds, target)
  local who, o = self._name, self.options
  if preds == nil or target == nil then error(("%s: update wants predictions and what is true: metric:update(scores, labels)"):format(who), 5) end
  local predicted, truth, n, scores = base.classes(who, preds, target, o)
  local state = self.state
  local matrix = grown(state.matrix, n)
  n = matrix.shape[1]
  if truth:numel() > 0 then
    matrix = matrix + ((truth - 1) * n + (predicted - 1)):bincount{minlength = n * n}:view(n, n)
  end
  state.matrix = matrix
  if o.task == nil and predicted:numel() > 0 and not scores and torch.is_tensor(preds) and
    (preds:is_floating_point() or preds.dtype == torch.bool) then
    self.binary = true
  end
  if state.right then self:_count_top(scores, truth) end
end

function Counting:_same_size(dist)
  local n = torch.tensor(self.state.matrix.shape[1])
  if dist.get_backend() == "nccl" then n = n:to("cuda") end
  dist.all_reduce(n, dist.ReduceOp.MAX)
  local out = {}
  for name, v in pairs(self.state) do out[name] = name == "matrix" and grown(v, n:item()) or v end
  return out
end

function Counting:__tostring()
  local state = rawget(self, "state") and self:_shown()
  if not state or state.matrix:sum():item() == 0 then return self._name .. ": nothing counted" end
  return ("%s: %s over %d items"):format(self._name, value_text(torch.no_grad(function() return self:_value(state) end)), state.matrix:sum():item())
end

local function class(name, fields)
  for key, f in pairs(Counting) do fields[key] = fields[key] or f end
  return base.class(name, fields)
end

-- Right answers, predictions and truths of each class, as float64.
local function counts(matrix)
  local m = matrix:double()
  return m:diagonal(), m:sum(1), m:sum(2), m:sum()
end
local function share(a, b) return torch.where(b:gt(0), a / b:clamp_min(1), torch.zeros_like(a)) end

-- The mean of what each class has, as `average` says; classes that occur nowhere count in none.
local function averaged(self, each, right, predicted, truth, micro)
  local average = self.options.average or self.average
  if average == "none" then return each:float() end
  if self.options.task == "binary" or self.binary and #each == 2 then
    if not self.options.average then return (self.average == "micro" and micro() or each[2]):float() end
  end
  if average == "micro" then return micro():float() end
  local weight = average == "weighted" and truth or (predicted + truth):gt(0):double()
  return ((each * weight):sum() / weight:sum():clamp_min(1e-300)):float()
end

local function averages(name, average, of_class)
  return class(name, {
    average = average,
    init = function(self, o)
      self.options = base.options(name, {task = tasks, num_classes = "integer", average = {"micro", "macro", "weighted", "none"}, threshold = "number",
        ignore_index = "integer"}, o)
    end,
    _value = function(self, state)
      local right, predicted, truth, all = counts(state.matrix)
      return averaged(self, of_class(right, predicted, truth), right, predicted, truth, function() return share(right:sum(), all) end)
    end,
  })
end

local metrics = {}
metrics.Precision = averages("Precision", "macro", function(right, predicted) return share(right, predicted) end)
metrics.Recall = averages("Recall", "macro", function(right, _, truth) return share(right, truth) end)
metrics.F1Score = averages("F1Score", "macro", function(right, predicted, truth) return share(2 * right, predicted + truth) end)

metrics.Accuracy = class("Accuracy", {
  average = "micro",
  init = function(self, o)
    self.options = base.options("Accuracy", {task = tasks, num_classes = "integer", average = {"micro", "macro", "weighted", "none"}, threshold = "number",
      ignore_index = "integer", top_k = "integer"}, o)
    if (self.options.top_k or 1) > 1 and (self.options.average or "micro") ~= "micro" then
      error('Accuracy: top_k counts all items alike; leave average out', 3, "value")
    end
  end,
  _fresh = function(self)
    local state = Counting._fresh(self)
    if (self.options.top_k or 1) > 1 then state.right, state.seen = torch.zeros({}, {dtype = "int64"}), torch.zeros({}, {dtype = "int64"}) end
    return state
  end,
  _count_top = function(self, scores, truth)
    local k = self.options.top_k
    if not scores or scores.shape[2] < k then
      error(("Accuracy: top_k = %d wants scores [n, classes] of at least %d classes"):format(k, k), 5, "shape")
    end
    if truth:numel() == 0 then return end
    local _, best = scores:topk(k, 2)
    self.state.right = self.state.right + best:cpu():eq(truth:unsqueeze(2)):sum()
    self.state.seen = self.state.seen + #truth
  end,
  _value = function(self, state)
    if state.right then return share(state.right:double(), state.seen:double()):float() end
    local right, predicted, truth, all = counts(state.matrix)
    return averaged(self, share(right, truth), right, predicted, truth, function() return share(right:sum(), all) end)
  end,
})

-- --- The matrix itself ---

local function percent(v) return ("%.1f %%"):format(100 * v) end

-- Names of n classes: those given, or their numbers (of two classes told by a probability, 0 and 1).
local function names_of(self, n)
  local given, out = self.options.labels, {}
  if given and #given < n then
    error(("ConfusionMatrix: there are %d classes, and labels has %d names"):format(n, #given), 3, "value")
  end
  for i = 1, n do out[i] = given and tostring(given[i]) or tostring(self.binary and n == 2 and not given and i - 1 or i) end
  return out
end

local function padded(s, width) return (" "):rep(width - columns.of(s)) .. s end

-- What was taken for what, most often first.
local function worst(matrix, names, most)
  local list = {}
  for i, row in ipairs(matrix:tolist()) do
    for j, count in ipairs(row) do
      if i ~= j and count > 0 then list[#list + 1] = {count, names[i], names[j]} end
    end
  end
  table.sort(list, function(a, b)
    if a[1] ~= b[1] then return a[1] > b[1] end
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[3] < b[3]
  end)
  local lines = {}
  for k = 1, math.min(most, #list) do lines[k] = ("  %d x %s taken for %s"):format(list[k][1], list[k][2], list[k][3]) end
  if #list > most then lines[#lines + 1] = ("  .. and %d more kinds of mistake"):format(#list - most) end
  return table.concat(lines, "\n")
end

---The matrix as a table: a row for what is true, a column for what was predicted, recall and precision at the borders. In a
---process group: of what compute() has gathered from all ranks, before that of what this rank has counted.
---@param self table
---@param o? {width: integer}
local function table_text(self, o)
  if type(self) ~= "table" or type(rawget(self, "state")) ~= "table" then error("ConfusionMatrix: text wants a metric before the colon, as in matrix:text()", 2) end
  local matrix = self:_shown().matrix
  local n = matrix.shape[1]
  local right, predicted, truth, all = counts(matrix)
  local head = ("confusion matrix of %d classes, %d items, accuracy %s"):format(n, all:item(), all:item() > 0 and percent(right:sum():item() / all:item()) or "of nothing")
  if self:_world() > 1 then head = head .. (self.gathered and ", over all ranks" or ", of this rank alone") end
  if n == 0 then return head end
  local names = names_of(self, n)
  local width = o and o.width or torch._terminal().columns or 100
  local cell, label = #tostring(math.tointeger(matrix:max():item())), #"precision"
  for i, name in ipairs(names) do
    names[i] = columns.clipped(name, 16)
    label = math.max(label, columns.of(names[i]))
  end
  local tops, wide = names, cell
  for _, name in ipairs(names) do wide = math.max(wide, columns.of(name)) end
  wide = math.max(wide, 3)
  if label + n * (wide + 2) + 11 > width then  -- names at the left alone: columns by number
    tops, wide = {}, math.max(cell, #tostring(n), 3)
    for i = 1, n do
      tops[i] = tostring(i)
      names[i] = self.options.labels and ("%d %s"):format(i, names[i]) or names[i]
      label = math.max(label, columns.of(names[i]))
    end
  end
  if label + n * (wide + 2) + 11 > width then return head .. "\n" .. worst(matrix, names, 20) end
  local lines = {head, padded("", label) .. "  predicted"}
  local row = {"truth" .. (" "):rep(label - 5)}
  for i = 1, n do row[#row + 1] = padded(tops[i], wide) end
  row[#row + 1] = padded("recall", 9)
  lines[#lines + 1] = table.concat(row, "  ")
  local recall, precision = share(right, truth):tolist(), share(right, predicted):tolist()
  local occurs, said = truth:tolist(), predicted:tolist()
  for i, counted in ipairs(matrix:tolist()) do
    row = {names[i] .. (" "):rep(label - columns.of(names[i]))}
    for _, c in ipairs(counted) do row[#row + 1] = padded(c == 0 and "." or tostring(c), wide) end
    row[#row + 1] = padded(occurs[i] > 0 and percent(recall[i]) or "none", 9)
    lines[#lines + 1] = table.concat(row, "  ")
  end
  row = {"precision" .. (" "):rep(label - 9)}
  for i = 1, n do row[#row + 1] = padded(said[i] == 0 and "-" or wide >= 7 and percent(precision[i]) or ("%.0f%%"):format(100 * precision[i]), math.max(wide, 3)) end
  lines[#lines + 1] = table.concat(row, "  ")
  return table.concat(lines, "\n")
end

metrics.ConfusionMatrix = class("ConfusionMatrix", {
  init = function(self, o)
    self.options = base.options("ConfusionMatrix", {task = tasks, num_classes = "integer", threshold = "number", ignore_index = "integer",
      normalize = {"true", "pred", "all", "none"}, labels = "table"}, o)
    local labels, n = self.options.labels, self.options.num_classes
    if labels and n and #labels ~= n then
      error(("ConfusionMatrix: labels has %d names for num_classes = %d"):format(#labels, n), 3, "value")
    end
    if labels and not n and #labels > 0 then
      self.options = setmetatable({num_classes = #labels}, {__index = self.options})
    end
  end,
  _value = function(self, state)
    local how, m = self.options.normalize, state.matrix
    if not how or how == "none" then return m end
    m = m:double()
    local by = how == "true" and m:sum(2, true) or how == "pred" and m:sum(1, true) or m:sum()
    return share(m, by:expand_as(m)):float()
  end,
  text = table_text,
  __tostring = function(self) return rawget(self, "state") and table_text(self) or "ConfusionMatrix" end,
})

---Draws the matrix as a heat map with its counts: in the terminal the table, or into a file (.svg or .png). In a process
---group it shows what compute() has gathered from all ranks, before that what this rank has counted.
---@param options? {file: string, title: string, width: integer, height: integer}
function metrics.ConfusionMatrix:plot(options)
  local o = {}
  if options ~= nil and type(options) ~= "table" then
    error('ConfusionMatrix: plot wants options in a table, as in matrix:plot{file = "confusion.svg"}', 2)
  end
  for k, v in pairs(options or {}) do o[k] = v end
  if not o.file then
    io.stdout:write(self:text(), "\n")
    return
  end
  local state = self:_shown()
  local names = names_of(self, state.matrix.shape[1])
  o.rows, o.columns, o.values, o.low = names, names, true, o.low or 0
  o.xlabel, o.ylabel = o.xlabel or "predicted", o.ylabel or "truth"
  torch.no_grad(function() return self:_value(state) end):show(o)
end

return metrics
