-- Processes: what crosses to them, how they end, queues, pipes, events, locks, spawn. Each waits for what it
-- needs, so nothing depends on time; runs that could hang have a limit.
local mp = torch.multiprocessing

local limit = {limit_seconds = 60}

-- Runs a script in a fresh program with a limit: {status=, out=, err=}.
local function script(code, options)
  options = options or {}
  local path = check.temp("script.lua")
  local f <close> = assert(io.open(path, "w"))
  f:write(code)
  f:close()
  return check.tycho({path}, {before = options.before or ("ulimit -t %d"):format(limit.limit_seconds), env = options.env})
end

local function run(f, args, options)
  local p = mp.Process(f, args, options)
  p:start()
  p:join()
  return p
end
-- What a function gives in another process.
local function elsewhere(f, ...)
  local q = mp.Queue()
  local args = table.pack(...)
  local p = mp.Process(function() q:put(table.pack(f(table.unpack(args, 1, args.n)))) end)
  p:start()
  local out = q:get()
  p:join()
  return table.unpack(out, 1, out.n)
end
-- Not by io.popen, whose own pipe may or may not be open on this side when it looks.
local function descriptors()
  local path, n = check.temp "descriptors", 0
  os.execute(("ls /proc/%d/fd >%s"):format(torch._process_id(), path))
  for _ in io.lines(path) do n = n + 1 end
  return n
end

some_global = 5
local function uses_global(x) return x + some_global end

test("a function runs in another process with its arguments, variables and globals", function()
  local own = 7
  check.equal({elsewhere(function(a, b) return a + own, b, uses_global(1), torch._process_id() ~= nil end, 1, "two")}, {8, "two", 6, true})
  check.yes(elsewhere(function() return mp.current_process().pid end) ~= mp.current_process().pid)
end)

test("variables go by value, and functions that share one share its copy", function()
  local n = 0
  local function more() n = n + 1 end
  local function read() return n end
  check.equal({elsewhere(function() more() more() return read(), n end)}, {2, 2})
  check.equal(n, 0)
end)

