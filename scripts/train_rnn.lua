-- Trains an LSTM that reads handwritten digits (MNIST) as a person reads a page: row by row, 28 rows of 28 numbers,
-- and says which digit it was after the last one.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_rnn", "Trains an LSTM that reads handwritten digits row by row.", {
  {"epochs", "N", 10, "rounds over the training images", quick = 2},
  {"batch-size", "N", 64, "images per step"},
  {"hidden", "N", 128, "numbers that the network remembers", quick = 32},
  {"layers", "N", 1, "LSTMs one above the other"},
  {"lr", "X", 0.004, "learning rate at the start; it falls to 0 in half a cosine"},
  {"images", "N", 8000, "images to learn from, at most", quick = 640},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files (.gz)"},
  {"save", "FILE", "rnn.pt", "where the checkpoint goes"},
})

-- Images [n, 28, 28] with mean 0 and deviation 1 over the set; labels 1..10 for 0..9.
local function load_digits(part, most)
  local function read(kind) return support.attempt(torch.io.read_idx, ("%s/%s-%s-ubyte.gz"):format(option.data, part, kind)) end
  local images, labels = read("images-idx3"), read("labels-idx1")
  local last = math.min(most, #images)
  images = (images[{{1, last}}]:float() / 255 - 0.1307) / 0.3081
  return images:to(option.device), (labels[{{1, last}}]:long() + 1):to(option.device)
end
local train_x, train_y = load_digits("train", option.images)
local test_x, test_y = load_digits("t10k", option.images)

local Reader = nn.class("Reader")
function Reader:init(hidden, layers)
  self.lstm = nn.LSTM {28, hidden, num_layers = layers, batch_first = true}
  self.classify = nn.Linear(hidden, 10)
end
function Reader:forward(rows)
  local y = self.lstm(rows)               -- [n, 28, hidden]: what it knows after each row
  return self.classify(y[{{}, -1}])
end

local saved = option.load and support.load(option.load)
local net = support.attempt(function() return Reader(option.hidden, option.layers):to(option.device) end)
local opt = optim.Adam(net:parameters(), {lr = option.lr})
local state = saved or {epoch = 0, net = support.copy(net:state_dict()), opt = support.copy(opt:state_dict()),
  rng = torch.get_rng_state(), history = {}}
if saved then
  support.attempt(function()
    net:load_state_dict(saved.net)
    opt:load_state_dict(saved.opt)
  end)
  torch.set_rng_state(saved.rng)
end
local log = support.metrics(option.metrics, {"epoch", "train_loss", "test_accuracy"}, state.history)

local function evaluate()
  net:eval()
  return torch.no_grad(function()
    local right = 0
    for first = 1, #test_x, 500 do
      local part = {{first, math.min(first + 499, #test_x)}}
      right = right + net(test_x[part]):argmax(2):eq(test_y[part]):sum():item()
    end
    return right / #test_x
  end)
end

local function train_network()
  local loader = data.DataLoader(data.TensorDataset(train_x, train_y), {batch_size = option["batch-size"], shuffle = true})
  while state.epoch < option.epochs do
    net:train()
    local sum, count = 0, 0
    for rows, labels in loader() do
      local share = (state.epoch + count / #loader) / option.epochs
      opt.param_groups[1].lr = option.lr * 0.5 * (1 + math.cos(math.pi * share))
      opt:zero_grad()
      local loss = F.cross_entropy(net(rows), labels)
      loss:backward()
      nn.utils.clip_grad_norm_(net:parameters(), 1.0)
      opt:step()
      sum, count = sum + loss:item(), count + 1
      support.progress(state.epoch * #loader + count, option.epochs * #loader, "epoch %d/%d  loss %.3f", state.epoch + 1,
        option.epochs, sum / count)
    end
    local accuracy = evaluate()
    log.add(state.epoch + 1, sum / count, accuracy)
    -- Copies, put in place at once: Ctrl-C in the next epoch goes back to the end of this one.
    state = {epoch = state.epoch + 1, net = support.copy(net:state_dict()), opt = support.copy(opt:state_dict()),
      rng = torch.get_rng_state(), history = log.rows}
    say("epoch %d/%d  loss %.4f  test accuracy %.2f %%", state.epoch, option.epochs, sum / count, 100 * accuracy)
  end
end

say("%d images to learn from, %d to test; %d threads", #train_x, #test_x, torch.get_num_threads())
local began, finished = torch.perf_counter(), torch.until_interrupt(train_network)
say("trained to epoch %d in %s", state.epoch, support.clock(torch.perf_counter() - began))
support.save(option.save, state, finished)
if not finished then os.exit(130, true) end
log.plot("test accuracy", "test_accuracy")
say("test accuracy %.2f %% on %d images", 100 * evaluate(), #test_x)
