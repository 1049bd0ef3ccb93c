-- Trains a small GPT to write like a text, letter by letter: Shakespeare's sonnets unless told otherwise.
-- It shows what the network writes while it learns. See --help; the network itself is torch.models.GPT.
local nn, optim, data = torch.nn, torch.optim, torch.utils.data
local here = arg[0]:match("^(.*)/") or "."
local support = dofile(here .. "/support.lua")
local say = support.say

local option = support.options("train_chargpt", "Trains a small GPT to write like a text, letter by letter.", {
  {"steps", "N", 1200, "steps to train", quick = 24, free = true},
  {"batch-size", "N", 32, "pieces of text per step", quick = 8},
  {"tokens", "N", 0, "size of a vocabulary of byte pairs, at least 256 (0: letters)", least = 0},
  {"context", "N", 64, "tokens that the network sees at once", quick = 32},
  {"layers", "N", 3, "layers of the transformer", quick = 2},
  {"heads", "N", 4, "heads of each layer's attention", quick = 2},
  {"width", "N", 128, "numbers for each token", quick = 32},
  {"dropout", "X", 0.2, "share of numbers that are left out while it learns", most = 0.9},
  {"lr", "X", 0.002, "highest learning rate; it rises for a tenth of the steps and falls in half a cosine"},
  {"amp", "off|bf16|fp16", "off", "mixed precision: off, bf16, or fp16 with a scaled loss"},
  {"every", "N", 100, "steps from one test and sample to the next", quick = 8},
  {"sample", "N", 400, "tokens to write at the end", quick = 80, least = 0, free = true},
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
-- Letters are tokens unless --tokens asks for more: then pairs of them that are frequent become tokens too.
local tokenizer = support.attempt(function()
  if run.saved then return data.text.from_state(run.saved.tokenizer) end
  if option.tokens == 0 then return data.text.CharTokenizer(text) end
  return data.text.BPETokenizer.train(text, {vocab_size = option.tokens})
end)
local corpus = support.attempt(function()
  return data.text.Corpus(text, {tokenizer = tokenizer, test = 0.1, device = option.device})
end)
local context = option.context
if #corpus.train < 18 * context then
  support.stop("%s has %d tokens; that is too short for --context %d", option.data, #corpus.train + #corpus.test, context)
end

---- The network ------------------------------------------------------------------------------------

-- From 0 to 1 in the first tenth of the steps, then down to 0.1.
local function rate(step)
  local warm = math.max(1, option.steps // 10)
  if step < warm then return (step + 1) / warm end
  return 0.1 + 0.45 * (1 + math.cos(math.pi * math.min(1, (step - warm) / math.max(1, option.steps - warm))))
end

local net = support.attempt(function()
  return torch.models.GPT {vocab_size = #tokenizer, block_size = context, n_layer = option.layers, n_head = option.heads,
    n_embd = option.width, dropout = option.dropout}:to(option.device)
end)
local opt = optim.AdamW(net:parameter_groups(0.1), {lr = option.lr, betas = {0.9, 0.99}})
local schedule = optim.lr_scheduler.LambdaLR(opt, rate)
local scaler = torch.amp.GradScaler {enabled = option.amp == "fp16"}
run:keep {net = net, opt = opt, schedule = schedule, scaler = scaler, tokenizer = tokenizer:state_dict()}

local low = {enabled = option.amp ~= "off", dtype = option.amp == "fp16" and torch.float16 or torch.bfloat16}
local function forward(x, y)
  return torch.autocast(x.device.type, low, function() return net(x, y) end)
end

-- The mean loss over the text that was kept back, piece by piece.
local function test_loss()
  net:eval()
  local x, y = corpus:blocks(context, {split = "test"})
  local _, loss = torch.no_grad(function() return forward(x, y) end)
  return loss:item()
end

local function write_text(count)
  net:eval()
  local start = support.attempt(function() return corpus:encode(option.prompt or "\n"):unsqueeze(1) end)
  return corpus:decode(net:generate(start, count, {temperature = option.temperature})[1])
end

---- Training ---------------------------------------------------------------------------------------

local function train_network()
  for _ in run:rounds(option.steps, option.every) do
    net:train()
    for x, y in run:batches(function() return corpus:batch(option["batch-size"], context) end) do
      opt:zero_grad()
      local _, loss = forward(x, y)
      scaler:scale(loss):backward()
      scaler:unscale_(opt)
      nn.utils.clip_grad_norm_(net:parameters(), 1.0)
      scaler:step(opt)
      scaler:update()
      schedule:step()
      run:add(loss:item(), #x * context, "tokens")
    end
    local loss = test_loss()
    say("step %d  loss %.3f  test loss %.3f  it writes: %q", run.step, run:mean(), loss,
      write_text(48):gsub("%s+", " "):match("^ ?(.*)$"))
    run:log(run:mean(), loss)
  end
end

local parameters = 0
for _, p in ipairs(net:parameters()) do parameters = parameters + p:numel() end
say("%d tokens to learn, %d to test, %d different; %d parameters; %d threads", #corpus.train, #corpus.test, #tokenizer, parameters,
  torch.get_num_threads())
run:train(train_network)
run:plot {{"loss", "train_loss", "test_loss"}}
if option.sample > 0 then say("\n%s", (write_text(option.sample))) end
