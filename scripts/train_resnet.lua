-- Trains a residual network (He et al. 2015) to tell images apart: a folder of images by class, or drawn shapes with
-- colours, textures and noise of their own, of which no two are the same.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_resnet", "Trains a residual network on images: drawn shapes, or a folder of them.", {
  {"model", "resnet18|resnet34|resnet50|resnet101", "resnet18", "the network"},
  {"epochs", "N", 12, "rounds over the images", quick = 1},
  {"batch-size", "N", 32, "images per step, of all ranks together", quick = 8},
  {"lr", "X", 0.04, "highest learning rate, for batches of 64"},
  {"schedule", "cosine|onecycle", "cosine", "how the rate falls after its rise"},
  {"warmup", "X", 0.1, "share of the steps in which the rate rises", most = 0.9},
  {"momentum", "X", 0.9, "share of the last step that goes on into the next", most = 0.999},
  {"weight-decay", "X", 0.0005, "pull of the weights to 0"},
  {"smoothing", "X", 0.1, "share of each label that goes to all classes", most = 0.99},
  {"ema", "X", 0, "test an average of the weights that keeps this share at each step (0: none)", most = 0.99999},
  {"amp", "off|bf16|fp16", "off", "mixed precision: off, bf16, or fp16 with a scaled loss"},
  {"size", "N", 48, "pixels of an image's side", quick = 32, least = 16},
  {"data", "DIR", nil, "a folder of images for each class, or such folders in DIR/train and DIR/val (drawn shapes)"},
  {"images", "N", 4000, "shapes to draw; a quarter more to test", quick = 48, least = 10},
  {"workers", "N", 0, "threads that load batches", least = 0, free = true},
  {"save", "FILE", "resnet.pt", "where the checkpoint goes", free = true},
})

---- Drawn shapes -----------------------------------------------------------------------------------

-- What is inside, in coordinates where the shape has radius 1: r is the distance to its centre.
local shapes = {
  {"disc", function(_, _, r) return r:lt(1) end},
  {"ring", function(_, _, r) return r:lt(1) & r:gt(0.55) end},
  {"half", function(_, v, r) return r:lt(1) & v:gt(-0.2) end},
  {"ellipse", function(u, v) return (u ^ 2 + 4 * v ^ 2):lt(1) end},
  {"square", function(u, v) return torch.maximum(u:abs(), v:abs()):lt(0.8) end},
  {"cross", function(u, v) return torch.maximum(u:abs(), v:abs()):lt(1) & torch.minimum(u:abs(), v:abs()):lt(0.3) end},
  {"triangle", function(u, v) return v:gt(-0.5) & (1.732 * u:abs() + v):lt(1) end},
  {"star", function(u, v, r) return r:lt(0.65 + 0.35 * torch.cos(5 * torch.atan2(v, u))) end},
  {"stripes", function(u, _, r) return r:lt(1) & torch.sin(9 * u):gt(0) end},
  {"checks", function(u, v, r) return r:lt(1) & (torch.sin(7 * u) * torch.sin(7 * v)):gt(0) end},
}

