-- Learns to tell one column of a table (CSV) from the others with a small network, and measures how well by
-- k-fold cross-validation: every row is tested once, by a network that never saw it. UCI's digits unless told otherwise.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_tabular", "Learns a table (CSV) with a small network, by k-fold cross-validation.", {
  {"folds", "N", 5, "parts; each is tested by a network that learnt from the others", quick = 3, least = 2},
  {"epochs", "N", 30, "rounds over the rows, in each fold", quick = 3},
  {"batch-size", "N", 32, "rows per step", least = 2},
  {"hidden", "N", 128, "width of the network", quick = 32},
  {"lr", "X", 0.003, "learning rate at the start; it falls to 0 in half a cosine"},
  {"data", "FILE", here .. "/data/digits.csv.gz", "the table: columns of numbers, and one of classes", free = true},
  {"target", "NAME", nil, "the column of classes, numbers or words (the last)"},
  {"save", "FILE", "tabular.pt", "where the checkpoint goes", free = true},
})

---- Data -------------------------------------------------------------------------------------------

-- The columns of numbers as float32 [n, columns], and the classes from 1.
local function read_table(path)
  local target = option.target or -1
  local rows = data.read_csv(path, {dtype = {[target] = "class"}})
  local labels, classes = rows:column(target)
  local numbers = rows:tensor {except = {target}, dtype = torch.float32}
  if not numbers:isfinite():all():item() then
    support.stop("%s lacks a number in row %d", path, (~numbers:isfinite()):any(2):nonzero()[{1, 1}]:item())
  end
  return numbers:to(option.device), labels:to(option.device), classes
end

local x, y, classes = support.attempt(read_table, option.data)
if #x < option.folds then support.stop("%s has %d rows; that is too few for --folds %d", option.data, #x, option.folds) end

---- One fold ---------------------------------------------------------------------------------------

local function make_network()
  return nn.Sequential(
    nn.Linear(x:size(2), option.hidden), nn.BatchNorm1d(option.hidden), nn.ReLU(), nn.Dropout(0.3),
    nn.Linear(option.hidden, option.hidden), nn.BatchNorm1d(option.hidden), nn.ReLU(), nn.Dropout(0.3),
    nn.Linear(option.hidden, #classes)):to(option.device)
end

local run = support.training(option, {"round", "fold", "epoch", "train_loss", "test_accuracy"})
local saved = run.saved or {right = {}, order = torch.randperm(#x)}
local order, right = saved.order, saved.right  -- `right` counts the right answers of each fold
if #order ~= #x then support.stop("%s was made with %d rows, %s has %d", option.load, #order, option.data, #x) end

-- Rows of the fold that is tested, and the others.
local function split(fold)
  local first, last = (fold - 1) * #x // option.folds, fold * #x // option.folds
  local place = torch.arange(1, #x + 1)
  local tested = place:gt(first) & place:le(last)
  return order[~tested]:to(option.device), order[tested]:to(option.device)
end

local function train_fold(fold)
  local train, test = split(fold)
  -- Only what the network may know: mean and deviation are those of the rows it learns from.
  local mean, deviation = x[train]:mean(1), x[train]:std(1):clamp_min(1e-3)
  local function prepared(rows) return (x[rows] - mean) / deviation end
  local loader = data.DataLoader(data.TensorDataset(prepared(train), y[train]),
    {batch_size = option["batch-size"], shuffle = true, drop_last = #train > option["batch-size"]})
  local test_x, test_y = prepared(test), y[test]
  local net = make_network()
  local opt = optim.AdamW(net:parameters(), {lr = option.lr, weight_decay = 0.01})
  local schedule = optim.lr_scheduler.CosineAnnealingLR(opt, option.epochs * #loader)
  run:keep({net = net, opt = opt, schedule = schedule, order = order, right = right}, fold)

  for round in run:epochs(fold * option.epochs, option.folds * option.epochs) do
    local epoch = round - (fold - 1) * option.epochs
    net:train()
    for rows, labels in run:batches(loader) do
      opt:zero_grad()
      local loss = F.cross_entropy(net(rows), labels)
      loss:backward()
      opt:step()
      schedule:step()
      run:add(loss:item(), #rows, "rows")
    end
    net:eval()
    right[fold] = torch.no_grad(function() return net(test_x):argmax(2):eq(test_y):sum():item() end)
    run:log(fold, epoch, run:mean(), right[fold] / #test)
  end
  say("fold %d/%d  learnt from %d rows, tested on %d: accuracy %.2f %%", fold, option.folds, #train, #test,
    100 * right[fold] / #test)
end

---- All folds --------------------------------------------------------------------------------------

say("%d rows of %d numbers, %d classes; %d threads", #x, x:size(2), #classes, torch.get_num_threads())
run:train(function()
  for fold = run.epoch // option.epochs + 1, option.folds do train_fold(fold) end
end)

local sum = 0
for _, count in ipairs(right) do sum = sum + count end
run:plot({{"training loss", "train_loss"}, {"accuracy on the fold that is tested", "test_accuracy"}}, {"fold"})
say("accuracy %.2f %% over all %d rows", 100 * sum / #x, #x)
