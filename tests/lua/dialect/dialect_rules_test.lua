-- The dialect, pages "Devices", "Errors" and "Settled points", and its one principle: positions count
-- from 1, values are never shifted.
local F = torch.nn.functional
torch.cuda.simulate(4)

test("simulated devices have the rules of real ones", function()
  check.yes(torch.cuda.is_available())
  check.equal(torch.cuda.device_count(), 4)
  check.contains(torch.cuda.get_device_name(), "simulated")
  local a = torch.ones(2, {device = "cuda:0"})
  check.equal(tostring(a.device), "cuda:0")
  check.equal(tostring(torch.ones(2):cuda(1).device), "cuda:1")
  check.equal(tostring(a:to("cuda:3"):cpu().device), "cpu")
  check.equal(tostring(torch.ones(2, {device = "cuda"}).device), "cuda:0")
  check.yes(a.device == torch.device("cuda:0"))
  check.equal((a + a):cpu(), {2, 2})
  check.equal(a:sum():item(), 2.0)
  check.equal(a:tolist(), {1.0, 1.0})
end)

test("tensors of different devices do not mix, and the error names both", function()
  local a, b, c = torch.ones(2, {device = "cuda:0"}), torch.ones(2), torch.ones(2, {device = "cuda:1"})
  local err = check.raises("device", "argument 1 (self) is on cuda:0, argument 2 (other) on cpu", function() return a + b end)
  check.contains(err.hint, ":to(\"cuda:0\")")
  check.raises("device", "cuda:1", function() return a + c end)
  check.raises("device", nil, function() a:add_(b) end)
  check.raises("device", nil, function() return torch.cat {a, b} end)
  check.raises("device", nil, function() return a:matmul(c) end)
  check.equal((a + torch.tensor(2.0)):cpu(), {3, 3})
  check.raises("device", "cuda:9", function() return torch.ones(2, {device = "cuda:9"}) end)
  check.raises("device", nil, function() return b:cuda(4) end)
  check.raises("device", nil, function() return b:cuda(-1) end)
end)

test("gradients flow through copies between devices", function()
  local x = torch.ones(2, {requires_grad = true})
  local y = (x:to("cuda:1") * 3):to("cuda:2"):sum()
  y:backward()
  check.equal(x.grad, {3, 3})
  check.equal(tostring(x.grad.device), "cpu")
end)

test("an error is an object with kind, op, hint and text", function()
  local ok, err = pcall(function() return torch.ones(2, 3) + torch.ones(2, 4) end)
  check.no(ok)
  check.equal(err.kind, "broadcast")
  check.equal(err.op, "add")
  check.kind_of(err.hint, "string")
  check.contains(tostring(err), "add: shapes [2, 3] and [2, 4] do not broadcast: dimension 2 is 3 against 4")
end)

test("kinds of errors", function()
  local x = torch.ones(2, 3)
  check.raises("shape", "[2, 3]", function() return x:matmul(x) end)
  check.raises("shape", "6", function() return x:reshape(4, 2) end)
  check.raises("shape", nil, function() return torch.tensor {{1, 2}, {3}} end)
  check.raises("shape", nil, function() return torch.zeros(-2) end)
  check.raises("shape", nil, function() return torch.ones(2):item() end)
  check.raises("broadcast", nil, function() torch.ones(2):add_(torch.ones(3, 2)) end)
  check.raises("broadcast", nil, function() return x:expand(2, 4) end)
  check.raises("dim", "dimension 0", function() return x:sum(0) end)
  check.raises("dim", "(1..2, or -2..-1)", function() return x:sum(3) end)
  check.raises("dim", nil, function() return x:transpose(1, 3) end)
  check.raises("dim", nil, function() return x:sum({1, 1}) end)
  check.raises("dtype", nil, function() return torch.tensor({1, 2}):mean() end)
  check.raises("dtype", nil, function() torch.tensor({1, 2}):add_(1.5) end)
  check.raises("dtype", nil, function() return torch.ones(2) & 1 end)
  check.raises("argument", "a boolean", function() return x:sum {keepdim = "yes"} end)
  check.raises("argument", nil, function() return torch.add() end)
  check.raises("argument", nil, function() return torch.tensor("x") end)
  check.raises("oom", nil, function() return torch.zeros(1 << 20, 1 << 20, 1 << 10) end)
  check.raises("shape", nil, function() return torch.zeros(1 << 40, 1 << 40) end)
  check.raises("shape", nil, function() return torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1) end)
end)

