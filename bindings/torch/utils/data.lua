-- torch.utils.data: datasets, samplers and the loader that makes batches of them.
local torch = torch
local error = torch._raise
local data = require "torch.utils.datasets"
require "torch.utils.samplers"(data)
require "torch.utils.images"(data)
require "torch.utils.tables"(data)
require "torch.utils.folders"(data)
require "torch.utils.known"(data)

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

local names = {batch_size = 1, shuffle = false, num_workers = 0, pin_memory = false, drop_last = false,
  sampler = false, batch_sampler = false, collate_fn = false, generator = false, timeout = 0, worker_init_fn = false,
  prefetch_factor = false, persistent_workers = false, multiprocessing_context = false, in_order = true,
  pin_memory_device = ""}

local function check_workers(self)
  local function wrong(name, rule)
    error(("DataLoader: %s must be %s, not %s"):format(name, rule, tostring(self[name])), 4, "value")
  end
  for _, name in ipairs {"persistent_workers", "in_order", "drop_last", "shuffle", "pin_memory"} do
    if type(self[name]) ~= "boolean" then wrong(name, "true or false") end
  end
  local n = math.tointeger(self.num_workers)
  if not n or n < 0 or n > 512 then wrong("num_workers", "an integer from 0 (no threads) to 512") end
  self.num_workers = n
  if type(self.timeout) ~= "number" or not (self.timeout >= 0) then wrong("timeout", "a number of seconds, 0 for no limit") end
  if self.prefetch_factor == torch.none then self.prefetch_factor = false end
  if self.prefetch_factor and (math.type(self.prefetch_factor) ~= "integer" or self.prefetch_factor < 1) then
    wrong("prefetch_factor", "a positive integer")
  end
  for _, name in ipairs {"worker_init_fn", "collate_fn"} do
    local f = self[name]
    if f == torch.none then self[name] = false
    elseif f and type(f) ~= "function" and not (type(f) == "table" and getmetatable(f) and getmetatable(f).__call) then
      wrong(name, "a function")
    end
  end
  if self.multiprocessing_context and self.multiprocessing_context ~= torch.none and type(self.multiprocessing_context) ~= "string" then
    wrong("multiprocessing_context", "a text (it changes nothing here: workers are threads)")
  end
  if n == 0 then
    for _, name in ipairs {"prefetch_factor", "persistent_workers"} do
      if self[name] then error(("DataLoader: %s is for workers: give num_workers=2, or leave it out"):format(name), 4, "value") end
    end
    if self.timeout > 0 then error("DataLoader: timeout is for workers: give num_workers=2, or leave it out", 4, "value") end
  elseif data.get_worker_info() then
    error("DataLoader: this is a worker of a loader already: a loader inside it has num_workers=0", 4, "value")
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
function data.DataLoader:init(dataset, options)
  if type(dataset) ~= "table" or not (dataset.get or dataset.iter) then
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
  if self.batch_size == torch.none then self.batch_size = false end
  if self.batch_size and (math.type(self.batch_size) ~= "integer" or self.batch_size < 1) then
    error(("DataLoader: batch_size must be a positive integer, not %s"):format(tostring(self.batch_size)), 3, "value")
  end
  check_workers(self)
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
    self.sampler = self.shuffle and data.RandomSampler(dataset, {generator = self.generator or nil}) or data.SequentialSampler(dataset)
  end
end
data.DataLoader.__len = function(self)
  if self.batch_sampler then return #self.batch_sampler end
  local n = #(self.sampler or self.dataset)
  if not self.batch_size then return n end
  return self.drop_last and n // self.batch_size or (n + self.batch_size - 1) // self.batch_size
end

-- Several values for a list, as `for x, y in loader() do` wants them.
local function unpacked(joined)
  if type(joined) == "table" and #joined > 0 and getmetatable(joined) == nil then return table.unpack(joined) end
  return joined
end

-- The next batch's positions (or, for a dataset read in order, its items).
local function drawer(self)
  if self.batch_sampler then return self.batch_sampler() end
  local draw = self.sampler and self.sampler() or self.dataset:iter()
  if not self.batch_size then return draw end
  return data.BatchSampler(function() return draw end, self.batch_size, self.drop_last):iter()
end

data.DataLoader.__call = function(self)
  if self.num_workers > 0 then return require("torch.utils.workers")(self, drawer, unpacked) end
  -- PyTorch draws a seed for its workers here: the streams stay together.
  torch.zeros({}, {dtype = torch.int64}):random_({generator = self.generator or nil})
  local draw = drawer(self)
  local set, single = self.dataset, not self.batch_size and not self.batch_sampler
  local fetch = require "torch.utils.fetch"(set, self.collate_fn, single)
  return function()
    local batch = draw()
    if batch == nil then return nil end
    if not single then
      data._short_batch = self.batch_size and #batch < self.batch_size and set.get and {#batch, #set} or nil  -- for messages
    end
    return unpacked(fetch(batch))
  end
end

return torch._strict(data, "torch.utils.data", function(t, name)
  if name ~= "transforms" then return nil end
  local value = require "torch.utils.transforms"
  rawset(t, name, value)
  return value
end)
