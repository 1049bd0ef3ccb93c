-- torch.distributed: every name in PyTorch's forms, as ranks that are processes of this program.
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local ranks = assert(loadfile(here .. "/ranks.lua", "t", _ENV))()
local dist = torch.distributed

test("without ranks there is one, and every call does what it does for one", function()
  check.no(dist.is_initialized())
  check.raises("distributed", "init_process_group", dist.get_rank)
  check.raises("distributed", "init_process_group", dist.all_reduce, torch.ones(1))
  dist.init_process_group()
  check.equal({dist.get_rank(), dist.get_world_size(), dist.get_backend()}, {0, 1, "gloo"})
  check.raises("distributed", "already", dist.init_process_group)
  local x = torch.tensor {1.0, 2.0}
  dist.all_reduce(x)
  dist.broadcast(x, 0)
  dist.reduce(x, {dst = 0, op = dist.ReduceOp.AVG})
  check.equal(x:tolist(), {1, 2})
  local list, objects = {torch.empty(2)}, {}
  check.yes(dist.all_gather(list, x, {async_op = true}):wait())
  check.equal(list[1]:tolist(), {1, 2})
  dist.all_gather_object(objects, {name = "a"})
  check.equal(objects[1].name, "a")
  dist.barrier()
  dist.monitored_barrier()
  check.raises("value", "nobody to talk to", dist.send, x, 0)
  dist.destroy_process_group()
  check.no(dist.is_initialized())
end)

test("backend nccl takes tensors of devices, in groups beside others, and says where there are none", function()
  ranks.run(2, [[
    torch.cuda.simulate(2)
    local g = dist.new_group({0, 1}, {backend = "nccl"})
    local device = {device = "cuda:" .. R}
    local x = torch.full({3}, R + 1.0, device)
    local work = dist.all_reduce(x, {group = g, async_op = true})
    work:wait()
    assert(dist.get_backend(g) == "nccl" and dist.is_nccl_available() and x:tolist()[3] == 3)
    local all = {torch.zeros(3, device), torch.zeros(3, device)}
    dist.all_gather(all, x * R, {group = g})
    assert(all[2]:sum():item() == 9 and all[1]:sum():item() == 0)
    local objects = {}
    dist.all_gather_object(objects, {rank = R}, g)
    assert(objects[2].rank == 1)
    if R == 0 then dist.send(x, {dst = 1, group = g}) else dist.recv(x, {src = 0, group = g}) end
    dist.barrier(g)
  ]])
  if not os.getenv "TYCHO_SIMULATE_CUDA" and torch.cuda.device_count() == 0 then
    check.raises("device", "there is none", dist.init_process_group, {backend = "nccl"})
  end
end)

