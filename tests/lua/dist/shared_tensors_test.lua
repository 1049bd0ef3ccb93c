-- Tensors that processes share: share_memory_, queues, modules.
local mp = torch.multiprocessing
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local processes = assert(loadfile(here .. "/processes.lua", "t", _ENV))()
local script, run, elsewhere, descriptors = processes.script, processes.run, processes.elsewhere, processes.descriptors

test("share_memory_ moves a tensor with its views, and children write into it", function()
  local x = torch.zeros(3, 4)
  local row = x[{2}]
  check.no(x:is_shared())
  check.yes(x:share_memory_() == x)
  check.yes(x:is_shared() and row:is_shared())
  run(function() row:fill_(7) x[{1, 1}] = 3 end)
  check.equal(x, torch.tensor {{3, 0, 0, 0}, {7, 7, 7, 7}, {0, 0, 0, 0}}:float())
  row:add_(1)
  check.equal(x[{2, 1}]:item(), 8)
end)

test("a tensor that goes through a queue is shared from then on", function()
  local q, x = mp.Queue(), torch.zeros(5)
  q:put(x)
  check.yes(x:is_shared())
  run(function() q:get():fill_(2) end)
  check.equal(x, torch.full({5}, 2.0))
end)

test("a module's memory is one piece for all, and a child's step is seen here", function()
  local net = torch.nn.Linear(3, 2)
  collectgarbage()
  collectgarbage()
  local before = descriptors()
  check.yes(net:share_memory() == net)
  check.equal(descriptors(), before + 1)
  check.yes(net.weight:is_shared() and net.bias:is_shared())
  run(function()
    torch.no_grad(function()
      for _, p in ipairs(net:parameters()) do p:fill_(0.5) end
    end)
  end)
  check.equal(net.weight:detach(), torch.full({2, 3}, 0.5))
  check.equal(net.bias:detach(), torch.full({2}, 0.5))
  check.equal(net.weight.grad, nil)
end)

test("every dtype and layout crosses to another process, and the empty ones", function()
  for _, name in ipairs {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"} do
    local x = torch.arange(6):view(2, 3):to(torch[name])
    local back = elsewhere(function() return x.T, x[{{}, 2}], torch.zeros(0, 2):to(x.dtype) end)
    check.equal(back, x.T)
  end
end)

test("the same tensor back and forth takes no descriptors", function()
  local q, x = mp.Queue(), torch.zeros(5):share_memory_()
  q:put(x)
  q:get()
  collectgarbage()
  collectgarbage()
  local before = descriptors()
  for _ = 1, 50 do
    q:put(x)
    x = q:get()
  end
  collectgarbage()
  check.yes(descriptors() <= before + 2)
end)

test("only the CPU's memory is shared", function()
  local out = script [[
    torch.cuda.simulate(1)
    local ok, err = pcall(torch.ones(2):cuda().share_memory_, torch.ones(2):cuda())
    print(ok, err.kind)
    local q = torch.multiprocessing.Queue()
    q:put(torch.ones(2):cuda())  -- goes through the host
    print(q:get().device)
  ]]
  check.equal(out.out, "false\tdevice\ncuda:0\n", out.err)
end)
