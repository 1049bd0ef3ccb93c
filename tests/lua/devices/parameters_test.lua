-- Parameters that lie on several devices: optimisers, clipping, GradScaler, averages, state and files. Each is compared
-- with the same training on the CPU, bit for bit.
torch.cuda.simulate(3)
local nn, optim = torch.nn, torch.optim

local Split = nn.class("Split")
function Split:init(first, second)
  self.first = nn.Linear(4, 8):to(first)
  self.second = nn.Linear(8, 2):to(second)
  self.there = {first, second}
end
function Split:forward(x)
  return self.second(self.first(x:to(self.there[1])):tanh():to(self.there[2]))
end

-- A network on two devices, and one with the same weights on the CPU.
local function twins()
  torch.manual_seed(3)
  local one = Split("cpu", "cpu")
  local two = Split("cuda:0", "cuda:2")
  two:load_state_dict(one:state_dict())
  return one, two
end

local data = {torch.randn(6, 4), torch.randn(6, 2)}
local function loss_of(net) return ((net(data[1]) - data[2]:to(net.there[2])) ^ 2):mean() end

local function same(one, two)
  for i, p in ipairs(one:parameters()) do
    local q = two:parameters()[i]
    check.yes(torch.equal(p:detach(), q:detach():cpu()), i)
  end
end

local names = {"SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop", "Adafactor"}

test("every optimiser steps over parameters on two devices as over those of the CPU, also from a saved state", function()
  for _, name in ipairs(names) do
    local one, two = twins()
    local nets, opts = {one, two}, {}
    for i, net in ipairs(nets) do
      opts[i] = optim[name](net:parameters(), {lr = 0.05})
      for step = 1, 4 do
        if step == 3 then
          local path = check.temp("optimiser.pt")
          torch.save(opts[i]:state_dict(), path)
          opts[i] = optim[name](net:parameters(), {lr = 0.05})
          opts[i]:load_state_dict(torch.load(path, {map_location = "cpu"}))
        end
        opts[i]:zero_grad()
        loss_of(net):backward()
        opts[i]:step()
      end
    end
    same(one, two)
    check.equal(tostring(two.second.weight.device), "cuda:2")
    for p, s in pairs(opts[2].state) do
      for _, v in pairs(s) do
        if torch.is_tensor(v) and v.ndim > 0 then check.equal(tostring(v.device), tostring(p.device), name) end
      end
    end
  end
end)

test("momentum, groups of their own and a rate that changes hold on several devices", function()
  local one, two = twins()
  for _, net in ipairs {one, two} do
    local groups = {{params = {net.first.weight, net.second.bias}}, {params = {net.first.bias, net.second.weight}, lr = 0.01}}
    local opt = optim.SGD(groups, {lr = 0.1, momentum = 0.9, nesterov = true})
    local schedule = optim.lr_scheduler.ExponentialLR(opt, 0.5)
    for _ = 1, 3 do
      opt:zero_grad()
      loss_of(net):backward()
      opt:step()
      schedule:step()
    end
  end
  same(one, two)
end)

test("gradients on several devices are clipped by their norm together", function()
  local one, two = twins()
  local norms = {}
  for i, net in ipairs {one, two} do
    (loss_of(net) * 100):backward()
    norms[i] = nn.utils.clip_grad_norm_(net:parameters(), 1.0)
    nn.utils.clip_grad_value_(net:parameters(), 0.2)
  end
  check.equal(tostring(norms[2].device), "cuda:0")
  check.equal(norms[2]:cpu(), norms[1])
  for i, p in ipairs(one:parameters()) do check.equal(two:parameters()[i].grad:cpu(), p.grad) end
end)

test("GradScaler finds an infinite gradient on any of the devices, and skips the whole step", function()
  local one, two = twins()
  local opt = optim.SGD(two:parameters(), {lr = 0.1})
  local scaler = torch.amp.GradScaler("cuda", {init_scale = 8.0})
  scaler:scale(loss_of(two)):backward()
  two.second.bias.grad[1] = math.huge
  scaler:step(opt)
  scaler:update()
  same(one, two)
  check.equal({scaler.skipped_steps, scaler:get_scale()}, {1, 4.0})
  opt:zero_grad()
  scaler:scale(loss_of(two)):backward()
  scaler:step(opt)
  scaler:update()
  local plain = optim.SGD(one:parameters(), {lr = 0.1})
  loss_of(one):backward()
  plain:step()
  same(one, two)
end)

test("averages of weights stay on the devices of their parameters", function()
  local one, two = twins()
  local averages = {}
  for i, net in ipairs {one, two} do
    local ema = optim.swa_utils.AveragedModel(net, {multi_avg_fn = optim.swa_utils.get_ema_multi_avg_fn(0.9)})
    local opt = optim.SGD(net:parameters(), {lr = 0.1})
    for _ = 1, 3 do
      opt:zero_grad()
      loss_of(net):backward()
      opt:step()
      ema:update_parameters(net)
    end
    averages[i] = ema.module
  end
  same(averages[1], averages[2])
  check.equal(tostring(averages[2].second.weight.device), "cuda:2")
end)

