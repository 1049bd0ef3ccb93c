-- Trains a small convolutional network on handwritten digits (MNIST), shows how it does, and saves it.
-- Read it, run it (scripts/start, or tycho scripts/train_digits.lua --help), copy it and change it.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")  -- options, progress, metrics, checkpoints
local say = support.say

local option = support.options("train_digits", "Trains a small convolutional network on handwritten digits.", {
  {"epochs", "N", 8, "rounds over the training images", quick = 1, free = true},
  {"batch-size", "N", 64, "images per step, of all ranks together"},
  {"lr", "X", 0.003, "learning rate at the start; it falls to 0 in a straight line"},
  {"images", "N", 60000, "images to learn from, at most", quick = 640},
  {"amp", "off|bf16|fp16", "off", "mixed precision: off, bf16, or fp16 with a scaled loss"},
  {"workers", "N", 0, "threads that load batches", least = 0, free = true},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files, with or without .gz", free = true},
  {"save", "FILE", "digits.pt", "where the checkpoint goes", free = true},
})

---- Data -------------------------------------------------------------------------------------------

-- Images as float32 [n, 1, 28, 28] with mean 0 and deviation 1 over the set; labels 1..10 for 0..9.
local function load_digits(train)
  local images, labels = support.digits(option.data, train, option.images)
  return {images = ((images - 0.1307) / 0.3081):unsqueeze(2):to(option.device), labels = labels:to(option.device)}
end

---- The network ------------------------------------------------------------------------------------

local DigitNet = nn.class("DigitNet")
function DigitNet:init()
  self.features = nn.Sequential(
    nn.Conv2d(1, 16, 5, {padding = 2}), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),    -- 16 x 14 x 14
    nn.Conv2d(16, 32, 5, {padding = 2}), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))  -- 32 x 7 x 7
  self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 7 * 7, 10))
end
function DigitNet:forward(x) return self.classify(self.features(x)) end

local low = {enabled = option.amp ~= "off", dtype = option.amp == "fp16" and torch.float16 or torch.bfloat16}
local function forward(model, x)
  return torch.autocast(x.device.type, low, function() return model(x) end)
end

-- The class that the network gives each image, and the share that is right. Every rank looks at its part.
local function evaluate(set)
  net:eval()
  support.same_buffers(net)
  local predicted = torch.zeros_like(set.labels)
  local first, last = support.part(#set.labels)
  torch.no_grad(function()
    for from = first, last, 500 do
      local some = {{from, math.min(from + 499, last)}}
      predicted[some] = forward(net, set.images[some]):argmax(2)
    end
  end)
  support.sum(predicted)
  return predicted, predicted:eq(set.labels):float():mean():item()
end

---- Training ---------------------------------------------------------------------------------------

-- The same digits, moved by up to two pixels: one view of the padded batch for all its images.
local function shifted(padded)
  local top, left = table.unpack(torch.randint(1, 6, {2}):tolist())
  return padded[{{}, {}, {top, top + 27}, {left, left + 27}}]
end

local function train_network(run)
  local padded = F.pad(train.images, {2, 2, 2, 2}, {value = -0.1307 / 0.3081})
  local loader = support.loader(data.TensorDataset(padded, train.labels),
    {batch_size = support.share("batch-size", option["batch-size"]), num_workers = option.workers})
  local steps = option.epochs * #loader
  local opt = optim.Adam(net:parameters(), {lr = option.lr})
  local schedule = optim.lr_scheduler.LambdaLR(opt, function(step) return 1 - step / steps end)
  local scaler = torch.amp.GradScaler {enabled = option.amp == "fp16"}
  run:keep {net = net, opt = opt, schedule = schedule, scaler = scaler}
  local model = run:distribute(net)

  run:train(function()
    for epoch in run:epochs(option.epochs) do
      net:train()
      for images, labels in run:batches(loader) do
        opt:zero_grad()
        local loss = F.cross_entropy(forward(model, shifted(images)):float(), labels)
        scaler:scale(loss):backward()
        scaler:step(opt)
        scaler:update()
        schedule:step()
        run:add(loss:item(), #images, "images")
      end
      local _, accuracy = evaluate(test)
      say("epoch %d/%d  loss %.4f  test accuracy %.2f %%  %d images/s", epoch, option.epochs, run:mean(),
        100 * accuracy, run:rate())
      run:log(run:mean(), accuracy)
    end
  end)
end

---- Showing the result -----------------------------------------------------------------------------

local function show_digits(places, predicted)
  places = places[{{1, math.min(3, #places)}}]
  if #places == 0 then return end
  local heads = {}
  for i, place in ipairs(places:tolist()) do
    local text = ("%d, read as %d"):format(test.labels[place]:item() - 1, predicted[place]:item() - 1)
    heads[i] = text .. (" "):rep(22 - #text)
  end
  say("\n  %s", table.concat(heads, "   "))
  support.show_digits(test.images[places]:squeeze(2), 0.8)
end

local function show_result()
  local predicted, accuracy = evaluate(test)
  local right = predicted:eq(test.labels)
  local confusion = torch.metrics.ConfusionMatrix {labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, sync_on_compute = false}  -- all ranks know all
  confusion:update(predicted, test.labels)
  say("\n%s", confusion)
  show_digits(right:nonzero():flatten(), predicted)
  show_digits((~right):nonzero():flatten(), predicted)
  say("\ntest accuracy %.2f %% on %d images", 100 * accuracy, #test.labels)
end

---- Main -------------------------------------------------------------------------------------------

local run = support.training(option, {"epoch", "train_loss", "test_accuracy"})
net = support.attempt(function() return DigitNet():to(option.device) end)  -- global, as train and test: for the prompt
test = load_digits(false)
if run.epoch < option.epochs then
  train = load_digits(true)
  say("%d images to train on, %d to test; %s%d threads", #train.images, #test.images,
    support.world > 1 and support.world .. " ranks of " or "", torch.get_num_threads())
  train_network(run)
else
  run:keep {net = net}
end
run:plot {{"loss", "train_loss"}, {"test accuracy", "test_accuracy"}}
show_result()

if support.interactive then
  say("net, test%s are at hand; try: net:eval() net(test.images[{{1, 3}}]):argmax(2) - 1", train and " and train" or "")
end
