-- Group l of the benchmark on Tycho: several processes. Prints one JSON line per task, as tasks.lua does; "threads" is the
-- number of ranks, and 1 is one process with the threads of all cores. ranks.py is the other side.
--   tycho tests/bench/ranks.lua WORLD            tycho tests/bench/ranks.lua spawn WORLD

local function first_sum()
  local dist = torch.distributed
  dist.init_process_group "gloo"
  dist.all_reduce(torch.zeros(1))
  dist.destroy_process_group()
end

local function tasks(rank, world)
  local nn, F, dist = torch.nn, torch.nn.functional, torch.distributed

  -- `inner` runs per sample, the least of the samples; all ranks begin a sample together.
  local function measure(task, samples, inner, run)
    local all = {}
    for i = 0, samples do
      if world > 1 then dist.barrier() end
      local began = torch.perf_counter()
      for _ = 1, inner do run() end
      all[i] = (torch.perf_counter() - began) / inner * 1e6
    end
    table.sort(all)
    if rank > 0 then return end
    print(('{"task": "l.%s", "peer": "tycho", "threads": %d, "min_us": %.3f, "median_us": %.3f, "n": %d, "inner": %d}')
      :format(task, world, all[1], all[#all // 2 + 1], samples, inner))
    io.stdout:flush()
  end

  if world > 1 then
    torch.set_num_threads(1)
    dist.init_process_group "gloo"
    for _, size in ipairs {{"4B", 1, 200}, {"1KB", 256, 200}, {"1MB", 1 << 18, 20}, {"64MB", 1 << 24, 1}} do
      local t = torch.zeros(size[2])
      measure("all_reduce_" .. size[1], 8, size[3], function() dist.all_reduce(t) end)
    end
  end

  local batch = 64 // world  -- as many samples in a step of all ranks together
  local nets = {
    {"mlp", {784}, nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), 100},
    {"cnn", {1, 28, 28}, nn.Sequential(
      nn.Conv2d(1, 16, 5, {padding = 2}), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(16, 32, 5, {padding = 2}), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Linear(32 * 7 * 7, 10)), 20}}
  for _, it in ipairs(nets) do
    local name, shape, net, inner = table.unpack(it)
    local model = world > 1 and nn.parallel.DistributedDataParallel(net) or net
    local opt = torch.optim.SGD(model:parameters(), {lr = 0.01})
    local x, y = torch.randn(batch, table.unpack(shape)), torch.randint(1, 11, {batch})
    measure("train_" .. name, 12, inner, function()
      opt:zero_grad()
      F.cross_entropy(model(x), y):backward()
      opt:step()
    end)
  end
  if world > 1 then dist.destroy_process_group() end
end

local world = math.tointeger(arg[#arg])
if arg[1] == "spawn" then
  local began = torch.perf_counter()
  torch.multiprocessing.spawn(first_sum, {nprocs = world})
  print(('{"task": "l.spawn", "peer": "tycho", "threads": %d, "min_us": %.3f, "median_us": 0, "n": 1, "inner": 1}')
    :format(world, (torch.perf_counter() - began) * 1e6))
elseif world > 1 then
  torch.multiprocessing.spawn(tasks, {args = {world}, nprocs = world})
else
  tasks(0, 1)
end