test("a hint works when it is pasted", function()
  local env = setmetatable({x = torch.ones(2, 3):t(), y = torch.ones(2, {requires_grad = true}) * 2}, {__index = _G})
  local function paste(err) return assert(load("return " .. err.hint:gsub("%s*%-%-.*", ""), "=hint", "t", env))() end
  check.shape(paste(check.raises("shape", nil, function() return env.x:view(6) end)), {6})
  check.equal(paste(check.raises("shape", nil, function() return env.x:item() end)), {{1, 1}, {1, 1}, {1, 1}})
  paste(check.raises("autograd", nil, function() env.y:backward() end))
  env.x = torch.tensor {1, 2}
  check.equal(paste(check.raises("dtype", nil, function() return env.x:mean() end)):item(), 1.5)
end)

test("an error leaves the tensor as it was", function()
  local x = torch.tensor {1.0, 2.0}
  for _, f in ipairs {
    function() x:add_(torch.ones(3)) end, function() x:mul_("x") end, function() x:div_() end,
    function() x[{1, 2}] = 3 end, function() x[3] = 3 end, function() x:clamp_(nil, {}) end,
  } do
    check.no(pcall(f))
    check.equal(x, {1, 2})
  end
end)

test("positions that come back count from 1", function()
  check.equal(torch.tensor({3, 9, 4}):argmax():item(), 2)
  check.equal(torch.tensor({{3, 9}, {8, 4}}):argmin(2), {1, 2})
  local v, i = torch.tensor({1, 5, 3}):max(1)
  check.equal(v:item(), 5)
  check.equal(i:item(), 2)
  check.equal(torch.tril_indices(2, 2), {{1, 2, 2}, {1, 1, 2}})
  local seen = torch.zeros(5)
  for _, p in ipairs(torch.randperm(5):tolist()) do seen[p] = 1 end
  check.equal(seen, {1, 1, 1, 1, 1})
  check.equal(torch.multinomial(torch.tensor {0.0, 0.0, 1.0}, 1), {3})
end)

test("positions that go in count from 1, and position 0 always raises", function()
  local x = torch.tensor {{1, 2}, {3, 4}}
  check.equal(x:gather(2, torch.tensor {{1, 1}, {2, 1}}), {{1, 1}, {4, 3}})
  check.equal(x:index_select(2, torch.tensor {2, 1}), {{2, 1}, {4, 3}})
  check.equal(x:scatter(2, torch.tensor {{2}, {1}}, torch.tensor {{8}, {9}}), {{1, 8}, {9, 4}})
  check.equal(F.embedding(torch.tensor {2, 1}, torch.tensor {{1.0}, {7.0}}), {{7}, {1}})
  check.equal(F.one_hot(torch.tensor {1, 3}, 3), {{1, 0, 0}, {0, 0, 1}})
  check.close(F.cross_entropy(torch.tensor {{0.0, 1000.0}}, torch.tensor {2}), 0)
  check.equal(x:select(1, -1), {3, 4})
  check.equal(x:narrow(2, 2, 1), {{2}, {4}})
  check.raises("index", "positions count from 1", function() return x:gather(2, torch.tensor {{0}}) end)
  check.raises("index", "positions count from 1", function() return x:index_select(1, torch.tensor {0}) end)
  check.raises("index", "count from 1", function() return x:select(1, 0) end)
  check.raises("index", "start at 1", function() return F.cross_entropy(torch.zeros(2, 3), torch.tensor {0, 1}) end)
  check.raises("index", nil, function() return F.embedding(torch.tensor {0}, torch.ones(2, 2)) end)
end)

test("negative positions raise where PyTorch's do", function()
  local x = torch.tensor {{1, 2}, {3, 4}}
  check.raises("index", nil, function() return x:gather(2, torch.tensor {{-1}}) end)
  check.raises("index", nil, function() return x:index_select(1, torch.tensor {-1}) end)
  check.raises("index", nil, function() return x:scatter(1, torch.tensor {{-1}}, torch.tensor {{1}}) end)
  check.raises("index", nil, function() return F.embedding(torch.tensor {-1}, torch.ones(2, 2)) end)
  check.raises("index", nil, function() return F.cross_entropy(torch.zeros(2, 3), torch.tensor {-1, 1}) end)
  check.close(F.cross_entropy(torch.zeros(2, 4), torch.tensor {-100, 1}), math.log(4))
end)

test("values are never shifted", function()
  check.equal(torch.arange(3), {0, 1, 2})
  check.equal(torch.arange(1, 4), {1, 2, 3})
  check.equal(torch.diagonal(torch.arange(9):view(3, 3), 1), {1, 5})
  check.equal(torch.arange(3):roll(1), {2, 0, 1})
  check.equal(torch.ones(2, 2):triu(1), {{0, 1}, {0, 0}})
  torch.manual_seed(0)
  local r = torch.randint(0, 3, {100})
  check.equal(r:min():item(), 0)
  check.equal(r:max():item(), 2)
end)

