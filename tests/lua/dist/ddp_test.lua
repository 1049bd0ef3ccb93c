-- DistributedDataParallel on several processes: the mean over ranks, whatever a loss leads to.
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local ranks = assert(loadfile(here .. "/ranks.lua", "t", _ENV))()

-- Two networks of equal weights: one for the whole batch on every rank, one that is split over them.
local twins = [==[
local function twins(build, options)
  torch.manual_seed(1)
  local whole = build()
  torch.manual_seed(1 + R)  -- rank 0's weights are the ones that count
  return whole, DDP(build(), options)
end
local function mlp()
  return nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 5))
end
local function mine(t) local n = #t // W return t[{{R * n + 1, R * n + n}}] end
local function compare(whole, net, tolerance)
  for i, p in ipairs(net:parameters()) do
    same(p)
    near(p:detach(), whole:parameters()[i]:detach(), tolerance)
  end
end
]==]

for _, n in ipairs {1, 2, 3} do
  test(("%d ranks with B samples each take the steps of one process with %d B"):format(n, n), function()
    ranks.run(n, twins .. [==[
      for _, options in ipairs {{}, {bucket_cap_mb = 0.005}, {find_unused_parameters = true, static_graph = true, gradient_as_bucket_view = true}} do
        local whole, net = twins(mlp, options)
        local o1, o2 = optim.SGD(whole:parameters(), {lr = 0.1, momentum = 0.9}), optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
        torch.manual_seed(7)
        for step = 1, 20 do
          local x, y = torch.randn(8 * W, 20), torch.randint(1, 6, {8 * W})
          o1:zero_grad() F.cross_entropy(whole(x), y):backward() o1:step()
          o2:zero_grad() F.cross_entropy(net(mine(x)), mine(y)):backward() o2:step()
        end
        compare(whole, net)
        assert(options.bucket_cap_mb == nil and #net:buckets() == 1 or #net:buckets() > 1 or not options.bucket_cap_mb)
        assert(net:parameters()[1].grad:is_contiguous())
      end]==])
  end)
end

test("buckets follow the order of the first backward, on all ranks rank 0's", function()
  ranks.run(2, twins .. [==[
    local Net = nn.class("Net")
    function Net:init() for _, k in ipairs {"a", "b", "c"} do self[k] = nn.Linear(4, 4) end end
    function Net:forward(x) return self.b(self.a(self.c(x))) end
    local net = DDP(Net(), {bucket_cap_mb = 1e-6})
    assert(net:buckets()[1][1] == "c.bias")
    net(torch.randn(2, 4)):sum():backward()
    local first, last = net:buckets()[1][1], net:buckets()[6][1]
    assert(first:find "^b%." and last:find "^c%.", first .. last)
    same(net.module.a.weight.grad)]==])
end)

test("two backwards before a step, no_sync and gradients set by hand add up to the whole batch's", function()
  ranks.run(2, twins .. [==[
    local x, y = torch.randn(8, 20, {generator = torch.Generator():manual_seed(5)}), torch.tensor{1, 2, 3, 4, 5, 1, 2, 3}
    local function loss(net, i) return F.cross_entropy(net(mine(x[{{i, i + 3}}])), mine(y[{{i, i + 3}}])) end
    local function check_against(run)
      local whole, net = twins(mlp)
      for i = 1, 5, 4 do F.cross_entropy(whole(x[{{i, i + 3}}]), y[{{i, i + 3}}]):backward() end
      run(net)
      for i, p in ipairs(net:parameters()) do same(p.grad) near(p.grad, whole:parameters()[i].grad) end
    end
    check_against(function(net) loss(net, 1):backward() loss(net, 5):backward() end)
    check_against(function(net)
      net:no_sync(function() loss(net, 1):backward() end)
      loss(net, 5):backward()
    end)
    check_against(function(net)
      do local _ <close> = net:no_sync() loss(net, 1):backward() end
      loss(net, 5):backward()
    end)
    check_against(function(net)
      loss(net, 5):backward()
      local kept = {}
      for i, p in ipairs(net:parameters()) do kept[i] = p.grad:clone() end
      net:zero_grad()
      for i, p in ipairs(net:parameters()) do p.grad = kept[i] end  -- a tensor that is no view of a bucket
      loss(net, 1):backward()
    end)
    -- An error inside leaves the scope.
    local _, net = twins(mlp)
    pcall(net.no_sync, net, function() error "x" end)
    assert(net.require_backward_grad_sync)
    -- Gradients of two passes over one graph are averaged both times.
    local l = loss(net, 1)
    l:backward{retain_graph = true} l:backward()
    same(net:parameters()[1].grad)
    -- Frozen gradients: zeroed in place, then added to.
    net:zero_grad{set_to_none = false}
    loss(net, 1):backward()
    same(net:parameters()[1].grad)]==])
end)

test("parameters that a loss does not lead to are found: on one rank, on all, changing from step to step", function()
  ranks.run(2, [==[
    local Net = nn.class("Net")
    function Net:init() for _, k in ipairs {"a", "b", "c"} do self[k] = nn.Linear(4, 4) end end
    function Net:forward(x, way) return (way == "a" and self.a or self.b)(x) end
    torch.manual_seed(1)
    local net = DDP(Net(), {bucket_cap_mb = 1e-6})
    local m = net.module
    local x = torch.full({2, 4}, 1.0 + R)
    net(x, R == 0 and "a" or "b"):sum():backward()
    for _, p in ipairs {m.a.weight, m.b.weight} do same(p.grad) end
    near(m.a.weight.grad, torch.full({4, 4}, 1.0))  -- 2 x 1 from rank 0, nothing from rank 1
    near(m.b.weight.grad, torch.full({4, 4}, 2.0))
    assert(m.c.weight.grad == nil and m.c.bias.grad == nil)
    net:zero_grad()
    for step = 1, 4 do
      local way = (step + R * (step // 2)) % 2 == 0 and "a" or "b"
      net:zero_grad()
      net(x, way):sum():backward()
      for _, p in ipairs {m.a, m.b} do
        local has = torch.tensor(p.weight.grad and 1 or 0)
        same(has)
        if p.weight.grad then same(p.weight.grad) end
      end
    end
    -- What has a gradient keeps it where no rank adds to it.
    net:zero_grad() m.c.weight.grad = torch.full({4, 4}, 3.0)
    net(x, "a"):sum():backward()
    near(m.c.weight.grad, torch.full({4, 4}, 3.0))]==])
end)

test("shared parameters, frozen ones and several dtypes", function()
  ranks.run(2, twins .. [==[
    local Tied = nn.class("Tied")
    function Tied:init() self.a = nn.Linear(5, 5) self.b = nn.Linear(5, 5) self.b.weight = self.a.weight end
    function Tied:forward(x) return self.b(self.a(x):tanh()) end
    local whole, net = twins(Tied)
    torch.manual_seed(3)
    local x = torch.randn(4, 5)
    whole(x):pow(2):mean():backward()
    net(mine(x)):pow(2):mean():backward()
    for i, p in ipairs(net:parameters()) do near(p.grad, whole:parameters()[i].grad) end

    local frozen = mlp() frozen[1].weight.requires_grad = false
    net = DDP(frozen)
    net(torch.randn(3, 20)):sum():backward()
    assert(frozen[1].weight.grad == nil) same(frozen[3].weight.grad)
    frozen[1].weight.requires_grad = true
    local ok, e = pcall(function() net(torch.randn(3, 20)):sum():backward() end)
    assert(not ok and tostring(e):find("0.weight", 1, true), tostring(e))

    local Mixed = nn.class("Mixed")
    function Mixed:init() self.a = nn.Linear(4, 4) self.b = nn.Linear(4, 4):double() self.c = nn.Linear(4, 4):bfloat16() end
    function Mixed:forward(x) return self.c(self.b(self.a(x):double()):bfloat16()):float() end
    torch.manual_seed(1)
    net = DDP(Mixed())
    assert(#net:buckets() == 3)
    net(torch.full({2, 4}, 1.0 + R)):sum():backward()
    for _, p in ipairs(net:parameters()) do assert(p.grad.dtype == p.dtype) same(p.grad:double()) end]==])
end)

test("a loss of two forwards is one pass, and losses of two networks reduce in one order", function()
  ranks.run(2, twins .. [==[
    local whole, net = twins(mlp, {bucket_cap_mb = 0.005})
    local x = torch.randn(4, 20, {generator = torch.Generator():manual_seed(3)})
    local l = (net(mine(x)) + net(mine(x) * 2)):pow(2):mean()
    l:backward()
    local both = whole(x) + whole(x * 2)
    both:pow(2):mean():backward()
    for i, p in ipairs(net:parameters()) do near(p.grad, whole:parameters()[i].grad) end
    local other = DDP(nn.Linear(5, 3), {bucket_cap_mb = 1e-6})
    net:zero_grad()
    other(net(mine(x))):sum():backward()
    for _, p in ipairs(net:parameters()) do same(p.grad) end
    for _, p in ipairs(other:parameters()) do same(p.grad) end
    -- A derivative of the derivative inside the loss, and checkpoints.
    net:zero_grad()
    local z = mine(x):detach():clone():requires_grad_()
    local g = torch.autograd.grad(net(z):sum(), {z}, {create_graph = true})
    g:pow(2):sum():backward()
    same(net.module[1].weight.grad)
    net:zero_grad()
    torch.utils.checkpoint.checkpoint(net, mine(x)):sum():backward()
    same(net.module[1].weight.grad)
    local ok, e = pcall(function() net(mine(x)):sum():backward{create_graph = true} end)
    assert(not ok and e.kind == "autograd")]==])
end)

test("modules that differ between ranks are refused on every rank with the first difference", function()
  local out = ranks.run(2, [==[
    local ok, e = pcall(DDP, nn.Sequential(nn.Linear(4, 4), nn.Linear(4, R == 0 and 2 or 3)))
    print(e.kind, e.reason) print(tostring(e))
    ok, e = pcall(DDP, nn.BatchNorm1d(3, {track_running_stats = R == 0}))
    print(tostring(e))
    ok, e = pcall(DDP, nn.ReLU())
    print(tostring(e))
    ok, e = pcall(DDP, nn.Linear(2, 2), {find_unused = true})
    print(tostring(e))
    ok, e = pcall(DDP, nn.Linear(2, 2), {shares = {1}})
    print(tostring(e))]==])
  for r = 0, 1 do
    check.contains(out[r].out, "distributed\tdisagree")
    check.contains(out[r].out, "r0  1.weight torch.float32 [2, 4]")
    check.contains(out[r].out, "r1  1.weight torch.float32 [3, 4]")
    check.contains(out[r].out, "r0  buffer running_mean")
    check.contains(out[r].out, "nothing")
    check.contains(out[r].out, "no parameter of the module requires grad")
    check.contains(out[r].out, 'no argument "find_unused"')
    check.contains(out[r].out, "shares has 1 numbers for 2 ranks")
  end
end)

test("join: ranks with fewer batches answer for zeros, and all end with the last one's state", function()
  ranks.run(3, twins .. [==[
    local function run(options, wanted)
      torch.manual_seed(1)
      local net = DDP(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), {bucket_cap_mb = 1e-5})
      local opt = optim.SGD(net:parameters(), {lr = 0.1})
      local steps, batches = 0, ({2, 5, 0})[R + 1]
      net:join(options, function()
        for i = 1, batches do
          opt:zero_grad()
          torch.manual_seed(10 * i + R)
          net(torch.randn(4, 3)):pow(2):mean():backward()
          opt:step()
          steps = steps + 1
        end
      end)
      assert(steps == batches)
      for _, p in ipairs(net:parameters()) do same(p) end
      for _, b in ipairs(net:buffers()) do same(b:double()) end
      assert(net.module[2].num_batches_tracked:item() == 5)
    end
    run(nil) run({}) run({divide_by_initial_world_size = false}) run {divide_by_initial_world_size = true}

    -- What is divided by: x = 1 on the ranks that still have batches.
    for _, initial in ipairs {true, false} do
      local net = DDP(nn.Linear(1, 1, {bias = false}))
      local seen = {}
      do
        local _ <close> = net:join{divide_by_initial_world_size = initial}
        for i = 1, R + 1 do
          net:zero_grad()
          net(torch.ones(1, 1)):sum():backward()
          seen[i] = net.module.weight.grad:item()
        end
      end
      for i, g in ipairs(seen) do near(g, initial and (4 - i) / 3 or 1) end
    end

    -- The first that has none left ends it for all.
    local net = DDP(nn.Linear(1, 1))
    local ok, e = pcall(net.join, net, {throw_on_early_termination = true}, function()
      for i = 1, R + 1 do net(torch.ones(1, 1)):sum():backward() end
    end)
    assert(not ok and e.kind == "distributed" and e.reason == "left", tostring(e))
    net(torch.ones(1, 1)):sum():backward()
    same(net.module.weight.grad)]==])
end)

test("shares weigh the gradients of ranks with unequal batches: the mean is that of all samples", function()
  ranks.run(2, twins .. [==[
    local whole, net = twins(mlp, {shares = {2, 1}})
    local x, y = torch.randn(9, 20, {generator = torch.Generator():manual_seed(5)}), torch.tensor{1, 2, 3, 4, 5, 1, 2, 3, 4}
    F.cross_entropy(whole(x), y):backward()
    local part = R == 0 and {1, 6} or {7, 9}
    F.cross_entropy(net(x[{part}]), y[{part}]):backward()
    for i, p in ipairs(net:parameters()) do same(p.grad) near(p.grad, whole:parameters()[i].grad, 1e-6) end]==])
end)

test("buffers are rank 0's before a training forward, and left alone where told", function()
  ranks.run(2, [==[
    local net = DDP(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))
    local norm = net.module[1]
    net(torch.randn(4, 2) + R)
    local mine = norm.running_mean:clone()
    net:eval()
    if R == 0 then torch.no_grad(function() net(torch.randn(4, 2)) end) end  -- one rank alone may evaluate
    assert(torch.equal(norm.running_mean, mine))
    net:train()
    local first = net(torch.randn(4, 2))
    net(torch.randn(4, 2))  -- buffers arrive before the first pass's backward
    first:sum():backward()
    local seen = norm.num_batches_tracked
    assert(seen:item() == 3)
    local alone = DDP(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)), {broadcast_buffers = false})
    alone(torch.full({4, 2}, 1.0 + R))
    alone(torch.full({4, 2}, 1.0 + R))
    near(alone.module[1].running_mean[1]:item(), 0.19 * (1 + R))]==])
end)

