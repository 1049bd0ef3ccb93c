-- Trains an LSTM that reads handwritten digits (MNIST) as a person reads a page: row by row, 28 rows of 28 numbers,
-- and says which digit it was after the last one.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_rnn", "Trains an LSTM that reads handwritten digits row by row.", {
  {"epochs", "N", 10, "rounds over the training images", quick = 2, free = true},
  {"batch-size", "N", 64, "images per step"},
  {"hidden", "N", 128, "numbers that the network remembers", quick = 32},
  {"layers", "N", 1, "LSTMs one above the other"},
  {"lr", "X", 0.004, "learning rate at the start; it falls to 0 in half a cosine"},
  {"images", "N", 8000, "images to learn from, at most", quick = 640},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files, with or without .gz", free = true},
  {"save", "FILE", "rnn.pt", "where the checkpoint goes", free = true},
})

-- Images [n, 28, 28] with mean 0 and deviation 1 over the set; labels 1..10 for 0..9.
local function load_digits(train)
  local images, labels = support.digits(option.data, train, option.images)
  return ((images - 0.1307) / 0.3081):to(option.device), labels:to(option.device)
end
local train_x, train_y = load_digits(true)
local test_x, test_y = load_digits(false)

local Reader = nn.class("Reader")
function Reader:init(hidden, layers)
  self.lstm = nn.LSTM {28, hidden, num_layers = layers, batch_first = true}
  self.classify = nn.Linear(hidden, 10)
end
function Reader:forward(rows)
  local y = self.lstm(rows)               -- [n, 28, hidden]: what it knows after each row
  return self.classify(y[{{}, -1}])
end

local run = support.training(option, {"epoch", "train_loss", "test_accuracy"})
local loader = data.DataLoader(data.TensorDataset(train_x, train_y), {batch_size = option["batch-size"], shuffle = true})
local steps = option.epochs * #loader
local net = support.attempt(function() return Reader(option.hidden, option.layers):to(option.device) end)
local opt = optim.Adam(net:parameters(), {lr = option.lr})
local schedule = optim.lr_scheduler.LambdaLR(opt, function(step) return 0.5 * (1 + math.cos(math.pi * step / steps)) end)
run:keep {net = net, opt = opt, schedule = schedule}

local function evaluate()
  net:eval()
  return torch.no_grad(function()
    local right = 0
    for images, labels in data.DataLoader(data.TensorDataset(test_x, test_y), {batch_size = 500})() do
      right = right + net(images):argmax(2):eq(labels):sum():item()
    end
    return right / #test_x
  end)
end

local function train_network()
  for epoch in run:epochs(option.epochs) do
    net:train()
    for images, labels in run:batches(loader) do
      opt:zero_grad()
      local loss = F.cross_entropy(net(images), labels)
      loss:backward()
      nn.utils.clip_grad_norm_(net:parameters(), 1.0)
      opt:step()
      schedule:step()
      run:add(loss:item(), #images, "images")
    end
    local accuracy = evaluate()
    say("epoch %d/%d  loss %.4f  test accuracy %.2f %%", epoch, option.epochs, run:mean(), 100 * accuracy)
    run:log(run:mean(), accuracy)
  end
end

say("%d images to learn from, %d to test; %d threads", #train_x, #test_x, torch.get_num_threads())
run:train(train_network)
run:plot {{"loss", "train_loss"}, {"test accuracy", "test_accuracy"}}
say("test accuracy %.2f %% on %d images", 100 * evaluate(), #test_x)
