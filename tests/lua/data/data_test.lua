-- Datasets, samplers, the loader and GradScaler beyond what the vectors cover.
local data = torch.utils.data

local function numbers(n) return data.TensorDataset(torch.arange(1, n + 1)) end
local function all(sampler)
  local out = {}
  for i in sampler() do out[#out + 1] = i end
  return out
end

test("datasets are joined, by list or by plus, and cut", function()
  local both = data.ConcatDataset{numbers(3), numbers(2)}
  check.equal(#both, 5)
  check.equal(both:get(4)[1]:item(), 1)
  check.equal(both:get(3)[1]:item(), 3)
  check.equal(both:get(-1)[1]:item(), 2)
  check.equal(#(numbers(3) + numbers(4)), 7)
  check.raises("index", "item 6 of 5", both.get, both, 6)
  check.raises("index", "item 0 of 5", both.get, both, 0)
end)

test("random_split parts a dataset without overlap, by counts or fractions", function()
  torch.manual_seed(3)
  local a, b = data.random_split(numbers(10), {0.75, 0.25})
  check.equal({#a, #b}, {8, 2})
  local seen = {}
  for _, part in ipairs{a, b} do
    for i = 1, #part do seen[part:get(i)[1]:item()] = true end
  end
  check.equal(#seen, 10)
  check.raises("value", "add up to 9, the dataset has 10", data.random_split, numbers(10), {4, 5})
end)

test("a part of a tensor dataset is loaded as rows", function()
  local part = data.Subset(numbers(6), {6, 2, 4})
  local got = {}
  for x in data.DataLoader(part, {batch_size = 2})() do got[#got + 1] = x:tolist() end
  check.equal(got, {{6, 2}, {4}})
end)

test("sequences are loaded in batches and joined", function()
  local Count = data.class("Count", data.IterableDataset)
  function Count:init(n) self.n = n end
  function Count:iter()
    local i = 0
    return function()
      i = i + 1
      if i <= self.n then return i end
    end
  end
  local got = {}
  for x in data.DataLoader(data.ChainDataset{Count(3), Count(2)}, {batch_size = 2})() do got[#got + 1] = x:tolist() end
  check.equal(got, {{1, 2}, {3, 1}, {2}})
  check.raises("argument", "read in its own order", data.DataLoader, Count(3), {shuffle = true})
end)

test("a sampler of batches, samples one by one, and own collating", function()
  local got = {}
  local batches = data.BatchSampler(data.SequentialSampler(numbers(5)), 2, true)
  for x in data.DataLoader(numbers(5), {batch_sampler = batches})() do got[#got + 1] = x:tolist() end
  check.equal(got, {{1, 2}, {3, 4}})
  got = {}
  for x in data.DataLoader(numbers(2), {batch_size = torch.none})() do got[#got + 1] = x:item() end
  check.equal(got, {1, 2})
  for n in data.DataLoader(numbers(3), {batch_size = 3, collate_fn = function(samples) return #samples end})() do got[3] = n end
  check.equal(got[3], 3)
  check.raises("argument", "leave out batch_size", data.DataLoader, numbers(5), {batch_sampler = batches, batch_size = 2})
end)

test("random samplers repeat with their generator and draw as many as asked", function()
  local function generator() return torch.Generator():manual_seed(7) end
  check.equal(all(data.RandomSampler(numbers(9), {generator = generator()})), all(data.RandomSampler(numbers(9), {generator = generator()})))
  check.equal(#all(data.RandomSampler(numbers(3), {num_samples = 7})), 7)
  check.equal(#all(data.RandomSampler(numbers(3), {replacement = true, num_samples = 70})), 70)
  for _, i in ipairs(all(data.RandomSampler(numbers(3), {replacement = true, num_samples = 50}))) do check.yes(i >= 1 and i <= 3) end
  for _, i in ipairs(all(data.WeightedRandomSampler({0, 1, 0}, 20))) do check.equal(i, 2) end
  check.raises("value", "num_samples must be a positive integer", data.RandomSampler, numbers(3), {num_samples = 0})
end)

test("a loader's generator repeats its shuffles", function()
  local function order()
    local loader = data.DataLoader(numbers(8), {shuffle = true, batch_size = 8, generator = torch.Generator():manual_seed(1)})
    return loader()():tolist()
  end
  check.equal(order(), order())
end)

test("distributed shares meet every item once where they divide, and say what they need", function()
  local seen = {}
  for rank = 0, 3 do
    for _, i in ipairs(all(data.DistributedSampler(numbers(8), {num_replicas = 4, rank = rank}))) do seen[#seen + 1] = i end
  end
  table.sort(seen)
  check.equal(seen, {1, 2, 3, 4, 5, 6, 7, 8})
  -- PyTorch's positions plus 1: items, ranks, drop_last, rank; with seed = 5 in epoch 2.
  for _, row in ipairs {
    {10, 3, false, 0, {6, 5, 10, 3}},
    {10, 3, false, 1, {1, 2, 7, 6}},
    {10, 3, false, 2, {4, 8, 9, 1}},
    {10, 3, true, 0, {6, 5, 10}},
    {10, 3, true, 1, {1, 2, 7}},
    {10, 3, true, 2, {4, 8, 9}},
  } do
    local sampler = data.distributed.DistributedSampler(numbers(row[1]), {num_replicas = row[2], drop_last = row[3], rank = row[4], seed = 5})
    sampler:set_epoch(2)
    check.equal(all(sampler), row[5])
    check.equal(#sampler, #row[5])
  end
  for rank, wanted in ipairs {{1, 2, 4, 5, 7, 1}, {3, 6, 2}} do
    local sampler = data.DistributedSampler(numbers(7), {num_replicas = 2, rank = rank - 1, shuffle = false, shares = {2, 1}})
    check.equal(all(sampler), wanted)
    check.equal(#sampler, #wanted)
  end
  check.raises("value", "shares must be a list of 2", data.DistributedSampler, numbers(8), {num_replicas = 2, rank = 0, shares = {1}})
  check.raises("value", "rank must be 0 to 3", data.DistributedSampler, numbers(8), {num_replicas = 4, rank = 4})
  check.raises("argument", "wants num_replicas and rank", data.DistributedSampler, numbers(8))
end)

test("collating goes into tables and names the item that does not fit", function()
  local batch = data.default_collate{{x = torch.ones(2), y = 1, name = "a"}, {x = torch.zeros(2), y = 2, name = "b"}}
  check.shape(batch.x, {2, 2})
  check.dtype(batch.y, "int64")
  check.equal(batch.name, {"a", "b"})
  check.dtype(data.default_collate{1, 2.5}, "float64")
  check.raises("shape", "item 2 (dataset index 9) has shape [3]", data.default_collate, {torch.ones(2), torch.ones(3)}, {4, 9})
  check.raises("shape", "item 2 has 1 values, item 1 has 2", data.default_collate, {{1, 2}, {1}})
  check.raises("shape", 'item 2 has no "y"', data.default_collate, {{x = 1, y = 2}, {x = 1}})
end)

test("GradScaler says what is out of order", function()
  local w = torch.ones(1, {requires_grad = true})
  local opt, scaler = torch.optim.SGD({w}), torch.amp.GradScaler("cpu", {init_scale = 8})
  check.raises("value", "no step was taken", scaler.update, scaler)
  check.raises("value", "no parameter of the optimiser has a gradient", scaler.step, scaler, opt)
  scaler = torch.amp.GradScaler("cpu", {init_scale = 8})
  scaler:scale((w * 2):sum()):backward()
  check.close(w.grad:item(), 16)
  scaler:unscale_(opt)
  check.close(w.grad:item(), 2)
  check.raises("value", "unscaled already", scaler.unscale_, scaler, opt)
  scaler:step(opt)
  check.raises("value", "called already", scaler.step, scaler, opt)
  scaler:update()
  check.equal(scaler:state_dict()._growth_tracker, 1)
  check.raises("value", "growth_factor must be above 1", torch.amp.GradScaler, {growth_factor = 1.0})
end)

test("a skipped step leaves the weights, is counted, and halves the scale", function()
  local w = torch.ones(1, {requires_grad = true})
  local opt, scaler = torch.optim.SGD({w}, {lr = 1.0}), torch.cuda.amp.GradScaler{init_scale = 8}
  w.grad = torch.full({1}, math.huge)
  check.equal(scaler:step(opt), nil)
  scaler:update()
  check.equal(w:item(), 1.0)
  check.equal(scaler.skipped_steps, 1)
  check.equal(scaler:get_scale(), 4.0)
end)

test("inf and nan are found wherever they stand, large numbers are not", function()
  for _, dtype in ipairs{"float32", "float64", "bfloat16"} do
    for value, bad in pairs{[math.huge] = true, [-math.huge] = true, [1e38] = false, [0.0] = false} do
      local w = torch.ones(37, {dtype = dtype}):requires_grad_()
      local opt, scaler = torch.optim.SGD({w}), torch.amp.GradScaler{init_scale = 2}
      w.grad = torch.ones(37, {dtype = dtype})
      torch.no_grad(function() w.grad[30] = value end)
      scaler:step(opt)
      check.equal(scaler.skipped_steps == 1, bad)
    end
  end
end)
