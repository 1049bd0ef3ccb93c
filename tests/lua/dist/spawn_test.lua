-- torch.multiprocessing.spawn, and how programs with processes end.
local mp = torch.multiprocessing
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local script = assert(loadfile(here .. "/processes.lua", "t", _ENV))().script

test("spawn runs all ranks, with their number in front and in the environment", function()
  local q = mp.Queue()
  mp.spawn(function(rank, a, b)
    q:put {rank, a + b, os.getenv "RANK", os.getenv "LOCAL_RANK", os.getenv "WORLD_SIZE", os.getenv "LOCAL_WORLD_SIZE"}
  end, {args = {2, 3}, nprocs = 3})
  local seen = {}
  for _ = 1, 3 do
    local v = q:get()
    seen[v[1]] = true
    check.equal({v[2], v[3], v[4], v[5], v[6]}, {5, tostring(v[1]), tostring(v[1]), "3", "3"})
  end
  check.yes(seen[0] and seen[1] and seen[2])
  mp.spawn(function(rank, a) q:put(a) end, {"positional"}, 1)
  check.equal(q:get(), "positional")
end)

test("processes have the devices that their script simulates", function()
  local r = script([==[
    torch.cuda.simulate(2)
    local x = torch.ones(2, {device = "cuda:1"})
    torch.multiprocessing.spawn(function(rank, y)
      torch.cuda.set_device(rank)
      print(rank, torch.cuda.device_count(), y.device, (torch.ones(2, {device = "cuda"}) + rank).device)
    end, {args = {x}, nprocs = 2})]==])
  check.equal(r.err, "")
  for rank = 0, 1 do check.contains(r.out, rank .. "\t2\t%S+\tcuda:" .. rank) end
end)

test("the first failure ends the others and is raised with its rank and the way to it", function()
  local err = check.raises("broadcast", nil, mp.spawn, function(rank)
    if rank == 1 then return torch.ones(2) + torch.ones(3) end
    while true do end
  end, {nprocs = 3})
  check.equal(err.rank, 1)
  check.contains(err.message, "process 1 of spawn")
  check.contains(err.message, "spawn_test.lua:")
  check.contains(err.traceback, "spawn-1:")
  check.equal(#mp.active_children(), 0)
end)

test("a rank that is killed or exits is named", function()
  local err = check.raises("distributed", "SIGKILL", mp.spawn, function(rank)
    if rank == 0 then os.execute("kill -9 " .. mp.current_process().pid) end
    while true do end
  end, {nprocs = 2})
  check.equal({err.reason, err.ranks[1], err.rank, err.exitcode}, {"died", 0, 0, -9})
  err = check.raises("distributed", "exit code 3", mp.spawn, function(rank) if rank == 1 then os.exit(3) end end, {nprocs = 2})
  check.equal(err.rank, 1)
  check.raises("value", "1 to 4096", mp.spawn, print, {nprocs = 0})
  check.raises("argument", 'no argument "nproc"', mp.spawn, print, {args = {}, nproc = 2})
  check.raises("argument", "wants a function", mp.spawn, 3)
end)

test("Ctrl-C ends the ranks of spawn, and a script that catches it goes on", function()
  local out = script [[
    local mp = torch.multiprocessing
    local there = mp.Event()
    local ended, place = torch.until_interrupt(function()
      mp.spawn(function(rank)
        if rank == 1 then os.execute("kill -INT " .. mp.parent_process().pid) end
        while true do end
      end, {nprocs = 2})
    end)
    print(ended, place:match "%d+$", #mp.active_children())
    mp.spawn(function(rank) print("rank", rank) end, {nprocs = 1})
  ]]
  check.equal(out.out, "false\t4\t0\nrank\t0\n", out.err)
  out = script [[
    local mp = torch.multiprocessing
    print "begin"
    io.stdout:flush()
    mp.spawn(function() os.execute("kill -INT " .. mp.parent_process().pid) while true do end end, {nprocs = 2})
  ]]
  check.equal({out.status, out.out}, {130, "begin\n"})
end)

test("processes start from the main thread", function()
  check.raises("value", "processes start from the main thread", torch.wait, torch.fork(function() mp.Process(print):start() end))
end)

test("spawn with join = false gives the processes", function()
  local go = mp.Event()
  local ctx = mp.spawn(function() go:wait() end, {nprocs = 2, join = false})
  check.equal(#ctx:pids(), 2)
  check.no(ctx:join(0.01))
  go:set()
  check.yes(ctx:join())
end)

test("processes start from -e, from standard input and from the prompt", function()
  local code = "local q = torch.multiprocessing.Queue() local p = torch.multiprocessing.Process(function(a) q:put(a + 1) end, {4}) p:start() print(q:get()) p:join()"
  check.equal(check.tycho({"-e", code}).out, "5\n")
  check.equal(check.tycho({"-"}, {stdin = code}).out, "5\n")
  local entry = "q = torch.multiprocessing.Queue()\nk = 3\np = torch.multiprocessing.Process(function(a) q:put(a + k) end, {4})\np:start()\nprint(q:get())\np:join()\n"
  check.contains(check.tycho({"-i", "--clean"}, {stdin = entry}).out, "7")
  check.equal(check.tycho({"--process", "3", "1", "x"}).status, 1)
end)

test("a program that ends takes its children along: daemons at once, others when they are done", function()
  local out = script [[
    local mp = torch.multiprocessing
    local d = mp.Process(function() while true do end end, {}, {daemon = true})
    d:start()
    local p = mp.Process(function() print "done" end)
    p:start()
    print(d.pid)
  ]]
  check.equal(out.status, 0)
  check.contains(out.out, "done")
  check.yes(os.execute(("kill -0 %s 2>/dev/null"):format(out.out:match "%d+")) == nil)
  out = script [[
    local p = torch.multiprocessing.Process(function() while true do end end)
    p:start()
    print(p.pid)
    io.stdout:flush()
    error "the parent fails"
  ]]
  check.equal(out.status, 1)
  check.yes(os.execute(("kill -0 %s 2>/dev/null"):format(out.out:match "%d+")) == nil)
  out = script [[
    local p = torch.multiprocessing.Process(function() while true do end end)
    p:start()
    print(p.pid)
    io.stdout:flush()
    os.execute("kill -9 " .. torch._process_id())
  ]]
  local pid = out.out:match "%d+"
  for _ = 1, 200 do
    if not os.execute(("kill -0 %s 2>/dev/null"):format(pid)) then break end
    os.execute "sleep 0.05"
  end
  check.yes(os.execute(("kill -0 %s 2>/dev/null"):format(pid)) == nil)
end)

test("a child that is told only its rank says what its script is to give it", function()
  local p = mp.Process(function()
    local ok, e = pcall(torch.distributed.init_process_group, "gloo", {rank = 0, world_size = 2})
    os.exit(not ok and tostring(e):find("for all ranks", 1, true) and 5 or 1)
  end)
  p:start()
  p:join()
  check.equal(p.exitcode, 5)
end)

test("what is raised is the failure that began it, not that of a rank whom it left alone", function()
  for _ = 1, 5 do
    local err = check.raises("distributed", "exit code 7", mp.spawn, function(rank)
      local dist = torch.distributed
      dist.init_process_group()
      if rank == 1 then os.exit(7) end
      dist.all_reduce(torch.ones(1))
    end, {nprocs = 3})
    check.equal({err.rank, err.exitcode}, {1, 7})
  end
end)
