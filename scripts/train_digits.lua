-- Trains a small convolutional network on handwritten digits (MNIST), shows how it does, and saves it.
-- Read it, run it (scripts/start, or tycho scripts/train_digits.lua --help), copy it and change it.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data

local function say(text, ...) io.stdout:write(text:format(...), "\n") end
local function stop(text, ...)
  io.stderr:write("train_digits: ", text:format(...), "\n")
  os.exit(1, true)
end

---- Options ----------------------------------------------------------------------------------------

local here = arg[0]:match("^(.*)/") or "."
local rows = {  -- name, value, default, what it is
  {"epochs", "N", 8, "rounds over the training images"},
  {"batch-size", "N", 64, "images per step"},
  {"lr", "X", 0.003, "learning rate at the start; it falls to 0 in a straight line"},
  {"seed", "N", 1, "start of the random numbers"},
  {"threads", "N", nil, "threads to compute with (all cores)"},
  {"device", "NAME", "cpu", "where to compute: cpu, cuda, cuda:1, ..."},
  {"dtype", "NAME", "float32", "float32, or bfloat16 for autocast"},
  {"data", "DIR", here .. "/data", "directory of the four MNIST files, with or without .gz"},
  {"save", "FILE", "digits.pt", "where the trained network goes"},
  {"load", "FILE", nil, "test a saved network instead of training one"},
}
local option = {}
for _, row in ipairs(rows) do option[row[1]] = row[3] end

local function help()
  say("tycho scripts/train_digits.lua [--OPTION VALUE]...\n")
  for _, row in ipairs(rows) do
    local default = row[3] and (" (%s)"):format(row[3]) or ""
    say("  --%-16s %s%s", row[1] .. " " .. row[2], row[4], default)
  end
  say("  --%-16s show this", "help")
end

