-- One network over several devices: by layer, by branch, by the length of a sequence, in pipelined parts of a batch.
-- PyTorch's tutorial "Single-Machine Model Parallel" line by line; and training that is, bit for bit, that of one device.
torch.cuda.simulate(3)
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

-- Trains makers' networks side by side on the same batches; all start as the first.
local function train_alike(steps, batch, nets, options)
  local start = nets[1]:state_dict()
  local opts = {}
  for i, net in ipairs(nets) do
    net:load_state_dict(start)
    opts[i] = optim.SGD(net:parameters(), options or {lr = 0.05, momentum = 0.9})
  end
  for _ = 1, steps do
    local x, y = batch()
    for i, net in ipairs(nets) do
      opts[i]:zero_grad()
      local out = net(x)
      F.cross_entropy(out, y:to(out.device)):backward()
      opts[i]:step()
    end
  end
end

local function bits_equal(a, b)
  local theirs = b:state_dict()
  for name, v in pairs(a:state_dict()) do check.yes(torch.equal(v:cpu(), theirs[name]:cpu()), name) end
end

test("PyTorch's tutorial: basic usage", function()
  local ToyModel = nn.class("ToyModel")
  function ToyModel:init()
    self.net1 = nn.Linear(10, 10):to("cuda:0")
    self.relu = nn.ReLU()
    self.net2 = nn.Linear(10, 5):to("cuda:1")
  end
  function ToyModel:forward(x)
    x = self.relu(self.net1(x:to("cuda:0")))
    return self.net2(x:to("cuda:1"))
  end
  local model = ToyModel()
  local loss_fn = nn.MSELoss()
  local optimizer = optim.SGD(model:parameters(), {lr = 0.001})
  optimizer:zero_grad()
  local outputs = model(torch.randn(20, 10))
  local labels = torch.randn(20, 5):to("cuda:1")
  loss_fn(outputs, labels):backward()
  optimizer:step()
  check.equal(tostring(outputs.device), "cuda:1")
  check.equal(tostring(model.net1.weight.grad.device), "cuda:0")
  check.equal(tostring(model.net2.weight.grad.device), "cuda:1")
end)

local ResNet, Bottleneck = torch.models.ResNet, torch.models.Bottleneck
local num_classes = 10

local ModelParallelResNet50 = nn.class("ModelParallelResNet50", ResNet)
function ModelParallelResNet50:init(first, second)
  ResNet.init(self, Bottleneck, {3, 4, 6, 3}, {num_classes = num_classes})
  self.seq1 = nn.Sequential(
    self.conv1,
    self.bn1,
    self.relu,
    self.maxpool,
    self.layer1,
    self.layer2
  ):to(first)
  self.seq2 = nn.Sequential(
    self.layer3,
    self.layer4,
    self.avgpool
  ):to(second)
  self.fc:to(second)
  rawset(self, "second", second)
end
function ModelParallelResNet50:forward(x)
  x = self.seq2(self.seq1(x):to(self.second))
  return self.fc(x:view(x:size(1), -1))
end

local PipelineParallelResNet50 = nn.class("PipelineParallelResNet50", ModelParallelResNet50)
function PipelineParallelResNet50:init(first, second, split_size)
  ModelParallelResNet50.init(self, first, second)
  rawset(self, "split_size", split_size or 20)