test("collectives in all their forms give what PyTorch gives", function()
  ranks.run(3, [[
    local function is(t, want) local got = t:tolist() if type(want) ~= "table" then want, got = {want}, {got} end
      local a, b = torch.tensor(got):double(), torch.tensor(want):double()
      if not torch.equal(a, b) then error(("rank %d: %s"):format(R, tostring(t)), 2) end end
    local x = torch.tensor {R + 1.0, 2.0 * R}
    dist.all_reduce(x)
    is(x, {6, 6})
    x = torch.tensor {R + 1.0}
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    is(x, {6})
    x = torch.tensor {R + 1.0}
    dist.all_reduce(x, {op = dist.ReduceOp.AVG})
    is(x, {2})
    x = torch.tensor {1 << R}
    dist.all_reduce(x, dist.ReduceOp.BOR)
    is(x, {7})
    dist.broadcast(x, {src = 0})
    x = torch.full({2, 2}, R)
    dist.broadcast(x, 2)
    is(x, {{2, 2}, {2, 2}})
    x = torch.tensor {R}
    dist.reduce(x, 1, dist.ReduceOp.MAX)
    is(x, {R == 1 and 2 or R})
    local all = torch.empty(3, 2)
    dist.all_gather_into_tensor(all, torch.tensor {R * 1.0, 1})
    is(all, {{0, 1}, {1, 1}, {2, 1}})
    local list = {torch.empty(2), torch.empty(2), torch.empty(2)}
    dist.all_gather(list, torch.full({2}, R * 1.0))
    is(list[3], {2, 2})
    x = torch.empty(2)
    dist.reduce_scatter_tensor(x, torch.arange(6):float())
    is(x, {6 * R, 6 * R + 3})
    dist.reduce_scatter(x, {torch.ones(2), torch.ones(2) * 2, torch.ones(2) * 3})
    is(x, {3 * (R + 1), 3 * (R + 1)})
    x = torch.empty(3)
    dist.all_to_all_single(x, torch.tensor {10.0 * R, 10 * R + 1, 10 * R + 2})
    is(x, {R, 10 + R, 20 + R})
    -- rank r sends r + 1 rows to everybody
    x = torch.empty(6, 2)
    dist.all_to_all_single(x, torch.full({3 * (R + 1), 2}, R * 1.0), {1, 2, 3}, {R + 1, R + 1, R + 1})
    is(x:sum(2), {0, 2, 2, 4, 4, 4})
    local outs = {torch.empty(1), torch.empty(2), torch.empty(3)}
    local ins = {}
    for i = 1, 3 do ins[i] = torch.full({R + 1}, 10.0 * R + i) end
    dist.all_to_all(outs, ins)
    is(outs[3], {21 + R, 21 + R, 21 + R})
    list = R == 1 and {torch.empty(1), torch.empty(1), torch.empty(1)} or nil
    dist.gather(torch.tensor {R * 5.0}, list, 1)
    if R == 1 then is(torch.cat(list), {0, 5, 10}) end
    x = torch.empty(2)
    dist.scatter(x, R == 0 and {torch.zeros(2), torch.ones(2), torch.ones(2) * 2} or nil)
    is(x, {R, R})
    dist.barrier()
    dist.monitored_barrier {timeout = 30}
  ]])
end)

test("handles finish in any order, and the next operation waits by itself", function()
  ranks.run(2, [[
    local works, xs = {}, {}
    for i = 1, 64 do
      xs[i] = torch.full({100 * i}, i * 1.0)
      works[i] = dist.all_reduce(xs[i], {async_op = true})
    end
    for i = 64, 33, -1 do assert(works[i]:wait() and works[i]:is_completed()) end
    for i = 1, 64 do assert(xs[i]:sum():item() == 200 * i * i) end
    local list = {torch.zeros(1000), torch.zeros(1000)}
    local w = dist.all_gather(list, torch.full({1000}, R + 1.0), nil, true)
    w:wait()
    assert(list[2]:sum():item() == 2000)
    -- dropped without a word
    local y = torch.ones(100000)
    dist.all_reduce(y, {async_op = true})
    collectgarbage() collectgarbage()
    assert((y + 1):sum():item() == 300000)
  ]])
end)

test("messages of devices cross like those of the CPU, whichever rank receives first", function()
  ranks.run(2, [[
    torch.cuda.simulate(2)
    local other, n, device = 1 - R, 300000, {device = "cuda:" .. R}
    for _, group in ipairs {dist.group.WORLD, dist.new_group({0, 1}, {backend = "nccl"})} do
      for _, first in ipairs {"irecv", "isend"} do
        local got, given = torch.zeros(2, n, device), torch.full({n}, R + 1.0, device)
        local receive = function() return dist.irecv(got[2], {src = other, group = group}) end
        local send = function() return dist.isend(given, {dst = other, group = group}) end
        local a = first == "irecv" and receive() or send()
        local b = first == "irecv" and send() or receive()
        given:zero_()  -- what was sent is what it was
        assert(got:sum():item() == n * (other + 1))  -- whoever looks waits
        a:wait()
        b:wait()
        assert(got[1]:sum():item() == 0)
      end
      local got = torch.zeros(n, device)
      local list = dist.batch_isend_irecv {dist.P2POp(dist.irecv, got, other, group), dist.P2POp(dist.isend, torch.ones(n, device) * R, other, group)}
      for _, work in ipairs(list) do work:wait() end
      assert(got:mean():item() == other)
    end
  ]])
end)

