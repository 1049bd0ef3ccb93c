-- Datasets: objects with get(i), i from 1, and a length; or, read in order alone, with iter().
local torch = torch
local error = torch._raise
local data = {}

-- A class with inheritance. Objects are made by calling it.
local function class(name, base)
  local c = {__name = name, _name = name}
  for _, event in ipairs {"__len", "__call", "__tostring"} do
    if base and rawget(base, event) then c[event] = rawget(base, event) end
  end
  c.__index = c
  return setmetatable(c, {
    __index = base,
    __call = function(class_, ...)
      local self = setmetatable({}, class_)
      if class_.init then class_.init(self, ...) end
      return self
    end,
  })
end

-- What a `for` or an index without the call says; Lua would go on for ever, or find nothing.
local function refuse_lists(c, what, instead)
  getmetatable(c).__index = function(_, key)
    if math.type(key) == "integer" then error(("%s: is no list, so [%d] finds nothing in it; write %s"):format(what, key, instead:format(key)), 2) end
  end
end
---An iterator's call, refused where `for` itself makes it (with its state): the loop would never end.
function data._iterated(what, instead, f)
  return function(self, ...)
    if select("#", ...) > 0 then error(("%s: the loop wants its iterator; write %s"):format(what, instead), 2) end
    return f(self)
  end
end
data._refuse_lists = refuse_lists

---The base of datasets. Define `Set:get(i)` (i from 1) and `Set:__len()`.
data.Dataset = class("Dataset")
refuse_lists(data.Dataset, "a dataset", "set:get(%d)")
---Makes a class of datasets: data.class("Set"), with Set:init(...), Set:get(i) and Set:__len().
data.class = function(name, base) return class(name, base or data.Dataset) end
data._class = class

