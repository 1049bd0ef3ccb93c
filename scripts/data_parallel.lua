-- Trains one network on several devices at a time, in one process: nn.DataParallel cuts each batch, gives every device a
-- part and a replica of the network, and adds the gradients up in the network, which is on the first device. Where there
-- are no devices they are simulated: the same program, the same rules, the CPU's numbers. (With a process for each
-- device, DistributedDataParallel is faster on real ones.)
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

if torch.cuda.device_count() < 2 then torch.cuda.simulate(2) end
local option = support.options("data_parallel", "Trains one network on several devices at a time on handwritten digits.", {
  {"epochs", "N", 3, "rounds over the training images", quick = 2, free = true},
  {"batch-size", "N", 64, "images per step, over all devices"},
  {"lr", "X", 0.003, "learning rate at the start; it falls to 0 in a straight line"},
  {"images", "N", 4000, "images to learn from, at most", quick = 320},
  {"device", "NAME", "cuda:0", "the first device; or cpu: without the others, for comparison", free = true},
  {"devices", "N", 2, "how many devices, from the first on (after the last one comes cuda:0)", free = true},
  {"shares", "LIST", "", "parts of a batch for devices of different speed, as in 3,1; equal ones unless given", free = true},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files, with or without .gz", free = true},
  {"save", "FILE", "data_parallel.pt", "where the checkpoint goes", free = true},
})

local device_ids = {}
if option.device ~= "cpu" then
  local first = torch.device(option.device).index or 0
  local count = torch.cuda.device_count()
  for i = 1, option.devices do device_ids[i] = option.devices <= count and (first + i - 1) % count or first + i - 1 end
  support.attempt(torch.zeros, 1, {device = torch.device("cuda", math.max(table.unpack(device_ids)))})
end
local shares
if option.shares ~= "" then
  shares = {}
  for word in option.shares:gmatch "[^,]+" do
    shares[#shares + 1] = math.tointeger(tonumber(word)) or support.stop("--shares is a list of whole numbers, as in 3,1, not %s", option.shares)
  end
end

-- The loss is computed inside forward, so that each device has its own part of the work, and comes back as one number
-- for each device; with the counts they make the mean over the batch, whatever the parts are.
local DigitNet = nn.class("DigitNet")
function DigitNet:init()
  self.layers = nn.Sequential(nn.Conv2d(1, 12, 5, {stride = 2, padding = 2}), nn.ReLU(),
    nn.Conv2d(12, 24, 5, {stride = 2, padding = 2}), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 7 * 7, 10))
end
function DigitNet:forward(images, labels)
  local scores = self.layers(images)
  if not labels then return scores end
  return F.cross_entropy(scores, labels, {reduction = "sum"}), torch.tensor(#images, {device = images.device})
end

local function load_digits(train)
  local images, labels = support.digits(option.data, train, option.images)
  return data.TensorDataset(((images - 0.1307) / 0.3081):unsqueeze(2), labels)
end
local train, test = load_digits(true), load_digits(false)

local run = support.training(option, {"epoch", "train_loss", "test_accuracy"})
local loader = data.DataLoader(train, {batch_size = option["batch-size"], shuffle = true, pin_memory = true})
local net = support.attempt(function() return DigitNet():to(option.device) end)
local opt = optim.Adam(net:parameters(), {lr = option.lr})
local steps = option.epochs * #loader
local schedule = optim.lr_scheduler.LambdaLR(opt, function(step) return 1 - step / steps end)
run:keep {net = net, opt = opt, schedule = schedule}
local everywhere = net
if #device_ids > 0 then
  everywhere = support.attempt(nn.DataParallel, net, {device_ids = device_ids, chunk_sizes = shares})
end

local function evaluate()
  net:eval()
  return torch.no_grad(function()
    local right = 0
    for images, labels in data.DataLoader(test, {batch_size = 500})() do
      local scores = everywhere(images:to(option.device))
      right = right + scores:argmax(2):eq(labels:to(scores.device)):sum():item()
    end
    return right / #test
  end)
end

say("%d images to learn from, %d to test, on %s", #train, #test,
  #device_ids > 0 and #device_ids .. " devices from " .. tostring(torch.device("cuda", device_ids[1])) .. " on" or "the CPU")
run:train(function()
  for epoch in run:epochs(option.epochs) do
    net:train()
    for images, labels in run:batches(loader) do
      opt:zero_grad()
      local losses, counts = everywhere(images:to(option.device, {non_blocking = true}), labels:to(option.device, {non_blocking = true}))
      local loss = losses:sum() / counts:sum()
      loss:backward()
      opt:step()
      schedule:step()
      run:add(loss:item(), #images, "images")
    end
    local accuracy = evaluate()
    say("epoch %d/%d  loss %.4f  test accuracy %.2f %%", epoch, option.epochs, run:mean(), 100 * accuracy)
    run:log(run:mean(), accuracy)
  end
end)
run:plot {{"loss", "train_loss"}, {"test accuracy", "test_accuracy"}}
say("test accuracy %.2f %% on %d images", 100 * evaluate(), #test)
