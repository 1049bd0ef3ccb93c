-- Trains a variational autoencoder on handwritten digits (MNIST): it squeezes each image into a few numbers and paints
-- it again from them; in the end it paints digits that nobody wrote (Kingma and Welling 2013).
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_vae", "Trains a variational autoencoder on handwritten digits.", {
  {"epochs", "N", 30, "rounds over the training images", quick = 2, free = true},
  {"batch-size", "N", 64, "images per step"},
  {"hidden", "N", 400, "width of the network", quick = 64},
  {"code", "N", 16, "numbers that an image is squeezed into"},
  {"lr", "X", 0.002, "learning rate at the start; it falls to 0 in half a cosine"},
  {"images", "N", 8000, "images to learn from, at most", quick = 640},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files, with or without .gz", free = true},
  {"save", "FILE", "vae.pt", "where the checkpoint goes", free = true},
})

-- Images as rows of 784 numbers from 0 to 1.
local function load_images(train) return (support.digits(option.data, train, option.images):flatten(2):to(option.device)) end
local train, test = load_images(true), load_images(false)

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

local run = support.training(option, {"epoch", "train_loss", "test_loss", "test_painting", "test_code"})
local loader = data.DataLoader(data.TensorDataset(train), {batch_size = option["batch-size"], shuffle = true})
local steps = option.epochs * #loader
local net = support.attempt(function() return VAE(train:size(2), option.hidden, option.code):to(option.device) end)
local opt = optim.Adam(net:parameters(), {lr = option.lr})
local schedule = optim.lr_scheduler.LambdaLR(opt, function(step) return 0.5 * (1 + math.cos(math.pi * step / steps)) end)
run:keep {net = net, opt = opt, schedule = schedule}

local function train_network()
  for epoch in run:epochs(option.epochs) do
    net:train()
    for images in run:batches(loader) do
      opt:zero_grad()
      local paint, code = losses(net, images)
      local loss = paint + code
      loss:backward()
      opt:step()
      schedule:step()
      run:add(loss:item(), #images, "images")
    end
    net:eval()
    local paint, code = torch.no_grad(function() return losses(net, test) end)
    say("epoch %d/%d  loss %.2f  test loss %.2f (painting %.2f, code %.2f)", epoch, option.epochs, run:mean(),
      (paint + code):item(), paint:item(), code:item())
    run:log(run:mean(), (paint + code):item(), paint:item(), code:item())
  end
end

local function show(rows) support.show_digits(rows:reshape({-1, 28, 28}), 0.4) end

say("%d images to learn from, %d to test; %d threads", #train, #test, torch.get_num_threads())
run:train(train_network)
run:plot {{"loss", "train_loss", "test_loss"}, {"parts of the test loss", "test_painting", "test_code"}}
net:eval()
torch.no_grad(function()
  say("\nimages of the test set, and painted again from %d numbers each:", option.code)
  show(test[{{1, 3}}])
  show(net(test[{{1, 3}}]):sigmoid())
  say("\npainted from random numbers:")
  show(net.decode(torch.randn({3, option.code}, {device = option.device})):sigmoid())
end)