---Tensors of the same first size; item i is {t1[i], t2[i], ...}.
data.TensorDataset = class("TensorDataset", data.Dataset)
function data.TensorDataset:init(...)
  self.tensors = {...}
  if #self.tensors == 0 then error("TensorDataset: wants at least one tensor", 3) end
  for i, t in ipairs(self.tensors) do
    if not torch.is_tensor(t) or t.ndim == 0 then
      error(("TensorDataset: argument %d must be a tensor with a first dimension"):format(i), 3)
    end
    if #t ~= #self.tensors[1] then
      local n = #self.tensors[1]
      local turned = t.ndim > 1 and #t == 1 and t.shape[2] == n and ("; dimensions count from 1: unsqueeze(2) makes a column [%d, 1]"):format(n) or ""
      error(("TensorDataset: tensor %d of shape %s has %d rows, the first has %d%s"):format(i, tostring(t.shape), #t, n, turned), 3, "shape")
    end
  end
  require("torch.notes.labels").of_tensors(self.tensors)
end
function data.TensorDataset:get(i)
  local row = {}
  for k, t in ipairs(self.tensors) do row[k] = t[i] end
  return row
end
data.TensorDataset.__len = function(self) return #self.tensors[1] end

---Some items of another dataset, by position.
data.Subset = class("Subset", data.Dataset)
function data.Subset:init(dataset, indices)
  if type(dataset) ~= "table" or not dataset.get then error("Subset: wants a dataset with get(i)", 3) end
  if type(indices) ~= "table" and not torch.is_tensor(indices) then
    error(("Subset: wants the items' positions: data.Subset(set, {1, 2}), not %s"):format(tostring(indices)), 3)
  end
  self.dataset, self.indices = dataset, torch.is_tensor(indices) and indices:tolist() or indices
end
function data.Subset:get(i)
  local at = self.indices[i]
  if at == nil then error(("Subset: item %s of %d (positions count from 1)"):format(tostring(i), #self.indices), 2, "index") end
  return self.dataset:get(at)
end
data.Subset.__len = function(self) return #self.indices end

local function check_datasets(name, list)
  if type(list) ~= "table" or #list == 0 then error(name .. ": wants a list of datasets: {a, b}", 4) end
  for i, d in ipairs(list) do
    if type(d) ~= "table" then error(("%s: item %d is no dataset, but a %s"):format(name, i, type(d)), 4) end
  end
end

---Several datasets, one after the other; `a + b` makes one too.
data.ConcatDataset = class("ConcatDataset", data.Dataset)
function data.ConcatDataset:init(datasets)
  check_datasets("ConcatDataset", datasets)
  self.datasets, self.cumulative_sizes = {table.unpack(datasets)}, {}
  local n = 0
  for i, d in ipairs(datasets) do
    if not d.get then error(("ConcatDataset: dataset %d has no get(i); sequences are joined by ChainDataset"):format(i), 3) end
    n = n + #d
    self.cumulative_sizes[i] = n
  end
end
function data.ConcatDataset:get(i)
  local n = #self
  if math.type(i) == "integer" and i < 0 and i >= -n then i = n + 1 + i end
  if math.type(i) ~= "integer" or i < 1 or i > n then
    error(("ConcatDataset: item %s of %d (positions count from 1)"):format(tostring(i), n), 2, "index")
  end
  local low, high = 1, #self.datasets
  while low < high do
    local middle = (low + high) // 2
    if i <= self.cumulative_sizes[middle] then high = middle else low = middle + 1 end
  end
  return self.datasets[low]:get(i - (self.cumulative_sizes[low - 1] or 0))
end
data.ConcatDataset.__len = function(self) return self.cumulative_sizes[#self.datasets] end

---Several datasets side by side: item i is {a[i], b[i], ...}, or with names {x = a[i], y = b[i]}.
data.StackDataset = class("StackDataset", data.Dataset)
function data.StackDataset:init(...)
  local first = ...
  local named = select("#", ...) == 1 and type(first) == "table" and getmetatable(first) == nil
  self.datasets = named and first or {...}
  local n
  for k, d in pairs(self.datasets) do
    if type(d) ~= "table" or not (d.get or getmetatable(d) == nil) then
      error(("StackDataset: %s is no dataset with get(i), but a %s"):format(tostring(k), torch.is_tensor(d) and "tensor" or type(d)), 3)
    end
    if n and #d ~= n then error(("StackDataset: %s has %d items, another %d"):format(tostring(k), #d, n), 3, "shape") end
    n = #d
  end
  if not n then error("StackDataset: wants at least one dataset", 3) end
end
function data.StackDataset:get(i)
  local out = {}
  for k, d in pairs(self.datasets) do
    if d.get then out[k] = d:get(i) else out[k] = d[i] end
  end
  return out
end
data.StackDataset.__len = function(self)
  local _, first = next(self.datasets)
  return #first
end

---A dataset that is read in order: define `Set:iter()`, which returns an iterator function; nil ends it.
data.IterableDataset = class("IterableDataset", data.Dataset)
data.IterableDataset.__call = data._iterated("a dataset", "for x in set() do", function(self) return self:iter() end)

---Sequences (IterableDataset), one after the other.
data.ChainDataset = class("ChainDataset", data.IterableDataset)
function data.ChainDataset:init(datasets)
  check_datasets("ChainDataset", datasets)
  for i, d in ipairs(datasets) do
    if not d.iter then error(("ChainDataset: dataset %d has no iter(); datasets with get(i) are joined by ConcatDataset"):format(i), 3) end
  end
  self.datasets = {table.unpack(datasets)}
end
function data.ChainDataset:iter()
  local at, draw = 0, nil
  return function()
    while true do
      local item = draw and draw()
      if item ~= nil then return item end
      at = at + 1
      if not self.datasets[at] then return nil end
      draw = self.datasets[at]:iter()
    end
  end
end

---Parts of a dataset, chosen at random without overlap.
---@param dataset table
---@param lengths number[] how many items in each part, or fractions that add up to 1
---@param generator? torch.Generator
---@return table ... a Subset for each length
function data.random_split(dataset, lengths, generator)
  if type(generator) == "table" then generator = generator.generator end
  if type(lengths) ~= "table" or #lengths == 0 then error("random_split: wants a list of lengths, as in {80, 20} or {0.8, 0.2}", 2) end
  local n, sum = #dataset, 0
  local counts = {}
  for i, l in ipairs(lengths) do
    if type(l) ~= "number" or l < 0 or l ~= l then error(("random_split: length %d must be 0 or more, not %s"):format(i, tostring(l)), 2, "value") end
    sum, counts[i] = sum + l, l
  end
  if math.abs(sum - 1) < 1e-8 and (n ~= 1 or math.type(sum) == "float") then
    local left = n
    for i, l in ipairs(lengths) do
      if l > 1 then error(("random_split: fraction %d is above 1"):format(i), 2, "value") end
      counts[i] = math.floor(n * l)
      left = left - counts[i]
    end
    for i = 1, left do
      local k = (i - 1) % #counts + 1
      counts[k] = counts[k] + 1
    end
  elseif sum ~= n then
    error(("random_split: the lengths add up to %s, the dataset has %d items"):format(tostring(sum), n), 2, "value")
  end
  local order, at, parts = torch.randperm(n, {generator = generator}):tolist(), 0, {}
  for i, count in ipairs(counts) do
    count = math.tointeger(count) or error(("random_split: length %d must be an integer, not %s"):format(i, tostring(count)), 2, "value")
    parts[i] = data.Subset(dataset, table.move(order, at + 1, at + count, 1, {}))
    at = at + count
  end
  return table.unpack(parts)
end

for _, name in ipairs {"Dataset", "TensorDataset", "Subset", "ConcatDataset"} do
  data[name].__add = function(a, b) return data.ConcatDataset {a, b} end
end

return data