test("mixed precision: one rank's infinity skips the step of all", function()
  ranks.run(2, [==[
    torch.manual_seed(1)
    local net = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    local more = nn.Linear(4, 2)  -- each rank's own
    local opt = optim.SGD({{params = net:parameters()}, {params = more:parameters()}}, {lr = 0.1})
    local scaler = torch.amp.GradScaler{init_scale = 1024.0}
    for step = 1, 4 do
      opt:zero_grad()
      local x = torch.randn(3, 4)
      local l = torch.autocast("cpu", {dtype = torch.bfloat16}, function() return net(x):float():pow(2):mean() + more(x):float():pow(2):mean() end)
      scaler:scale(l):backward()
      if step == 2 and R == 1 then more.weight.grad:fill_(math.huge) end  -- no other rank can see it
      scaler:step(opt)
      scaler:update()
    end
    assert(scaler.skipped_steps == 1 and scaler:get_scale() == 512.0)
    for _, p in ipairs(net:parameters()) do same(p) end]==])
end)

test("inside join, too, ranks skip a step together, and end with one scale; different scales are told", function()
  ranks.run(3, [==[
    torch.manual_seed(1)
    local net = DDP(nn.Linear(4, 2))
    local more = nn.Linear(4, 2)  -- each rank's own
    local opt = optim.SGD({{params = net:parameters()}, {params = more:parameters()}}, {lr = 0.1})
    local scaler = torch.amp.GradScaler{init_scale = 1024.0}
    local function step(bad)
      opt:zero_grad()
      local x = torch.randn(3, 4)
      scaler:scale(net(x):pow(2):mean() + more(x):pow(2):mean()):backward()
      if bad then more.weight.grad:fill_(math.huge) end
      scaler:step(opt)
      scaler:update()
    end
    net:join(function()
      for i = 1, R + 1 do step(R == 2 and i >= 2) end  -- rank 2's second step is also rank 1's
    end)
    assert(scaler.skipped_steps == R, scaler.skipped_steps)
    assert(scaler:get_scale() == 256.0, scaler:get_scale())
    for _, p in ipairs(net:parameters()) do same(p) end

    if R == 1 then scaler:update(99.0) end
    local ok, e = pcall(step)
    assert(not ok and e.kind == "distributed" and e.reason == "disagree" and e.ranks[1] == 1, tostring(e))
    assert(tostring(e):find("rank 0 has multiplied its loss by 256, rank 1 by 99", 1, true), tostring(e))
    assert(tostring(e):find("scaler:update(256)", 1, true), tostring(e))]==])
end)