test("values cross: nested tables with cycles, tensors, dtypes, modules, generators", function()
  local t = {list = {1, 2, {x = torch.ones(2)}}, dtype = torch.float16}
  t.me = t
  local same, x, dtype = elsewhere(function() return t.me == t, t.list[3].x, t.dtype end)
  check.yes(same)
  check.equal(x, torch.ones(2))
  check.yes(dtype == torch.float16)
  local net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
  net[1].weight:requires_grad_(false)
  local input = torch.randn(5, 3)
  local y, names = elsewhere(function()
    local list = {}
    for _, named in ipairs(net:named_parameters()) do list[#list + 1] = named[1] .. (named[2].requires_grad and "" or " frozen") end
    return net(input):detach(), list
  end)
  check.equal(y, net(input))
  check.equal(names, {"0.weight frozen", "0.bias", "2.weight", "2.bias"})
  local g = torch.Generator()
  g:manual_seed(3)
  local drawn = elsewhere(function() return torch.rand(3, {generator = g}) end)
  check.equal(drawn, torch.rand(3, {generator = g}))
end)

test("exitcode, pid, name, daemon, is_alive and the parent are as in Python", function()
  local go = mp.Event()
  local p = mp.Process(function() go:wait() end, {}, {name = "waiter", daemon = true})
  check.no(p:is_alive())
  check.equal(p.exitcode, nil)
  check.equal(p.pid, nil)
  check.equal({p.name, p.daemon}, {"waiter", true})
  p:start()
  check.yes(p:is_alive())
  check.equal(p.exitcode, nil)
  check.equal(math.type(p.pid), "integer")
  p:join(0.01)
  check.yes(p:is_alive())
  check.equal(#mp.active_children(), 1)
  go:set()
  p:join()
  check.no(p:is_alive())
  check.equal(p.exitcode, 0)
  check.equal(#mp.active_children(), 0)
  check.equal(run(function() os.exit(7) end).exitcode, 7)
  local name, parent, daemon = elsewhere(function() return mp.current_process().name, mp.parent_process().pid, mp.current_process().daemon end)
  check.yes(name:find "^Process%-%d+$")
  check.equal(parent, mp.current_process().pid)
  check.equal(daemon, false)
  check.equal(mp.parent_process(), nil)
  check.equal(mp.current_process().name, "MainProcess")
  check.yes(mp.cpu_count() >= 1)
end)

test("terminate and kill end a process, and the exit code tells the signal", function()
  local function forever() while true do end end
  local p = mp.Process(forever)
  p:start()
  p:terminate()
  p:join()
  check.equal(p.exitcode, -15)
  p = mp.Process(forever)
  p:start()
  p:kill()
  p:join()
  check.equal(p.exitcode, -9)
  check.contains(tostring(p), "SIGKILL")
end)

test("an error in a process is said on its stderr, with its place, and its exit code is 1", function()
  local out = script [[
    local p = torch.multiprocessing.Process(function() error("it broke") end, {}, {name = "worker"})
    p:start() p:join()
    print(p.exitcode)
  ]]
  check.equal(out.out, "1\n")
  check.contains(out.err, "worker: ")
  check.contains(out.err, "it broke")
  check.contains(out.err, "script.lua:1")
end)

test("what cannot cross is named with its path before anything starts", function()
  local log = io.tmpfile()
  local function fails(text, f, args) return check.raises("argument", text, function() mp.Process(f, args):start() end) end
  fails("Process: log (a variable of f) is an open file, which cannot go to another process", function() return log end)
  fails("args[1].a.b is an open file", print, {{a = {b = log}}})
  fails("args[2] is a coroutine", print, {1, coroutine.create(print)})
  fails("y (a variable of f) is part of a graph", (function() local y = torch.ones(1, {requires_grad = true}) * 2 return function() return y end end)())
  check.raises("argument", "Process: wants a function to run, not number", mp.Process, 3)
  check.raises("argument", "args wants a list", mp.Process, print, 3)
  check.raises("argument", 'no argument "deamon"', mp.Process, print, {}, {deamon = true})
  check.raises("argument", "name wants a string", mp.Process, print, {}, {name = 3})
  check.raises("value", "has not been started", mp.Process(print).join, mp.Process(print))
  local p = run(function() end)
  check.raises("value", "started already", p.start, p)
  check.equal(#mp.active_children(), 0)
  log:close()
end)

test("Process takes PyTorch's named arguments", function()
  local q = mp.Queue()
  local p = mp.Process {target = function(a, b) q:put(a + b) end, args = {2, 3}, name = "adder"}
  p:start()
  check.equal(q:get(), 5)
  p:join()
  check.equal(p.name, "adder")
end)

test("spawn is the one way to start, and fork is refused with the reason", function()
  check.equal(mp.get_start_method(), "spawn")
  mp.set_start_method "spawn"
  check.raises("value", "locks that they hold stay held", mp.set_start_method, "fork")
  check.raises("value", "refused", mp.get_context, "forkserver")
  check.raises("argument", 'wants "spawn"', mp.set_start_method, "spoon")
  check.yes(mp.get_context "spawn" == mp)
  check.equal(mp.get_all_start_methods(), {"spawn"})
  check.equal(mp.get_sharing_strategy(), "file_descriptor")
  check.raises("value", "nothing is left behind", mp.set_sharing_strategy, "file_system")
end)

-- --- tensors ---

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

-- --- queues and pipes ---

test("a queue keeps the order of one who puts, and gives every value once to many", function()
  local q, out = mp.Queue(), mp.Queue()
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function(n)
      for k = 1, 50 do q:put(n * 1000 + k) end
    end, {i})
    list[i]:start()
  end
  local last, seen = {0, 0, 0}, 0
  for _ = 1, 150 do
    local v = q:get()
    local n = v // 1000
    check.equal(v % 1000, last[n] + 1)
    last[n], seen = v % 1000, seen + 1
  end
  for _, p in ipairs(list) do p:join() end
  check.yes(q:empty())
  local _ = out
end)

test("a queue takes more than a socket holds before anybody reads", function()
  local q = mp.Queue()
  for i = 1, 5000 do q:put {i, ("x"):rep(200)} end
  check.equal(q:qsize(), 5000)
  for i = 1, 5000 do check.equal(q:get()[1], i) end
  check.yes(q:empty())
end)

test("big values go whole", function()
  local text = ("0123456789"):rep(300000)
  local big = torch.arange(1000000)
  local n, sum, same = elsewhere(function(t) return #t, big:sum():item(), t == ("0123456789"):rep(300000) end, text)
  check.equal({n, sum, same}, {3000000, 499999500000, true})
end)

test("tensors that were received are let go before memory fills", function()
  local out = script([[
    local mp = torch.multiprocessing
    local q, room = mp.Queue(), mp.Queue()
    local p = mp.Process(function()
      for i = 1, 150 do
        room:get()
        q:put(torch.full({2500000}, i, {dtype = torch.float32}))  -- 10 MB: 1.5 GB in all
      end
    end)
    p:start()
    for _ = 1, 3 do room:put(true) end
    local sum = 0
    for i = 1, 150 do
      local x = q:get()
      sum = sum + x[{1}]:item()
      if i <= 147 then room:put(true) end
    end
    p:join()
    print(sum, torch.memory_allocated() < 7e8)
    local most = 0
    for line in io.lines("/proc/self/status") do most = tonumber(line:match("VmHWM:%s+(%d+)")) or most end
    print(most < 1e6)
  ]])
  check.equal(out.out, "11325.0\ttrue\ntrue\n", out.err)
end)

test("too many pieces of shared memory in one value are named, with what to do", function()
  local list = {}
  for i = 1, 260 do list[i] = torch.zeros(1):share_memory_() end
  local q = mp.Queue()
  check.raises("value", "holds 260 pieces of shared memory", q.put, q, list)
  check.yes(q:empty())
  local many = {}
  for i = 1, 1000 do many[i] = torch.full({2}, i) end
  q:put(many)  -- one piece for all
  check.equal(q:get()[1000], torch.full({2}, 1000))
end)

test("maxsize bounds a queue; full and empty ones raise when they are not to wait", function()
  local q = mp.Queue(2)
  q:put(1)
  check.no(q:full())
  q:put(2)
  check.yes(q:full())
  check.equal(check.raises("value", "the queue is full (maxsize = 2)", q.put_nowait, q, 3).reason, "full")
  check.raises("value", "full", q.put, q, 3, {timeout = 0.01})
  local p = mp.Process(function() for i = 3, 6 do q:put(i) end end)
  p:start()
  for i = 1, 6 do check.equal(q:get(), i) end
  p:join()
  check.equal(check.raises("value", "the queue is empty", q.get_nowait, q).reason, "empty")
  check.raises("argument", "timeout wants seconds", q.get, q, true, "x")
  check.raises("argument", 'no argument "time"', q.get, q, {time = 1})
  check.raises("argument", "maxsize wants an integer", mp.Queue, 1.5)
  q:close()
  check.equal(check.raises("value", "closed", q.put, q, 1).reason, "closed")
end)

test("who waits for a queue that nobody can fill any more is told why", function()
  local q = mp.Queue()
  check.contains(script([[ torch.multiprocessing.Queue():get() ]]).err, "nothing can come any more: no process has been started")
  local p = mp.Process(function() os.exit(0) end)
  p:start()
  check.equal(check.raises("distributed", "nothing can come any more", q.get, q).reason ~= nil, true)
  p:join()
  p = mp.Process(function() while true do end end, {}, {name = "victim"})
  p:start()
  p:kill()
  local err = check.raises("distributed", "victim", q.get, q)
  check.contains(err.message, "SIGKILL")
  check.equal(err.reason, "died")
end)

test("a process that ends keeps nothing back: what it put is there", function()
  local q = mp.Queue()
  local p = mp.Process(function() for i = 1, 3000 do q:put(i) end end)
  p:start()
  for i = 1, 3000 do check.equal(q:get(), i) end
  p:join()
  check.equal(p.exitcode, 0)
end)

test("join says why a process with values that nobody takes does not end", function()
  local out = script [[
    local mp = torch.multiprocessing
    require("torch.multiprocessing.process").patience = 0.2
    local q, there = mp.Queue(), mp.Event()
    local p = mp.Process(function() for i = 1, 60000 do q:put(i) end there:set() end)
    p:start()
    there:wait()
    local child = p
    while rawget(p, "_unsent") == nil do p:join(0.05) require("torch.multiprocessing.process").failure(p) end
    print(p:is_alive())
    p:kill()
    p:join()
  ]]
  check.equal(out.out, "true\n", out.err)
end)

test("a pipe goes both ways, polls, and tells when the other end is closed", function()
  local a, b = mp.Pipe()
  local p = mp.Process(function()
    while true do
      local x = b:recv()
      if x == "end" then return end
      b:send(x * 2)
    end
  end)
  p:start()
  for i = 1, 20 do
    a:send(i)
    check.equal(a:recv(), 2 * i)
  end
  check.no(a:poll())
  a:send(torch.ones(2))
  check.yes(a:poll(10))
  check.equal(a:recv(), torch.full({2}, 2.0))
  a:send "end"
  p:join()
  local c, d = mp.Pipe(false)
  d:send {1}
  check.equal(c:recv(), {1})
  check.raises("value", "only receives", c.send, c, 1)
  check.raises("value", "only sends", d.recv, d)
  d:close()
  check.equal(check.raises("value", "the other end of the pipe is closed", c.recv, c).reason, "closed")
  check.raises("value", "this end of the pipe was closed", d.send, d, 1)
  check.raises("argument", "duplex", mp.Pipe, 3)
end)

test("queues, pipes, locks and events cross through queues", function()
  local q, inner, a, b = mp.Queue(), mp.Queue(), mp.Pipe()
  local lock, event = mp.Lock(), mp.Event()
  q:put {inner, b, lock, event}
  local p = mp.Process(function()
    local got = q:get()
    got[3]:hold(function() got[1]:put "in" end)
    got[2]:send "side"
    got[4]:set()
  end)
  p:start()
  check.equal(inner:get(), "in")
  check.equal(a:recv(), "side")
  check.yes(event:wait())
  p:join()
end)

test("too few descriptors are an error that names the limit", function()
  -- Without a descriptor the sanitizer cannot look whether memory is there, and takes it for bad.
  if os.getenv "TYCHO_SANITIZED" then check.skip "sanitized" end
  local out = script([[
    local mp = torch.multiprocessing
    local q = mp.Queue()
    local keep = {}
    local ok, err = pcall(function()
      for i = 1, 200 do keep[i] = torch.zeros(1):share_memory_() end
    end)
    print(ok, err.kind, tostring(err):find("no file descriptor left") ~= nil)
    keep = nil
    collectgarbage()
    q:put(torch.ones(3))
    print(q:get():sum():item())
  ]], {before = "ulimit -n 64"})
  check.equal(out.out, "false\tdistributed\ttrue\n3.0\n", out.err)
end)

-- --- events and locks ---

test("an event wakes all who wait", function()
  local event, q = mp.Event(), mp.Queue()
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function() q:put(event:wait()) end)
    list[i]:start()
  end
  check.no(event:wait(0.01))
  check.no(event:is_set())
  event:set()
  for _ = 1, 3 do check.yes(q:get()) end
  for _, p in ipairs(list) do p:join() end
  event:clear()
  check.no(event:is_set())
end)

test("a lock lets one process in at a time", function()
  local lock, x = mp.Lock(), torch.zeros(1):share_memory_()
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function()
      for _ = 1, 200 do
        local held <close> = lock:hold()
        x[{1}] = x[{1}]:item() + 1
      end
    end)
    list[i]:start()
  end
  for _, p in ipairs(list) do p:join() end
  check.equal(x:item(), 600.0)
  lock:acquire()
  check.raises("value", "has the lock already", lock.acquire, lock)
  lock:release()
  check.raises("value", "does not have the lock", lock.release, lock)
  local r = mp.RLock()
  r:acquire()
  check.yes(r:acquire())
  check.equal(elsewhere(function() return r:acquire(false) end), false)
  r:release()
  r:release()
  check.equal(lock:hold(function(a) return a + 1 end, 2), 3)
  check.raises("value", "inside", lock.hold, lock, function() torch._raise("inside", 1, "value") end)
  check.yes(lock:acquire(false))
  lock:release()
end)

test("a lock whose owner died is an error once, and then free", function()
  local lock, held = mp.Lock(), mp.Event()
  local p = mp.Process(function()
    lock:acquire()
    held:set()
    while true do end
  end)
  p:start()
  held:wait()
  check.no(lock:acquire {timeout = 0.01})
  p:kill()
  local err = check.raises("distributed", ("(pid %d) died"):format(p.pid), lock.acquire, lock)
  check.equal(err.reason, "died")
  check.yes(lock:acquire())
  lock:release()
  p:join()
end)

-- --- spawn ---

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

test("the first failure ends the others and is raised with its rank and the way to it", function()
  local err = check.raises("broadcast", nil, mp.spawn, function(rank)
    if rank == 1 then return torch.ones(2) + torch.ones(3) end
    while true do end
  end, {nprocs = 3})
  check.equal(err.rank, 1)
  check.contains(err.message, "process 1 of spawn")
  check.contains(err.message, "multiprocessing_test.lua:")
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

-- --- pools ---

test("a pool maps in order, spreads arguments, iterates and applies", function()
  local pool <close> = mp.Pool(2)
  local list = {}
  for i = 1, 25 do list[i] = i end
  local squares = pool:map(function(i) return i * i end, list)
  check.equal(#squares, 25)
  for i = 1, 25 do check.equal(squares[i], i * i) end
  check.equal(pool:map(function(i) return -i end, list, 7)[25], -25)
  check.equal(pool:starmap(function(a, b) return a - b end, {{5, 3}, {1, 9}}), {2, -8})
  local out = {}
  for y in pool:imap(function(i) return i / 2 end, {1, 2, 3}) do out[#out + 1] = y end
  check.equal(out, {0.5, 1.0, 1.5})
  local sum = 0
  for y in pool:imap_unordered(function(i) return i end, {1, 2, 3}) do sum = sum + y end
  check.equal(sum, 6)
  check.equal({pool:apply(function(a, b) return a + b, a * b end, {3, 4})}, {7, 12})
  local said
  local r = pool:apply_async(function(x) return x:sum() end, {torch.ones(4)}, {callback = function(v) said = v:item() end})
  check.equal(r:get():item(), 4.0)
  check.equal(said, 4.0)
  check.yes(r:ready() and r:successful())
  check.equal(pool:map(function(row) return row:sum():item() end, torch.ones(3, 2)), {2.0, 2.0, 2.0})
  check.equal(pool:map(function(i) return i end, {}), {})
  pool:close()
  pool:join()
  check.raises("value", "the pool is closed", pool.map, pool, function() end, {1})
end)

test("an error in a pool arrives with its place, and the pool goes on", function()
  local file <close> = io.tmpfile()
  local pool <close> = mp.Pool(2)
  local err = check.raises("value", "three", pool.map, pool, function(i) if i == 3 then error "three" end return i end, {1, 2, 3, 4})
  check.contains(err.message, "multiprocessing_test.lua:")
  check.equal(pool:map(function(i) return i end, {1, 2}), {1, 2})
  check.raises("argument", "is an open file", pool.apply, pool, function() return io.tmpfile() end)
  check.raises("argument", "is an open file", pool.apply, pool, function() end, {file})
  check.raises("argument", "wants a function", pool.map, pool, 3, {})
  check.raises("argument", "wants a list", pool.map, pool, function() end, 3)
  check.raises("value", "close or terminate", pool.join, pool)
  check.raises("value", "1 to 4096", mp.Pool, 0)
end)

test("a worker of a pool that dies fails its task only, and another takes its place", function()
  local pool <close> = mp.Pool(2)
  local function work(i)
    if i == 2 then os.execute("kill -9 " .. mp.current_process().pid) end
    return i
  end
  local results = {}
  for i = 1, 6 do results[i] = pool:apply_async(work, {i}) end
  for i = 1, 6 do
    if i == 2 then
      check.equal(check.raises("distributed", "SIGKILL", results[i].get, results[i]).reason, "died")
    else
      check.equal(results[i]:get(), i)
    end
  end
  check.equal(pool:map(function(i) return i + 1 end, {1, 2, 3, 4}), {2, 3, 4, 5})
end)

test("an initializer prepares each worker; one that fails ends the pool", function()
  local pool <close> = mp.Pool {processes = 2, initializer = function(x) package.loaded.prepared = x end, initargs = {5}}
  check.equal(pool:apply(function() return package.loaded.prepared end), 5)
  local bad = mp.Pool {processes = 1, initializer = function() error "cannot begin" end}
  check.raises(nil, "cannot begin", bad.map, bad, function(i) return i end, {1})
end)

test("nothing is left behind: processes, descriptors", function()
  collectgarbage()
  collectgarbage()
  check.equal(#mp.active_children(), 0)
  local before = descriptors()
  for _ = 1, 5 do
    local q = mp.Queue()
    local p = mp.Process(function() q:put(torch.ones(3)) end)
    p:start()
    q:get()
    p:join()
  end
  collectgarbage()
  collectgarbage()
  check.yes(descriptors() <= before)
end)
