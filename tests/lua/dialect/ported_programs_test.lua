-- Whole small programs as PyTorch users write them, line by line in Lua, with random weights and data. The numbers are
-- the losses that PyTorch 2.15 prints for the same program and seed.
local nn, F, optim, data = torch.nn, torch.nn.functional, torch.optim, torch.utils.data

local function losses_are(mine, theirs) check.close(mine, theirs, 2e-4) end

test("a variational autoencoder", function()
  torch.manual_seed(0)
  local VAE = nn.class("VAE")
  function VAE:init()
    self.encoder, self.mu, self.logvar = nn.Linear(20, 8), nn.Linear(8, 3), nn.Linear(8, 3)
    self.decoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 20))
  end
  function VAE:reparameterize(mu, logvar)
    local std = torch.exp(0.5 * logvar)
    return mu + torch.randn_like(std) * std
  end
  function VAE:forward(x)
    local h = F.relu(self.encoder(x))
    local mu, logvar = self.mu(h), self.logvar(h)
    return torch.sigmoid(self.decoder(self:reparameterize(mu, logvar))), mu, logvar
  end
  local model = VAE()
  local x = torch.rand(6, 20)
  local optimizer, losses = optim.Adam(model:parameters(), {lr = 1e-2}), {}
  for i = 1, 4 do
    local recon, mu, logvar = model(x)
    local BCE = F.binary_cross_entropy(recon, x, {reduction = "sum"})
    local loss = BCE - 0.5 * torch.sum(1 + logvar - mu:pow(2) - logvar:exp())
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    losses[i] = loss:item() / #x
  end
  losses_are(losses, {14.433896, 14.089389, 13.953491, 13.793475})
end)

