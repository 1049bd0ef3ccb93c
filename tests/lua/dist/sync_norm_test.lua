-- SyncBatchNorm: the batch is that of all ranks together.
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local ranks = assert(loadfile(here .. "/ranks.lua", "t", _ENV))()

test("statistics, outputs and gradients are those of batch norm on the whole batch", function()
  ranks.run(3, [==[
    local cut = {0, 2, 2, 7}  -- rank 1 has no sample
    local lo, hi = cut[R + 1] + 1, cut[R + 2]
    for _, case in ipairs {{"float32", 2e-5}, {"float64", 1e-12}, {"bfloat16", 0.04}} do
      local dtype, tolerance = torch[case[1]], case[2]
      torch.manual_seed(3)
      local X, G = (torch.randn(7, 3, 4, 4, {dtype = torch.float64}) * 2 + 10):to(dtype), torch.randn(7, 3, 4, 4):to(dtype)
      for _, affine in ipairs {true, false} do
        local a, b = nn.BatchNorm2d(3, {affine = affine}), nn.SyncBatchNorm(3, {affine = affine})
        if affine then
          for _, m in ipairs {a, b} do m.weight.data, m.bias.data = torch.tensor{1.0, 2.0, 0.5}, torch.tensor{0.0, 1.0, -1.0} end
        end
        if dtype == torch.float64 then a:double() b:double() end
        local x1 = X:clone():requires_grad_()
        local x2 = X[{{lo, hi}}]:clone():requires_grad_()
        local y1, y2 = a(x1), b(x2)
        assert(y2.dtype == dtype)
        y1:backward(G) y2:backward(G[{{lo, hi}}])
        if hi >= lo then
          near(y1[{{lo, hi}}]:detach():double(), y2:detach():double(), tolerance)
          near(x1.grad[{{lo, hi}}]:double(), x2.grad:double(), tolerance)
        end
        if affine then
          for _, name in ipairs {"weight", "bias"} do
            local g = b[name].grad:clone()
            dist.all_reduce(g)
            near(g, a[name].grad, tolerance * 50)
          end
        end
        for _, name in ipairs {"running_mean", "running_var"} do
          same(b[name])
          near(b[name], a[name], tolerance)
        end
        assert(b.num_batches_tracked:item() == 1)
        b:eval() a:eval()
        near(a(X):detach():double(), b(X):detach():double(), tolerance)
      end
    end]==])
end)

test("with DistributedDataParallel a network with converted norms learns as one process does", function()
  ranks.run(2, [==[
    local function build()
      torch.manual_seed(1)
      return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3), nn.BatchNorm1d(3))
    end
    local whole = build()
    local net = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(build()))
    assert(net.module[2]._name == "SyncBatchNorm" and net.module[6]._name == "SyncBatchNorm")
    local o1, o2 = optim.SGD(whole:parameters(), {lr = 0.05}), optim.SGD(net:parameters(), {lr = 0.05})
    torch.manual_seed(5)
    for step = 1, 10 do
      local x, y = torch.randn(8, 1, 6, 6), torch.randint(1, 4, {8})
      o1:zero_grad() F.cross_entropy(whole(x), y):backward() o1:step()
      local part = {R * 4 + 1, R * 4 + 4}
      o2:zero_grad() F.cross_entropy(net(x[{part}]), y[{part}]):backward() o2:step()
    end
    for i, p in ipairs(net:parameters()) do same(p) near(p:detach(), whole:parameters()[i]:detach(), 2e-4) end
    for i, b in ipairs(net:buffers()) do near(b:double(), whole:buffers()[i]:double(), 2e-4) end]==])
end)

test("convert_sync_batchnorm keeps what there is: parameters, statistics, evaluation, channels", function()
  ranks.run(1, [==[
    local norm = nn.BatchNorm3d(2, {momentum = 0.3, eps = 1e-3})
    norm.running_mean:fill_(2) norm:eval()
    local net = nn.Sequential(nn.Sequential(norm))
    local out = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    local made = out[1][1]
    assert(made._name == "SyncBatchNorm" and made.weight == norm.weight and made.momentum == 0.3 and made.eps == 1e-3)
    assert(not made.training and made.running_mean[1]:item() == 2)
    local ok, e = pcall(function() return nn.SyncBatchNorm(3)(torch.randn(1, 3)) end)
    assert(not ok and tostring(e):find("at least 2 values", 1, true), tostring(e))
    ok, e = pcall(function()
      local x = torch.randn(4, 2):requires_grad_()
      torch.autograd.grad(nn.SyncBatchNorm(2)(x):pow(2):sum(), {x}, {create_graph = true})
    end)
    assert(not ok and tostring(e):find("second derivatives", 1, true))]==])
end)

test("ranks whose networks part ways are told whose collectives met", function()
  ranks.run(2, [==[
    local class = nn.class("Two")
    function class:init()
      self.left = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
      self.right = nn.Linear(3, 1)
    end
    function class:forward(x) return (R == 0 and self.left(x) or self.right(x[{{}, {}, 1, 1}])):sum() end
    local net = DDP(class())
    local ok, e = pcall(function() net(torch.randn(2, 3, 5, 5)):backward() end)
    e = tostring(e)
    assert(not ok and e:find("ranks disagree", 1, true), e)
    assert(e:find("r0  all_gather float32 [9] of SyncBatchNorm", 1, true), e)
    assert(e:find("of DistributedDataParallel's gradients", 1, true), e)]==])
end)