end
function PipelineParallelResNet50:forward(x)
  local splits = {x:split(self.split_size, 1)}
  local s_next = splits[1]
  local s_prev = self.seq1(s_next):to("cuda:1")
  local ret = {}
  for i = 2, #splits do
    s_next = splits[i]
    -- A. s_prev runs on cuda:1
    s_prev = self.seq2(s_prev)
    ret[#ret + 1] = self.fc(s_prev:view(s_prev:size(1), -1))
    -- B. s_next runs on cuda:0, which can run concurrently with A
    s_prev = self.seq1(s_next):to("cuda:1")
  end
  s_prev = self.seq2(s_prev)
  ret[#ret + 1] = self.fc(s_prev:view(s_prev:size(1), -1))
  return torch.cat(ret)
end

local num_batches, batch_size, image_w, image_h = 1, 4, 32, 32
local function train(model)
  model:train(true)
  local loss_fn = nn.MSELoss()
  local optimizer = optim.SGD(model:parameters(), {lr = 0.001})
  local one_hot_indices = torch.randint(1, num_classes, {batch_size}):view(batch_size, 1)
  local loss
  for _ = 1, num_batches do
    -- generate random inputs and labels
    local inputs = torch.randn(batch_size, 3, image_w, image_h)
    local labels = torch.zeros(batch_size, num_classes):scatter_(2, one_hot_indices, 1)
    -- run forward pass
    optimizer:zero_grad()
    local outputs = model(inputs:to(model.seq1[1].weight.device))
    -- run backward pass
    labels = labels:to(outputs.device)
    loss = loss_fn(outputs, labels)
    loss:backward()
    optimizer:step()
  end
  return loss:item()
end

-- Where devices' memory is closed but for kernels, thousands of operations would each open and close all of a
-- ResNet-50's: these tests run once more, open, in a program of their own.
local function open_test(sentence, body)
  test(sentence, function()
    if os.getenv "TYCHO_SIMULATE_GUARD" ~= "1" then return body() end
    local r = check.tycho({arg[0], "--only", sentence, (debug.getinfo(1, "S").source:sub(2))}, {env = {TYCHO_SIMULATE_GUARD = "0"}})
    check.contains(r.out, "1 passed, 0 failed")
  end)
end

open_test("PyTorch's tutorial: a ResNet-50 over two devices computes what one device does, bit for bit", function()
  torch.manual_seed(1)
  local one, two = ModelParallelResNet50("cpu", "cpu"), ModelParallelResNet50("cuda:0", "cuda:1")
  check.equal(#one:parameters(), #torch.models.resnet50():parameters())
  two:load_state_dict(one:state_dict())
  torch.manual_seed(2)
  local a = train(one)
  torch.manual_seed(2)
  check.equal(train(two), a)
  bits_equal(one, two)
end)

open_test("PyTorch's tutorial: pipelined parts of a batch give the whole batch's output", function()
  torch.manual_seed(1)
  local two, pipelined = ModelParallelResNet50("cuda:0", "cuda:1"), PipelineParallelResNet50("cuda:0", "cuda:1", 2)
  pipelined:load_state_dict(two:state_dict())
  two:eval()
  pipelined:eval()
  local x = torch.randn(5, 3, 32, 32):to("cuda:0")
  torch.no_grad(function() check.close(pipelined(x):cpu(), two(x):cpu(), 1e-4) end)
  check.yes(train(pipelined) > 0)
end)

-- A ResNet-50 by branch: in every block the three convolutions stay on the first device, and the short cut round them,
-- where it has weights, runs on the second; the two meet on the first.
local BranchBlock = nn.class("BranchBlock", Bottleneck)
BranchBlock.expansion = Bottleneck.expansion
function BranchBlock:forward(x)
  local y = self.relu(self.bn1(self.conv1(x)))
  y = self.relu(self.bn2(self.conv2(y)))
  y = self.bn3(self.conv3(y))
  local around = x
  if self.downsample then around = self.downsample(x:to(self.downsample[1].weight.device)):to(x.device) end
  return self.relu(y + around)
end

local function branch_resnet(first, second)
  local net = ResNet(BranchBlock, {3, 4, 6, 3}, {num_classes = num_classes}):to(first)
  for _, block in ipairs(net:modules()) do
    if block._name == "BranchBlock" and block.downsample then block.downsample:to(second) end
  end
  net.conv1:register_forward_pre_hook(function(_, inputs) return inputs[1]:to(first) end)
  return net
end

open_test("a ResNet-50 cut by branch over two devices trains as on one device, bit for bit", function()
  torch.manual_seed(3)
  local one, here, two = torch.models.ResNet(Bottleneck, {3, 4, 6, 3}, {num_classes = num_classes}), branch_resnet("cpu", "cpu"), branch_resnet("cuda:0", "cuda:1")
  local on = {}
  for _, p in ipairs(two:parameters()) do on[tostring(p.device)] = (on[tostring(p.device)] or 0) + 1 end
  check.equal({on["cuda:0"], on["cuda:1"]}, {149, 12})
  train_alike(3, function() return torch.randn(4, 3, 32, 32), torch.randint(1, num_classes + 1, {4}) end, {one, here, two})
  bits_equal(one, here)
  bits_equal(one, two)
end)

-- By layer: convolutions on one device, the rest on another, with dropout off and batch norm on.
local Layers = nn.class("Layers")
function Layers:init(first, second)
  self.body = nn.Sequential(nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)):to(first)
  self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16, 10)):to(second)
  rawset(self, "there", {first, second})
end
function Layers:forward(x) return self.head(self.body(x:to(self.there[1])):to(self.there[2])) end

-- By branch: two towers on devices of their own, which meet on the first.
local Branches = nn.class("Branches")
function Branches:init(first, second)
  self.left = nn.Sequential(nn.Linear(64, 24), nn.Tanh()):to(first)
  self.right = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 24)):to(second)
  self.join = nn.Linear(24, 10):to(first)
  rawset(self, "there", {first, second})
end
function Branches:forward(x)
  x = x:flatten(2)
  local a, b = self.left(x:to(self.there[1])), self.right(x:to(self.there[2]))
  return self.join(a + b:to(self.there[1]))
end

-- By the length of the sequence: the second half is read on another device, by a replica of the same weights.
local Halves = nn.class("Halves")
function Halves:init(first, second)
  self.lstm = nn.LSTM(8, 12, {batch_first = true}):to(first)
  self.out = nn.Linear(12, 10):to(second)
  rawset(self, "there", {first, second})