-- n shapes, of every class in turn: a dataset as an image folder, whose items are {bytes [3, size, size], class}.
local Shapes = data.class("Shapes")
Shapes.__len = function(self) return #self.images end
function Shapes:get(i) return {self.transform(self.images[i]), self.labels[i]} end
function Shapes:init(n, seed, transform)
  local random = torch.Generator():manual_seed(seed)
  local function between(low, high, ...) return low + (high - low) * torch.rand({...}, {generator = random}) end
  local size = option.size
  local labels = torch.arange(0, n) % #shapes + 1
  local line = torch.linspace(-1, 1, size)
  local images = torch.zeros(n, 3, size, size, {dtype = torch.uint8})
  for class, shape in ipairs(shapes) do
    local places = labels:eq(class):nonzero():flatten()
    local k = #places
    local radius, angle = between(0.4, 0.75, k, 1, 1), between(0, 2 * math.pi, k, 1, 1)
    local x = (line - between(-0.3, 0.3, k, 1, 1)) / radius                -- [k, 1, size]
    local y = (line:unsqueeze(2) - between(-0.3, 0.3, k, 1, 1)) / radius   -- [k, size, 1]
    local u, v = x * angle:cos() + y * angle:sin(), y * angle:cos() - x * angle:sin()
    local inside = shape[2](u, v, (u ^ 2 + v ^ 2):sqrt()):unsqueeze(2)     -- [k, 1, size, size]
    local ground = between(0, 1, k, 3, 1, 1)
    local colour = (ground + between(0.3, 0.7, k, 3, 1, 1)) % 1            -- another one, which may be darker
    local texture = F.interpolate(between(-0.2, 0.2, k, 3, 8, 8), {size = size, mode = "bilinear", align_corners = false})
    local picture = torch.where(inside, colour, ground) + texture + between(-0.1, 0.1, k, 3, size, size)
    images[places] = (picture:clamp(0, 1) * 255):to(torch.uint8)
  end
  self.images, self.labels, self.transform, self.classes = images, labels:tolist(), transform, {}
  for i, shape in ipairs(shapes) do self.classes[i] = shape[1] end
end

---- Data -------------------------------------------------------------------------------------------

