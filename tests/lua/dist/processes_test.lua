-- Processes: what crosses to them, how they start and end, what they leave behind.
local mp = torch.multiprocessing
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local processes = assert(loadfile(here .. "/processes.lua", "t", _ENV))()
local script, run, elsewhere, descriptors = processes.script, processes.run, processes.elsewhere, processes.descriptors

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