test("a tuple in PyTorch is several values, a list is a table", function()
  local a, b = torch.arange(4):view(2, 2):unbind()
  check.equal(a, {0, 1})
  check.equal(b, {2, 3})
  local parts = {torch.arange(6):split(4)}
  check.equal(#parts, 2)
  check.equal(parts[2], {4, 5})
  local rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3))
  check.shape(rows, {2, 3})
  check.equal(columns[1], {0, 1, 2})
end)

test("random numbers follow the seed", function()
  torch.manual_seed(7)
  local a = torch.rand(5)
  torch.manual_seed(7)
  check.equal(torch.rand(5), a)
  torch.manual_seed(0)
  check.close(torch.rand(3), {0.496256589889526, 0.768221795558929, 0.088477432727814}, 1e-6)
end)

test("torch.none says None where nil cannot", function()
  check.close(torch.clamp(torch.tensor {-1.0, 5.0}, torch.none, 2), {-1, 2})
  check.close(torch.clamp(torch.tensor {-1.0, 5.0}, nil, 2), {-1, 2})
  check.close(torch.clamp(torch.tensor {-1.0, 5.0}, {max = 2}), {-1, 2})
end)

test("nil and torch.none in the middle of positional arguments leave what follows in its place", function()
  local nn, F, none, x = torch.nn, torch.nn.functional, torch.none, torch.ones(2, 3)
  for _, absent in ipairs {false, none} do
    absent = absent or nil
    check.equal(x:norm(absent, 2).shape, {2})
    check.equal(torch.norm(x, absent, 1, true).shape, {1, 3})
    check.equal(x:sum(absent, true).shape, {1, 1})
    check.equal(x:std(absent, absent, true).shape, {1, 1})
    check.equal(F.interpolate(torch.ones(1, 1, 2, 2), absent, 2).shape, {1, 1, 4, 4})
    check.equal(F.max_pool2d(torch.ones(1, 4, 4), 2, absent, 1).shape, {1, 3, 3})
    check.equal(nn.Embedding(4, 2, absent, 1.0).max_norm, 1.0)
    check.equal(nn.MaxPool2d(2, absent, 1).padding, 1)
    check.equal(nn.Linear(2, 3, true, absent, "float64").weight.dtype, torch.float64)
  end
  -- A layer's momentum may be None, which means an average of all batches; a function's may not.
  check.equal(nn.BatchNorm1d(3, 1e-5, nil, false).momentum, 0.1)
  check.equal(nn.BatchNorm1d(3, nil, none, false).momentum, nil)
  check.equal(nn.BatchNorm1d(3, nil, none, false).eps, 1e-5)
  local mean = torch.zeros(3)
  F.batch_norm(x, mean, torch.ones(3), nil, nil, true, nil, 1e-5)
  check.close(mean, {0.1, 0.1, 0.1}, 1e-6)
  check.raises("argument", '"momentum" must be a number, not torch.none', F.batch_norm, x, mean, torch.ones(3), nil, nil, true, none)
  check.raises("argument", '"stride" cannot be torch.none', nn.Conv2d, 1, 2, 3, none)
  check.equal(nn.Linear(2, 3, none).bias, nil)
end)

