-- From the positions of a batch to the batch: what a loader does in the calling thread, and each of its
-- workers in theirs.
local torch = torch
local error = torch._raise
local data = require "torch.utils.datasets"

-- Rows of a TensorDataset are picked all at once, which gives the same batches as item by item.
local function pick_rows(set, batch)
  if getmetatable(set) == data.Subset then
    local at = {}
    for i, k in ipairs(batch) do at[i] = set.indices[k] end
    return pick_rows(set.dataset, at)
  end
  local index, out = torch.tensor(batch), {}
  for k, t in ipairs(set.tensors) do out[k] = t:index_select(1, index:to(t.device)) end
  return out
end
local function has_rows(set)
  while getmetatable(set) == data.Subset do set = set.dataset end
  return getmetatable(set) == data.TensorDataset
end

local function item(set, i, at)
  if at then at(i) end
  local sample, more = set:get(i)
  if sample == nil then error(("get(%s) of the dataset returned nil"):format(tostring(i)), 3, "value") end
  if more ~= nil then
    error(("get(%s) of the dataset returned several values; a sample of several is one table: return {x, y}"):format(tostring(i)), 3, "value")
  end
  return sample
end

---A function that makes batches. What it takes: a list of positions (`single`: one position), or, for a
---dataset that is read in order, the items themselves.
---@param set table
---@param collate_fn? function
---@param single boolean no batches: items as they are
---@param at? fun(i: integer) called with each position before its item is made
return function(set, collate_fn, single, at)
  local standard = require("torch.utils.data").default_collate
  local collate = collate_fn or standard
  if single then
    return function(sample)
      if set.get then sample = item(set, sample, at) end
      if collate_fn then sample = collate_fn(sample) end
      return sample
    end
  end
  local rows = has_rows(set) and not collate_fn
  return function(batch)
    if rows then return pick_rows(set, batch) end
    local indices
    if set.get then
      indices = table.move(batch, 1, #batch, 1, {})
      local samples = {}
      for i, k in ipairs(indices) do samples[i] = item(set, k, at) end
      if at then at(0) end
      batch = samples
    end
    if collate == standard then return collate(batch, indices) end
    return collate(batch)
  end
end