test("a checkpoint of several devices goes back to them, or where map_location says: a string, a table, a function", function()
  local _, two = twins()
  local path = check.temp "split.pt"
  torch.save(two:state_dict(), path)
  local function places(...)
    local state = torch.load(path, ...)
    return tostring(state["first.weight"].device) .. " " .. tostring(state["second.weight"].device)
  end
  check.equal(places(), "cuda:0 cuda:2")
  check.equal(places("cpu"), "cpu cpu")
  check.equal(places {map_location = torch.device "cuda:1"}, "cuda:1 cuda:1")
  check.equal(places {map_location = {["cuda:2"] = "cuda:1"}}, "cuda:0 cuda:1")
  local asked = {}
  check.equal(places {map_location = function(storage, location)
    asked[location] = tostring(storage.device)
    return location == "cuda:2" and "cuda:0" or nil
  end}, "cuda:0 cuda:0")
  check.equal(asked, {["cuda:0"] = "cpu", ["cuda:2"] = "cpu"})
  check.equal(places {map_location = function(storage) return storage end}, "cpu cpu")
  check.equal(places {map_location = function(storage) return storage:cuda(1) end}, "cuda:1 cuda:1")
  -- load_state_dict copies to where the parameters are.
  local other = Split("cuda:1", "cpu")
  other:load_state_dict(torch.load(path))
  check.equal(tostring(other.first.weight.device), "cuda:1")
  check.equal(other.second.weight:detach(), two.second.weight:detach():cpu())
end)

test("what makes one vector of all parameters says on which devices they lie", function()
  local _, two = twins()
  local opt = optim.LBFGS(two:parameters())
  check.raises("device", "parameter 1 is on cuda:0 and parameter 3 on cuda:2", function() opt:step(function() return loss_of(two) end) end)
  check.raises("device", "parameters_to_vector", nn.utils.parameters_to_vector, two:parameters())
end)

-- What a machine without devices does: a program of its own.
local function without(code, options)
  local r = check.tycho({"-e", code}, options)
  return r.out, r.err
end

test("a device is a value that can be made where it is not; the first tensor there says what to do", function()
  local out = without [[
    local d = torch.device("cuda:0")
    print(d, d.type, d.index, d == torch.device("cuda", 0), torch.device("cuda:7"), torch.device("cpu"))
    print(torch.device(torch.cuda.is_available() and "cuda" or "cpu"))
    for _, f in ipairs {function() return torch.zeros(2, {device = d}) end, function() return torch.ones(2):to(d) end,
        function() return torch.nn.Linear(2, 2):to(d) end, function() return torch.tensor({1}, {device = d}) end} do
      local ok, why = pcall(f)
      print(ok, why.kind, why.message, why.hint)
    end
  ]]
  check.contains(out, "cuda:0\tcuda\t0\ttrue\tcuda:7\tcpu\ncpu\n")
  local _, count = out:gsub("false\tdevice\tthere is no CUDA device on this machine\ttorch.cuda.simulate", "")
  check.equal(count, 4)
end)

test("a device crosses files and threads as the value that it is", function()
  local path = check.temp "device.pt"
  torch.save({at = torch.device("cuda:2")}, path)
  local out = without(("print(torch.load(%q).at, torch._decode(torch._encode(torch.device('cuda:5'), 'x')))"):format(path))
  check.contains(out, "cuda:2\tcuda:5")
end)

test("a file of a machine with devices loads on one without, to the CPU, and a note says so once", function()
  local path = check.temp "there.pt"
  torch.save({torch.ones(2, {device = "cuda:1"})}, path)
  local code = ("for _ = 1, 2 do print(torch.load(%q)[1].device) end"):format(path)
  local out, err = without(code)
  check.equal(out, "cpu\ncpu\n")
  local _, count = err:gsub("note MAP", "")
  check.equal(count, 1)
  check.contains(err, "holds tensors of cuda:1")
  out, err = without(("print(torch.load(%q, {map_location = 'cpu'})[1].device)"):format(path))
  check.equal(out .. err, "cpu\n")
end)

test("a TPU is refused with the loop that runs on a CUDA device", function()
  for _, name in ipairs {"tpu", "xla", "xla:1"} do
    local err = check.raises("device", "the same one", torch.device, name)
    check.contains(err.message, "TPU")
    check.contains(err.hint, 'device = "cuda"')
    check.yes(load("local opt, net, loader, F = {}, {}, {}, {} " .. err.hint))
  end
end)

test("a network that moves between steps leaves what the optimiser remembers behind: the error says so and what takes it along", function()
  local net = nn.Linear(2, 2)
  local opt = optim.Adam(net:parameters(), {lr = 0.1})
  local function step()
    opt:zero_grad()
    net(torch.ones(1, 2, {device = net.weight.device})):sum():backward()
    opt:step()
  end
  step()
  net:to("cuda:1")
  local e = check.raises("device", "Adam: a parameter of shape [2, 2] went to cuda:1 after steps were taken", step)
  check.contains(e.message, "still on cpu")
  check.raises("device", "went to cuda:1", step)
  opt:load_state_dict(opt:state_dict())
  step()
  check.equal(tostring(opt.state[net.weight].exp_avg.device), "cuda:1")
  -- Plain steps remember nothing.
  opt = optim.SGD(net:parameters(), {lr = 0.1})
  step()
  net:cpu()
  step()
end)
