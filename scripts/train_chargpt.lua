-- Trains a small GPT to write like a text, letter by letter: Shakespeare's sonnets unless told otherwise.
-- It shows what the network writes while it learns. See --help; the network itself is torch.models.GPT.
local nn, optim = torch.nn, torch.optim
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_chargpt", "Trains a small GPT to write like a text, letter by letter.", {
  {"steps", "N", 1200, "steps to train", quick = 24, free = true},
  {"batch-size", "N", 32, "pieces of text per step", quick = 8},
  {"context", "N", 64, "letters that the network sees at once", quick = 32},
  {"layers", "N", 3, "layers of the transformer", quick = 2},
  {"heads", "N", 4, "heads of each layer's attention", quick = 2},
  {"width", "N", 128, "numbers for each letter", quick = 32},
  {"dropout", "X", 0.2, "share of numbers that are left out while it learns", most = 0.9},
  {"lr", "X", 0.002, "highest learning rate; it rises for a tenth of the steps and falls in half a cosine"},
  {"amp", "off|bf16|fp16", "off", "mixed precision: off, bf16, or fp16 with a scaled loss"},
  {"every", "N", 100, "steps from one test and sample to the next", quick = 8},
  {"sample", "N", 400, "letters to write at the end", quick = 80, least = 0, free = true},
  {"prompt", "TEXT", nil, "how the writing begins (a new line)", free = true},
  {"temperature", "X", 0.8, "how bold the writing is", free = true},
  {"data", "FILE", here .. "/data/sonnets.txt", "the text to learn", free = true},
  {"save", "FILE", "chargpt.pt", "where the checkpoint goes", free = true},
})

---- Data -------------------------------------------------------------------------------------------

local function read(path)
  local file <close> = support.attempt(function() return assert(io.open(path, "rb")) end)
  return (support.attempt(function() return assert(file:read("a")) end):gsub("\r\n", "\n"))
end

local run = support.training(option, {"step", "train_loss", "test_loss"})
local text = read(option.data)
local letters, id_of = run.saved and run.saved.letters or "", {}  -- every letter of the text once; its place is its id
if not run.saved then
  local seen = {}
  for letter in text:gmatch(".") do seen[letter] = true end
  local list = {}
  for letter in pairs(seen) do list[#list + 1] = letter end
  table.sort(list)
  letters = table.concat(list)
end
for i = 1, #letters do id_of[letters:sub(i, i)] = i end

local function encode(s)
  local ids = {}
  for letter in s:gmatch(".") do
    ids[#ids + 1] = id_of[letter] or support.stop("the letter %q is not in the text that was learnt", letter)
  end
  return torch.tensor(ids)
end
local function decode(ids)
  local out = {}
  for i, id in ipairs(ids) do out[i] = letters:sub(id, id) end
  return table.concat(out)
end

local context = option.context
if #text < 20 * context then
  support.stop("%s has %d letters; that is too short for --context %d", option.data, #text, context)
end

-- The last tenth is kept for testing.
local ids = encode(text):to(option.device)
local cut = #ids * 9 // 10
local train, test = ids[{{1, cut}}], ids[{{cut + 1, -1}}]

-- Pieces at random places: what the network sees, and the same one letter later.
local offsets = torch.arange(0, context, {device = option.device})
local function batch()
  local first = torch.randint(1, #train - context + 1, {option["batch-size"], 1}):to(option.device)
  return train[first + offsets], train[first + offsets + 1]
end

---- The network ------------------------------------------------------------------------------------

-- From 0 to 1 in the first tenth of the steps, then down to 0.1.
local function rate(step)
  local warm = math.max(1, option.steps // 10)
  if step < warm then return (step + 1) / warm end
  return 0.1 + 0.45 * (1 + math.cos(math.pi * math.min(1, (step - warm) / math.max(1, option.steps - warm))))
end

local net = support.attempt(function()
  return torch.models.GPT {vocab_size = #letters, block_size = context, n_layer = option.layers, n_head = option.heads,
    n_embd = option.width, dropout = option.dropout}:to(option.device)
end)
local opt = optim.AdamW(net:parameter_groups(0.1), {lr = option.lr, betas = {0.9, 0.99}})
local schedule = optim.lr_scheduler.LambdaLR(opt, rate)
local scaler = torch.amp.GradScaler {enabled = option.amp == "fp16"}
run:keep {net = net, opt = opt, schedule = schedule, scaler = scaler, letters = letters}

local low = {enabled = option.amp ~= "off", dtype = option.amp == "fp16" and torch.float16 or torch.bfloat16}
local function forward(x, y)
  return torch.autocast(x.device.type, low, function() return net(x, y) end)
end

-- The mean loss over the text that was kept back, piece by piece.
local function test_loss()
  net:eval()
  local count = (#test - 1) // context
  local x = test[{{1, count * context}}]:reshape({count, context})
  local y = test[{{2, count * context + 1}}]:reshape({count, context})
  local _, loss = torch.no_grad(function() return forward(x, y) end)
  return loss:item()
end

local function write_text(count)
  net:eval()
  local start = encode(option.prompt or "\n"):unsqueeze(1):to(option.device)
  return decode(net:generate(start, count, {temperature = option.temperature})[1]:tolist())
end

---- Training ---------------------------------------------------------------------------------------

local function train_network()
  for _ in run:rounds(option.steps, option.every) do
    net:train()
    for x, y in run:batches(batch) do
      opt:zero_grad()
      local _, loss = forward(x, y)
      scaler:scale(loss):backward()
      scaler:unscale_(opt)
      nn.utils.clip_grad_norm_(net:parameters(), 1.0)
      scaler:step(opt)
      scaler:update()
      schedule:step()
      run:add(loss:item(), #x * context, "letters")
    end
    local loss = test_loss()
    say("step %d  loss %.3f  test loss %.3f  it writes: %q", run.step, run:mean(), loss,
      write_text(48):gsub("%s+", " "):match("^ ?(.*)$"))
    run:log(run:mean(), loss)
  end
end

local parameters = 0
for _, p in ipairs(net:parameters()) do parameters = parameters + p:numel() end
say("%d letters to learn, %d to test, %d different; %d parameters; %d threads", #train, #test, #letters, parameters,
  torch.get_num_threads())
run:train(train_network)
run:plot("loss", "train_loss", "test_loss")
if option.sample > 0 then say("\n%s", (write_text(option.sample))) end
