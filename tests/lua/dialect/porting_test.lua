-- What a PyTorch user meets who ports a script line by line: names, arguments and whole small programs.
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

test("arguments about memory and copies are accepted, and change nothing", function()
  local x = torch.ones(2, 3)
  check.equal(x:to("cpu", {non_blocking = true}), x)
  check.equal(x:to(torch.ones(1, {dtype = "float64"})).dtype, torch.float64)
  check.equal(x:to("float64", "cpu").dtype, torch.float64)
  check.equal(x:to {device = "cpu", dtype = torch.float16, non_blocking = true, copy = true}.dtype, torch.float16)
  check.equal(torch.zeros(2, {pin_memory = true}), {0.0, 0.0})
  check.raises("argument", 'no argument "memory"', function() return x:clone {memory = 1} end)
end)

test("inplace=true changes the argument of a function", function()
  local x = torch.tensor {-1.0, 2.0}
  check.equal(F.relu(x, {inplace = true}), {0.0, 2.0})
  check.equal(x, {0.0, 2.0})
  check.equal(F.relu(torch.tensor {-1.0}, {inplace = false}), {0.0})
  local y = torch.tensor {-1.0, 2.0}
  F.leaky_relu(y, 0.5, {inplace = true})
  check.equal(y, {-0.5, 2.0})
  check.raises("argument", "inplace", function() return torch.sum(y, {inplace = true}) end)
end)

test("a name that torch lacks is an error when read, with the nearest names", function()
  check.raises("argument", "did you mean torch.float64?", function() return torch.zeros(2, {dtype = torch.flaot64}) end)
  check.raises("argument", "did you mean torch.optim.Adam?", function() return torch.optim.Adm({}) end)
  check.raises("argument", "torch.nn.functional.softmax", function() local f = F.softmx return f end)
  check.raises("argument", "torch.nn.Linear", function() local f = nn.Lineer return f end)
  check.raises("argument", "StepLR", function() return optim.lr_scheduler.StepLr end)
  check.raises("argument", "torch.load", function() return torch.from_numpy(1) end)
  check.equal(rawget(torch, "flaot64"), nil)
  check.yes(pcall(function() return torch.nn.Linear, torch.optim.Adam, torch.utils.data.DataLoader, torch.amp.GradScaler end))
end)

test("constructors by type, constants, and questions about types", function()
  check.equal(torch.LongTensor {1, 2}, torch.tensor {1, 2})
  check.equal(torch.FloatTensor(2, 3).shape, torch.Size {2, 3})
  check.equal(torch.Tensor {1, 2}, torch.tensor {1.0, 2.0})
  check.equal(torch.BoolTensor {true, false}.dtype, torch.bool)
  check.equal(torch.as_tensor({1, 2}, {dtype = torch.float64}).dtype, torch.float64)
  local x = torch.ones(2)
  check.yes(rawequal(torch.as_tensor(x), x))
  check.equal(x:new_tensor {1, 2}, {1.0, 2.0})
  check.equal(x:type(), "torch.FloatTensor")
  check.equal(x:type(torch.LongTensor).dtype, torch.int64)
  check.equal(x:type_as(torch.tensor {1}).dtype, torch.int64)
  check.equal(torch.finfo(torch.float32).eps, 2.0 ^ -23)
  check.equal(torch.iinfo(torch.int8).max, 127)
  check.equal(torch.result_type(torch.tensor {1}, 1.5), torch.float32)
  check.equal(torch.promote_types(torch.int32, torch.float16), torch.float16)
  check.yes(torch.can_cast("int32", "float32"))
  check.no(torch.can_cast("float32", "int32"))
  check.equal(torch.broadcast_shapes({2, 1}, {3}), torch.Size {2, 3})
  check.raises("broadcast", "do not fit", torch.broadcast_shapes, {2}, {3})
  check.equal({x.nbytes, x.itemsize, x.is_cpu, x:get_device()}, {8, 4, true, -1})
  check.close(torch.pi, math.pi)
end)

