-- CUDA graphs on simulated devices: capture, replay, memory, random numbers, what cannot be captured, and functions as
-- graphs. On a GPU (tests/cuda/run_all) the same tests run there.
if not os.getenv "TYCHO_SIMULATE_CUDA" and torch.cuda.device_count() == 0 then torch.cuda.simulate(3) end
local cuda, nn = torch.cuda, torch.nn
local gpu = {device = "cuda"}

test("a replay computes with what the inputs hold then, into the same memory", function()
  local x = torch.ones(4, 5, gpu)
  local g, y = cuda.CUDAGraph(), nil
  cuda.graph(g, function()
    local h = (x * 2 + 1):exp()
    y = h:sum(2)
    y:add_(x[{{}, 1}])
  end)
  for i = 1, 3 do
    x:copy_(torch.randn(4, 5))
    g:replay()
    local c = x:cpu()
    check.close(y:cpu(), (c * 2 + 1):exp():sum(2) + c[{{}, 1}], 1e-4)
  end
  check.no(cuda.is_current_stream_capturing())
end)

test("a replay computes into what out= named", function()
  local x, w = torch.randn(8, 16, gpu), torch.randn(16, 8, gpu)
  local product, pair, sums = torch.zeros(8, 8, gpu), torch.zeros(8, 32, gpu), torch.zeros(8, gpu)
  local function step()
    torch.mm(x, w, {out = product})
    torch.cat({x, x}, 2, {out = pair})
    torch.sum(x, 2, {out = sums})
  end
  step()
  local g = cuda.CUDAGraph()
  cuda.graph(g, step)
  x:copy_(torch.randn(8, 16))
  g:replay()
  check.close(product:cpu(), x:cpu():mm(w:cpu()), 1e-4)
  check.equal(pair:cpu(), torch.cat({x:cpu(), x:cpu()}, 2))
  check.close(sums:cpu(), x:cpu():sum(2), 1e-4)
end)

test("nothing is computed during the capture", function()
  local x, n = torch.zeros(3, gpu), torch.zeros(1, gpu)
  local g = cuda.CUDAGraph()
  do
    local _ <close> = cuda.graph(g)
    check.yes(cuda.is_current_stream_capturing())
    x:fill_(7)
    n:add_(1)
  end
  check.equal(x:tolist(), {0.0, 0.0, 0.0})
  check.equal(n:item(), 0.0)
  for _ = 1, 5 do g:replay() end
  check.equal(x:tolist(), {7.0, 7.0, 7.0})
  check.equal(n:item(), 5.0)
end)

test("a training step as a graph takes the steps that single calls take", function()
  local function losses(graphed)
    torch.manual_seed(5)
    local net = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    net:to "cuda"
    local x, t = torch.randn(10, 6), torch.randint(1, 3, {10})
    local sx, st = torch.zeros(10, 6, gpu), torch.ones(10, {dtype = "int64", device = "cuda"})
    local opt = torch.optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
    local loss
    local function step()
      opt:zero_grad {set_to_none = false}
      loss = nn.functional.cross_entropy(net(sx), st)
      loss:backward()
      opt:step()
    end
    local out, g = {}, nil
    for i = 1, 6 do
      sx:copy_(x * i)
      st:copy_(t)
      if graphed and i > 2 then
        if not g then
          g = cuda.CUDAGraph()
          cuda.graph(g, step)
        end
        g:replay()
      else
        step()
      end
      out[i] = loss:item()
    end
    return torch.tensor(out)
  end
  check.close(losses(true), losses(false), 1e-5)
end)

test("convolutions, norms and pooling are replayed with new inputs and weights", function()
  torch.manual_seed(2)
  local net = nn.Sequential(nn.Conv2d(3, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4))
  local host = nn.Sequential(nn.Conv2d(3, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4))
  host:load_state_dict(net:state_dict())
  net:eval()
  host:eval()
  net:to "cuda"
  local x, y = torch.zeros(2, 3, 8, 8, gpu), nil
  local _, _, _, simulated = cuda._info(0)
  if not simulated then check.skip "convolutions have no kernel for GPUs yet" end
  local g = cuda.CUDAGraph()
  torch.no_grad(function()
    net(x)
    host(x:cpu())
    cuda.graph(g, function() y = net(x) end)
    for _ = 1, 3 do
      local new = torch.randn(2, 3, 8, 8)
      x:copy_(new)
      net[1].weight:mul_(0.9)
      host[1].weight:mul_(0.9)
      g:replay()
      check.close(y:cpu(), host(new), 1e-4)
    end
  end)
end)

