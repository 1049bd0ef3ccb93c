-- Trains the same network three times, in float32 and in mixed precision with bfloat16 and float16, and shows side by
-- side what a step costs in time and memory and what is reached; and what is left of it when all weights are halved.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("mixed_precision", "Compares training in float32, bfloat16 and float16.", {
  {"task", "digits|gpt", "digits", "a convolutional network on digits, or a GPT on Shakespeare's sonnets"},
  {"epochs", "N", 3, "rounds over the data in each precision", quick = 2},
  {"batch-size", "N", 64, "images, or pieces of text, per step", quick = 32},
  {"width", "N", 32, "channels of the first layer; a GPT has 4 times as many numbers for each letter", quick = 8, least = 4},
  {"lr", "X", 0.002, "highest learning rate; it falls to 0 in half a cosine"},
  {"samples", "N", 60000, "images or pieces to learn from, at most", quick = 1280},
  {"data", "DIR", here .. "/data", "directory of the MNIST files and sonnets.txt", free = true},
  {"save", "FILE", "precision.pt", "where the checkpoint goes", free = true},
})

---- Two tasks --------------------------------------------------------------------------------------

-- Each gives a function that makes its network, data to learn from and to test, and a function from a network, a
-- batch and its labels to scores [n, classes] and classes [n].
local tasks = {}

function tasks.digits()
  local function load(train)
    local images, labels = support.digits(option.data, train, option.samples)
    return data.TensorDataset(((images - 0.1307) / 0.3081):unsqueeze(2):to(option.device), labels:to(option.device))
  end
  local width = option.width
  local function make()
    return nn.Sequential(
      nn.Conv2d(1, width, 5, {padding = 2}), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(width, 2 * width, 5, {padding = 2}), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Linear(2 * width * 49, 128), nn.ReLU(), nn.Linear(128, 10))
  end
  local function scores(net, images, labels)
    return net(images:to(net:parameters()[1].dtype)), labels
  end
  return make, load(true), load(false), scores
end

function tasks.gpt()
  local file <close> = support.attempt(function() return assert(io.open(option.data .. "/sonnets.txt", "rb")) end)
  local ids = torch.tensor {file:read("a"):byte(1, -1)} + 1  -- bytes from 0, positions from 1
  local context = 64
  local function pieces(first, last)
    local n = math.min(option.samples, (last - first) // context)
    local function from(start) return ids[{{start, start + n * context - 1}}]:view(n, context):to(option.device) end
    return data.TensorDataset(from(first), from(first + 1))
  end
  local function make()
    return torch.models.GPT {vocab_size = 256, block_size = context, n_layer = 2, n_head = 4, n_embd = 4 * option.width}
  end
  local function scores(net, letters, next_letters)
    return net(letters, next_letters):flatten(1, 2), next_letters:flatten()
  end
  local cut = #ids * 9 // 10
  return make, pieces(1, cut), pieces(cut + 1, #ids), scores
end

local make, train, test, scores = support.attempt(tasks[option.task])

---- Measuring --------------------------------------------------------------------------------------

local on_gpu = option.device:find("cuda")
local function memory(name)
  collectgarbage()  -- counts what is in use, not what waits to be freed
  return (on_gpu and torch.cuda or torch)[name](option.device)
end

-- Mean loss and the share of right answers on the test data.
local function evaluate(net, low)
  net:eval()
  return torch.no_grad(function()
    local loss, right, count = 0, 0, 0
    for x, y in data.DataLoader(test, {batch_size = 250})() do
      local guess, class = torch.autocast(option.device, low, function() return scores(net, x, y) end)
      loss = loss + F.cross_entropy(guess:float(), class, {reduction = "sum"}):item()
      right, count = right + guess:argmax(2):eq(class):sum():item(), count + #class
    end
    return loss / count, right / count
  end)
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2] or 0
end

---- Training, once for each precision -----------------------------------------------------------------

local precisions = {
  {name = "float32", low = {enabled = false}},
  {name = "bfloat16", low = {dtype = torch.bfloat16}},
  {name = "float16", low = {dtype = torch.float16}, scaled = true},
}
local run = support.training(option, {"round", "precision", "epoch", "train_loss", "test_loss", "test_accuracy"})
local results = run.saved and run.saved.results or {}

local function train_with(number)
  local precision = precisions[number]
  local before = memory("memory_allocated")
  torch.manual_seed(option.seed)  -- all begin with the same weights and see the same batches
  local loader = data.DataLoader(train, {batch_size = option["batch-size"], shuffle = true, drop_last = true})
  local net = make():to(option.device)
  local opt = optim.AdamW(net:parameters(), {lr = option.lr})
  local schedule = optim.lr_scheduler.CosineAnnealingLR(opt, option.epochs * #loader)
  local scaler = torch.amp.GradScaler {enabled = precision.scaled or false, init_scale = 2 ^ 14, growth_interval = 200}
  results[number] = results[number] or {times = {}, peak = 0, skipped = 0}
  local result = results[number]
  run:keep({net = net, opt = opt, schedule = schedule, scaler = scaler, results = results}, number)

  for round in run:epochs(number * option.epochs, #precisions * option.epochs) do
    local epoch = round - (number - 1) * option.epochs
    net:train()
    for x, y in run:batches(loader) do
      -- Memory is measured in one step: over many it depends on when what is no longer needed is collected.
      local measured = run.batch == 0
      if measured then memory("reset_peak_memory_stats") end
      local began = torch.perf_counter()
      opt:zero_grad()
      local loss = torch.autocast(option.device, precision.low, function() return F.cross_entropy(scores(net, x, y)) end)
      scaler:scale(loss):backward()
      local skipped = scaler.skipped_steps
      scaler:step(opt)
      scaler:update()
      schedule:step()
      run:add(loss:item(), #x)
      result.times[#result.times + 1] = torch.perf_counter() - began
      result.skipped = result.skipped + scaler.skipped_steps - skipped
      if measured then result.peak = math.max(result.peak, memory("max_memory_allocated") - before) end
    end
    result.loss, result.accuracy = evaluate(net, precision.low)
    if number == 1 then
      result.half = {}
      for i, dtype in ipairs {"bfloat16", "float16"} do
        local _, accuracy = evaluate(net:clone():to(dtype), {enabled = false})
        result.half[i] = accuracy
      end
    end
    run:log(number, epoch, run:mean(), result.loss, result.accuracy)
    say("%-8s  epoch %d/%d  test loss %.4f  test accuracy %.2f %%", precision.name, epoch, option.epochs, result.loss,
      100 * result.accuracy)
  end
end

---- The table --------------------------------------------------------------------------------------

say("%s: %d samples to learn from, %d to test; %d threads", option.task, #train, #test, torch.get_num_threads())
run:train(function()
  for number = run.epoch // option.epochs + 1, #precisions do train_with(number) end
end)

say("\nprecision   ms/step   peak MB   test loss   accuracy   skipped steps")
for number, result in ipairs(results) do
  say("%-10s %8.2f %9.1f %11.4f %8.2f %% %15d", precisions[number].name, 1000 * median(result.times), result.peak / 1e6,
    result.loss, 100 * result.accuracy, result.skipped)
end
local first = results[1]
say("float32's weights rounded: %.2f %% with net:bfloat16(), %.2f %% with net:half()", 100 * first.half[1], 100 * first.half[2])
local names = {}
for number, precision in ipairs(precisions) do names[number] = precision.name end
run:plot({{"training loss", "train_loss"}, {"test loss", "test_loss"}, {"test accuracy", "test_accuracy"}}, {"precision", names = names})
