-- torch.set_default_device, torch.get_default_device, and torch.device with a function: where what a script makes lies
-- when no device is named. What follows each rule is PyTorch 2.15's own answer.
torch.cuda.simulate(3)
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

local function place(x) return tostring(x.device) end
local function with(device, f)
  torch.set_default_device(device)
  local ok, err = pcall(f)
  torch.set_default_device(nil)
  if not ok then error(err, 0) end
end

test("makers take the default device, what is like another tensor keeps to it, and a named device wins", function()
  local c = torch.ones(3)
  check.equal(place(c), "cpu")
  with("cuda:1", function()
    for _, name in ipairs {"zeros", "ones", "empty", "rand", "randn"} do
      check.equal({place(torch[name](2, 3)), place(torch[name] {2, 3}), place(torch[name]({2}, {dtype = torch.float64}))}, {"cuda:1", "cuda:1", "cuda:1"}, name)
      check.equal(place(torch[name]({2, 3}, {device = "cpu"})), "cpu", name)
    end
    for _, x in ipairs {torch.tensor {1, 2}, torch.tensor(3), torch.tensor {data = {1, 2}, dtype = torch.float32}, torch.as_tensor {1}, torch.as_tensor(c), torch.tensor(c),
      torch.scalar_tensor(2), torch.arange(3), torch.linspace(0, 1, 3), torch.logspace(0, 1, 3), torch.eye(3), torch.full({2}, 1), torch.randint(1, 3, {2}),
      torch.randperm(3), torch.normal(0.0, 1.0, {2}), torch.tril_indices(3, 3), torch.triu_indices(3, 3), torch.empty_strided({2}, {1}), torch.hann_window(4)} do
      check.equal(place(x), "cuda:1")
    end
    for _, x in ipairs {torch.zeros_like(c), c:new_zeros(2), c:new_tensor {2}, torch.full_like(c, 2), torch.normal(c, 1.0), F.one_hot(torch.tensor({1}, {device = "cpu"}), 3),
      torch.FloatTensor {1}, torch.tensor({1}, {device = "cpu"}), c + 1} do
      check.equal(place(x), "cpu")
    end
    check.equal(select(2, pcall(torch.zeros, 2)).device.index, 1)
  end)
  check.equal(place(torch.ones(1)), "cpu")
end)

test("layers, models, distributions and masks are made there, and a network trains with every optimiser", function()
  with("cuda:2", function()
    local lazy = nn.LazyBatchNorm1d()
    lazy(torch.randn(3, 2))
    for _, net in ipairs {nn.Linear(2, 3), nn.BatchNorm1d(3), nn.LSTM(2, 3), nn.MultiheadAttention(4, 2), nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1),
      nn.Embedding(3, 2), nn.PReLU(), nn.Bilinear(2, 2, 2), lazy, torch.models.resnet18 {num_classes = 2}, torch.models.VisionTransformer {image_size = 8, patch_size = 4,
      num_layers = 1, num_heads = 2, hidden_dim = 4, mlp_dim = 4, num_classes = 2}} do
      for _, list in ipairs {net:parameters(), net:buffers()} do
        for _, v in ipairs(list) do check.equal(place(v), "cuda:2", net._name) end
      end
    end
    check.equal(place(nn.Linear(2, 3, {device = "cpu"}).weight), "cpu")
    check.equal(place(nn.Transformer.generate_square_subsequent_mask(3)), "cuda:2")
    check.equal(place(torch.distributions.Normal(0.0, 1.0):sample()), "cuda:2")
    check.equal(place(torch.distributions.Normal(torch.zeros(2, {device = "cpu"}), 1.0):sample()), "cpu")
    local net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 2))
    for _, name in ipairs {"SGD", "Adam", "AdamW", "NAdam", "RMSprop", "ASGD", "Adafactor", "LBFGS"} do
      local opt = optim[name](net:parameters(), {lr = 0.01})
      opt:step(function()
        opt:zero_grad()
        local loss = F.cross_entropy(net(torch.randn(3, 4)), torch.tensor {1, 2, 1})
        loss:backward()
        return loss
      end)
      nn.utils.clip_grad_norm_(net:parameters(), 1)
    end
    check.equal(place(net[1].weight.grad), "cuda:2")
  end)
