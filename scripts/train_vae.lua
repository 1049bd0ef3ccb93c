-- Trains a variational autoencoder on handwritten digits (MNIST): it squeezes each image into a few numbers and paints
-- it again from them; in the end it paints digits that nobody wrote (Kingma and Welling 2013).
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_vae", "Trains a variational autoencoder on handwritten digits.", {
  {"epochs", "N", 30, "rounds over the training images", quick = 2},
  {"batch-size", "N", 64, "images per step"},
  {"hidden", "N", 400, "width of the network", quick = 64},
  {"code", "N", 16, "numbers that an image is squeezed into"},
  {"lr", "X", 0.002, "learning rate at the start; it falls to 0 in half a cosine"},
  {"images", "N", 8000, "images to learn from, at most", quick = 640},
  {"data", "DIR", here .. "/data", "directory of the MNIST files (.gz)"},
  {"save", "FILE", "vae.pt", "where the checkpoint goes"},
})

-- Images as rows of 784 numbers from 0 to 1.
local function load_images(part)
  local images = support.attempt(torch.io.read_idx, ("%s/%s-images-idx3-ubyte.gz"):format(option.data, part))
  return (images[{{1, math.min(option.images, #images)}}]:float() / 255):flatten(2):to(option.device)
end
local train, test = load_images("train"), load_images("t10k")

local VAE = nn.class("VAE")
function VAE:init(pixels, hidden, code)
  self.encode = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU())
  self.mean = nn.Linear(hidden, code)
  self.log_variance = nn.Linear(hidden, code)
  self.decode = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, pixels))
end
-- The painting (before the sigmoid), and the distribution of the code.
function VAE:forward(x)
  local h = self.encode(x)
  local mean, log_variance = self.mean(h), self.log_variance(h)
  local code = mean
  if self.training then code = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean) end
  return self.decode(code), mean, log_variance
end

-- The two parts of the loss, per image: how much the painting differs, and how much the code tells.
local function losses(net, x)
  local painted, mean, log_variance = net(x)
  local paint = F.binary_cross_entropy_with_logits(painted, x, {reduction = "sum"}) / #x
  local code = -0.5 * (1 + log_variance - mean ^ 2 - log_variance:exp()):sum() / #x
  return paint, code
end

local saved = option.load and support.load(option.load)
local net = support.attempt(function() return VAE(train:size(2), option.hidden, option.code):to(option.device) end)
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
local log = support.metrics(option.metrics, {"epoch", "train_loss", "test_loss", "test_painting", "test_code"}, state.history)

local function train_network()
  local loader = data.DataLoader(data.TensorDataset(train), {batch_size = option["batch-size"], shuffle = true})
  while state.epoch < option.epochs do
    net:train()
    local sum, count = 0, 0
    for x in loader() do
      local share = (state.epoch + count / #loader) / option.epochs
      opt.param_groups[1].lr = option.lr * 0.5 * (1 + math.cos(math.pi * share))
      opt:zero_grad()
      local paint, code = losses(net, x)
      local loss = paint + code
      loss:backward()
      opt:step()
      sum, count = sum + loss:item(), count + 1
      support.progress(state.epoch * #loader + count, option.epochs * #loader, "epoch %d/%d  loss %.1f", state.epoch + 1,
        option.epochs, sum / count)
    end
    net:eval()
    local paint, code = torch.no_grad(function() return losses(net, test) end)
    log.add(state.epoch + 1, sum / count, (paint + code):item(), paint:item(), code:item())
    -- Copies, put in place at once: Ctrl-C in the next epoch goes back to the end of this one.
    state = {epoch = state.epoch + 1, net = support.copy(net:state_dict()), opt = support.copy(opt:state_dict()),
      rng = torch.get_rng_state(), history = log.rows}
    say("epoch %d/%d  loss %.2f  test loss %.2f (painting %.2f, code %.2f)", state.epoch, option.epochs, sum / count,
      (paint + code):item(), paint:item(), code:item())
  end
end

-- Rows of images [n, 784], side by side, two rows of pixels per line.
local blocks = {[0] = " ", "▀", "▄", "█"}
local function show_images(images)
  local pixels = images:reshape({-1, 28, 28}):gt(0.4):tolist()
  for top = 3, 25, 2 do
    local parts = {}
    for i, image in ipairs(pixels) do
      local line = {}
      for x = 4, 25 do line[#line + 1] = blocks[(image[top][x] and 1 or 0) + (image[top + 1][x] and 2 or 0)] end
      parts[i] = table.concat(line)
    end
    say("  %s", table.concat(parts, " "))
  end
end

say("%d images to learn from, %d to test; %d threads", #train, #test, torch.get_num_threads())
local began, finished = torch.perf_counter(), torch.until_interrupt(train_network)
say("trained to epoch %d in %s", state.epoch, support.clock(torch.perf_counter() - began))
support.save(option.save, state, finished)
if not finished then os.exit(130, true) end
log.plot("loss", "train_loss", "test_loss")
net:eval()
torch.no_grad(function()
  say("\nimages of the test set, and painted again from %d numbers each:", option.code)
  show_images(test[{{1, 3}}])
  show_images(net(test[{{1, 3}}]):sigmoid())
  say("\npainted from random numbers:")
  show_images(net.decode(torch.randn({3, option.code}, {device = option.device})):sigmoid())
end)