test("covariances, windows, and what takes tensors apart are PyTorch's", function()
  local x = torch.tensor {{1.0, 2, 3}, {4, 5, 9}}
  check.close(x:cov(), {{1.0, 2.5}, {2.5, 7.0}})
  check.close(x:corrcoef()[{1, 2}], 0.944911, 1e-5)
  check.close(F.pdist(x), {7.348469}, 1e-5)
  check.close(x:norm("fro"), x:norm())
  check.close(x:norm("nuc"), 12.0993, 1e-4)
  check.close(torch.norm(x, {p = "fro", dim = 2}), x:norm {p = 2, dim = 2})
  check.equal(torch.combinations(torch.tensor {1, 2, 3}), {{1, 2}, {1, 3}, {2, 3}})
  check.close(torch.hamming_window(4, {periodic = false}), {0.08, 0.77, 0.77, 0.08})
  check.equal(torch.zeros(3, 2):fill_diagonal_(1), {{1.0, 0}, {0, 1}, {0, 0}})
  check.equal({torch.unravel_index(torch.tensor {1, 6}, {2, 3})}, {torch.tensor {1, 2}, torch.tensor {1, 3}})
  check.equal({torch.where(x:gt(3))}, {torch.tensor {2, 2, 2}, torch.tensor {1, 2, 3}})
  local grid = F.affine_grid(torch.tensor {{{1.0, 0, 0.5}, {0, 1, 0}}}, {1, 1, 2, 3}, {align_corners = false})
  check.close(grid[{1, 1, 1}], {-1 / 6, -0.5})
end)

test("map_location may be a function, as PyTorch's scripts have it", function()
  local path = check.temp "located.pt"
  torch.save({x = torch.ones(2)}, path)
  check.equal(torch.load(path, {map_location = function(storage) return storage end}).x, {1.0, 1.0})
end)

test("autocast and grad take every argument by name", function()
  local x = torch.ones(2, 2)
  local y = torch.autocast({device_type = "cpu", dtype = torch.bfloat16, enabled = true}, function() return x:matmul(x) end)
  check.equal(y.dtype, torch.bfloat16)
  check.equal(torch.autocast(torch.device "cpu", {dtype = torch.bfloat16}, function() return x:matmul(x) end).dtype, torch.bfloat16)
  check.equal(torch.cuda.amp.autocast(true, function() return x:matmul(x) end).dtype, torch.float32)  -- of CUDA devices alone
  do
    local _ <close> = torch.autocast {device_type = "cpu", enabled = false}
    check.equal(x:matmul(x).dtype, torch.float32)
  end
  check.raises("argument", 'no argument "dtpye"', torch.autocast, {device_type = "cpu", dtpye = "bfloat16"})
  local w = torch.tensor({2.0}, {requires_grad = true})
  local g = torch.autograd.grad {outputs = w ^ 2, inputs = w, grad_outputs = torch.ones(1), create_graph = true, only_inputs = true}
  check.equal(g, {4.0})
  check.yes(g.requires_grad)
  torch.autograd.backward({w * 2, w * 3}, {torch.ones(1), torch.ones(1)})
  check.equal(w.grad, {5.0})
  check.yes(rawequal(torch.autograd.Variable(w), w))
end)

