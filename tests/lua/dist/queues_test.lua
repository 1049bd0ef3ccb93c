-- Queues and pipes between processes.
local mp = torch.multiprocessing
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local processes = assert(loadfile(here .. "/processes.lua", "t", _ENV))()
local script, elsewhere = processes.script, processes.elsewhere

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

test("a joinable queue tells when everything that was put is done", function()
  local q, done = mp.JoinableQueue(), mp.Value("i", 0)
  local list = {}
  for i = 1, 2 do
    list[i] = mp.Process(function()
      for x in function() return q:get() end do
        if x == "end" then return q:task_done() end
        local _ <close> = done:get_lock():hold()
        done.value = done.value + x
        q:task_done()
      end
    end)
    list[i]:start()
  end
  for i = 1, 20 do q:put(i) end
  q:join()
  check.equal(done.value, 210)
  for _ = 1, 2 do q:put "end" end
  q:join()
  for _, p in ipairs(list) do p:join() end
  check.raises("value", "more often than put", q.task_done, q)
  check.yes(tostring(q):find "0 values")
  q:put(1)
  check.raises("distributed", "1 values without task_done", q.join, q)
end)