test("state is saved by rank 0 and goes on elsewhere, with and without the prefix", function()
  local path = check.temp("state.pt")
  ranks.run(2, ("local path = %q"):format(path) .. [==[

    torch.manual_seed(R)
    local net = DDP(nn.Linear(3, 2))
    if R == 0 then torch.save({whole = net:state_dict(), inner = net.module:state_dict()}, path) end
    dist.barrier()
    local saved = torch.load(path, {map_location = "cpu"})
    assert(saved.whole["module.weight"] and saved.inner.weight)
    local other = DDP(nn.Linear(3, 2))
    other:load_state_dict(saved.whole)
    other.module:load_state_dict(saved.inner)
    local plain = nn.Linear(3, 2)
    plain:load_state_dict(saved.whole, {strip = "module."})
    assert(torch.equal(plain.weight, net.module.weight))
    local ok, e = pcall(other.load_state_dict, other, saved.inner)
    assert(not ok and tostring(e):find("module:load_state_dict", 1, true), tostring(e))]==])
end)

test("an error on one rank is named on the others, and no rank hangs", function()
  local out = ranks.run(2, [==[
    local net = DDP(nn.Linear(3, 2))
    local x = torch.randn(2, 3)
    if R == 1 then net.module.weight:register_hook(function() error "rank 1's own mistake" end) end
    net(x):sum():backward()]==], {free = true})
  check.yes(out[0].status ~= 0 and out[1].status ~= 0)
  check.contains(out[1].err, "rank 1's own mistake")
  check.contains(out[0].err, "rank 1")
end)