end
function Halves:forward(x)
  local rows = x:squeeze(2)
  local readers = nn.parallel.replicate(self.lstm, self.there)
  local _, state = readers[1](rows[{{}, {1, 4}}]:to(self.there[1]))
  local there = {state[1]:to(self.there[2]), state[2]:to(self.there[2])}
  local y = readers[2](rows[{{}, {5, 8}}]:to(self.there[2]), there)
  return self.out(y[{{}, -1}])
end

for name, class in pairs {["by layer"] = Layers, ["by branch"] = Branches, ["by the length of a sequence"] = Halves} do
  test("a network cut " .. name .. " and trained for 20 steps is that of one device, bit for bit", function()
    torch.manual_seed(4)
    local one, two = class("cpu", "cpu"), class("cuda:1", "cuda:2")
    train_alike(20, function() return torch.randn(6, 1, 8, 8), torch.randint(1, 10, {6}) end, {one, two})
    bits_equal(one, two)
  end)
end

test("parts of a batch whose gradients add up train as the whole batch", function()
  torch.manual_seed(6)
  local whole, parts = Branches("cuda:0", "cuda:1"), Branches("cuda:0", "cuda:1")
  parts:load_state_dict(whole:state_dict())
  local a, b = optim.SGD(whole:parameters(), {lr = 0.1}), optim.SGD(parts:parameters(), {lr = 0.1})
  for _ = 1, 5 do
    local x, y = torch.randn(8, 1, 8, 8), torch.randint(1, 10, {8}):to("cuda:0")
    a:zero_grad()
    F.cross_entropy(whole(x), y):backward()
    a:step()
    b:zero_grad()
    for i = 1, 8, 2 do (F.cross_entropy(parts(x[{{i, i + 1}}]), y[{{i, i + 1}}]) / 4):backward() end
    b:step {accumulated = 4}
  end
  for i, p in ipairs(whole:parameters()) do check.close(parts:parameters()[i]:detach():cpu(), p:detach():cpu(), 1e-5) end
end)

test("gradients of any order cross devices, and a tensor used on two sums on its own", function()
  local x = torch.tensor({2.0, 3.0}, {requires_grad = true, device = "cuda:0"})
  local y = (x:to("cuda:1") ^ 3):sum():to("cuda:2") + (x * 2):sum():to("cuda:2")
  local g = torch.autograd.grad(y, {x}, {create_graph = true})
  check.equal(tostring(g.device), "cuda:0")
  check.equal(g:detach():cpu(), {14, 29})
  check.equal(torch.autograd.grad(g:sum(), {x}):cpu(), {12, 18})
  -- A hook sees the gradient on the device of its tensor.
  local seen
  local z = x:to("cuda:1")
  z:register_hook(function(grad) seen = tostring(grad.device) end)
  z:sum():backward()
  check.equal(seen, "cuda:1")
end)

test("a step that mixes devices names both, and the whole network can be moved to one", function()
  local two = Layers("cuda:0", "cuda:1")
  check.raises("device", "cuda:1", function() return two.head(two.body(torch.randn(2, 1, 8, 8, {device = "cuda:0"}))) end)
  two:to("cuda:2")
  rawset(two, "there", {"cuda:2", "cuda:2"})
  check.equal(tostring(two(torch.randn(2, 1, 8, 8)).device), "cuda:2")
end)

test("torch.autograd.backward takes losses that lie on several devices, weighted or not, over one graph", function()
  local w = torch.ones(2, {requires_grad = true})
  torch.autograd.backward {(w:to("cuda:0") * 2):sum(), (w:to("cuda:1") * 3):sum()}
  check.equal(w.grad, {5, 5})
  w.grad = nil
  local h = w:cuda(2) ^ 2
  torch.autograd.backward({h, (h * 3):sum():cpu(), w * 10}, {torch.tensor({1.0, 2.0}, {device = "cuda:2"}), torch.none, torch.ones(2)})
  check.equal(w.grad, {18, 20})
  check.raises("autograd", "tensor 1 has shape", torch.autograd.backward, {w * 2})
  check.yes(torch.autograd.gradcheck(function(x) return x:to("cuda:1") * x:to("cuda:1") end, {torch.ones(2, {dtype = torch.float64, requires_grad = true, device = "cuda:0"})}))
end)

test("net:cuda takes a number, a name, a device or an option, and no other kind of device", function()
  local net = nn.Linear(2, 2)
  for _, d in ipairs {1, "cuda:1", torch.device "cuda:1", {device = 1}} do check.equal(tostring(net:cpu():cuda(d).weight.device), "cuda:1") end
  check.equal(tostring(net:cuda().weight.device), "cuda:0")
  torch.cuda.device(2, function() check.equal(tostring(net:cuda("cuda").weight.device), "cuda:2") end)
  check.raises("device", "cpu is no CUDA device", net.cuda, net, "cpu")
end)