end)

test("get_default_device says which; cuda without a number is the current one; torch.device with a function is a scope", function()
  check.equal(torch.get_default_device(), torch.device "cpu")
  with("cuda", function()
    check.equal(torch.get_default_device(), torch.device "cuda:0")
    torch.cuda.device(1, function() check.equal({place(torch.ones(1)), tostring(torch.get_default_device())}, {"cuda:1", "cuda:1"}) end)
    check.equal({torch.device("cpu", function() return place(torch.ones(1)), 7 end)}, {"cpu", 7})
    check.equal(torch.device("cuda", 2, function() return place(torch.ones(1)) end), "cuda:2")
    pcall(torch.device, "cuda:1", function() error "no" end)
    check.equal(place(torch.ones(1)), "cuda:0")
  end)
  torch.device("cuda:1", function()
    torch.set_default_device "cuda:2"
    check.equal(place(torch.ones(1)), "cuda:2")
  end)
  check.equal(place(torch.ones(1)), "cpu")
  torch.set_default_device(torch.none)
  check.equal(torch.get_default_device(), torch.device "cpu")
end)

test("a default device that is not there raises where something is made, and what is no device at once", function()
  with("cuda:7", function() check.raises("device", "there is no device cuda:7", torch.ones, 2) end)
  check.raises("argument", '"gpu" is no device', torch.set_default_device, "gpu")
  check.equal(check.tycho({"-e", [[
    torch.set_default_device "cuda"
    local ok, err = pcall(torch.zeros, 2)
    print(ok, err.kind, torch.zeros(2, {device = "cpu"}).device)]]}, {env = {TYCHO_SIMULATE_CUDA = "0"}}).out, "false\tdevice\tcpu\n")
end)

test("loaders and their workers work on, with the samples where the dataset has them; forks make theirs there", function()
  local x = torch.arange(6):float()
  with("cuda:1", function()
    for _, workers in ipairs {0, 2} do
      local seen = 0
      for b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), {batch_size = 2, shuffle = true, num_workers = workers})() do
        check.equal(place(b), "cpu")
        seen = seen + b:sum():item()
      end
      check.equal(seen, 15.0)
    end
    check.equal(torch.wait(torch.fork(function() return tostring(torch.ones(2).device) end)), "cuda:1")
  end)
  check.equal(torch.wait(torch.fork(function() return tostring(torch.ones(2).device) end)), "cpu")
end)

test("every example of the help pages shows on a device what it shows on the CPU", function()
  local examples, wrong, ran = require "shell.help.examples", {}, 0
  require "shell.help"
  local function plain(text) return text and (text:gsub("  cuda:0", ""):gsub("cuda:0", "cpu")) end
  local function try(name, text)
    -- Numbers are drawn from another stream there, and what asks for its device is told it.
    if not text or text:find "rand" or text:find "seed" or text:find "dropout" or text:find "autocast" or text:find "uniform_" or text:find "get_device%(" then return end
    local environment = examples.environment()
    for _, step in ipairs(examples.parse(text)) do
      local ok, shown = pcall(torch.device, "cuda", function() return examples.run(step.code, environment) end)
      ran = ran + 1
      if not ok or plain(shown) ~= plain(step.shown) then wrong[#wrong + 1] = ("%s: %s shows %s, not %s"):format(name, step.code, tostring(shown), tostring(step.shown)) end
    end
  end
  for _, record in ipairs(torch._ops()) do
    for _, s in ipairs(record.signatures) do try(s.id, s.example) end
  end
  for _, row in ipairs(require "torch.help_pages.all") do try(row[1], row.example) end
  check.equal(table.concat(wrong, "\n"), "")
  check.yes(ran > 600, ran)
end)
