-- Group h of the benchmark: training steps. Called with what made.lua gives.
local torch = torch or require "torch"
local made = ...
local nn, optim, F = made.nn, made.optim, made.F
local data, positions, task, low = made.data, made.positions, made.task, made.low
local randn = torch.randn
local groups = {}
local models = {}

function models.lenet()
  local Net = nn.class("LeNet")
  function Net:init()
    self.c1, self.c2 = nn.Conv2d {1, 6, 5, padding = 2}, nn.Conv2d(6, 16, 5)
    self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
  end
  function Net:forward(x)
    x = F.max_pool2d(F.relu(self.c1(x)), 2)
    x = F.max_pool2d(F.relu(self.c2(x)), 2)
    return self.f3(F.relu(self.f2(F.relu(self.f1(x:flatten(2))))))
  end
  return Net()
end

-- Convolution without bias, then batch norm.
local function conv_bn(from, to, kernel, stride, padding)
  return nn.Sequential(nn.Conv2d {from, to, kernel, stride = stride, padding = padding, bias = false},
                       nn.BatchNorm2d(to))
end

-- kind: "basic" (two 3x3) or "bottleneck" (1x1, 3x3, 1x1 to 4 times the width).
local function resnet(kind, depths, stem, classes)
  local Block, Net = nn.class("Block"), nn.class("ResNet")
  local wide = kind == "basic" and 1 or 4
  function Block:init(from, width, stride)
    if kind == "basic" then
      self.u1, self.u2 = conv_bn(from, width, 3, stride, 1), conv_bn(width, width, 3, 1, 1)
    else
      self.u1, self.u2 = conv_bn(from, width, 1, 1, 0), conv_bn(width, width, 3, stride, 1)
      self.u3 = conv_bn(width, 4 * width, 1, 1, 0)
    end
    if stride ~= 1 or from ~= wide * width then self.down = conv_bn(from, wide * width, 1, stride, 0) end
  end
  function Block:forward(x)
    local y = self.u2(F.relu(self.u1(x)))
    if wide == 4 then y = self.u3(F.relu(y)) end
    return F.relu(y + (wide == 4 and self.down and self.down(x) or self.down and self.down(x) or x))
  end
  function Net:init()
    self.stem = conv_bn(3, 64, table.unpack(stem))
    local from, blocks = 64, {}
    for stage, depth in ipairs(depths) do
      local width = 32 << stage
      for k = 1, depth do
        blocks[#blocks + 1] = Block(from, width, k == 1 and stage > 1 and 2 or 1)
        from = wide * width
      end
    end
    self.blocks, self.fc = nn.Sequential(table.unpack(blocks)), nn.Linear(from, classes)
  end
  function Net:forward(x)
    x = F.relu(self.stem(x))
    if stem.pool then x = F.max_pool2d(x, 3, 2, 1) end
    return self.fc(self.blocks(x):mean {dim = {3, 4}})
  end
  return Net()
end
function models.resnet18() return resnet("basic", {2, 2, 2, 2}, {3, 1, 1}, 10) end
function models.resnet50() return resnet("bottleneck", {3, 4, 6, 3}, {7, 2, 3, pool = true}, 1000) end

function models.gpt()
  local vocabulary, length, width, heads, layers = 65, 128, 128, 4, 4
  local Block, Net = nn.class("Block"), nn.class("GPT")
  function Block:init()
    self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
    self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
  end
  function Block:forward(x)
    local batch, time = x:size(1), x:size(2)
    local function split_heads(t) return t:view(batch, time, heads, width // heads):transpose(2, 3) end
    local q, k, v = self.qkv(self.n1(x)):split(width, 3)
    local mixed = F.scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v),
                                                 {is_causal = true})
    x = x + self.proj(mixed:transpose(2, 3):reshape(batch, time, width))
    return x + self.down(F.gelu(self.up(self.n2(x)), {approximate = "tanh"}))
  end
  function Net:init()
    self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
    local blocks = {}
    for i = 1, layers do blocks[i] = Block() end
    self.blocks = nn.Sequential(table.unpack(blocks))
    self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
  end
  function Net:forward(ids)
    local x = self.token(ids) + self.position(torch.arange(1, ids:size(2) + 1))
    return self.head(self.norm(self.blocks(x)))
  end
  return Net()
end

function models.lstm()
  local Net = nn.class("Lstm")
  function Net:init()
    self.token, self.rnn = nn.Embedding(65, 64), nn.LSTM {64, 128, batch_first = true}
    self.head = nn.Linear(128, 65)
  end
  function Net:forward(ids)
    return self.head((self.rnn(self.token(ids))))
  end
  return Net()
end

local inputs = {lenet = {64, 1, 28, 28}, resnet18 = {32, 3, 32, 32}, resnet50 = {4, 3, 224, 224}}

-- A function that does one training step of `model` on a fixed batch; kind is "f32" or "bf16".
local function trainer(model, kind)
  local net, x, y = models[model](), nil, nil
  local gpt = model == "gpt"
  local words = gpt or model == "lstm"
  if words then
    local length = gpt and 128 or 64
    x, y = positions(65, {16, length})(), positions(65, {16 * length})()
  else
    x, y = randn(inputs[model]), positions(model == "resnet50" and 1000 or 10, {inputs[model][1]})()
  end
  local opt = optim.AdamW(net:parameters(), {lr = gpt and 3e-4 or 1e-3})
  local function loss()
    local out = net(x)
    return F.cross_entropy(words and out:flatten(1, 2) or out, y)
  end
  return function()
    opt:zero_grad()
    local l
    if kind == "bf16" then l = low(loss) else l = loss() end
    l:backward()
    opt:step()
  end
end

function groups.h()
  for _, kind in ipairs {"f32", "bf16"} do
    for _, model in ipairs {"lenet", "resnet18", "resnet50", "gpt"} do
      task(("h.%s.%s"):format(model, kind), "step()",
           data {step = function() return trainer(model, kind) end})
    end
  end
  task("h.lstm.f32", "step()", data {step = function() return trainer("lstm", "f32") end})
end

return groups
