-- What loaders, datasets and samplers say of themselves in one line: print and tostring, and the prompt.
local torch = torch

local function thousands(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end
local function count(n, word, more) return ("%s %s"):format(thousands(n), n == 1 and word or more or word .. "s") end

return function(data)
  local function class_of(v) return type(v) == "table" and getmetatable(v) or nil end

  -- The length of a dataset of a known class; nil where asking would run the user's code.
  local function length(ds)
    local class = class_of(ds)
    if class == data.TensorDataset then return #ds.tensors[1] end
    if class == data.Subset then return #ds.indices end
    if class == data.ConcatDataset then return ds.cumulative_sizes[#ds.datasets] end
  end

  local function items(ds)
    local class = class_of(ds)
    if class == data.Subset then return items(ds.dataset) end
    if class == data.ConcatDataset then return items(ds.datasets[1]) end
    if class ~= data.TensorDataset then return nil end
    local parts = {}
    for i, t in ipairs(ds.tensors) do
      local shape = {}
      for d = 2, t.ndim do shape[#shape + 1] = tostring(t.shape[d]) end
      parts[i] = ("%s [%s]"):format(torch._show(t, {line = true, values = false}):match "^%S+", table.concat(shape, ", "))
    end
    return table.concat(parts, ", ")
  end

  local function dataset(ds)
    local n, what = length(ds), items(ds)
    return (n and count(n, "item") or "") .. (what and " of " .. what or "")
  end
  -- A dataset inside another value: its class and length.
  local function brief(ds)
    local n, class = length(ds), class_of(ds)
    return (class and rawget(class, "_name") or "a dataset of the user's") .. (n and (" of %s"):format(count(n, "item")) or "")
  end

  local function names(...)
    local parts = {}
    for i = 1, select("#", ...) do
      local text = select(i, ...)
      if text then parts[#parts + 1] = text end
    end
    return table.concat(parts, ", ")
  end

  local function loader(l)
    local class = class_of(l.sampler)
    local plain = class == data.SequentialSampler or (class == data.RandomSampler and not l.sampler.num_samples)
    local n, of = plain and length(l.dataset), l.batch_size and count(l.batch_size, "item")
    local what
    if l.batch_sampler then what = "batches of a batch_sampler"
    elseif not of then what = n and count(n, "item") .. ", not in batches" or "items, not in batches"
    elseif n then what = ("%s of %s"):format(count(l.drop_last and n // l.batch_size or (n + l.batch_size - 1) // l.batch_size, "batch", "batches"), of)
    else what = "batches of " .. of end
    return names(what, class == data.RandomSampler and "shuffled", l.sampler and not plain and class ~= data.RandomSampler and "own sampler",
      l.drop_last and "drop_last", l.collate_fn and "own collate_fn", l.num_workers ~= 0 and count(l.num_workers, "worker"))
  end

  local function in_list(ds) return type(ds) == "table" and brief(ds) or tostring(ds) end
  local rows = {
    DataLoader = loader, TensorDataset = dataset, Subset = dataset,
    ConcatDataset = function(ds)
      local parts = {}
      for i, d in ipairs(ds.datasets) do parts[i] = i <= 6 and in_list(d) or nil end
      return dataset(ds) .. ", from " .. table.concat(parts, " + ") .. (#ds.datasets > 6 and " + .." or "")
    end,
    SequentialSampler = function(s) return "in order, for " .. in_list(s.dataset) end,
    RandomSampler = function(s)
      local whole = s.replacement and "as many draws as items" or "all positions once"
      return names(s.num_samples and count(s.num_samples, "draw") or whole, s.replacement and "with replacement") ..
        ", for " .. in_list(s.dataset)
    end,
    SubsetRandomSampler = function(s) return count(#s.indices, "position") .. " in random order" end,
    WeightedRandomSampler = function(s)
      return ("%s of %s by weight, %s replacement"):format(count(s.num_samples, "draw"), thousands(#s.weights), s.replacement and "with" or "without")
    end,
    BatchSampler = function(s)
      local class = class_of(s.sampler)
      return names(("batches of %s"):format(count(s.batch_size, "position")), s.drop_last and "drop_last") ..
        (class and rawget(class, "_name") and ", from " .. class._name or "")
    end,
    DistributedSampler = function(s)
      return names(("rank %d of %d (0 to %d): %s"):format(s.rank, s.num_replicas, s.num_replicas - 1, count(s.num_samples, "position")),
        s.shuffle and ("shuffled for epoch %d"):format(s.epoch)) .. ", for " .. in_list(s.dataset)
    end,
  }
  for name, describe in next, rows do
    data[name].__tostring = function(self)
      local class = getmetatable(self)
      local ok, text = pcall(describe, self)  -- a class made from this one may leave the fields out
      return (class and rawget(class, "_name") or name) .. (ok and text ~= "" and "  " .. text or "")
    end
  end
end
