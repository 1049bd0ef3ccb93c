-- Loaders, samplers and datasets in the hands of somebody who knows PyTorch: other ways to say the same, and what
-- used to be silence.
local data = torch.utils.data

local function new_set(n, get)
  local Set = data.class("Squares")
  Set.__len = function() return n end
  Set.get = get or function(_, i) return i end
  return Set()
end
local rows = data.TensorDataset(torch.arange(10), torch.arange(10) * 2)
local function lists(loader)
  local out = {}
  for x in loader() do out[#out + 1] = x:tolist() end
  return out
end

test("a loop over a loader, a sampler or a sequence that is not called is an error, not endless", function()
  check.raises("argument", "for x, y in loader() do", function() for _ in data.DataLoader(rows) do end end)
  check.raises("argument", "for i in sampler() do", function() for _ in data.RandomSampler(rows) do end end)
  local Count = data.class("Count", data.IterableDataset)
  function Count:iter() return function() return 1 end end
  check.raises("argument", "for x in set() do", function() for _ in Count() do end end)
end)

test("positions in brackets say how items are read", function()
  check.raises("argument", "set:get(1)", function() return rows[1] end)
  check.raises("argument", "set:get(2)", function() return new_set(3)[2] end)
  check.raises("argument", "for x, y in loader() do", function() for _ in ipairs(data.DataLoader(rows)) do end end)
  check.equal(rows.nothing, nil)
end)

test("a dataset may come among the options, and plain objects with get are datasets", function()
  check.equal(#data.DataLoader{new_set(5), batch_size = 2}, 3)
  check.equal(#data.DataLoader{dataset = new_set(5), batch_size = 2}, 3)
  check.equal(lists(data.DataLoader{10, 20, get = function(self, i) return self[i] end}), {{10}, {20}})
end)

test("what is no dataset, or has no length, is said when the loader is made", function()
  check.raises("argument", "data.TensorDataset(x)", function() data.DataLoader(torch.zeros(3)) end)
  check.raises("argument", "Squares()", function() data.DataLoader(data.class("Squares")) end)
  check.raises("argument", "wants a dataset", function() data.DataLoader{1, 2, 3} end)
  local Set = data.class("Set")
  function Set:get(i) return i end
  check.raises("argument", "function Set:__len()", function() data.DataLoader(Set()) end)
  check.equal(#data.DataLoader(Set(), {sampler = {2, 1}}), 2)
  local Count = data.class("Count", data.IterableDataset)
  function Count:iter() return function() end end
  check.raises("argument", "no length", function() return #data.DataLoader(Count()) end)
  check.raises("argument", "positions", function() data.Subset(rows) end)
  check.raises("argument", "get(i)", function() data.Subset({1, 2}, {1}) end)
end)

test("lists and tensors of positions are samplers", function()
  for n = 0, 2, 2 do
    check.equal(lists(data.DataLoader(rows, {sampler = {3, 1, 2}, batch_size = 2, num_workers = n})), {{2, 0}, {1}})
    check.equal(lists(data.DataLoader(rows, {sampler = torch.tensor{3, 1}, batch_size = 2, num_workers = n})), {{2, 0}})
    check.equal(lists(data.DataLoader(rows, {batch_sampler = {{3, 1}, {2}}, num_workers = n})), {{2, 0}, {1}})
  end
  check.raises("value", "sampler must be", function() data.DataLoader(rows, {sampler = 3}) end)
  check.equal(#data.WeightedRandomSampler({0.1, 0.9, 0}, {num_samples = 2, replacement = false}), 2)
end)

test("an item of several values that is no table is an error", function()
  local set = new_set(2, function(_, i) return i, 2 * i end)
  for n = 0, 1 do
    check.raises("value", "return {x, y}", function() for _ in data.DataLoader(set, {num_workers = n})() do end end)
  end
end)

test("a byte-pair tokenizer goes to the workers", function()
  local tok = data.text.BPETokenizer.train(("shall I compare thee "):rep(20), {vocab_size = 270, special_tokens = {"<end>"}})
  local set = new_set(2, function() return tok:encode("compare<end>") end)
  local expected = tok:encode("compare<end>"):tolist()
  check.equal(lists(data.DataLoader(set, {num_workers = 2})), {{expected}, {expected}})
end)

test("loaders, datasets and samplers print as one line that tells what they do", function()
  local set = data.TensorDataset(torch.rand(10, 3), torch.arange(10))
  local many = data.TensorDataset(torch.rand(1200, 3))
  local lines = {
    [data.DataLoader(set, {batch_size = 4, shuffle = true, num_workers = 2})] = "DataLoader  3 batches of 4 items, shuffled, 2 workers",
    [data.DataLoader(set, {batch_size = torch.none})] = "DataLoader  10 items, not in batches",
    [data.DataLoader(set, {batch_sampler = {{1, 2}}})] = "DataLoader  batches of a batch_sampler",
    [data.DataLoader(set, {sampler = {1, 2}})] = "DataLoader  batches of 1 item, own sampler",
    [set] = "TensorDataset  10 items of f32 [3], i64 []",
    [data.Subset(set, {1, 2})] = "Subset  2 items of f32 [3], i64 []",
    [set + set] = "ConcatDataset  20 items of f32 [3], i64 [], from TensorDataset of 10 items + TensorDataset of 10 items",
    [data.SequentialSampler(many)] = "SequentialSampler  in order, for TensorDataset of 1,200 items",
    [data.RandomSampler(set, {replacement = true, num_samples = 4})] = "RandomSampler  4 draws, with replacement, for TensorDataset of 10 items",
    [data.WeightedRandomSampler({1, 2, 3}, 5)] = "WeightedRandomSampler  5 draws of 3 by weight, with replacement",
    [data.BatchSampler(data.RandomSampler(set), 2, true)] = "BatchSampler  batches of 2 positions, drop_last, from RandomSampler",
    [data.DistributedSampler(set, {num_replicas = 2, rank = 1})] =
      "DistributedSampler  rank 1 of 2 (0 to 1): 5 positions, shuffled for epoch 0, for TensorDataset of 10 items",
  }
  local show = require "shell.show"
  for value, line in pairs(lines) do
    check.equal(tostring(value), line)
    check.contains(show.value(value, {width = 200}), line)
  end
  check.contains(show.value(data.text), "?torch.utils.data.text lists")
  local Odd = data.class("Odd", data.TensorDataset)
  function Odd:init() end
  check.equal(tostring(Odd()), "Odd")
end)

test("datasets, loaders and transforms are no data for files", function()
  local set = data.TensorDataset(torch.rand(3))
  for _, value in ipairs {set, data.DataLoader(set), data.transforms.ToTensor(), {inside = set}, new_set(2)} do
    check.raises("argument", "cannot be saved", torch.save, value, check.temp("set.pt"))
  end
  check.raises("argument", "an object of TensorDataset", torch.save, set, check.temp("set.pt"))
end)

local function table_of(text, options)
  local path = check.temp("table.csv")
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return data.read_csv(path, options)
end

test("numbers with a decimal comma are read when asked for, and told otherwise", function()
  local text = "name;a;b\nx;1,5;2\ny;-3,25;4\nz;;1e2\n"
  local t = table_of(text, {decimal = ","})
  check.equal(t.a, torch.tensor{1.5, -3.25, 0 / 0})
  check.equal(t.b, torch.tensor{2, 4, 100.0})
  check.equal(table_of("1,5;2\n2,5;3\n", {decimal = ","}):tensor(), torch.tensor{{1.5, 2}, {2.5, 3}})
  check.equal(table_of("a;b\n1.000;x\n", {decimal = ","}).a, {"1.000"})
  check.raises("dtype", 'decimal = ","', function() table_of("a;b\n1,5;2\n"):tensor() end)
  check.raises("argument", "the same", table_of, "a,b\n1,2\n", {decimal = ",", delimiter = ","})
end)

test("lines that end with carriage returns alone are told", function()
  check.raises("io", "carriage returns", table_of, "a,b\r1,2\r3,4\r")
  check.equal(table_of("a,b\r\n1,2\r\n").b, torch.tensor{2})
end)

test("the report of a worker's error names worker and item, and a picture's error the picture alone", function()
  local explain = require "torch.explain"
  local set = new_set(2, function(_, i) return torch.ones(2, 3):matmul(torch.ones(i)) end)
  local _, err = pcall(function() for _ in data.DataLoader(set, {num_workers = 1})() do end end)
  check.contains(explain.report(err), "in worker 1 of the loader, item 1")
  local picture = torch.zeros(5, 5, 3)
  _, err = pcall(function() data.write_image(picture, check.temp("x.png")) end)
  check.contains(explain.report(err), "picture   f32 [5, 5, 3]")
  check.lacks(explain.report(err), "argument")
end)

test("labels that begin with 0 are noticed where a loss takes them for classes, by the name of the user's variable", function()
  local function says(code) return check.tycho({"-e", code}).err end
  local made = "local data, F = torch.utils.data, torch.nn.functional local labels = %s local set = data.TensorDataset(torch.ones(6, 2), labels)\n"
    .. "local w = torch.ones(2, %d, {requires_grad = true})\nlocal x, y = table.unpack(set:get(2)) for i = 1, 2 do %s end"
  local loss, zeros = "F.cross_entropy(x:unsqueeze(1):matmul(w), y:unsqueeze(1))", "torch.tensor{0, 2, 1, 1, 0, 2}"
  check.equal(says(made:format(zeros, 3, loss)), "note LABEL: labels holds class numbers from 0 to 2; they count from 1 here, from 1 to 3 ((command line):1)\n   labels + 1\n")
  check.contains(says(made:format(zeros, 3, "F.nll_loss(x:unsqueeze(1):matmul(w):log_softmax(2), y:unsqueeze(1))")), "note LABEL: labels holds")
  -- Places, two values, other numbers of classes, other uses.
  for _, fine in ipairs {{"torch.arange(6)", 6, loss}, {"torch.tensor{1, 2, 3, 1, 2, 3}", 3, loss}, {"torch.tensor{0, 1, 0, 1, 0, 1}", 2, loss}, {zeros, 4, loss}, {zeros, 3, "F.mse_loss(x:matmul(w), y * torch.ones(3))"}} do
    check.equal(says(made:format(table.unpack(fine))), "")
  end
end)

test("labels of a loader's first epoch that begin with 0, or end one short of the loss's classes, are noticed, with workers too", function()
  local function says(code) return check.tycho({"-e", code}).err end
  local loop = "local data = torch.utils.data local S = data.class('S') function S:__len() return 40 end function S:get(i) return {torch.ones(2), %s} end\n"
    .. "local loader = data.DataLoader(%s, {batch_size = 8, num_workers = %d})\nlocal w = torch.ones(2, 4, {requires_grad = true})\nfor epoch = 1, 2 do\n  for x, target in loader() do local _ = %s end\nend"
  local loss = "torch.nn.functional.cross_entropy(x:matmul(w), target)"
  for workers = 0, 1 do
    local err = says(loop:format("i % 3", "S()", workers, "x"))
    check.contains(err, "the labels of this epoch go from 0 to 2")
    check.contains(err, "in the loop: target = target + 1")
    check.equal(select(2, err:gsub("note LABEL", "")), 1)
    check.equal(says(loop:format("i % 3 + 1", "S()", workers, "x")), "")
    err = says(loop:format("i % 3 + 1", "S()", workers, loss))
    check.contains(err, "go from 1 to 3, and the loss is over 4 classes: the last never occurs")
    check.contains(err, "target = target + 1; and for 3 classes the last layer gives 3 scores")
    check.equal(select(2, err:gsub("note LABEL", "")), 1)
  end
  check.contains(says(loop:format("i", "data.TensorDataset(torch.ones(40, 2), torch.arange(40) % 3 + 1)", 0, loss)), "the last never occurs")
  for _, fine in ipairs {{"i % 4 + 1", "S()", 0, loss}, {"i", "S()", 0, "x"}, {"i - 1", "S()", 0, "x"}} do check.equal(says(loop:format(table.unpack(fine))), "") end
end)

test("pairs of a loader is refused: it would go through its fields", function()
  local loader = data.DataLoader(data.TensorDataset(torch.ones(4, 2)), {batch_size = 2})
  check.raises("argument", "for x, y in loader() do", function() for _ in pairs(loader) do end end)
  check.contains(tostring(loader), "DataLoader")
end)
