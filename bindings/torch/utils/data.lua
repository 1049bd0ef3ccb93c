-- torch.utils.data: datasets, samplers and the loader that makes batches of them.
local torch = torch
local error = torch._raise
local data = require "torch.utils.datasets"
require "torch.utils.samplers"(data)
local take_options = require "torch.utils.options"
require "torch.utils.images"(data)
require "torch.utils.tables"(data)
require "torch.utils.folders"(data)
require "torch.utils.known"(data)

---What a loader without batches does to a sample: numbers become tensors, tensors stay, tables go field by field.
---@param sample any
function data.default_convert(sample)
  if type(sample) == "number" then return torch.tensor(sample) end
  if type(sample) ~= "table" or getmetatable(sample) ~= nil then return sample end
  local out = {}
  for k, v in pairs(sample) do out[k] = data.default_convert(v) end
  return out
end

---Joins samples into a batch: tensors are stacked, numbers become tensors (float64 and int64), tables go
---field by field, texts stay a list.
---@param samples table
---@param indices? integer[] the samples' positions in the dataset, for messages
function data.default_collate(samples, indices)
  local first = samples[1]
  local function item(k)
    return indices and indices[k] and ("item %d (dataset index %s)"):format(k, tostring(indices[k])) or ("item %d"):format(k)
  end
  if torch.is_tensor(first) then
    for i, s in ipairs(samples) do
      if not torch.is_tensor(s) or s.shape ~= first.shape then
        error(("collate: %s %s, %s has %s; give the loader a collate_fn, or pad"):format(item(i),
          torch.is_tensor(s) and "has shape " .. tostring(s.shape) or "is no tensor", item(1), tostring(first.shape)), 2, "shape")
      end
    end
    return torch.stack(samples)
  elseif type(first) == "number" or type(first) == "boolean" then
    local floating = false
    for i, s in ipairs(samples) do
      if type(s) ~= type(first) then error(("collate: %s is a %s, %s a %s"):format(item(i), type(s), item(1), type(first)), 2) end
      floating = floating or math.type(s) == "float"
    end
    return torch.tensor(samples, floating and {dtype = torch.float64} or nil)
  elseif type(first) == "table" then
    local batch = {}
    for i, s in ipairs(samples) do
      if type(s) ~= "table" or #s ~= #first then
        error(("collate: %s %s, %s has %d values; give the loader a collate_fn"):format(item(i),
          type(s) == "table" and ("has %d values"):format(#s) or "is a " .. type(s), item(1), #first), 2, "shape")
      end
    end
    for k in pairs(first) do
      local column = {}
      for i, s in ipairs(samples) do
        if s[k] == nil then error(('collate: %s has no "%s", %s has'):format(item(i), tostring(k), item(1)), 2, "shape") end
        column[i] = s[k]
      end
      batch[k] = data.default_collate(column, indices)
    end
    return batch
  end
  return samples
end

---What a worker of a loader knows of itself: {id = 1 to num_workers, num_workers =, seed =, dataset = its copy};
---nil in the thread that runs the script.
---@return table?
function data.get_worker_info() return nil end

local function check_dataset(dataset)
  if torch.is_tensor(dataset) then error("DataLoader: a tensor is no dataset; data.TensorDataset(x) makes one of its rows", 4) end
  if type(dataset) == "table" and rawget(dataset, "__index") == dataset and rawget(dataset, "_name") then
    error(("DataLoader: wants a dataset, not the class %s; call it: %s()"):format(dataset._name, dataset._name), 4)
  end
  if type(dataset) ~= "table" or not (dataset.get or dataset.iter) then
    error("DataLoader: wants a dataset: an object with get(i) and a length (data.TensorDataset(x, y))", 4)
  end
end

-- Without `__len` Lua itself counts the fields 1, 2, ..: 0 for most objects, and a loop that does nothing.
local function check_length(dataset)
  local meta = getmetatable(dataset)
  if rawlen(dataset) == 0 and not (meta and rawget(meta, "__len")) then
    local name = meta and rawget(meta, "_name") or "Set"
    error(("DataLoader: the dataset has no length; say it: function %s:__len() return n end"):format(name), 4)
  end
end

---Batches of a dataset: `for x, y in loader() do`. Options: batch_size, shuffle, drop_last, sampler, collate_fn.
---Without workers batches are loaded in the calling thread, so shuffling and random numbers in `get` come from
---one stream: torch.manual_seed(s) repeats them, and math.randomseed(s) those of math.random.
---With num_workers = n, that many threads load them, each with a copy of the dataset (tensors are shared): its
---fields, its methods and the variables and globals that they use; what changes there stays there. Each has
---its own random numbers; prefetch_factor batches are made ahead for each; timeout (seconds), worker_init_fn(id),
---persistent_workers. The batches' order is the same as without.
data.DataLoader = data._class("DataLoader")
function data.DataLoader:init(dataset, options, ...)
  if options == nil and type(dataset) == "table" and getmetatable(dataset) == nil and not (dataset.get or dataset.iter) then
    options = {}  -- all in one table
    for k, v in pairs(dataset) do options[k] = v end
    dataset = options.dataset or options[1]
    options.dataset, options[1] = nil, nil
  end
  check_dataset(dataset)
  take_options(self, options, ...)
  self.dataset = dataset
  if self.sampler and self.shuffle then error("DataLoader: give either a sampler or shuffle, not both", 3) end
  if self.batch_sampler and (self.sampler or self.shuffle or self.drop_last or self.batch_size ~= 1) then
    error("DataLoader: a batch_sampler says all about the batches: leave out batch_size, shuffle, sampler and drop_last", 3)
  end
  if not dataset.get then
    if self.sampler or self.batch_sampler or self.shuffle then
      error("DataLoader: a dataset with iter() is read in its own order: leave out shuffle and samplers", 3)
    end
    return
  end
  if not self.sampler and not self.batch_sampler then
    check_length(dataset)
    self.sampler = self.shuffle and data.RandomSampler(dataset, {generator = self.generator or nil}) or data.SequentialSampler(dataset)
  end
end
data.DataLoader.__len = function(self)
  if self.batch_sampler then return #self.batch_sampler end
  if not self.sampler then check_length(self.dataset) end
  local n = #(self.sampler or self.dataset)
  if not self.batch_size then return n end
  return self.drop_last and n // self.batch_size or (n + self.batch_size - 1) // self.batch_size
end

-- Several values for a list, as `for x, y in loader() do` wants them.
local function unpacked(joined)
  if type(joined) == "table" and #joined > 0 and getmetatable(joined) == nil then return table.unpack(joined) end
  return joined
end

-- The same batch in pinned memory, which devices read by themselves.
local function pinned(v)
  if torch.is_tensor(v) then return v.device.type == "cpu" and v:pin_memory() or v end
  if type(v) ~= "table" then return v end
  if type(v.pin_memory) == "function" then return v:pin_memory() end
  if getmetatable(v) ~= nil then return v end
  local out = {}
  for k, one in pairs(v) do out[k] = pinned(one) end
  return out
end
local function unpacked_pinned(joined) return unpacked(pinned(joined)) end

-- The next batch's positions (or, for a dataset read in order, its items).
local function drawer(self)
  if self.batch_sampler then return self.batch_sampler() end
  local draw = self.sampler and self.sampler() or self.dataset:iter()
  if not self.batch_size then return draw end
  return data.BatchSampler(function() return draw end, self.batch_size, self.drop_last):iter()
end

data._refuse_lists(data.DataLoader, "DataLoader", "for x, y in loader() do")
-- pairs would go through the loader's own fields.
data.DataLoader.__pairs = function(loader)
  local caller = debug.getinfo(4, "S")  -- 2 is Lua's pairs, 3 torch's
  if caller and caller.what ~= "C" and not caller.source:find "^=torch/" and not caller.source:find "^=shell/" then
    error("DataLoader: is no table, so pairs finds no batches in it; write for x, y in loader() do", 2)
  end
  return next, loader, nil
end
data.DataLoader.__call = data._iterated("DataLoader", "for x, y in loader() do", function(self)
  local give = self.pin_memory and torch.cuda.device_count() > 0 and unpacked_pinned or unpacked
  local labels = require "torch.notes.labels"
  if self.num_workers > 0 then return labels.of_epoch(self, require("torch.utils.workers")(self, drawer, give)) end
  -- PyTorch draws a seed for its workers here: the streams stay together.
  torch.zeros({}, {dtype = torch.int64}):random_({generator = self.generator or nil})
  local draw = drawer(self)
  local set, single = self.dataset, not self.batch_size and not self.batch_sampler
  local fetch = require "torch.utils.fetch"(set, self.collate_fn, single)
  return labels.of_epoch(self, function()
    local batch = draw()
    if batch == nil then return nil end
    if not single then
      data._short_batch = self.batch_size and #batch < self.batch_size and set.get and {#batch, #set} or nil  -- for messages
    end
    return give(fetch(batch))
  end)
end)

require "torch.utils.shown"(data)

return torch._strict(data, "torch.utils.data", function(t, name)
  if name ~= "transforms" and name ~= "text" then return nil end
  local value = require("torch.utils." .. name)
  rawset(t, name, value)
  return value
end)
