-- nn.DataParallel, data_parallel and their parts on simulated devices; PyTorch's DataParallel tutorial line by line.
torch.cuda.simulate(4)
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

local function places(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = tostring(x.device) end
  return table.concat(out, " ")
end

-- The same network on the CPU and on cuda:0.
local function twins(make)
  torch.manual_seed(5)
  local one = make()
  return one, one:clone():to("cuda:0")
end
local function mlp() return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)) end

test("PyTorch's tutorial of DataParallel runs line by line", function()
  -- Optional: Data Parallelism. Imports and parameters:
  local Dataset, DataLoader = torch.utils.data.Dataset, torch.utils.data.DataLoader
  local input_size, output_size = 5, 2
  local batch_size, data_size = 30, 100
  local device = torch.device(torch.cuda.is_available() and "cuda:0" or "cpu")
  -- A dummy dataset:
  local RandomDataset = torch.utils.data.class("RandomDataset")
  function RandomDataset:init(size, length)
    self.len = length
    self.data = torch.randn(length, size)
  end
  function RandomDataset:get(index) return self.data[index] end
  function RandomDataset:__len() return self.len end
  local rand_loader = DataLoader(RandomDataset(input_size, data_size), {batch_size = batch_size, shuffle = true})
  check.yes(Dataset == nil or rand_loader)
  -- The model says what it gets:
  local lines = {}
  local function print(...)
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    lines[#lines + 1] = table.concat(parts, " ")
  end
  local Model = nn.class("Model")
  function Model:init(input_size, output_size) self.fc = nn.Linear(input_size, output_size) end
  function Model:forward(input)
    local output = self.fc(input)
    print("\tIn Model: input size", input.shape, "output size", output.shape)
    return output
  end
  -- Create Model and DataParallel:
  local model = Model(input_size, output_size)
  if torch.cuda.device_count() > 1 then
    print("Let's use", torch.cuda.device_count(), "GPUs!")
    -- dim = 1 [30, xxx] -> [8, ...], [8, ...], [8, ...], [6, ...] on 4 GPUs
    model = nn.DataParallel(model)
  end
  model:to(device)
  -- Run the Model:
  for data in rand_loader() do
    local input = data:to(device)
    local output = model(input)
    print("Outside: input size", input.shape, "output_size", output.shape)
  end
  check.equal(lines[1], "Let's use 4 GPUs!")
  check.equal({table.unpack(lines, 2, 6)}, {"\tIn Model: input size [8, 5] output size [8, 2]", "\tIn Model: input size [8, 5] output size [8, 2]",
    "\tIn Model: input size [8, 5] output size [8, 2]", "\tIn Model: input size [6, 5] output size [6, 2]",
    "Outside: input size [30, 5] output_size [30, 2]"})
  -- The last batch of 10 is cut into 3, 3, 3 and 1.
  check.equal(lines[#lines - 1], "\tIn Model: input size [1, 5] output size [1, 2]")
  check.equal(lines[#lines], "Outside: input size [10, 5] output_size [10, 2]")
end)

test("PyTorch's page of multi-GPU examples runs line by line: replicate, scatter, parallel_apply, gather", function()
  local function data_parallel(module, input, device_ids, output_device)
    if not device_ids then return module(input) end
    if output_device == nil then output_device = device_ids[1] end
    local replicas = nn.parallel.replicate(module, device_ids)
    local inputs = nn.parallel.scatter(input, device_ids)
    replicas = {table.unpack(replicas, 1, #inputs)}
    local outputs = nn.parallel.parallel_apply(replicas, inputs)
    return nn.parallel.gather(outputs, output_device)
  end
  local DataParallelModel = nn.class("DataParallelModel")
  function DataParallelModel:init()
    self.block1 = nn.Linear(10, 20)
    -- wrap block2 in DataParallel
    self.block2 = nn.Linear(20, 20)
    self.block2 = nn.DataParallel(self.block2)
    self.block3 = nn.Linear(20, 20)
  end
  function DataParallelModel:forward(x)
    x = self.block1(x)
    x = self.block2(x)
    x = self.block3(x)
    return x
  end
  local one, there = twins(DataParallelModel)
  local x = torch.randn(7, 10)
  local whole = there(x:cuda())
  check.equal(tostring(whole.device), "cuda:0")
  local plain = one.block3(one.block2.module(one.block1(x)))
  check.close(whole:cpu(), plain)
  local by_hand = data_parallel(there.block3, x:cuda():tile(1, 2), {0, 1, 2})
  check.close(by_hand:cpu(), one.block3(x:tile(1, 2)))
  check.close(nn.parallel.data_parallel(there.block3, x:cuda():tile(1, 2), {0, 1, 2}):cpu(), by_hand:cpu())
end)

test("training over four devices is training on one, with uneven parts and a last batch of one row", function()
  local one, there = twins(mlp)
  local net = nn.DataParallel(there, {device_ids = {0, 1, 2, 3}})
  local a, b = optim.SGD(one:parameters(), {lr = 0.1, momentum = 0.9}), optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
  for step = 1, 6 do
    local n = ({10, 7, 4, 3, 2, 1})[step]
    local x, y = torch.randn(n, 6), torch.randint(1, 3, {n})
    local losses = {}
    for i, pair in ipairs {{one, a, "cpu"}, {net, b, "cuda:0"}} do
      pair[2]:zero_grad()
      local loss = F.cross_entropy(pair[1](x), y:to(pair[3]))
      loss:backward()
      pair[2]:step()
      losses[i] = loss:item()
    end
    check.close(losses[2], losses[1], 1e-5)
  end
  for i, p in ipairs(one:parameters()) do
    local q = there:parameters()[i]
    check.equal(tostring(q.device), "cuda:0")
    check.equal(tostring(q.grad.device), "cuda:0")
    check.close(q:detach():cpu(), p:detach(), 1e-5)
  end
end)

test("a loss computed inside forward comes back as one number for each device", function()
  local WithLoss = nn.class("WithLoss")
  function WithLoss:init() self.net = mlp() end
  function WithLoss:forward(x, y) return F.cross_entropy(self.net(x), y), #x end
  local one, there = twins(WithLoss)
  local net = nn.DataParallel(there)
  local x, y = torch.randn(8, 6), torch.randint(1, 3, {8})
  there.forward = function(self, x, y)
    local loss, n = WithLoss.forward(self, x, y)
    return loss, torch.tensor(n, {device = x.device})
  end
  local losses, counts = net(x, y)
  check.shape(losses, {4})
  check.equal(counts:cpu(), {2, 2, 2, 2})
  losses:mean():backward()
  local loss = one(x, y)
  loss:backward()
  check.close(losses:mean():item(), loss:item())
  check.close(there.net[1].weight.grad:cpu(), one.net[1].weight.grad)
  -- Unequal parts: the counts weigh the losses.
  losses, counts = net(x[{{1, 5}}], y[{{1, 5}}])
  check.equal(counts:cpu(), {2, 2, 1})
  check.close(((losses * counts):sum() / counts:sum()):item(), one(x[{{1, 5}}], y[{{1, 5}}]):item())
end)

test("devices of different speed get the shares that chunk_sizes says, of every batch", function()
  local seen = {}
  local Seen = nn.class("Seen")
  function Seen:init() self.fc = nn.Linear(2, 1) end
  function Seen:forward(x)
    seen[#seen + 1] = ("%s %d"):format(tostring(x.device), #x)
    return self.fc(x)
  end
  local net = nn.DataParallel(Seen():cuda(), {device_ids = {0, 1}, chunk_sizes = {3, 1}})
  check.shape(net(torch.randn(8, 2)), {8, 1})
  check.equal(table.concat(seen, ", "), "cuda:0 6, cuda:1 2")
  seen = {}
  check.shape(net(torch.randn(4, 2)), {4, 1})
  check.shape(net(torch.randn(1, 2)), {1, 1})
  check.equal(table.concat(seen, ", "), "cuda:0 3, cuda:1 1, cuda:0 1")
  check.equal(places(nn.parallel.scatter(torch.randn(2, 5), {0, 1}, 2, {4, 1})), "cuda:0 cuda:1")
  check.raises("value", "one for each of the 2 devices", function() return nn.DataParallel(Seen():cuda(), {device_ids = {0, 1}, chunk_sizes = {1}}) end)
end)

test("tables are cut inside, what is no tensor is the same for all, and results of every form are joined", function()
  local Forms = nn.class("Forms")
  function Forms:init() self.fc = nn.Linear(2, 2) end
  function Forms:forward(batch, factor, none, options)
    check.equal(factor, 3)
    check.equal(none, nil)
    check.equal(options.mode, "sum")
    check.equal(#batch.x, #options.mask)
    return {out = self.fc(batch.x) * factor, parts = {batch.list[1] + 1, options.mask}}, nil, batch.x:sum()
  end
  local net = nn.DataParallel(Forms():cuda(), {0, 1, 2})
  local x = torch.arange(12):float():view(6, 2)
  local a, b, c = net({x = x, list = {x}}, 3, nil, {mask = torch.ones(6), mode = "sum"})
  check.shape(a.out, {6, 2})
  check.equal(a.parts[1]:cpu(), (x + 1):tolist())
  check.equal(b, nil)
  check.equal(c:cpu(), {6, 22, 38})
  check.equal(places {a.out, a.parts[2], c}, "cuda:0 cuda:0 cuda:0")
end)

test("output_device may be any device or the CPU, and dim another dimension", function()
  local _, there = twins(mlp)
  check.equal(tostring(nn.DataParallel(there, {device_ids = {0, 1}, output_device = 1})(torch.randn(4, 6)).device), "cuda:1")
  check.equal(tostring(nn.DataParallel(there, {device_ids = {0, 1}, output_device = -1})(torch.randn(4, 6)).device), "cpu")
  local rnn = nn.DataParallel(nn.LSTM(3, 4):cuda(), {device_ids = {"cuda:0", "cuda:1"}, dim = 2})
  local x = torch.randn(5, 4, 3)
  local y, state = rnn(x)
  local y2, state2 = rnn.module:clone():cpu()(x)
  check.close(y:cpu(), y2)
  check.close(state[1]:cpu(), state2[1])
end)

test("the first device's buffers stay, the replicas' are dropped", function()
  local net = nn.Sequential(nn.BatchNorm1d(2)):cuda()
  local x = torch.randn(8, 2) + 3
  nn.DataParallel(net, {0, 1})(x)
  local alone = nn.Sequential(nn.BatchNorm1d(2))
  alone(x[{{1, 4}}])
  check.close(net[1].running_mean:cpu(), alone[1].running_mean)
  check.equal(net[1].num_batches_tracked:item(), 1)
  local Counter = nn.class("Counter")
  function Counter:init() self:register_buffer("n", torch.zeros(1)) self.calls = 0 end
  function Counter:forward(x)
    self.n:add_(1)
    self.calls = self.calls + 1
    return x + self.n
  end
  local counter = Counter():cuda()
  local wrapped = nn.DataParallel(counter)
  -- Every replica saw the buffer as it was before the call.
  check.equal(wrapped(torch.zeros(4, 1)):cpu(), {{1}, {1}, {1}, {1}})
  check.equal(wrapped(torch.zeros(4, 1)):cpu(), {{2}, {2}, {2}, {2}})
  check.equal({counter.n:item(), counter.calls}, {2, 0})
end)

test("a module that is not on the first device is refused, as in PyTorch, with the line that moves it", function()
  local net = nn.DataParallel(mlp(), {0, 1})
  local err = check.raises("device", "module must have its parameters and buffers on device cuda:0", function() return net(torch.randn(4, 6)) end)
  check.contains(err.message, "found one of them on device: cpu (0.weight)")
  net:to("cuda:1")
  check.raises("device", "found one of them on device: cuda:1", function() return net(torch.randn(4, 6)) end)
end)

test("the state has the prefix module., and loads without DataParallel", function()
  local one, there = twins(mlp)
  local net = nn.DataParallel(there)
  check.yes(net:state_dict()["module.0.weight"])
  one:load_state_dict(net:state_dict(), {strip = "module."})
  one:load_state_dict(net.module:state_dict())
  check.equal(#net:parameters(), 4)
  check.contains(tostring(net), "DataParallel(")
end)

test("one device, and none, call the module itself", function()
  local one, there = twins(mlp)
  check.close(nn.DataParallel(there, {0})(torch.ones(2, 6)):cpu(), one(torch.ones(2, 6)))
  local out = check.tycho({"-e", [[
    local net = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    print(net(torch.ones(3, 2)).shape, torch.nn.parallel.data_parallel(net.module, torch.ones(3, 2)).shape)
  ]]}).out
  check.equal(out, "[3, 1]\t[3, 1]\n")
  -- Without devices, as in PyTorch, also where some are named.
  out = check.tycho({"-e", "print(torch.nn.DataParallel(torch.nn.Linear(2, 1), {device_ids = {0, 1}})(torch.ones(3, 2)).shape)"}).out
  check.equal(out, "[3, 1]\n")
end)

test("a device that is not there is an error where it is named", function()
  local net = nn.Linear(2, 1):cuda()
  check.raises("device", "DataParallel: there is no device cuda:9 (there are cuda:0 to cuda:3)", nn.DataParallel, net, {device_ids = {0, 9}})
  check.raises("device", "data_parallel: there is no device cuda:4", nn.parallel.data_parallel, net, torch.ones(2, 2):cuda(), {0, 4})
end)

test("no replica is taken for a layer that the network does not know, and no_grad, autocast and dropout hold inside", function()
  local code = [[
    torch.cuda.simulate(2)
    local nn = torch.nn
    local net = nn.DataParallel(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)):cuda())
    local opt = torch.optim.SGD(net:parameters(), {lr = 0.1})
    for _ = 1, 3 do
      opt:zero_grad()
      net(torch.randn(6, 4)):sum():backward()
      opt:step()
    end
    net:eval()
    local y = torch.no_grad(function() return net(torch.randn(6, 4)) end)
    print(y.requires_grad, torch.autocast("cuda", {dtype = "bfloat16"}, function() return net(torch.randn(6, 4)).dtype end))
  ]]
  local r = check.tycho {"-e", code}
  check.equal(r.err, "")
  check.equal(r.out, "false\ttorch.bfloat16\n")
end)

test("what cannot be joined says which replica gave what", function()
  local Odd = nn.class("Odd")
  function Odd:init() self.fc = nn.Linear(1, 1) end
  function Odd:forward(x) return self.what(x) end
  local odd = Odd():cuda()
  local net = nn.DataParallel(odd, {0, 1})
  odd.what = function() return 5 end
  check.raises("value", "made of tensors", function() return net(torch.ones(2, 1)) end)
  odd.what = function(x) if x.device == torch.device "cuda:1" then return nil end return x end
  check.raises("value", "a tensor from replica 1 and nil from replica 2", function() return net(torch.ones(2, 1)) end)
  check.raises("dim", nil, function() return nn.DataParallel(odd, {device_ids = {0, 1}, dim = 3})(torch.ones(2, 1)) end)
  check.raises("argument", 'no argument "device" (it has', function() return nn.DataParallel(odd, {device = 0}) end)
  check.raises("device", "cuda:9", function() return nn.DataParallel(odd, {0, 9})(torch.ones(2, 1)) end)
end)

test("torch.cuda.device makes a device the current one, in a block, in a function, and in spite of errors", function()
  local before = torch.cuda.current_device()
  do
    local _ <close> = torch.cuda.device(2)
    check.equal(tostring(torch.zeros(1, {device = "cuda"}).device), "cuda:2")
    check.equal(torch.cuda.device("cuda:1", function() return torch.cuda.current_device(), 7 end), 1)
    check.equal(torch.cuda.current_device(), 2)
    torch.cuda.device(-1, function() check.equal(torch.cuda.current_device(), 2) end)
  end
  pcall(torch.cuda.device, 3, function() error "no" end)
  check.equal(torch.cuda.device_of(torch.ones(1, {device = "cuda:3"}), torch.cuda.current_device), 3)
  check.equal(torch.cuda.current_device(), before)
end)