test("a module may be wrapped again, and goes on alone when the group is gone", function()
  ranks.run(2, [==[
    local inner = nn.Linear(3, 2)
    local first = DDP(inner, {shares = {1, 3}})
    local net = DDP(inner)
    net(torch.full({1, 3}, 1.0 + R)):sum():backward()
    near(inner.weight.grad, torch.full({2, 3}, 1.5))
    net:zero_grad()
    net.module(torch.full({1, 3}, 1.0 + R)):sum():backward()  -- reaches the same parameters
    near(inner.weight.grad, torch.full({2, 3}, 1.5))
    first = nil
    dist.destroy_process_group()
    net:zero_grad()
    inner(torch.full({1, 3}, 1.0 + R)):sum():backward()
    near(inner.weight.grad, torch.full({2, 3}, 1.0 + R))
    local ok, e = pcall(net, torch.ones(1, 3))
    assert(not ok and tostring(e):find("net.module goes on alone", 1, true), tostring(e))
    ok, e = pcall(DDP, inner)
    assert(not ok and e.kind == "distributed", tostring(e))]==])
end)

test("each rank computes on a device of its own", function()
  local out = ranks.run(2, [==[
    torch.cuda.simulate(2)
    torch.manual_seed(1)
    local net = DDP(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)):to("cuda:" .. R), {device_ids = {R}})
    for i = 1, 3 do
      net:zero_grad()
      local y = net(torch.full({2, 4}, 1.0 + R) + torch.tensor{{0.0}, {i}})
      assert(tostring(y.device) == "cuda:" .. R)
      y:pow(2):sum():backward()
      same(net.module[1].weight.grad:cpu())
    end
    local ok, e = pcall(DDP, nn.Sequential(nn.Linear(2, 2):cuda(R), nn.Linear(2, 2):cuda(1 - R)), {device_ids = {R}})
    assert(not ok and e.kind == "device" and e.message:find("no device_ids for a network over several devices", 1, true), tostring(e))
    local converted = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(4))):to("cuda:" .. R))
    converted(torch.randn(3, 4, {device = "cuda:" .. R})):pow(3):sum():backward()
    same(converted.module[1].running_var:cpu())]==])
end)

test("a rank whose loss leads to no parameter does not mix its steps with those of others", function()
  local out = ranks.run(2, [==[
    local net = DDP(nn.Linear(3, 2))
    local x, other = torch.ones(1, 3), torch.ones(1):requires_grad_()
    local ok, e = pcall(function()
      for step = 1, 3 do
        net:zero_grad()
        local y = net(x)
        if R == 1 and step == 2 then other:sum():backward() else y:sum():backward() end
      end
    end)
    assert(not ok and e.kind == "distributed" and e.reason == "disagree", tostring(e))
    print((tostring(e)))]==])
  for r = 0, 1 do check.contains(out[r].out, "ranks are at different steps") end
end)