test("messages, with and without waiting, from anybody, in lists", function()
  ranks.run(3, [[
    local right, left = (R + 1) % W, (R - 1) % W
    local got = torch.zeros(300000)
    local w = dist.isend(torch.full({300000}, R * 1.0), right)
    assert(dist.recv(got, left) == left and got[{1}]:item() == left)
    w:wait()
    got = torch.zeros(4, 2)
    local works = dist.batch_isend_irecv {dist.P2POp(dist.irecv, got:t(), left), dist.P2POp(dist.isend, torch.ones(2, 4) * R, right)}
    for _, work in ipairs(works) do work:wait() end
    assert(got:sum():item() == 8 * left)
    if R == 0 then
      local sum = 0
      for _ = 1, 2 do
        local t = torch.zeros(1)
        local from = dist.recv {t, tag = 3}
        assert(t:item() == from)
        sum = sum + from
      end
      assert(sum == 3)
    else
      dist.send(torch.tensor {R * 1.0}, {dst = 0, tag = 3})
    end
    local list = {}
    if R == 1 then dist.send_object_list({"a", {b = 2}}, {dst = 2}) elseif R == 2 then dist.recv_object_list(list, {src = 1}) assert(list[2].b == 2) end
    local ok, err = pcall(dist.send, torch.ones(1), R)
    assert(not ok and err.kind == "value", tostring(err))
  ]])
end)