-- How many letters must be changed, added or left out to make b of a.
local function edits(a, b)
  local line = {}
  for j = 0, #b do line[j] = j end
  for i = 1, #a do
    local corner = line[0]
    line[0] = i
    for j = 1, #b do
      local change = corner + (a:byte(i) == b:byte(j) and 0 or 1)
      corner = line[j]
      line[j] = math.min(change, line[j] + 1, line[j - 1] + 1)
    end
  end
  return line[#b]
end

local function read_options()
  local i = 1
  while arg[i] do
    local name, value = arg[i]:match("^%-%-([^=]+)=?(.*)$")
    if not name then stop("%s is no option; options are written --name value, and --help lists them", arg[i]) end
    if name == "help" then help() os.exit(0, true) end
    local nearest, best
    for _, row in ipairs(rows) do
      local distance = edits(name, row[1])
      if not best or distance < best then nearest, best = row[1], distance end
    end
    if best > 0 then
      stop("unknown option --%s; %s", name, best < #name / 2 + 1 and "did you mean --" .. nearest .. "?" or "--help lists them")
    end
    if not arg[i]:find("=", 1, true) then
      i = i + 1
      value = arg[i]
    end
    if not value or value == "" then stop("--%s needs a value, as in --help", name) end
    option[name] = value
    i = i + 1
  end

  local function number(name, kind, low)
    if option[name] == nil then return end
    local value = tonumber(option[name])
    if kind == "integer" then value = value and math.tointeger(value) end
    if not value or value < low or value == math.huge or value ~= value then
      stop("--%s must be %s of at least %s, got %s", name, kind == "integer" and "a whole number" or "a number", low, option[name])
    end
    option[name] = value
  end
  number("epochs", "integer", 1)
  number("batch-size", "integer", 1)
  number("threads", "integer", 1)
  number("seed", "integer", 0)
  number("lr", "number", 0)
  if option.dtype ~= "float32" and option.dtype ~= "bfloat16" then
    stop("--dtype must be float32 or bfloat16, got %s", option.dtype)
  end
end
read_options()

-- Runs f and turns an error into one sentence: the fault is in a file or an option, not in this script.
local function attempt(f, ...)
  local results = table.pack(pcall(f, ...))
  if not results[1] then stop("%s", tostring(results[2])) end
  return table.unpack(results, 2, results.n)
end

---- Data -------------------------------------------------------------------------------------------

local function read(name)
  for _, path in ipairs{option.data .. "/" .. name .. ".gz", option.data .. "/" .. name} do
    local file = io.open(path, "rb")
    if file then
      file:close()
      return attempt(torch.io.read_idx, path)
    end
  end
  stop("there is no %s(.gz) in %s; give the directory of the MNIST files with --data DIR", name, option.data)
end

-- Images as float32 [n, 1, 28, 28] with mean 0 and deviation 1 over the set; labels 1..10 for 0..9.
local function load_digits(part)
  local images, labels = read(part .. "-images-idx3-ubyte"), read(part .. "-labels-idx1-ubyte")
  if images.ndim ~= 3 or images.shape[2] ~= 28 or images.shape[3] ~= 28 then
    stop("%s-images must hold images of 28x28, got shape %s", part, tostring(images.shape))
  end
  if labels.ndim ~= 1 or #labels ~= #images then
    stop("%s-labels must hold one label for each of %d images, got shape %s", part, #images, tostring(labels.shape))
  end
  if labels:max():item() > 9 then stop("%s-labels must hold 0..9, got %d", part, labels:max():item()) end
  return {
    images = ((images:float() / 255 - 0.1307) / 0.3081):unsqueeze(2):to(option.device),
    labels = (labels:long() + 1):to(option.device),
  }
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

local function forward(x)
  if option.dtype == "float32" then return net(x) end
  return torch.autocast(x.device.type, {dtype = option.dtype}, function() return net(x) end):float()
end

-- The class that the network gives each image, and the share that is right.
local function evaluate(set)
  net:eval()
  local predicted = torch.no_grad(function()
    local parts = {}
    for first = 1, #set.images, 500 do
      local last = math.min(first + 499, #set.images)
      parts[#parts + 1] = forward(set.images[{{first, last}}]):argmax(2)
    end
    return torch.cat(parts)
  end)
  return predicted, predicted:eq(set.labels):float():mean():item()
end

---- Showing progress -------------------------------------------------------------------------------

local in_terminal = os.execute("test -t 1") and os.getenv("TERM") ~= "dumb"

local function clock(seconds)
  seconds = math.ceil(seconds)
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

-- Shows a bar that is redrawn in a terminal; elsewhere a plain line every ten seconds.
local last_shown
local function show_progress(epoch, done, total, rate, left, loss)
  local now = torch.perf_counter()
  last_shown = last_shown or now
  if now - last_shown < (in_terminal and 0.1 or 10) then return end
  last_shown = now
  local share = done / total
  local text = ("%3d %%  loss %.4f  %d images/s  %s left"):format(share * 100 // 1, loss, rate // 1, clock(left))
  if in_terminal then
    local filled = share * 24 // 1 | 0
    io.stdout:write(("\repoch %d/%d %s%s %s\27[K"):format(epoch, option.epochs, ("█"):rep(filled), ("░"):rep(24 - filled), text))
    io.stdout:flush()
  else
    say("  epoch %d/%d %s", epoch, option.epochs, text)
  end
end

---- Training ---------------------------------------------------------------------------------------

-- The same digits, moved by up to two pixels: one view of the padded batch for all its images.
local function shifted(padded)
  local top, left = table.unpack(torch.randint(1, 6, {2}):tolist())
  return padded[{{}, {}, {top, top + 27}, {left, left + 27}}]
end

local function train_network(save)
  local padded = F.pad(train.images, {2, 2, 2, 2}, {value = -0.1307 / 0.3081})
  local loader = data.DataLoader(data.TensorDataset(padded, train.labels), {batch_size = option["batch-size"], shuffle = true})
  local opt = optim.Adam(net:parameters(), {lr = option.lr})
  local total, steps, step = #train.images, option.epochs * #loader, 0
  local began, seen, accuracy = torch.perf_counter(), 0, 0
  for epoch = 1, option.epochs do
    net:train()
    local loss_sum, done = 0, 0
    for images, labels in loader() do
      opt.param_groups[1].lr = option.lr * (1 - step / steps)
      step = step + 1
      opt:zero_grad()
      local loss = F.cross_entropy(forward(shifted(images)), labels)
      loss:backward()
      opt:step()
      loss_sum, done, seen = loss_sum + loss:item() * #images, done + #images, seen + #images
      local rate = seen / (torch.perf_counter() - began)
      show_progress(epoch, done, total, rate, (total * option.epochs - seen) / rate, loss_sum / done)
    end
    local _, share = evaluate(test)
    accuracy = share
    local spent = torch.perf_counter() - began
    say("%sepoch %d/%d  loss %.4f  test accuracy %.2f %%  %d images/s  %s left%s", in_terminal and "\r" or "",
      epoch, option.epochs, loss_sum / total, 100 * accuracy, seen / spent // 1,
      clock(spent / epoch * (option.epochs - epoch)), in_terminal and "\27[K" or "")
    io.stdout:flush()
  end
  say("trained %d steps in %s", step, clock(torch.perf_counter() - began))
  attempt(torch.save, {net = net:state_dict(), accuracy = accuracy, epochs = option.epochs, seed = option.seed}, save)
  say("saved to %s; test it with --load %s", save, save)
end

---- Showing the result -----------------------------------------------------------------------------

local function show_confusion(truth, predicted)
  local count = {}
  for t = 1, 10 do
    count[t] = {}
    for p = 1, 10 do count[t][p] = 0 end
  end
  for i, t in ipairs(truth) do
    local p = predicted[i]
    count[t][p] = count[t][p] + 1
  end
  say("\n           read as\n  digit%s", ("%5d"):rep(10, ""):format(0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
  for t = 1, 10 do
    local line = {}
    for p = 1, 10 do line[p] = ("%5s"):format(count[t][p] == 0 and "." or count[t][p]) end
    say("    %d  %s", t - 1, table.concat(line))
  end
end

-- The middle 22 x 22 of an image, two rows of it per line.
local blocks = {[0] = " ", "▀", "▄", "█"}
local function drawing(image)
  local pixels, lines = image[1]:gt(0.8):tolist(), {}
  for top = 4, 24, 2 do
    local line = {}
    for x = 4, 25 do
      line[#line + 1] = blocks[(pixels[top][x] and 1 or 0) + (pixels[top + 1][x] and 2 or 0)]
    end
    lines[#lines + 1] = table.concat(line)
  end
  return lines
end

local function show_digits(places, truth, predicted)
  local drawings, heads = {}, {}
  for i, place in ipairs(places) do
    drawings[i] = drawing(test.images[place])
    local head = ("%d, read as %d"):format(truth[place] - 1, predicted[place] - 1)
    heads[i] = head .. (" "):rep(22 - #head)
  end
  say("\n  %s", table.concat(heads, "   "))
  for line = 1, #drawings[1] do
    local parts = {}
    for i in ipairs(drawings) do parts[i] = drawings[i][line] end
    say("  %s", table.concat(parts, "   "))
  end
end

local function show_result()
  local predicted, accuracy = evaluate(test)
  predicted = predicted:tolist()
  local truth, right, wrong = test.labels:tolist(), {}, {}
  for i, t in ipairs(truth) do
    local list = t == predicted[i] and right or wrong
    if #list < 3 then list[#list + 1] = i end
  end
  show_confusion(truth, predicted)
  if #right > 0 then show_digits(right, truth, predicted) end
  if #wrong > 0 then show_digits(wrong, truth, predicted) end
  say("\ntest accuracy %.2f %% on %d images", 100 * accuracy, #truth)
end

---- Main -------------------------------------------------------------------------------------------

if option.threads then attempt(torch.set_num_threads, option.threads) end
attempt(torch.zeros, 1, {device = option.device})
torch.manual_seed(option.seed)
net = attempt(function() return DigitNet():to(option.device) end)  -- global, as train and test: for the prompt
test = load_digits("t10k")

if option.load then
  local saved = attempt(torch.load, option.load)
  if type(saved) ~= "table" or type(saved.net) ~= "table" then
    stop("%s holds no network of this script; --save FILE makes such files", option.load)
  end
  attempt(function() net:load_state_dict(saved.net) end)
else
  -- Found out now, not after the training.
  local beside = option.save .. ".part"
  local file, why = io.open(beside, "ab")
  if not file then stop("cannot write %s; choose another place with --save FILE", why) end
  file:close()
  os.remove(beside)
  train = load_digits("train")
  say("%d images to train on, %d to test; %d threads", #train.images, #test.images, torch.get_num_threads())
  train_network(option.save)
end
show_result()

for i = -8, -1 do
  if arg[i] == "-i" then
    say("net, test%s are at hand; try: net:eval() net(test.images[{{1, 3}}]):argmax(2) - 1", option.load and "" or " and train")
  end
end