test("what PyTorch takes by position and is no operation keeps its place, too", function()
  local a = torch.ones(2):requires_grad_()
  local y = (a * a * a):sum()
  y:backward(nil, true)
  y:backward()
  check.equal(a.grad, {6.0, 6.0})
  local g = torch.autograd.grad((a * a * a):sum(), a, nil, nil, true)
  check.equal(torch.autograd.grad(g:sum(), a), {6.0, 6.0})
  g = torch.autograd.grad(a * a * a, a, torch.tensor {1.0, 2.0}, {create_graph = true})
  check.equal(torch.autograd.grad(g:sum(), a), {6.0, 12.0})
  check.equal(torch.autograd.grad((a * 2):sum(), {torch.ones(1):requires_grad_()}, nil, nil, nil, nil, true), nil)
  check.raises("argument", "at most 7", torch.autograd.grad, y, a, nil, nil, nil, nil, nil, nil)
  check.equal(torch.autocast("cpu", torch.bfloat16, false, function() return torch.is_autocast_enabled("cpu") end), false)
  check.equal(torch.autocast("cpu", nil, true, function() return torch.is_autocast_enabled("cpu") end), true)
  a.grad = torch.tensor {3.0, 4.0}
  check.close(torch.nn.utils.clip_grad_norm_({a}, 1.0, nil, true), 5.0)
  local data = torch.utils.data
  local set = data.TensorDataset(torch.arange(6))
  check.equal(#data.DataLoader(set, 2), 3)
  check.equal(#data.DataLoader(set, 4, nil, nil, nil, 0, {drop_last = true}), 1)
  local seen = {}
  for x in data.DataLoader(set, nil, nil, {6, 1})() do seen[#seen + 1] = x[1]:item() end
  check.equal(seen, {5, 0})
  check.raises("argument", '"batch_size" is given twice', data.DataLoader, set, 2, {batch_size = 3})
end)

test("_shapes_only looks at no values, and says where they decide a shape", function()
  local a, x = torch.tensor {1, 2}, torch.ones(2, 3)
  local shape, dtype
  torch._shapes_only(function()
    local y = torch._stand_in(a)
    shape, dtype = (y // y).shape, (y // y).dtype
    check.equal((y % y).shape, {2})
    check.equal(torch.nn.functional.one_hot(y, 4).shape, {2, 4})
    check.equal(x:take_along_dim(torch._stand_in(torch.ones(2, 1, {dtype = "int64"})), 2).shape, {2, 1})
    check.equal(torch._stand_in(x):repeat_interleave(2, 1).shape, {4, 3})
    check.raises("value", "depends on the values", function() return torch._stand_in(x):nonzero() end)
    check.raises("value", "depends on the values", function() return y:bincount() end)
    check.raises("value", "depends on the values", function() return x[torch._stand_in(x):gt(0)] end)
  end)
  check.equal(shape, {2})
  check.equal(dtype, torch.int64)
end)

test("the clock is a float that does not go back", function()
  local t = torch.perf_counter()
  check.kind_of(t, "float")
  check.yes(torch.perf_counter() >= t)
  torch.cuda.synchronize()
end)

test("the result of a convolution can be viewed, as in PyTorch's examples", function()
  local x = torch.randn({2, 3, 5, 5}, {requires_grad = true})
  local y = torch.nn.functional.conv2d(x, torch.randn(4, 3, 3, 3))
  check.equal(y:view(2, -1), y:reshape(2, -1))
  y:view(2, -1):sum():backward()
  check.shape(x.grad, {2, 3, 5, 5})
  check.raises("shape", "reshape", function() return torch.randn(3, 4):t():view(-1) end)
end)

test("a shape's negative positions count from the end, and position 0 is an error", function()
  local x = torch.ones(2, 3)
  check.equal({x.shape[-1], x.shape[-2], x:size()[-1], x:stride()[-2]}, {3, 2, 3, 3})
  check.equal(x.shape[3], nil)
  check.equal({x.shape:numel(), torch.tensor(1).shape:numel(), torch.ones(3, 0).shape:numel()}, {6, 1, 0})
  check.raises("argument", "x.shape:numel()", function() return x.shape.numel() end)
  check.raises("dim", "dimensions count from 1", function() return x.shape[0] end)
  check.raises("dim", "out of range", function() return x.shape[-3] end)
  local sizes = {}
  for i, n in ipairs(x.shape) do sizes[i] = n end
  check.equal(sizes, {2, 3})
end)

test("histc counts what lies between the bounds, on any threads", function()
  local before = torch.get_num_threads()
  for _, threads in ipairs {1, 3} do
    torch.set_num_threads(threads)
    for _, n in ipairs {0, 1, 7, 1000, 150001} do
      for _, dtype in ipairs {torch.float32, torch.float64, torch.bfloat16} do
        local x = (torch.arange(n) % 41):to(dtype) / 4 - 5  -- from -5 to 5, in quarters: no rounding
        if n > 6 then x[2], x[4], x[6] = 0 / 0, math.huge, -math.huge end
        local want = {0, 0, 0, 0, 0, 0, 0, 0}
        for _, v in ipairs(x:tolist()) do
          if v >= -2 and v <= 2 then
            local bin = math.min(8, math.floor((v + 2) * 2) + 1)
            want[bin] = want[bin] + 1
          end
        end
        check.equal(torch.histc(x, 8, -2, 2):tolist(), torch.tensor(want):to(dtype):tolist())
      end
    end
    check.equal(torch.histc(torch.tensor {3.0, 3.0}, 2):tolist(), {0.0, 2.0})
    check.equal(torch.histc(torch.tensor {1.0, 2.0, 4.0}, 3, 0, 0):tolist(), {1.0, 1.0, 1.0})
  end
  torch.set_num_threads(before)
end)
