-- Trains one network over two devices, cut by layer (the first layers on one device, the rest on the other), by branch
-- (two towers, each on its own), or by the length of the sequence (an LSTM that reads the upper half of a digit on one
-- device and the lower half on the other). A batch goes through in parts, so that on real devices both work at a time.
-- Where there are fewer than two devices, they are simulated: the same program, the same rules, the CPU's numbers.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

if torch.cuda.device_count() < 2 then torch.cuda.simulate(2) end
local option = support.options("model_parallel", "Trains one network over two devices on handwritten digits.", {
  {"cut", "layer|branch|sequence", "layer", "how the network is cut"},
  {"epochs", "N", 3, "rounds over the training images", quick = 2, free = true},
  {"batch-size", "N", 64, "images per step"},
  {"parts", "N", 4, "pieces of a batch that go through one after the other"},
  {"lr", "X", 0.1, "learning rate"},
  {"images", "N", 4000, "images to learn from, at most", quick = 320},
  {"device", "NAME", "cuda:0", "the first device; or cpu: all on one, for comparison", free = true},
  {"second", "NAME", "", "the second device; the one after the first unless given", free = true},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files, with or without .gz", free = true},
  {"save", "FILE", "model_parallel.pt", "where the checkpoint goes", free = true},
})
local first, second = option.device, option.second
if first == "cpu" then second = "cpu" end
if second == "" then second = tostring(torch.device("cuda", ((torch.device(first).index or 0) + 1) % torch.cuda.device_count())) end
support.attempt(torch.zeros, 1, {device = second})

---- Three ways to cut ------------------------------------------------------------------------------

-- Each network takes images [n, 28, 28] on the first device and gives scores [n, 10] on the second.

local Layers = nn.class("Layers")
function Layers:init()
  self.body = nn.Sequential(nn.Conv2d(1, 8, 5, {stride = 2, padding = 2}), nn.ReLU(),
    nn.Conv2d(8, 16, 5, {stride = 2, padding = 2}), nn.ReLU()):to(first)
  self.head = nn.Sequential(nn.Flatten(), nn.Linear(16 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)):to(second)
end
function Layers:forward(x)
  return self.head(self.body(x:unsqueeze(2)):to(second))  -- the values cross here, and in backward their gradient
end

local Branches = nn.class("Branches")
function Branches:init()
  self.whole = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 64), nn.ReLU()):to(first)
  self.coarse = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(7 * 7, 64), nn.ReLU()):to(second)
  self.join = nn.Linear(128, 10):to(second)
end
function Branches:forward(x)
  local there = x:unsqueeze(2):to(second)
  return self.join(torch.cat({self.whole(x):to(second), self.coarse(there)}, 2))
end

local Halves = nn.class("Halves")
function Halves:init()
  self.lstm = nn.LSTM(28, 64, {batch_first = true}):to(first)
  self.classify = nn.Linear(64, 10):to(second)
end
function Halves:forward(x)
  -- The same weights on both devices: a replica is made of copies whose gradients go back and add up.
  local upper, lower = table.unpack(nn.parallel.replicate(self.lstm, {first, second}))
  local _, state = upper(x[{{}, {1, 14}}])
  local y = lower(x[{{}, {15, 28}}]:to(second), {state[1]:to(second), state[2]:to(second)})
  return self.classify(y[{{}, -1}])
end

local Net = ({layer = Layers, branch = Branches, sequence = Halves})[option.cut]

---- Training ---------------------------------------------------------------------------------------

-- Images stay where they are read, and labels go to where the scores will be.
local function load_digits(train)
  local images, labels = support.digits(option.data, train, option.images)
  return data.TensorDataset((images - 0.1307) / 0.3081, labels)
end
local train, test = load_digits(true), load_digits(false)

local run = support.training(option, {"epoch", "train_loss", "test_accuracy"})
local net = support.attempt(Net)
local opt = optim.SGD(net:parameters(), {lr = option.lr, momentum = 0.9})  -- of both devices
run:keep {net = net, opt = opt}
local loader = data.DataLoader(train, {batch_size = option["batch-size"], shuffle = true, pin_memory = true})

-- One step. The parts of a batch follow each other: while the second device works on one, the first has the next.
local function step(images, labels)
  opt:zero_grad()
  local scores = {}
  for i, part in ipairs {images:chunk(option.parts)} do scores[i] = net(part:to(first, {non_blocking = true})) end
  local loss = F.cross_entropy(torch.cat(scores), labels:to(second))
  loss:backward()
  opt:step()
  return loss:item()
end

local function evaluate()
  net:eval()
  return torch.no_grad(function()
    local right = 0
    for images, labels in data.DataLoader(test, {batch_size = 500})() do
      right = right + net(images:to(first)):argmax(2):eq(labels:to(second)):sum():item()
    end
    return right / #test
  end)
end

say("cut by %s: %s", option.cut, first == second and "all on " .. first or ("the first part on %s, the second on %s"):format(first, second))
for _, pair in ipairs(net:named_parameters()) do say("  %-20s %-14s %s", pair[1], tostring(pair[2].shape), tostring(pair[2].device)) end
run:train(function()
  for epoch in run:epochs(option.epochs) do
    net:train()
    for images, labels in run:batches(loader) do run:add(step(images, labels), #images, "images") end
    local accuracy = evaluate()
    say("epoch %d/%d  loss %.4f  test accuracy %.2f %%", epoch, option.epochs, run:mean(), 100 * accuracy)
    run:log(run:mean(), accuracy)
  end
end)
run:plot {{"loss", "train_loss"}, {"test accuracy", "test_accuracy"}}
say("test accuracy %.2f %% on %d images", 100 * evaluate(), #test)
for i = 0, torch.cuda.device_count() - 1 do
  say("cuda:%d held %.1f MB at most", i, torch.cuda.max_memory_allocated(i) / 1e6)
end
