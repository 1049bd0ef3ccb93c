-- Fields of modules and optimisers that are not there: a misspelt one raises or gets a note, an absent one is nil.
local nn, optim = torch.nn, torch.optim

test("reading a misspelt field of a module names the right one", function()
  local m = nn.Linear(2, 3)
  check.raises("argument", 'm has no field "wieght"; did you mean m.weight?', function() return m.wieght end)
  local net = nn.Sequential(m, nn.ReLU())
  check.raises("argument", 'net[1] has no field "weigth"; did you mean net[1].weight?', function() return net[1].weigth end)
  local Net = nn.class("Net")
  function Net:init() self.hidden1, self.norms = nn.Linear(2, 2), nn.ReLU() end
  function Net:forward(x) return self.hiden1(x) end
  check.raises("argument", 'self has no field "hiden1"; did you mean self.hidden1?', function() return Net()(torch.ones(1, 2)) end)
end)

test("a field that is merely absent is nil, as in every table of Lua", function()
  local Net = nn.class("Net")
  function Net:init() self.layer1, self.norms = nn.Linear(2, 2), nn.ReLU() end
  local net = Net()
  check.equal(net.cache, nil)
  check.equal(net.layer2, nil)
  check.equal(net.norm, nil)
  check.equal(nn.Linear(2, 2, {bias = false}).bias, nil)
  check.equal(rawget(net, "layr1"), nil)
end)

test("reading a misspelt field of an optimiser names the right one", function()
  local opt = optim.SGD({torch.ones(1, {requires_grad = true})}, {lr = 0.1})
  check.raises("argument", 'opt has no field "param_group"; did you mean opt.param_groups?', function() return opt.param_group[1] end)
  check.raises("argument", "did you mean opt.zero_grad?", function() opt.zero_grd(opt) end)
  check.equal(opt.mine, nil)
end)

local function script(text)
  local path = check.temp "fields.lua"
  local file = assert(io.open(path, "w"))
  file:write("local nn, optim = torch.nn, torch.optim\nlocal layer = nn.Linear(2, 3)\nlocal opt = optim.SGD(layer:parameters(), {lr = 0.1})\n", text)
  file:close()
  return check.tycho({path}).err
end

test("writing a misspelt field beside a parameter or an option gets a note", function()
  local said = script "layer.wieght = 3\n"
  check.contains(said, "note FIELD: wieght is a new field of this Linear; its parameter is called weight")
  check.contains(said, "torch.no_grad(function() layer.weight:fill_(value) end)")
  check.contains(script "opt.lr = 0.3\n", "to change it: opt.param_groups[1].lr = value")
  check.contains(script "opt.momentun = 0.3\n", "to change it: opt.param_groups[1].momentum = value")
  check.equal(script "layer.scale = 3\nlayer.name = 'first'\nopt.name = 'mine'\nopt.best = 3\n", "")
end)

test("a plain tensor over a parameter is an error where the parameters are asked for", function()
  local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
  net[1].weight = torch.ones(3, 2)
  check.raises("argument", "field 0.weight held a parameter and now holds a plain tensor", function() net:parameters() end)
  check.raises("argument", "nn.Parameter", function() optim.SGD(net:parameters(), {lr = 0.1}) end)
  net[1].weight = nn.Parameter(torch.ones(3, 2))
  check.equal(#net:parameters(), 2)
end)

test("a network that is called finds a plain tensor over a parameter, and puts the parameter back", function()
  local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
  local weight, x = net[1].weight, torch.ones(1, 2)
  net[1].weight = torch.ones(3, 2)
  check.raises("argument", "field weight held a parameter and now holds a plain tensor", net, x)
  check.yes(rawequal(net[1].weight, weight))
  net(x)
  net[1].weight = torch.ones(3, 2)
  local found = false
  for _ = 1, 64 do found = found or not pcall(net, x) end
  check.yes(found)
  -- Other tensors on purpose are none.
  check.equal(torch.func.functional_call(net, {["0.weight"] = torch.zeros(3, 2), ["0.bias"] = torch.ones(3)}, x), torch.ones(1, 3))
end)

test("a plain tensor over a parameter is an error where the optimiser steps, and at the prompt at once", function()
  local net = torch.nn.Linear(2, 1)
  local opt = torch.optim.SGD(net:parameters(), {lr = 0.1})
  local weight = net.weight
  net(torch.ones(2)):sum():backward()
  net.weight = torch.ones(1, 2)
  check.raises("argument", "field weight held a parameter and now holds a plain tensor", function() opt:step() end)
  check.yes(rawequal(net.weight, weight))
  net.weight = torch.nn.Parameter(torch.ones(1, 2))
  opt:step()
  net.weight = weight * 2  -- computed: the parameter in another form
  opt:step()
  local r = check.tycho({"-i", "--clean"}, {stdin = "net = nn.Linear(2, 1)\nnet.weight = torch.ones(1, 2)\n"})
  check.contains(r.err, "field weight held a parameter and now holds a plain tensor")
  r = check.tycho({"-i", "--clean"}, {stdin = "net = nn.Linear(2, 1)\nnet.weight = nn.Parameter(torch.ones(1, 2))\nnet.bias = nil\nnet.weight.requires_grad\n"})
  check.equal(r.err, "")
  check.contains(r.out, "true")
end)

test("the error about a plain tensor over a parameter names the line that assigned it", function()
  local path = check.temp "plain.lua"
  local f <close> = io.open(path, "w")
  f:write("local net = torch.nn.Linear(2, 1)\nlocal opt = torch.optim.SGD(net:parameters(), {lr = 0.1})\nnet.weight = torch.zeros(1, 2)\nnet(torch.ones(2)):sum():backward()\nopt:step()\n")
  f:close()
  check.contains(check.tycho({path}).err, "now holds a plain tensor (" .. path .. ":3)")
end)

test("a name that stands in another part of torch is found there, in calls and when it is read", function()
  local wrong = {
    ["Linear(2, 3)"] = "torch.nn.Linear", ["random_split(1)"] = "torch.utils.data.random_split", ["torch.svdvals(1)"] = "torch.linalg.svdvals",
    ["StepLR(opt)"] = "torch.optim.lr_scheduler.StepLR", ["torch.optim.StepLR"] = "torch.optim.lr_scheduler.StepLR",
    ["nn.clip_grad_norm_(1)"] = "torch.nn.utils.clip_grad_norm_", ["nn.cross_entropy"] = "torch.nn.functional.cross_entropy",
    ["torch.DataLoader(1)"] = "torch.utils.data.DataLoader", ["torch.GradScaler"] = "torch.amp.GradScaler",
  }
  for code, right in pairs(wrong) do check.contains(script("local made = " .. code), "did you mean " .. right:gsub("[.]", "%%.") .. "?") end
end)