test("datasets stand side by side, named or not", function()
  local data = torch.utils.data
  local a, b = data.TensorDataset(torch.arange(3)), {10, 20, 30}
  local set = data.StackDataset(a, b)
  check.equal(#set, 3)
  check.equal(set:get(2)[2], 20)
  check.equal(data.StackDataset {x = a, y = b}:get(3).y, 30)
  check.raises("shape", "items", data.StackDataset, a, {1, 2})
  check.equal(data.default_convert {1, {2.5}}, {torch.tensor(1), {torch.tensor(2.5)}})
  for x, y in data.DataLoader(set, {batch_size = 3})() do
    check.equal(y, {10, 20, 30})
    check.equal(x[1], {0, 1, 2})
  end
end)

test("fractional pooling takes the largest of windows that random numbers place", function()
  local x = torch.arange(36):view(1, 1, 6, 6):float()
  local y, at = F.fractional_max_pool2d(x, 2, {output_size = {3, 3}, return_indices = true, _random_samples = torch.tensor {{{0.3, 0.6}}}})
  check.equal(y, {{{{7.0, 9, 11}, {19, 21, 23}, {31, 33, 35}}}})
  check.equal(x:flatten()[at:flatten()], y:flatten())
  check.equal(nn.FractionalMaxPool2d(2, {output_ratio = 0.5})(torch.randn(2, 6, 6)).shape, torch.Size {2, 3, 3})
  check.equal(nn.FractionalMaxPool3d(2, {output_size = 2})(torch.randn(1, 2, 5, 5, 5)).shape, torch.Size {1, 2, 2, 2, 2})
  check.raises("argument", "either output_size or output_ratio", nn.FractionalMaxPool2d, 2)
  check.raises("shape", "do not fit", F.fractional_max_pool2d, x, 4, {output_size = 5})
end)

test("assert_close tells the worst element", function()
  local assert_close = torch.testing.assert_close
  assert_close(torch.ones(2), torch.ones(2) + 1e-7)
  assert_close({a = torch.ones(1), 2.0}, {a = torch.ones(1), 2.0})
  check.raises("value", "the most at element 2: 1 and 3", assert_close, torch.ones(2), torch.tensor {1.0, 3})
  check.raises("shape", "the shapes differ", assert_close, torch.ones(2), torch.ones(3))
  check.raises("dtype", "the types differ", assert_close, torch.ones(2), torch.tensor {1, 1})
  check.raises("value", "1 of 1", assert_close, torch.tensor {0 / 0}, torch.tensor {0 / 0})
  assert_close(torch.tensor {0 / 0}, torch.tensor {0 / 0}, {equal_nan = true})
end)

test("leaves of one operation have gradients of their own, which may be changed in place", function()
  for _, create_graph in ipairs {false, true} do
    local a, b = torch.ones(2, {requires_grad = true}), torch.ones(2, {requires_grad = true})
    local y = ((a + b) * torch.tensor {2.0, 3.0}):sum()
    y:backward {create_graph = create_graph}
    torch.no_grad(function() a.grad:mul_(10) end)
    check.equal(a.grad, {20.0, 30.0})
    check.equal(b.grad, {2.0, 3.0})
  end
  for _, name in ipairs {"LSTM", "GRU", "RNN"} do
    local net = nn[name](2, 3)
    net(torch.randn(4, 1, 2)):sum():backward()
    local before = net.bias_hh_l0.grad:clone()
    net.bias_ih_l0.grad:mul_(10)
    check.equal(net.bias_hh_l0.grad, before)
  end
end)

test("a loop over a loader without its call, and an index of one, are told", function()
  local data = torch.utils.data
  local set = data.TensorDataset(torch.ones(4))
  local loader = data.DataLoader(set, {batch_size = 2})
  check.raises("argument", "for x, y in loader() do", function() for _ in loader do end end)
  check.raises("argument", "for x, y in loader() do", function() for _ in ipairs(loader) do end end)
  check.raises("argument", "set:get(1)", function() return set[1] end)
  check.raises("argument", "for i in sampler() do", function() for _ in loader.sampler do end end)
  check.equal(set.name, nil)
  check.raises("argument", "net:parameters()", optim.SGD, nn.Linear(2, 2), {lr = 0.1})
end)

test("a method called with a point is told with its colon", function()
  local start = [[
local net = torch.nn.Linear(2, 1)
local opt = torch.optim.SGD(net:parameters(), {lr = 0.1})
local x = torch.ones(1, 2)
local loss = net(x):sum()
]]
  local path = check.temp "points.lua"
  for code, says in pairs {
    ["opt.zero_grad()"] = "would fit: opt:zero_grad()", ["net.train()"] = "would fit: net:train()", ["local p = net.parameters()"] = "would fit: net:parameters()",
    ['net.to("cpu")'] = 'would fit: net:to("cpu")', ["net.apply(print)"] = "would fit: net:apply(print)", ["loss.backward()"] = "try: loss:backward()",
    ["net.forward(x)"] = "net:forward(x)", ["net.load_state_dict({})"] = "net:load_state_dict({})",
  } do
    local file = assert(io.open(path, "w"))
    file:write(start, code, "\n")
    file:close()
    local r = check.tycho {path}
    check.equal(r.status, 1)
    check.contains(r.err, says)
    check.contains(r.err, "points.lua:5")
  end
end)

test("fork_rng leaves the random numbers as they were", function()
  torch.manual_seed(5)
  local expected = torch.rand(2)
  torch.manual_seed(5)
  check.equal(torch.random.fork_rng(function() return torch.rand(3).shape end), torch.Size {3})
  do
    local _ <close> = torch.random.fork_rng()
    torch.rand(4)
  end
  check.raises("value", "stop", torch.random.fork_rng, function()
    torch.rand(1)
    torch._raise("stop", 1, "value")
  end)
  check.equal(torch.rand(2), expected)
end)

test("how exact products of float32 are is one setting under both of its names", function()
  local matmul = torch.backends.cuda.matmul
  local function both() return {torch.get_float32_matmul_precision(), matmul.allow_tf32} end
  check.equal(both(), {"highest", false})
  torch.set_float32_matmul_precision("medium")
  check.equal(both(), {"medium", true})
  matmul.allow_tf32 = true
  check.equal(both(), {"high", true})
  matmul.allow_tf32 = false
  check.equal(both(), {"highest", false})
  check.raises("value", 'wants "highest", "high" or "medium", not 1', function() torch.set_float32_matmul_precision(1) end)
  check.raises("value", "allow_tf32: wants true or false, not 1", function() matmul.allow_tf32 = 1 end)
  check.equal(both(), {"highest", false})
end)

test("convolutions' library is switched as in PyTorch, and repeats its bits for either of two settings", function()
  local cudnn = torch.backends.cudnn
  local function all() return {cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32} end
  check.equal(all(), {true, false, false, true})
  check.no(torch.are_deterministic_algorithms_enabled())
  cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = false, true, true, false
  check.equal(all(), {false, true, true, false})
  check.yes(torch.cuda._convolutions "deterministic")
  cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = true, false, false, true
  torch.use_deterministic_algorithms(true, {warn_only = true})
  check.equal({cudnn.deterministic, torch.are_deterministic_algorithms_enabled(), torch.cuda._convolutions "deterministic"}, {false, true, true})
  torch.use_deterministic_algorithms(false)
  check.no(torch.cuda._convolutions "deterministic")
  check.raises("value", "cudnn.benchmark: wants true or false, not 1", function() cudnn.benchmark = 1 end)
  check.raises("value", "use_deterministic_algorithms: wants true or false, not yes", function() torch.use_deterministic_algorithms "yes" end)
  cudnn.conv = {fp32_precision = "ieee"}  -- what is not known here may be written
  check.equal(cudnn.conv.fp32_precision, "ieee")
  cudnn.conv = nil
  check.equal(all(), {true, false, false, true})
end)

test("how many ways of a convolution are timed is a setting, and flags hold inside their scope", function()
  local cudnn = torch.backends.cudnn
  local function all() return {cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic, cudnn.allow_tf32} end
  local first = {true, false, 10, false, true}
  check.equal(all(), first)
  cudnn.benchmark_limit = 3
  check.equal(torch.cuda._convolutions "benchmark_limit", 3)
  check.raises("value", "benchmark_limit: wants a number", function() cudnn.benchmark_limit = true end)
  check.raises("value", "or 0 for all, not -1", function() cudnn.benchmark_limit = -1 end)
  cudnn.benchmark_limit = 10
  do
    local _ <close> = cudnn.flags{enabled = true, benchmark = true, benchmark_limit = 0}
    check.equal(all(), {true, true, 0, false, true})
  end
  check.equal(all(), first)
  check.equal(cudnn.flags({deterministic = true, allow_tf32 = false}, all), {false, false, 10, true, false})
  check.equal(cudnn.flags(all), {false, false, 10, false, true})
  check.raises("argument", "no field benchmrk", cudnn.flags, {benchmrk = true}, all)
  check.no(pcall(cudnn.flags, {enabled = true}, function() error "inside" end))
  check.equal(all(), first)
  local before = cudnn.set_flags{benchmark = true}
  check.equal({before.benchmark, cudnn.benchmark}, {false, true})
  cudnn.set_flags(before)
  check.equal(all(), first)
end)

test("what torch.backends and torch.version say is there is there", function()
  local code = [[
    local b = torch.backends
    print(b.cuda.is_built(), b.cudnn.is_available(), b.cudnn.version(), b.mps.is_built(), b.mps.is_available(),
      b.mkldnn.is_available(), torch.version.cuda, torch.cuda.is_available(), torch.cuda.device_count(),
      torch.accelerator.is_available(), torch.accelerator.device_count())]]
  check.equal((check.tycho({"-e", code}).out:gsub("%s+", " ")), "false false nil false false true nil false 0 false 0 ")
  check.equal((check.tycho({"-e", code}, {env = {TYCHO_SIMULATE_CUDA = "2"}}).out:gsub("%s+", " ")),
    "true false nil false false true nil true 2 true 2 ")
end)