test("every replay draws the numbers that single calls would draw", function()
  local x = torch.ones(50, gpu)
  local g, a, b = cuda.CUDAGraph(), nil, nil
  cuda.graph(g, function()
    a = torch.randn(50, gpu)
    b = nn.functional.dropout(x, 0.5, true)
  end)
  torch.manual_seed(11)
  local want = {}
  for i = 1, 3 do want[i] = {torch.randn(50, gpu):cpu(), nn.functional.dropout(x, 0.5, true):cpu()} end
  local last = torch.rand(3, gpu):cpu()
  torch.manual_seed(11)
  for i = 1, 3 do
    g:replay()
    check.equal(a:cpu(), want[i][1])
    check.equal(b:cpu(), want[i][2])
  end
  check.equal(torch.rand(3, gpu):cpu(), last)
end)

test("looking at values during a capture raises, ends it, and the session goes on", function()
  local x = torch.ones(3, gpu)
  local ways = {
    item = function() return x:sum():item() end,
    print = function() return tostring(x) end,
    cpu = function() return x:cpu() end,
    tensor = function() return torch.tensor({1, 2}, gpu) end,
    nonzero = function() return x:nonzero() end,
    masked = function() return x[x:gt(0)] end,
    synchronize = function() cuda.synchronize() end,
    query = function() return cuda.current_stream():query() end,
  }
  for name, way in pairs(ways) do
    local g = cuda.CUDAGraph()
    local err = check.raises("device", "while a CUDA graph is captured", cuda.graph, g, way)
    check.no(cuda.is_current_stream_capturing(), name)
    check.equal(cuda.current_stream(), cuda.default_stream(), name)
    check.raises("value", "nothing to replay", g.replay, g)
    cuda.graph(g, function() x:add_(0) end)  -- it can be used again
    g:replay()
    check.equal((x + 1):sum():item(), 6.0)
  end
end)

test("what cannot join the rows that are held is replayed after them", function()
  local a, b = torch.tensor({1.5, 2.5, 3.5, -4.5}, gpu), torch.tensor({2, 2, 2, 2.0}, gpu)
  local places = torch.tensor({3, 1}, gpu)
  local ways = {
    cast = function() return (a * b):long() end,
    truth = function() return (a * b):bool() end,
    compared = function() return a:gt(b):long() end,
    bits = function() return torch.bitwise_and((a * b):long(), (b + 1):long()) end,
    logic = function() return torch.logical_or(a:gt(b), b:isnan()) end,
    copied = function() return torch.zeros(4, gpu):copy_(a * b) end,
    joined = function() return torch.cat {a * b, a + b} end,
    out = function() return torch.add(a * b, b, {out = torch.empty(4, gpu)}) end,
    taken = function() return (a * b):index_select(1, places) end,
  }
  for name, way in pairs(ways) do
    local g, y = cuda.CUDAGraph()
    cuda.graph(g, function() y = way() end)
    g:replay()
    check.equal(torch.equal(y, way()), true, name)
  end
end)

test("an error that is caught inside leaves a capture that says at its end what broke it", function()
  local x, g = torch.ones(3, gpu), cuda.CUDAGraph()
  check.raises("value", "nothing was captured: reading values", cuda.graph, g, function() pcall(function() return x:sum():item() end) end)
  local ok, e = pcall(cuda.graph, g, function() error "mine" end)
  check.no(ok)
  check.contains(tostring(e), "mine")
  check.equal(cuda.current_stream(), cuda.default_stream())
  cuda.graph(g, function() x:mul_(2) end)
  g:replay()
  check.equal(x:tolist(), {2.0, 2.0, 2.0})
end)