test("objects cross by value: data and tensors, no functions", function()
  ranks.run(2, [[
    local list = {}
    dist.all_gather_object(list, {rank = R, t = torch.full({R + 1}, R)})
    assert(list[1].rank == 0 and list[2].t:numel() == 2 and #list == 2)
    local objects = R == 1 and {"x", nil, {1, 2}} or {}
    if R == 1 then objects = {"x", 7, {1, 2}} end
    dist.broadcast_object_list(objects, 1)
    assert(objects[1] == "x" and objects[3][2] == 2)
    local all = {}
    dist.gather_object("from " .. R, R == 0 and all or nil)
    if R == 0 then assert(all[2] == "from 1") end
    local mine = {}
    dist.scatter_object_list(mine, R == 0 and {{a = 1}, ("long"):rep(1000)} or nil, {src = 0})
    assert(R == 0 and mine[1].a == 1 or #mine[1] == 4000)
    local ok, err = pcall(dist.all_gather_object, {}, print)
    assert(not ok and tostring(err):find("function"), tostring(err))
  ]])
end)

test("groups of some ranks, and groups of groups", function()
  ranks.run(4, [[
    local odd = dist.new_group {1, 3}
    local low = dist.new_group {ranks = {1, 0}}
    assert(dist.get_rank(odd) == (R % 2 == 1 and R // 2 or -1))
    assert(dist.get_world_size(low) == (R < 2 and 2 or -1))
    local x = torch.tensor {1.0}
    dist.all_reduce(x, {group = odd})
    dist.all_reduce(x, nil, low)
    assert(x:item() == ({[0] = 3, 3, 1, 2})[R], R .. " " .. x:item())
    if R % 2 == 1 then
      assert(dist.get_process_group_ranks(odd)[2] == 3 and dist.get_global_rank(odd, 1) == 3 and dist.get_group_rank(odd, 3) == 1)
      local y = torch.tensor {R}
      dist.broadcast(y, 3, odd)
      assert(y:item() == 3)
      dist.broadcast(y, {group_src = 0, group = odd})
      local ok, err = pcall(dist.broadcast, y, 0, odd)
      assert(not ok and err.kind == "value" and tostring(err):find("no rank of this group"), tostring(err))
      dist.destroy_process_group(odd)
      assert(not pcall(dist.get_rank, odd))
    else
      assert(odd == dist.GroupMember.NON_GROUP_MEMBER)
    end
    local mine, all = dist.new_subgroups(2)
    assert(#all == 2 and dist.get_world_size(mine) == 2)
    local z = torch.tensor {R * 1.0}
    dist.all_reduce(z, {group = mine})
    assert(z:item() == (R < 2 and 1 or 5))
    assert(dist.group.WORLD ~= mine and dist.get_world_size(dist.group.WORLD) == 4)
    local ok, err = pcall(dist.new_group, R == 2 and {0, 1} or {0, 2})
    assert(not ok and err.kind == "distributed" and tostring(err):find("r2  gloo of ranks 0, 1"), tostring(err))
  ]])
end)

test("ranks that disagree are all told who asked for what, and can go on", function()
  local out = ranks.run(3, [[
    local x = torch.ones(R == 1 and 11 or 10)
    local ok, err = pcall(dist.all_reduce, x)
    assert(not ok and err.kind == "distributed" and err.reason == "disagree" and err.op == "all_reduce" and err.seq == 1)
    assert(#err.ranks == 1 and err.ranks[1] == 1 and err.code == "COLL-1")
    print(err)
    local y = torch.ones(2)
    dist.all_reduce(y)
    assert(y:sum():item() == 6)
  ]])
  for r = 0, 2 do
    check.contains(out[r].out, "ranks disagree in collective 1 of the world; nothing was sent")
    check.contains(out[r].out, "r1  all_reduce sum float32 [11]")
    check.contains(out[r].out, "r2  all_reduce sum float32 [10]")
  end
end)

test("an early end and an error of one rank are told to the others", function()
  local out = ranks.run(2, [[
    dist.all_reduce(torch.ones(1))
    if R == 1 then return end
    dist.all_reduce(torch.ones(1))
  ]], {free = true})
  check.equal(out[1].status, 0)
  check.equal(out[0].status, 1)
  check.contains(out[0].err, "rank 1 left after collective 1")
  out = ranks.run(2, [[
    dist.all_reduce(torch.ones(1))
    if R == 1 then error("my own mistake") end
    local ok, err = pcall(dist.all_reduce, torch.ones(1))
    assert(not ok and err.reason == "left" and err.ranks[1] == 1, tostring(err))
    print(err)
  ]], {free = true})
  check.equal(out[0].status, 0)
  check.contains(out[0].out, "my own mistake")
end)

test("survivors go on without a rank that crashed", function()
  local out = ranks.run(3, [[
    dist.all_reduce(torch.ones(1))
    if R == 1 then os.execute("kill -SEGV $PPID") end
    local ok, err = pcall(function() while true do dist.all_reduce(torch.ones(1000)) end end)
    assert(not ok and err.reason == "died" and err.ranks[1] == 1, tostring(err))
    assert(not pcall(dist.all_reduce, torch.ones(1)))
    dist.shrink_group(err.ranks)
    assert(dist.get_world_size() == 2 and dist.get_rank() == (R == 2 and 1 or 0))
    local x = torch.ones(1)
    dist.all_reduce(x)
    assert(x:item() == 2)
    print "went on"
  ]], {free = true})
  for _, r in ipairs {0, 2} do check.contains(out[r].out, "went on", out[r].err) end
end)

test("collectives of torch.distributed.nn.functional have gradients", function()
  ranks.run(2, [[
    local DF = dist.nn.functional
    local function leaf(...) return torch.tensor({...}, {requires_grad = true}) end
    local function grad(f, x, want)
      f(x):backward()
      for i, g in ipairs(want) do
        if math.abs(x.grad[{i}]:item() - g) > 1e-6 then error(("rank %d: %s"):format(R, tostring(x.grad)), 2) end
      end
    end
    local k = R + 1
    grad(function(x) return (DF.all_reduce(x) * k):sum() end, leaf(1.0, 2.0), {3, 3})
    grad(function(x) return (DF.all_reduce(x, dist.ReduceOp.AVG) * k):sum() end, leaf(1.0), {1.5})
    grad(function(x) return (DF.broadcast(x, 1) * k):sum() end, leaf(5.0), {R == 1 and 3 or 0})
    grad(function(x) return (DF.reduce(x, 0) * k):sum() end, leaf(5.0), {1})
    grad(function(x) local l = DF.all_gather(x) return (l[1] * k + l[2] * 10 * k):sum() end, leaf(1.0), {R == 0 and 3 or 30})
    grad(function(x) return (DF.reduce_scatter(torch.empty(1), {x, x * 2}) * k):sum() end, leaf(1.0), {1 + 2 * 2})
    grad(function(x) local l = DF.all_to_all({}, {x, x * 3}) return (l[1] + l[2] * 7):sum() * k end, leaf(1.0), {R == 0 and 1 + 3 * 2 or 7 + 21 * 2})
    grad(function(x) local l = DF.gather(x, 1) return (l[1] * 2 + l[2] * 5):sum() end, leaf(1.0), {R == 0 and 2 or 5})
    grad(function(x) return (DF.scatter({x, x * 3}, 0) * k):sum() end, leaf(1.0), {R == 0 and 1 + 3 * 2 or 0})
    grad(function(x) return (DF.all_to_all_single(torch.empty(2), x) * torch.tensor {1.0, 10.0}):sum() * k end, leaf(1.0, 1.0), R == 0 and {1, 2} or {10, 20})
  ]])
end)

test("a parameter's values may be exchanged, and a graph that needed them says so", function()
  ranks.run(2, [[
    local p = nn.Parameter(torch.full({2}, R + 1.0))
    dist.broadcast(p, 1)
    assert(p:sum():item() == 4 and p.requires_grad)
    local x = torch.ones(2, {requires_grad = true})
    local y = x * 2
    local z = (y * y):sum()
    dist.all_reduce(y)
    local ok, err = pcall(z.backward, z)
    assert(not ok and err.kind == "autograd", tostring(err))
  ]])
end)

test("wrong arguments are named", function()
  dist.init_process_group()
  local raises = function(kind, text, f, ...) check.raises(kind, text, f, ...) end
  raises("argument", "not table", dist.all_reduce, {})
  raises("argument", "ReduceOp", dist.all_reduce, torch.ones(1), "sum")
  raises("dtype", "a mean of int64", dist.all_reduce, torch.ones(1):long(), dist.ReduceOp.AVG)
  raises("dtype", "bits", dist.all_reduce, torch.ones(1), dist.ReduceOp.BAND)
  raises("argument", "src", dist.broadcast, torch.ones(1))
  raises("value", "no rank of this group", dist.broadcast, torch.ones(1), 3)
  raises("shape", "group 1 ranks", dist.all_gather, {}, torch.ones(1))
  raises("shape", "do not hold", dist.all_gather_into_tensor, torch.ones(3), torch.ones(2))
  raises("dtype", "input", dist.all_gather_into_tensor, torch.ones(2), torch.ones(2):long())
  raises("argument", "process group", dist.all_reduce, torch.ones(1), nil, "world")
  raises("value", "no rank of the world", dist.new_group, {4})
  raises("argument", "isend or dist.irecv", dist.P2POp, print, torch.ones(1))
  raises("autograd", "SUM and AVG", function()
    dist.nn.functional.all_reduce(torch.ones(1, {requires_grad = true}), dist.ReduceOp.MAX):sum():backward()
  end)
  dist.destroy_process_group()
end)

test("the table of collectives has a row for each size, and all elements are right", function()
  local script = here .. "/../../../scripts/bench_collectives.lua"
  local r = check.tycho {script, "-n", "3", "-e", "100K", "-f", "1000", "--iters", "2", "--ops", "all"}
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "# all elements were right")
  check.equal(select(2, r.out:gsub("\nsendrecv", "")), 2)
  check.contains(check.tycho({script, "--ops", "sum"}).err, "there is no collective sum")
end)

test("groups are made by enumeration, and backends are asked for by name", function()
  ranks.run(4, [==[
    local mine, all = dist.new_subgroups_by_enumeration {{0, 2}, {1, 3}}
    assert(#all == 2 and dist.get_world_size(mine) == 2)
    local x = torch.tensor {R + 1.0}
    dist.all_reduce(x, {group = mine})
    assert(x:item() == (R % 2 == 0 and 4 or 6))
    local ok, e = pcall(dist.new_subgroups_by_enumeration, {{0, 1}, {1, 2}})
    assert(not ok and tostring(e):find("in two groups", 1, true))
    assert(dist.is_backend_available "gloo" and not dist.is_backend_available "ucc" and not dist.is_backend_available(3))
    assert(dist.default_pg_timeout == 600)]==])
end)
