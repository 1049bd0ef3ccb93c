-- Learns a table of numbers (CSV, the last column a class from 0) with a small network, and measures how well by
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
  {"data", "FILE", here .. "/data/digits.csv.gz", "the table: numbers with commas, the last one a class from 0"},
  {"save", "FILE", "tabular.pt", "where the checkpoint goes"},
})

---- Data -------------------------------------------------------------------------------------------

-- The rows as float32 [n, columns], and the classes from 1.
local function read_table(path)
  local file, why = io.open(path, "rb")
  if not file then support.stop("%s", why) end
  if path:find("%.gz$") then
    file:close()
    file = io.popen("gzip -dc '" .. path:gsub("'", "'\\''") .. "'")
  end
  local rows, labels, number = {}, {}, 0
  for line in file:lines() do
    number = number + 1
    local row = {}
    for cell in line:gmatch("[^,\r]+") do row[#row + 1] = tonumber(cell) or cell end
    local first = type(row[1]) == "number"
    if #row > 0 and (first or number > 1) then  -- a first line of names is left out
      local label = math.tointeger(row[#row])
      for _, cell in ipairs(row) do
        if type(cell) ~= "number" then support.stop("%s:%d: %q is no number", path, number, cell) end
      end
      if #rows > 0 and #row ~= #rows[1] + 1 then
        support.stop("%s:%d has %d columns, the lines before it %d", path, number, #row, #rows[1] + 1)
      end
      if not label or label < 0 then support.stop("%s:%d: the last column must be a class from 0, got %s", path, number, row[#row]) end
      row[#row] = nil
      rows[#rows + 1], labels[#labels + 1] = row, label + 1
    end
  end
  file:close()
  if #rows < option.folds then support.stop("%s has %d rows; that is too few for --folds %d", path, #rows, option.folds) end
  return torch.tensor(rows):float():to(option.device), torch.tensor(labels):to(option.device)
end

local x, y = read_table(option.data)
local classes = y:max():item()

---- One fold ---------------------------------------------------------------------------------------

local function make_network()
  return nn.Sequential(
    nn.Linear(x:size(2), option.hidden), nn.BatchNorm1d(option.hidden), nn.ReLU(), nn.Dropout(0.3),
    nn.Linear(option.hidden, option.hidden), nn.BatchNorm1d(option.hidden), nn.ReLU(), nn.Dropout(0.3),
    nn.Linear(option.hidden, classes)):to(option.device)
end

-- Where the training is: what a checkpoint keeps. `right` counts the right answers of each fold that is done; net, opt
-- and rng are there in the middle of a fold.
local saved = option.load and support.load(option.load)
local state = saved or {fold = 1, epoch = 0, folds = option.folds, hidden = option.hidden, right = {}, history = {},
  order = torch.randperm(#x)}
if #state.order ~= #x or state.folds ~= option.folds or state.hidden ~= option.hidden then
  support.stop("%s was made with %d rows, --folds %d and --hidden %d", option.load, #state.order, state.folds, state.hidden)
end
if saved then torch.set_rng_state(saved.rng) end
local log = support.metrics(option.metrics, {"round", "fold", "epoch", "train_loss", "test_accuracy"}, state.history)

-- Rows of the fold that is tested, and the others.
local function split(fold)
  local n = #state.order
  local first, last = (fold - 1) * n // option.folds, fold * n // option.folds
  local place = torch.arange(1, n + 1)
  local tested = place:gt(first) & place:le(last)
  return state.order[~tested]:to(option.device), state.order[tested]:to(option.device)
end

local function train_fold(fold)
  local train, test = split(fold)
  -- Only what the network may know: mean and deviation are those of the rows it learns from.
  local mean, deviation = x[train]:mean(1), x[train]:std(1):clamp_min(1e-3)
  local function prepared(rows) return (x[rows] - mean) / deviation end
  local net = make_network()
  local opt = optim.AdamW(net:parameters(), {lr = option.lr, weight_decay = 0.01})
  if state.net then
    support.attempt(function()
      net:load_state_dict(state.net)
      opt:load_state_dict(state.opt)
    end)
    torch.set_rng_state(state.rng)
  end
  local loader = data.DataLoader(data.TensorDataset(prepared(train), y[train]),
    {batch_size = option["batch-size"], shuffle = true, drop_last = #train > option["batch-size"]})
  local test_x, test_y = prepared(test), y[test]
  while state.epoch < option.epochs do
    for _, group in ipairs(opt.param_groups) do
      group.lr = option.lr * 0.5 * (1 + math.cos(math.pi * state.epoch / option.epochs))
    end
    net:train()
    local sum, count = 0, 0
    for rows, labels in loader() do
      opt:zero_grad()
      local loss = F.cross_entropy(net(rows), labels)
      loss:backward()
      opt:step()
      sum, count = sum + loss:item(), count + 1
    end
    net:eval()
    local right = torch.no_grad(function() return net(test_x):argmax(2):eq(test_y):sum():item() end)
    -- Copies: Ctrl-C in the next epoch must not change what this one reached.
    local parts = {support.copy(net:state_dict()), support.copy(opt:state_dict()), torch.get_rng_state()}
    state.net, state.opt, state.rng = table.unpack(parts)
    state.epoch, state.right[fold] = state.epoch + 1, right
    local round = (fold - 1) * option.epochs + state.epoch
    log.add(round, fold, state.epoch, sum / count, right / #test)
    support.progress(round, option.folds * option.epochs, "fold %d/%d  epoch %d/%d  loss %.3f  accuracy %.2f %%", fold,
      option.folds, state.epoch, option.epochs, sum / count, 100 * right / #test)
  end
  say("fold %d/%d  learnt from %d rows, tested on %d: accuracy %.2f %%", fold, option.folds, #train, #test,
    100 * state.right[fold] / #test)
end

---- All folds --------------------------------------------------------------------------------------

local function train_all()
  while state.fold <= option.folds do
    train_fold(state.fold)
    state.fold, state.epoch, state.net, state.opt = state.fold + 1, 0, nil, nil
  end
end

say("%d rows of %d numbers, %d classes; %d threads", #x, x:size(2), classes, torch.get_num_threads())
local began, finished = torch.perf_counter(), torch.until_interrupt(train_all)
say("trained for %s", support.clock(torch.perf_counter() - began))
state.history = log.rows
support.save(option.save, state, finished)
if not finished then os.exit(130, true) end

local right = 0
for _, count in ipairs(state.right) do right = right + count end
log.plot("accuracy on the fold that is tested", "test_accuracy")
say("accuracy %.2f %% over all %d rows", 100 * right / #x, #x)