test("a generative adversarial network of convolutions", function()
  torch.manual_seed(1)
  local netG = nn.Sequential(nn.ConvTranspose2d(6, 8, 4, 1, 0, {bias = false}), nn.BatchNorm2d(8), nn.ReLU(true),
    nn.ConvTranspose2d(8, 1, 4, 2, 1, {bias = false}), nn.Tanh())
  local netD = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1, {bias = false}), nn.LeakyReLU(0.2, {inplace = true}), nn.Conv2d(8, 1, 4, 1, 0, {bias = false}), nn.Sigmoid())
  local function weights_init(m)
    local classname = m._name
    if classname:find "Conv" then
      nn.init.normal_(m.weight.data, 0.0, 0.02)
    elseif torch.isinstance(m, nn.BatchNorm2d) then
      nn.init.normal_(m.weight.data, 1.0, 0.02)
      nn.init.constant_(m.bias.data, 0)
    end
  end
  netG:apply(weights_init)
  netD:apply(weights_init)
  local real = torch.rand(4, 1, 8, 8) * 2 - 1
  local criterion, losses = nn.BCELoss(), {}
  local optimizerD = optim.Adam(netD:parameters(), {lr = 2e-3, betas = {0.5, 0.999}})
  local optimizerG = optim.Adam(netG:parameters(), {lr = 2e-3, betas = {0.5, 0.999}})
  for _ = 1, 3 do
    netD:zero_grad()
    local label = torch.full({real:size(1)}, 1.0, {dtype = torch.float})
    local errD_real = criterion(netD(real):view(-1), label)
    errD_real:backward()
    local fake = netG(torch.randn(4, 6, 1, 1))
    label:fill_(0)
    local errD_fake = criterion(netD(fake:detach()):view(-1), label)
    errD_fake:backward()
    optimizerD:step()
    netG:zero_grad()
    label:fill_(1)
    local errG = criterion(netD(fake):view(-1), label)
    errG:backward()
    optimizerG:step()
    losses[#losses + 1] = (errD_real + errD_fake):item()
    losses[#losses + 1] = errG:item()
  end
  losses_are(losses, {1.385887, 0.692825, 1.382854, 0.692691, 1.380524, 0.691742})
end)

test("meta-learning through the steps of an inner loop", function()
  torch.manual_seed(2)
  local w = {torch.randn(8, 1) * 0.5, torch.zeros(8), torch.randn(1, 8) * 0.5, torch.zeros(1)}
  for _, p in ipairs(w) do p:requires_grad_() end
  local xs = torch.randn(3, 5, 1)
  local ys = torch.sin(xs)
  local function forward(x, p) return F.linear(torch.tanh(F.linear(x, p[1], p[2])), p[3], p[4]) end
  local optimizer, losses = optim.Adam(w, {lr = 1e-2}), {}
  for i = 1, 3 do
    optimizer:zero_grad()
    local total = 0
    for t = 1, 3 do
      local grads = {torch.autograd.grad(F.mse_loss(forward(xs[t], w), ys[t]), w, {create_graph = true})}
      local fast = {}
      for k, p in ipairs(w) do fast[k] = p - 0.1 * grads[k] end
      total = total + F.mse_loss(forward(xs[t], fast), ys[t])
    end
    total:backward()
    optimizer:step()
    losses[i] = total:item()
  end
  losses_are(losses, {0.942733, 0.862587, 0.787429})
end)

test("texts of different lengths, padded by a collate function and packed", function()
  torch.manual_seed(3)
  local Classifier = nn.class("Classifier")
  function Classifier:init()
    self.embedding = nn.Embedding(12, 6, {padding_idx = 1})
    self.lstm = nn.LSTM(6, 5, {batch_first = true, bidirectional = true})
    self.fc = nn.Linear(10, 2)
  end
  function Classifier:forward(x, lengths)
    local packed = nn.utils.rnn.pack_padded_sequence(self.embedding(x), lengths, {batch_first = true, enforce_sorted = false})
    local output, state = self.lstm(packed)
    local hidden = state[1]
    local padded, sizes = nn.utils.rnn.pad_packed_sequence(output, {batch_first = true})
    local mask = torch.arange(padded:size(2))[{torch.newaxis, {}}]:lt(sizes[{{}, torch.newaxis}])
    local mean = (padded * mask:unsqueeze(-1)):sum(2) / sizes:unsqueeze(2)
    return self.fc(torch.cat({hidden[-2], hidden[-1]}, 2) + mean)
  end
  local model = Classifier()
  local Texts = data.class("Texts")
  function Texts:init(texts, labels) self.texts, self.labels = texts, labels end
  function Texts:get(i) return {self.texts[i], self.labels[i]} end
  Texts.__len = function(self) return #self.texts end
  local texts = {}
  for i, n in ipairs {3, 7, 5, 2} do texts[i] = torch.randint(1, 12, {n}) + 1 end
  local function collate(batch)
    local list, labels, lengths = {}, {}, {}
    for i, sample in ipairs(batch) do list[i], labels[i], lengths[i] = sample[1], sample[2], #sample[1] end
    return {nn.utils.rnn.pad_sequence(list, {batch_first = true, padding_value = 1}), torch.tensor(labels), torch.tensor(lengths)}
  end
  local loader = data.DataLoader(Texts(texts, {1, 2, 2, 1}), {batch_size = 4, collate_fn = collate})
  local optimizer, losses = optim.RMSprop(model:parameters(), {lr = 0.01}), {}
  local clipped = model.embedding:parameters()
  for _, p in ipairs(model.lstm:parameters()) do clipped[#clipped + 1] = p end
  for _ = 1, 4 do
    for x, y, lengths in loader() do
      local loss = F.cross_entropy(model(x, lengths), y)
      optimizer:zero_grad()
      loss:backward()
      nn.utils.clip_grad_norm_(clipped, 0.1)
      optimizer:step()
      losses[#losses + 1] = loss:item()
    end
  end
  losses_are(losses, {0.746782, 0.616382, 0.464712, 0.307990})
end)

test("deep Q-learning with a target network that follows slowly", function()
  torch.manual_seed(4)
  local function make() return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)) end
  local policy_net, target_net = make(), make()
  target_net:load_state_dict(policy_net:state_dict())
  local states, actions, rewards = torch.randn(32, 4), torch.randint(0, 2, {32, 1}) + 1, torch.randn(32)
  local next_states, done = torch.randn(32, 4), torch.rand(32):lt(0.3)
  local optimizer, losses = optim.AdamW(policy_net:parameters(), {lr = 1e-2, amsgrad = true}), {}
  for i = 1, 4 do
    local values = policy_net(states):gather(2, actions)
    local next_values = torch.zeros(32)
    do
      local _ <close> = torch.no_grad()
      next_values[~done] = target_net(next_states[~done]):max(2)
    end
    local loss = nn.SmoothL1Loss()(values, (next_values * 0.99 + rewards):unsqueeze(2))
    optimizer:zero_grad()
    loss:backward()
    nn.utils.clip_grad_value_(policy_net:parameters(), 100)
    optimizer:step()
    local target, policy = target_net:state_dict(), policy_net:state_dict()
    for key in pairs(policy) do target[key] = policy[key] * 0.05 + target[key] * 0.95 end
    target_net:load_state_dict(target)
    losses[i] = loss:item()
  end
  losses_are(losses, {0.546299, 0.524038, 0.503677, 0.485334})
end)

test("the style of one image on another, by LBFGS on the pixels", function()
  torch.manual_seed(5)
  local style, content, conv = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8), nn.Conv2d(3, 6, 3, {padding = 1})
  local function gram_matrix(input)
    local a, b, c, d = table.unpack(input:size())
    local features = input:view(a * b, c * d)
    return torch.mm(features, features:t()):div(a * b * c * d)
  end
  local StyleLoss = nn.class("StyleLoss")
  function StyleLoss:init(target) self.target = gram_matrix(target):detach() end
  function StyleLoss:forward(input)
    self.loss = F.mse_loss(gram_matrix(input), self.target)
    return input
  end
  local model = nn.Sequential()
  model:add_module("conv_1", conv)
  model:add_module("style_loss_1", StyleLoss(model(style):detach()))
  model:requires_grad_(false)
  local img = content:clone():requires_grad_(true)
  local optimizer, losses = optim.LBFGS({img}, {max_iter = 5}), {}
  optimizer:step(function()
    torch.no_grad(function() img:clamp_(0, 1) end)
    optimizer:zero_grad()
    model(img)
    local loss = model.style_loss_1.loss * 1e4 + F.mse_loss(img, content)
    loss:backward()
    losses[#losses + 1] = loss:item()
    return loss
  end)
  losses_are(losses, {0.184907, 0.133364, 0.045861, 0.024794, 0.011667})
end)

test("a policy that is taught by rewards", function()
  torch.manual_seed(6)
  local policy = nn.Linear(4, 3)
  local optimizer, losses = optim.Adam(policy:parameters(), {lr = 0.1}), {}
  for i = 1, 3 do
    local m = torch.distributions.Categorical(F.softmax(policy(torch.randn(8, 4)), {dim = -1}))
    local action = m:sample()
    local reward = action:eq(3):float()
    local loss = -(m:log_prob(action) * (reward - reward:mean())):sum() - 0.01 * m:entropy():sum()
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    losses[i] = loss:item()
  end
  losses_are(losses, {-0.108420, -0.079206, -1.381605})
end)

test("every parameter is stepped and freed as soon as its gradient is there", function()
  torch.manual_seed(7)
  local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
  local optimizers, freed = {}, 0
  for _, p in ipairs(net:parameters()) do
    optimizers[p] = optim.SGD({p}, {lr = 0.1})
    p:register_post_accumulate_grad_hook(function(param)
      optimizers[param]:step()
      optimizers[param]:zero_grad()
      freed = freed + 1
    end)
  end
  local x, y, first, last = torch.randn(16, 4), torch.randn(16, 1), nil, nil
  for _ = 1, 10 do
    local loss = F.mse_loss(net(x), y)
    loss:backward()
    first, last = first or loss:item(), loss:item()
  end
  check.equal(freed, 40)
  check.yes(last < first)
  check.equal(net[1].weight.grad, nil)
  check.raises("autograd", "wants a leaf", function() return (net[1].weight * 2):register_post_accumulate_grad_hook(print) end)
  local handle = net[3].bias:register_post_accumulate_grad_hook(function() freed = 0 end)
  handle:remove()
  F.mse_loss(net(x), y):backward()
  check.equal(freed, 44)
end)