-- Images to learn from are changed at random, otherwise each time; bytes become numbers around 0.
local transforms, size = data.transforms, option.size
local normal = transforms.Compose {transforms.ToDtype(torch.float32, {scale = true}), transforms.Normalize({0.45, 0.45, 0.45}, {0.25, 0.25, 0.25})}
local function load_data()
  if not option.data then
    local changed = transforms.Compose {transforms.RandomHorizontalFlip(), transforms.RandomCrop(size, {padding = size // 16}), normal}
    return Shapes(option.images, option.seed, changed), Shapes(math.max(10, option.images // 4), option.seed + 1, normal)
  end
  local changed = transforms.Compose {transforms.RandomResizedCrop(size, {scale = {0.35, 1}}), transforms.RandomHorizontalFlip(),
    transforms.ColorJitter {brightness = 0.2, contrast = 0.2, saturation = 0.2}, normal}
  local middle = transforms.Compose {transforms.Resize(size * 8 // 7), transforms.CenterCrop(size), normal}
  local inner = io.open(option.data .. "/train/.")
  if inner then
    inner:close()
    return data.ImageFolder(option.data .. "/train", {transform = changed}), data.ImageFolder(option.data .. "/val", {transform = middle})
  end
  -- One folder: a fifth of its images is kept to test.
  local train, test = data.ImageFolder(option.data, {transform = changed}), data.ImageFolder(option.data, {transform = middle})
  local order = torch.randperm(#train, {generator = torch.Generator():manual_seed(option.seed)}):tolist()
  local cut = #order * 4 // 5
  local first, rest = data.Subset(train, table.move(order, 1, cut, 1, {})), data.Subset(test, table.move(order, cut + 1, #order, 1, {}))
  first.classes = train.classes
  return first, rest
end

local train, test = support.attempt(load_data)
local classes = #train.classes
if #test == 0 then support.stop("%s holds %d images, too few to keep some for testing", option.data, #train) end
local loader = support.loader(train, {batch_size = support.share("batch-size", option["batch-size"]),
  drop_last = #train > option["batch-size"], num_workers = option.workers})
-- Every rank tests its part of the images.
local first, last = support.part(#test)
local places = {}
for i = first, last do places[#places + 1] = i end
local test_loader = data.DataLoader(data.Subset(test, places), {batch_size = 100, num_workers = option.workers})
local steps = option.epochs * #loader

---- The network ------------------------------------------------------------------------------------

local run = support.training(option, {"epoch", "lr", "train_loss", "test_loss", "top1", "top5"})
local net = support.attempt(function() return torch.models[option.model] {num_classes = classes}:to(option.device) end)

-- Batch norm's factors and all biases are not pulled to 0.
local decayed, free = {}, {}
for _, p in ipairs(net:parameters()) do
  local list = p.ndim > 1 and decayed or free
  list[#list + 1] = p
end
local opt = optim.SGD({{params = decayed, weight_decay = option["weight-decay"]}, {params = free}},
  {lr = option.lr * option["batch-size"] / 64, momentum = option.momentum, nesterov = option.momentum > 0})

local rises = math.max(1, math.floor(steps * option.warmup))
local lr_scheduler, schedule = optim.lr_scheduler, nil
if option.schedule == "onecycle" then
  schedule = lr_scheduler.OneCycleLR(opt, {max_lr = opt.param_groups[1].lr, total_steps = steps + 1, pct_start = option.warmup})
else
  schedule = lr_scheduler.SequentialLR(opt, {
    lr_scheduler.LinearLR(opt, {start_factor = 0.1, total_iters = rises}),
    lr_scheduler.CosineAnnealingLR(opt, math.max(1, steps - rises)),
  }, {rises})
end
local scaler = torch.amp.GradScaler {enabled = option.amp == "fp16"}
local average
if option.ema > 0 then
  average = optim.swa_utils.AveragedModel(net, {multi_avg_fn = optim.swa_utils.get_ema_multi_avg_fn(option.ema), use_buffers = true})
end
run:keep {net = net, opt = opt, schedule = schedule, scaler = scaler, average = average}
local distributed = run:distribute(net)

local low = {enabled = option.amp ~= "off", dtype = option.amp == "fp16" and torch.float16 or torch.bfloat16}
local function forward(model, x)
  return torch.autocast(x.device.type, low, function() return model(x) end):float()
end

---- Training ---------------------------------------------------------------------------------------

-- Mean loss on the images that it does not learn from, and how often the first and one of the first five guesses is right.
local function evaluate()
  local model = average or net
  model:eval()
  support.same_buffers(model)
  return torch.no_grad(function()
    local loss, top1, top5 = 0, 0, 0
    for images, labels in test_loader() do
      labels = labels:to(option.device)
      local scores = forward(model, images:to(option.device))
      local _, guesses = scores:topk(math.min(5, classes), 2)
      local right = guesses:eq(labels:unsqueeze(2))
      loss = loss + F.cross_entropy(scores, labels, {reduction = "sum"}):item()
      top1, top5 = top1 + right[{{}, 1}]:sum():item(), top5 + right:sum():item()
    end
    local sums = support.sum(torch.tensor({loss, top1, top5}, {dtype = "float64"}))
    return table.unpack((sums / #test):tolist())
  end)
end

local function train_network()
  for epoch in run:epochs(option.epochs) do
    net:train()
    for images, labels in run:batches(loader) do
      opt:zero_grad()
      local loss = F.cross_entropy(forward(distributed, images:to(option.device)), labels:to(option.device), {label_smoothing = option.smoothing})
      scaler:scale(loss):backward()
      scaler:step(opt)
      scaler:update()
      schedule:step()
      if average then average:update_parameters(net) end
      run:add(loss:item(), #images, "images")
    end
    local loss, top1, top5 = evaluate()
    say("epoch %d/%d  loss %.3f  test loss %.3f  top-1 %.2f %%  top-5 %.2f %%  %d images/s", epoch, option.epochs,
      run:mean(), loss, 100 * top1, 100 * top5, run:rate())
    run:log(opt.param_groups[1].lr, run:mean(), loss, top1, top5)
  end
end

local parameters = 0
for _, p in ipairs(net:parameters()) do parameters = parameters + p:numel() end
say("%s with %d parameters; %d images to learn from, %d to test, %d classes; %d threads", option.model, parameters, #train,
  #test, classes, torch.get_num_threads())
run:train(train_network)
run:plot {{"loss", "train_loss", "test_loss"}, {"accuracy", "top1", "top5"}}
local loss, top1, top5 = evaluate()
say("test loss %.3f, top-1 %.2f %%, top-5 %.2f %% on %d images", loss, 100 * top1, 100 * top5, #test)
