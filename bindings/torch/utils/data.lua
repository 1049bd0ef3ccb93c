-- torch.utils.data: datasets, samplers and the loader that makes batches of them.
local torch = torch
local error = torch._raise
local data = {}

-- A class with inheritance: data.class("Name", base). Objects are made by calling it.
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

---The base of datasets. Define `Set:get(i)` (i from 1) and `Set:__len()`.
data.Dataset = class("Dataset")
---Makes a class of datasets: data.class("Set"), with Set:init(...), Set:get(i) and Set:__len().
data.class = function(name, base) return class(name, base or data.Dataset) end

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
      error(("TensorDataset: tensor %d has %d rows, the first %d"):format(i, #t, #self.tensors[1]), 3, "shape")
    end
  end
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
  self.dataset, self.indices = dataset, torch.is_tensor(indices) and indices:tolist() or indices
end
function data.Subset:get(i) return self.dataset:get(self.indices[i]) end
data.Subset.__len = function(self) return #self.indices end

---The base of samplers. Define `Mine:iter()`, which returns an iterator function, and `Mine:__len()`.
data.Sampler = class("Sampler")
data.Sampler.__call = function(self) return self:iter() end

data.SequentialSampler = class("SequentialSampler", data.Sampler)
function data.SequentialSampler:init(dataset) self.dataset = dataset end
function data.SequentialSampler:iter()
  local i, n = 0, #self.dataset
  return function()
    i = i + 1
    if i <= n then return i end
  end
end
data.SequentialSampler.__len = function(self) return #self.dataset end

data.RandomSampler = class("RandomSampler", data.Sampler)
function data.RandomSampler:init(dataset) self.dataset = dataset end
function data.RandomSampler:iter()
  local order, i = torch.randperm(#self.dataset):tolist(), 0
  return function()
    i = i + 1
    return order[i]
  end
end
data.RandomSampler.__len = function(self) return #self.dataset end

---Joins samples into a batch: tensors are stacked, numbers become tensors, tables go field by field.
---@param indices? integer[] the samples' positions in the dataset, for messages
function data.default_collate(samples, indices)
  local first = samples[1]
  if torch.is_tensor(first) then
    for i, s in ipairs(samples) do
      if not torch.is_tensor(s) or s.shape ~= first.shape then
        local function item(k)
          return indices and ("item %d (dataset index %d)"):format(k, indices[k]) or ("item %d"):format(k)
        end
        error(("collate: %s %s, %s has %s; give the loader a collate_fn, or pad"):format(item(i),
          torch.is_tensor(s) and "has shape " .. tostring(s.shape) or "is no tensor", item(1), tostring(first.shape)), 2, "shape")
      end
    end
    return torch.stack(samples)
  elseif type(first) == "number" or type(first) == "boolean" then
    return torch.tensor(samples)
  elseif type(first) == "table" then
    local batch = {}
    for k in pairs(first) do
      local column = {}
      for i, s in ipairs(samples) do column[i] = s[k] end
      batch[k] = data.default_collate(column, indices)
    end
    return batch
  end
  return samples
end

local names = {batch_size = 1, shuffle = false, num_workers = 0, pin_memory = false, drop_last = false,
  sampler = false, collate_fn = false}

---Batches of a dataset: `for x, y in loader() do`. Options: batch_size, shuffle, drop_last, sampler, collate_fn.
---Batches are loaded in the calling thread, so shuffling and random numbers in `get` come from one stream:
---torch.manual_seed(s) repeats them, and math.randomseed(s) those of math.random.
data.DataLoader = class("DataLoader")
function data.DataLoader:init(dataset, options)
  if type(dataset) ~= "table" or not dataset.get then
    error("DataLoader: wants a dataset: an object with get(i) and a length (data.TensorDataset(x, y))", 3)
  end
  for k, v in pairs(names) do self[k] = v end
  for k, v in pairs(options or {}) do
    if names[k] == nil then
      local list = {}
      for n in pairs(names) do list[#list + 1] = n end
      table.sort(list)
      error(('DataLoader: no argument "%s" (it has: %s)'):format(tostring(k), table.concat(list, ", ")), 3)
    end
    self[k] = v
  end
  self.dataset = dataset
  if math.type(self.batch_size) ~= "integer" or self.batch_size < 1 then
    error(("DataLoader: batch_size must be a positive integer, not %s"):format(tostring(self.batch_size)), 3, "value")
  end
  if self.num_workers ~= 0 then
    error(("DataLoader: num_workers is %s, but batches are loaded in the calling thread: leave it out, or num_workers=0"):format(tostring(self.num_workers)), 3, "value")
  end
  if self.sampler and self.shuffle then error("DataLoader: give either a sampler or shuffle, not both", 3) end
  if not self.sampler then
    self.sampler = self.shuffle and data.RandomSampler(dataset) or data.SequentialSampler(dataset)
  end
end
data.DataLoader.__len = function(self)
  local n = #self.sampler
  return self.drop_last and n // self.batch_size or (n + self.batch_size - 1) // self.batch_size
end

-- Rows of a TensorDataset are picked all at once, which gives the same batches as item by item.
local function pick_rows(self, batch)
  local index, out = torch.tensor(batch), {}
  for k, t in ipairs(self.dataset.tensors) do out[k] = t:index_select(1, index:to(t.device)) end
  return out
end

data.DataLoader.__call = function(self)
  local draw = self.sampler()
  local rows = getmetatable(self.dataset) == data.TensorDataset and not self.collate_fn
  local collate = self.collate_fn or data.default_collate
  return function()
    local batch, n = {}, 0
    while n < self.batch_size do
      local i = draw()
      if i == nil then break end
      n = n + 1
      batch[n] = i
    end
    if n == 0 or (n < self.batch_size and self.drop_last) then return nil end
    local joined
    if rows then
      joined = pick_rows(self, batch)
    else
      local indices = table.move(batch, 1, n, 1, {})
      for i = 1, n do batch[i] = self.dataset:get(batch[i]) end
      if collate == data.default_collate then joined = collate(batch, indices) else joined = collate(batch) end
    end
    if type(joined) == "table" and #joined > 0 and getmetatable(joined) == nil then return table.unpack(joined) end
    return joined
  end
end

return data