test("capture_begin and capture_end, reset, pools, and what is wrong with a call", function()
  local x, g = torch.ones(3, gpu), cuda.CUDAGraph()
  check.raises("value", "default stream", g.capture_begin, g)
  check.raises("value", "not being captured", g.capture_end, g)
  local s = cuda.Stream()
  cuda.stream(s, function()
    g:capture_begin()
    x:add_(1)
    check.raises("value", "another graph", cuda.CUDAGraph().capture_begin, cuda.CUDAGraph())
    g:capture_end()
  end)
  g:replay()
  check.equal(x:tolist(), {2.0, 2.0, 2.0})
  check.raises("value", "holds a capture already", cuda.graph, g, function() end)
  local h, y = cuda.CUDAGraph(), nil
  cuda.graph(h, {pool = g:pool()}, function() y = x * 3 end)
  h:replay()
  check.equal(y:tolist(), {6.0, 6.0, 6.0})
  check.equal(h:pool(), g:pool())
  g:reset()
  check.raises("value", "nothing to replay", g.replay, g)
  check.equal(y:tolist(), {6.0, 6.0, 6.0})
  check.raises("argument", "wants a torch.cuda.CUDAGraph", cuda.graph, {}, function() end)
  check.raises("argument", "it has: pool", cuda.graph, h, {pol = 1}, function() end)
  check.yes(math.type(cuda.graph_pool_handle()) == "integer")
end)

test("the inputs of a graph live as long as it", function()
  local x, g, y = torch.full({1000}, 3.0, gpu), cuda.CUDAGraph(), nil
  cuda.graph(g, function() y = x * 2 end)
  x = nil
  collectgarbage()
  local others = {}
  for i = 1, 20 do others[i] = torch.full({1000}, -1.0, gpu) end
  g:replay()
  check.equal(y:sum():item(), 6000.0)
end)

test("an optimiser that counts its steps on the host says how to go on", function()
  local net = nn.Linear(2, 2)
  net:to "cuda"
  local opt, x = torch.optim.AdamW(net:parameters()), torch.ones(1, 2, gpu)
  local function step()
    opt:zero_grad()
    net(x):sum():backward()
    opt:step()
  end
  step()
  check.raises("value", "take the step after each replay", cuda.graph, cuda.CUDAGraph(), step)
  local sgd = torch.optim.SGD(net:parameters(), {lr = 1, momentum = 0.9})
  check.raises("value", "take one before the capture", cuda.graph, cuda.CUDAGraph(), function() sgd:step() end)
  step()
end)

test("make_graphed_callables gives a module that trains as before", function()
  local function run(graphed)
    torch.manual_seed(3)
    local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    net:to "cuda"
    if graphed then
      local same = cuda.make_graphed_callables(net, {torch.zeros(5, 4, gpu):requires_grad_()})
      check.yes(rawequal(same, net))
    end
    local opt = torch.optim.SGD(net:parameters(), {lr = 0.1})
    torch.manual_seed(4)
    local out = {}
    for i = 1, 4 do
      local x = torch.randn(5, 4):to "cuda":requires_grad_()
      opt:zero_grad()
      local loss = (net(x) ^ 2):mean()
      loss:backward()
      opt:step()
      out[i] = loss:item() + x.grad:sum():item()
    end
    net:eval()
    out[5] = net(torch.ones(2, 4, gpu)):sum():item()  -- another shape: not by the graph
    return torch.tensor(out)
  end
  check.close(run(true), run(false), 1e-5)
  local double, plus = table.unpack(cuda.make_graphed_callables({function(a) return a * 2 end, function(a, b) return a + b, a - b end},
    {{torch.zeros(3, gpu)}, {torch.zeros(3, gpu), torch.zeros(3, gpu)}}))
  local a, b = plus(double(torch.ones(3, gpu)), torch.full({3}, 5.0, gpu))
  check.equal({a[1]:item(), b[1]:item()}, {7.0, -3.0})
  check.raises("shape", "captured for", double, torch.ones(4, gpu))
end)
