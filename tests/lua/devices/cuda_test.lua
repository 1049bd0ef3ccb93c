-- torch.cuda on simulated devices: streams, events, copies that nobody waits for, memory and its end, generators, and
-- what is known of a device.
torch.cuda.simulate(3)
local cuda = torch.cuda
local later = {non_blocking = true}

local function isnan(x) return x ~= x end

---- Copies that the host does not wait for ----------------------------------------------------------

test("a copy to the host that nobody waited for shows nan, and its values after synchronize", function()
  local x = torch.arange(4):float():cuda()
  local host = x:to("cpu", later)
  check.yes(isnan(host:sum():item()))
  cuda.synchronize()
  check.equal(host, {0, 1, 2, 3})
  local ints = x:long():to("cpu", later)
  check.equal(ints, {-1, -1, -1, -1})
  cuda.synchronize()
  check.equal(ints, {0, 1, 2, 3})
  -- PyTorch's positions: device, dtype, non_blocking.
  check.yes(isnan(x:to("cpu", torch.float32, true)[1]:item()))
  check.equal(x:cpu(), {0, 1, 2, 3})
end)

test("the next operation on the device brings the copy's values, too", function()
  local x = torch.ones(2):cuda(1)
  local host = x:to("cpu", later)
  x:add_(1)
  check.equal(host, {1, 1})
  check.equal(x:cpu(), {2, 2})
end)

test("a copy into memory that is there keeps its old values until then", function()
  local host, x = torch.zeros(2, 2), torch.ones(2, 2):cuda()
  host:copy_(x, later)
  check.equal(host, {{0, 0}, {0, 0}})
  cuda.current_stream():synchronize()
  check.equal(host, {{1, 1}, {1, 1}})
  -- A shape or type that has to be changed is waited for.
  host:copy_(torch.full({2}, 3.0, {device = "cuda"}), later)
  check.equal(host, {{3, 3}, {3, 3}})
end)

test("pinned memory is read later, so what changes it in between is seen; other memory is read at once", function()
  local pinned, plain = torch.ones(3):pin_memory(), torch.ones(3)
  check.equal({pinned:is_pinned(), plain:is_pinned(), pinned:t():is_pinned()}, {true, false, true})
  local a, b = pinned:to("cuda", later), nil
  pinned:fill_(7)
  check.equal(a:cpu(), {7, 7, 7})
  b = plain:to("cuda", later)
  plain:fill_(7)
  check.equal(b:cpu(), {1, 1, 1})
  check.yes(pinned:pin_memory() == pinned)
  check.equal(pinned, {7, 7, 7})
  check.raises("device", "only tensors of the CPU", function() return a:pin_memory() end)
end)

test("gradients of copies that come later are right, and so is training with them and a loader that pins", function()
  local w = torch.tensor({2.0, 3.0}, {requires_grad = true})
  local y = (w:pin_memory():to("cuda", later) * 2):sum()
  y:backward()
  check.equal(w.grad, {2, 2})
  local set = torch.utils.data.TensorDataset(torch.arange(6):float(), torch.arange(6))
  for _, workers in ipairs {0, 2} do
    local seen = {}
    for x, i in torch.utils.data.DataLoader(set, {batch_size = 2, pin_memory = true, num_workers = workers})() do
      check.equal({x:is_pinned(), i:is_pinned()}, {true, true})
      seen[#seen + 1] = x:to("cuda", later):sum():item()
    end
    check.equal(seen, {1.0, 5.0, 9.0})
  end
end)

---- Streams and events ------------------------------------------------------------------------------

test("work of another stream is not there before it is waited for: wait_stream, an event, synchronize", function()
  for _, wait in ipairs {function(s) cuda.current_stream():wait_stream(s) end, function(s) s:record_event():wait() end,
    function(s) cuda.current_stream():wait_event(s:record_event(cuda.Event())) end, function(s) s:synchronize() end,
    function(s) s:record_event():synchronize() end, function() cuda.synchronize(1) end} do
    local source = torch.full({3}, 5.0):pin_memory()
    local s, x = cuda.Stream(1), nil
    cuda.device(1, function()
      cuda.stream(s, function()
        check.yes(cuda.current_stream() == s)
        x = source:cuda(1, true)
      end)
      check.yes(cuda.current_stream() == cuda.default_stream())
      check.no(s:query())
      check.yes(isnan((x + 1):sum():item()))
      wait(s)
      check.yes(s:query())
      check.equal((x + 1):cpu(), {6, 6, 6})
    end)
  end
end)

test("an event is what was asked before it, not after", function()
  local a, b = torch.ones(1):pin_memory(), torch.full({1}, 2.0):pin_memory()
  local s, e = cuda.Stream(), cuda.Event()
  local x, y
  check.yes(e:query())
  cuda.stream(s, function()
    x = a:cuda(0, true)
    e:record()
    y = torch.empty(1, {device = "cuda"})
    y:copy_(b, true)
  end)
  check.no(e:query())
  check.yes(e:query())
  check.equal(x:cpu(), {1})
  check.no(s:query())
  s:synchronize()
  check.equal(y:cpu(), {2})
end)

test("a prefetcher with a stream of its own feeds a training loop", function()
  local set = torch.utils.data.TensorDataset(torch.arange(8):float():view(8, 1))
  local stream, total = cuda.Stream(), 0
  local draw = torch.utils.data.DataLoader(set, {batch_size = 2, pin_memory = true})()
  local function preload()
    local x = draw()
    return x and cuda.stream(stream, function() return x:cuda(0, true) end)
  end
  local ahead = preload()
  while ahead do
    cuda.current_stream():wait_stream(stream)
    local x = ahead
    x:record_stream(cuda.current_stream())
    ahead = preload()
    total = total + x:sum():item()
  end
  check.equal(total, 28.0)
end)

test("elapsed_time measures between events, and says what they lack", function()
  local first, last = cuda.Event {enable_timing = true}, cuda.Event {enable_timing = true}
  check.raises("value", "must be recorded", first.elapsed_time, first, last)
  first:record()
  torch.ones(50, 50, {device = "cuda"}):matmul(torch.ones(50, 50, {device = "cuda"}))
  last:record()
  cuda.synchronize()
  check.yes(first:elapsed_time(last) >= 0)
  check.raises("value", "enable_timing", first.elapsed_time, first, cuda.Event())
  local source = torch.ones(1):pin_memory()
  cuda.stream(cuda.Stream(), function()
    local x = source:cuda(0, true)
    last:record()
    check.raises("value", "must be passed", first.elapsed_time, first, last)
    check.equal(x:cpu(), {1})
  end)
  check.raises("argument", "it has: enable_timing", cuda.Event, {timing = true})
end)

test("streams are compared, shown and chosen; scopes put back what was, in spite of errors", function()
  local s = cuda.Stream {device = "cuda:2", priority = -1}
  check.contains(tostring(s), "<torch.cuda.Stream device=cuda:2 id=")
  check.yes(cuda.default_stream(2) == cuda.current_stream("cuda:2"))
  check.no(s == cuda.default_stream(2))
  pcall(cuda.stream, s, function()
    check.equal(cuda.current_device(), 2)
    error "no"
  end)
  check.equal(cuda.current_device(), 0)
  check.yes(cuda.current_stream(2) == cuda.default_stream(2))
  cuda.set_stream(s)
  check.yes(cuda.current_stream() == s)
  cuda.set_stream(cuda.default_stream(2))
  cuda.set_device(0)
  check.equal(cuda.stream(nil, function() return 4 end), 4)
  check.raises("argument", "wants a torch.cuda.Stream", cuda.set_stream, 3)
  check.raises("argument", "wants a torch.cuda.Event", s.wait_event, s, 3)
  check.raises("argument", "wants a torch.cuda.Event", s.record_event, s, {})
  for _ = 1, 200 do cuda.Stream() end
  collectgarbage()
  check.yes(cuda.Stream().stream_id < 200)
end)

---- Memory ------------------------------------------------------------------------------------------

test("memory is counted for each device: held, at most, taken, given back", function()
  collectgarbage()
  cuda.reset_peak_memory_stats(2)
  local before = cuda.memory_allocated(2)
  local x = torch.zeros(1000, 1000, {device = "cuda:2"})
  check.equal(cuda.memory_allocated("cuda:2") - before, 4000000)
  check.equal(cuda.max_memory_allocated(2) - before, 4000000)
  check.yes(cuda.memory_reserved(2) >= cuda.memory_allocated(2))
  check.yes(cuda.max_memory_reserved(2) >= cuda.memory_reserved(2))
  local stats = cuda.memory_stats(2)
  check.equal(stats["allocated_bytes.all.current"], cuda.memory_allocated(2))
  check.yes(stats["allocation.all.allocated"] > 0)
  check.contains(cuda.memory_summary(2), "tensors hold")
  local free, total = cuda.mem_get_info(2)
  check.yes(free < total)
  x = nil
  collectgarbage()
  check.equal(cuda.memory_allocated(2), before)
  cuda.empty_cache(2)
  cuda.reset_max_memory_allocated(2)
  check.equal(cuda.max_memory_allocated(2), before)
end)

test("a device that is full says what is held by whom, on that device, and the session goes on", function()
  local r = check.tycho({"-e", [[
    weights = torch.zeros(1000, 1000, 8, {device = "cuda:1"})
    elsewhere = torch.zeros(1000, 1000, 12, {device = "cuda:0"})
    local ok, e = pcall(torch.zeros, 1000, 1000, 9, {device = "cuda:1"})
    print(ok, e.kind, e.message)
    print(torch.ones(3, {device = "cuda:1"}):sum():item())
    for _ = 1, 30 do local garbage = torch.zeros(1000, 1000, 4, {device = "cuda:1"}) end   -- is collected in time
    weights = nil
    print(torch.zeros(1000, 1000, 15, {device = "cuda:1"}).shape)
  ]]}, {env = {TYCHO_SIMULATE_CUDA = "2", TYCHO_SIMULATE_MEMORY = "61M"}})
  check.contains(r.out, "false\toom\t")
  check.contains(r.out, "out of memory on cuda:1: 36.0 MB wanted, 32.0 MB of its 64.0 MB in use by tensors; most is held by weights %[[%d, ]+%] 32.0 MB")
  check.lacks(r.out, "elsewhere")
  check.contains(r.out, "3.0\n")
end)

test("wrong numbers in the environment are said, once, and the error names them", function()
  local function said(name, value)
    local env = {TYCHO_SIMULATE_CUDA = "2"}
    env[name] = value
    return check.tycho({"-e", [[
      print(torch.cuda.device_count(), pcall(torch.ones, 1, {device = "cuda:1"}))
      print(select(2, torch.cuda.mem_get_info(0)))]]}, {env = env})
  end
  for _, wrong in ipairs {"two", "17", "-1", "3x"} do
    local r = said("TYCHO_SIMULATE_CUDA", wrong)
    check.contains(r.err, ("tycho: TYCHO_SIMULATE_CUDA=%s is no number of devices from 0 to 16; none is simulated\n"):format(wrong))
    check.contains(r.out, "0\tfalse\t")
    check.contains(r.out, "TYCHO_SIMULATE_CUDA=" .. wrong)
  end
  for _, wrong in ipairs {"lots", "1Q", "-4M", "0"} do
    local r = said("TYCHO_SIMULATE_MEMORY", wrong)
    check.equal(r.err, ("tycho: TYCHO_SIMULATE_MEMORY=%s is no size (512M, 1.5G, a number of bytes); simulated devices have the machine's memory\n"):format(wrong))
  end
  for right, bytes in pairs {["1.5GB"] = 1610612736, ["2 GiB"] = 2147483648, ["512m"] = 536870912, ["1000000"] = 1000000} do
    local r = said("TYCHO_SIMULATE_MEMORY", right)
    check.equal({r.err, tonumber(r.out:match "(%d+)\n$")}, {"", bytes})
  end
end)

test("a full device names the operation and the line whose graph holds most, and the session goes on", function()
  local path = check.temp "full.lua"
  local file = assert(io.open(path, "w"))
  file:write [[
torch.cuda.simulate(1)
local x = torch.ones(250, 1000, {device = "cuda", requires_grad = true})
local function train()
  local total = 0
  for i = 1, 100 do
    total = total + (x * 2):sigmoid():sum()
  end
end
local ok, e = pcall(train)
print(e.kind, e.message)
print(x:sum():item())
]]
  file:close()
  local out = check.tycho({path}, {env = {TYCHO_SIMULATE_MEMORY = "32M"}}).out
  check.contains(out, "oom\tsigmoid: out of memory on cuda:0: 1.0 MB wanted, ")
  check.contains(out, "most is held by what sigmoid at " .. path .. ":6 keeps for backward 31.0 MB (31 tensors), x [250, 1000] 1.0 MB\n")
  check.contains(out, "\n250000.0\n")
end)

test("a part of the memory can be set aside, and copies on their way count", function()
  local total = select(2, cuda.mem_get_info(1))
  cuda.set_per_process_memory_fraction(1e6 / total, 1)
  check.raises("oom", "cuda:1", torch.zeros, 1000, 1000, {device = "cuda:1"})
  check.equal(torch.zeros(10, {device = "cuda:1"}):sum():item(), 0.0)
  cuda.set_per_process_memory_fraction(1.0, 1)
  check.raises("value", "from 0 to 1", cuda.set_per_process_memory_fraction, 2)
end)

---- Random numbers and what is known of devices ------------------------------------------------------

test("every device has random numbers of its own, saved and put back all at once", function()
  cuda.manual_seed_all(7)
  local states = cuda.get_rng_state_all()
  check.equal(#states, 3)
  local function draw()
    local out = {}
    for i = 0, 2 do out[i + 1] = torch.rand(2, {device = torch.device("cuda", i)}):cpu() end
    return out
  end
  local first = draw()
  check.equal(first[1], first[2])  -- one seed, one stream
  check.no(torch.equal(first[1], draw()[1]))
  cuda.set_rng_state_all(states)
  check.equal(draw(), first)
  torch.manual_seed(7)
  check.equal(draw(), first)
  local g = torch.Generator("cuda:1")
  g:manual_seed(7)
  check.equal(torch.rand(2, {device = "cuda:1", generator = g}):cpu(), first[1])
end)

test("fork_rng gives back the numbers of the CPU and of all devices, or of those it is told", function()
  local function draw(d) return torch.rand(1, {device = d}):item() end
  local function after(...)
    torch.manual_seed(5)
    torch.random.fork_rng(...)
    return {draw "cpu", draw "cuda:0", draw "cuda:1"}
  end
  local function some() for _, d in ipairs {"cpu", "cuda:0", "cuda:1"} do draw(d) end end
  local untouched = after(function() end)
  check.equal(after(some), untouched)
  check.equal(after({0, 1}, some), untouched)
  check.equal(after({devices = {"cuda:0", "cuda:1"}, enabled = true}, some), untouched)
  local half = after({devices = {1}}, some)
  check.equal({half[1] == untouched[1], half[2] == untouched[2], half[3] == untouched[3]}, {true, false, true})
  local off = after({enabled = false}, some)
  check.no(off[1] == untouched[1])
end)

test("a device tells its name, memory and abilities", function()
  local p = cuda.get_device_properties(1)
  check.contains(p.name, "simulated CUDA device 1")
  check.equal({p.major, p.minor}, {8, 0})
  check.equal({cuda.get_device_capability()}, {8, 0})
  check.yes(p.total_memory > 0 and p.multi_processor_count > 0)
  check.contains(tostring(p), "total_memory=")
  check.equal({cuda.is_bf16_supported(), cuda.is_initialized(), cuda.can_device_access_peer(0, 1), cuda.is_current_stream_capturing()},
    {true, true, true, false})
  check.raises("device", "cuda:9", cuda.get_device_properties, 9)
  check.raises("device", "the CPU", cuda.mem_get_info, "cpu")
end)

test("without devices: questions are answered, the rest says what is missing", function()
  local out = check.tycho {"-e", [[
    local c = torch.cuda
    print(c.is_available(), c.device_count(), c.is_bf16_supported(), c.is_initialized(), c.memory_allocated(), next(c.memory_stats()))
    c.synchronize() c.empty_cache() c.manual_seed_all(3)
    print(torch.ones(2):pin_memory():is_pinned(), #c.get_rng_state_all())
    for _, name in ipairs {"Stream", "current_stream", "get_device_properties", "mem_get_info", "current_device", "init", "memory_summary"} do
      local ok, e = pcall(c[name])
      print(name, ok, e.kind)
    end
  ]]}.out
  check.contains(out, "false\t0\tfalse\tfalse\t0\tnil\nfalse\t0\n")
  for _, name in ipairs {"Stream", "current_stream", "get_device_properties", "mem_get_info", "current_device", "init", "memory_summary"} do
    check.contains(out, name .. "\tfalse\tdevice\n")
  end
end)

test("tests/cuda/run_all says that there is no GPU by its status, and takes no unknown option", function()
  local gpu = io.open "/dev/nvidiactl" or io.open "/dev/dxg"
  if gpu then check.skip "there is a GPU" end
  local run = arg[0]:gsub("lua/run.lua$", "cuda/run_all")
  check.equal(select(3, os.execute(check.quote(run) .. " 2>/dev/null")), 77)
  check.equal(select(3, os.execute(check.quote(run) .. " --fast 2>/dev/null")), 1)
end)

---- Which device is meant -----------------------------------------------------------------------------

test("PyTorch's page of CUDA semantics: a device without a number is the current one where it is used", function()
  local any, first, second = torch.device "cuda", torch.device "cuda:0", torch.device "cuda:1"
  check.equal({tostring(any), any.type, any.index == nil, first.index}, {"cuda", "cuda", true, 0})
  check.yes(any == torch.device "cuda" and any ~= first and torch.device(any) == any)
  check.equal(tostring(torch.device("cuda", 0)), "cuda:0")
  local x = torch.tensor({1.0, 2.0}, {device = second})
  check.yes(x.device == second and torch.tensor({1.0, 2.0}):cuda().device == first)
  cuda.device(1, function()
    local a, b = torch.tensor({1.0, 2.0}, {device = any}), torch.tensor({1.0, 2.0}):cuda()
    local b2 = torch.tensor({1.0, 2.0}):to {device = any}
    for _, t in ipairs {a, b, b2, a + b, x + x, torch.empty({3}, {device = any}), torch.nn.Linear(2, 2):to(any).weight} do
      check.yes(t.device == second)
    end
    for _, t in ipairs {torch.randn({2}, {device = first}), torch.randn(2):to(first), torch.randn(2):cuda(first)} do
      check.yes(t.device == first)
    end
    check.equal({cuda.Stream(any).device_index, cuda.get_device_name(any)}, {1, cuda.get_device_name(1)})
    cuda.device(any, function() check.equal(cuda.current_device(), 1) end)
  end)
  local path = check.temp "device.pt"
  torch.save({any = any, second = second, x = torch.ones(2)}, path)
  local saved = torch.load(path, {map_location = any})
  check.yes(saved.any == any and saved.second == second and saved.x.device == first)
  check.equal(torch.autocast(any, function() return torch.is_autocast_enabled "cuda" end), true)
end)

test("positions and masks of the CPU choose elements of a device, as in PyTorch", function()
  local host = torch.arange(12):float():view(3, 4)
  local x, rows, mask = host:cuda(1), torch.tensor {3, 1}, host:gt(5)
  check.equal(x[rows]:cpu(), host[rows])
  check.equal(x[{{}, torch.tensor {2, 2}}]:cpu(), host[{{}, torch.tensor {2, 2}}])
  check.equal(x[mask]:cpu(), host[mask])
  x[rows], x[mask] = 7, -1
  host[rows], host[mask] = 7, -1
  check.equal(x:cpu(), host)
  check.raises("device", "do not mix", function() return x[rows:cuda(0)] end)
  check.raises("index", nil, function() return x[torch.tensor {4}] end)
end)

test("the error of two devices moves what is computed with to the parameters, and a network as a whole", function()
  local net, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
  check.contains(check.raises("device", "do not mix", function() return net(x:cuda()) end).hint, 'net:to("cuda:0")')
  net:cuda(1)
  check.contains(check.raises("device", "do not mix", function() return net(x) end).hint, ':to("cuda:1")')
  local lists = check.raises("device", "do not mix", function() return torch.cat {x:cuda(0), x:cuda(1)} end)
  check.contains(lists.hint, 'tensors[2] = tensors[2]:to("cuda:0")')
  check.contains(lists.message, "item 1 of argument 1 (tensors) is on cuda:0, item 2 of argument 1 (tensors) on cuda:1")
  -- What is told can be typed: the user's own names, and the one that lies elsewhere.
  local a, b, mask = x:cuda(0), x:cuda(1), x:cuda(1):gt(0)
  check.contains(tostring(check.raises("device", nil, function() local y = torch.cat {a, b} return y end)), "torch.cat {a, b:to(a.device)}")
  check.contains(tostring(check.raises("device", nil, function() local y = a[mask] return y end)), 'mask = mask:to("cuda:0")')
  local text = tostring(check.raises("device", nil, function() local y = a + b return y end))
  check.contains(text, "a was made in line")  -- each of several names with its own value
  check.contains(text, ": x:cuda(1)\n")
  local ones = torch.ones(2)
  check.contains(tostring(check.raises("device", nil, function() local y = torch.bincount(b[1]:long(), {weights = ones}) return y end)), 'ones = ones:to("cuda:1")')
  local norm = torch.nn.BatchNorm1d(3)
  check.contains(check.raises("device", "running_mean", function() return norm(torch.ones(2, 3):cuda(0)) end).hint, 'net:to("cuda:0")')
  local far = torch.nn.Sequential(torch.nn.Linear(3, 3):cuda(0), torch.nn.Linear(3, 1):cuda(1))
  check.contains(check.raises("device", "weight", function() return far(a) end).hint, 'input = input:to("cuda:1")')
end)

test("an optimiser made before its network moved says what to do, and that helps", function()
  local net = torch.nn.Linear(2, 1)
  local opt = torch.optim.Adam(net:parameters(), {lr = 0.1})
  local function step(x)
    opt:zero_grad()
    net(x):sum():backward()
    opt:step()
  end
  step(torch.ones(1, 2))
  net:cuda(1)
  local x = torch.ones(1, 2):cuda(1)
  check.raises("device", "opt:load_state_dict(opt:state_dict())", step, x)
  opt:load_state_dict(opt:state_dict())
  step(x)
  check.equal(tostring(net.weight.device), "cuda:1")
end)

test("a network moves to the device that is named, and to nothing else", function()
  local net = torch.nn.Linear(1, 1)
  for device, name in pairs {[0] = "cuda:0", [1] = "cuda:1", ["cuda:1"] = "cuda:1", cuda = "cuda:0"} do
    check.equal(tostring(net:cuda(device).weight.device), name)
  end
  for _, bad in ipairs {1.5, true, print, 0 / 0, "gpu"} do
    check.raises("argument", "no device", net.cuda, net, bad)
  end
  check.raises("device", "cuda:9 (there are cuda:0 to cuda:", net.cuda, net, 9)
  check.contains(check.raises("device", nil, torch.zeros, 1, {device = "cuda:9"}).hint, "devices count from 0")
end)

test("lengths and targets of ctc_loss lie where scripts keep them", function()
  local x = torch.randn(5, 2, 4):log_softmax(3)
  local targets, inputs, lengths = torch.tensor {{2, 3}, {4, 2}}, torch.tensor {5, 4}, torch.tensor {2, 1}
  local wanted = torch.nn.functional.ctc_loss(x, targets, inputs, lengths)
  for _, there in ipairs {targets, targets:cuda(1)} do
    local loss = torch.nn.functional.ctc_loss(x:cuda(1), there, inputs, lengths:cuda(0))
    check.equal(tostring(loss.device), "cuda:1")
    check.close(loss:cpu(), wanted, 1e-5)
  end
end)

test("out= on another device is refused, but for what is made of nothing", function()
  local x, there, here = torch.ones(2, 2):cuda(1), torch.zeros(2, 2):cuda(1), torch.zeros(2, 2)
  for _, name in ipairs {"add", "matmul", "maximum"} do
    check.equal(tostring(torch[name](x, x, {out = there}).device), "cuda:1")
    local e = check.raises("device", "out is on cpu, the result on cuda:1", torch[name], x, x, {out = here})
    check.equal(e.hint, 'out = out:to("cuda:1")')
    check.raises("device", "out is on cuda:1, the result on cpu", torch[name], x:cpu(), x:cpu(), {out = there})
  end
  check.equal(here, {{0, 0}, {0, 0}})
  check.raises("device", "out is on cpu", torch.cat, {x, x}, {out = torch.zeros(4, 2)})
  check.equal(torch.ones(2, 2, {out = there}):cpu(), {{1, 1}, {1, 1}})
end)

test("where an operand was made is the last assignment that holds there: no parameter, no other function's variable", function()
  local path = check.temp "made.lua"
  local file = assert(io.open(path, "w"))
  file:write [[
torch.cuda.simulate(2)
local function other()
  local x = torch.randn(2)
  return x
end
local x, y = other():to("cuda:0"), torch.ones(2):to("cuda:1")
local function sum(x) return x + y end
print(select(2, pcall(sum, x)))
print(select(2, pcall(function() return x + y end)))
]]
  file:close()
  local out = check.tycho({path}).out
  check.contains(out, "y was made in line 6: torch.ones%(2%):to%(\"cuda:1\"%)")
  check.contains(out, "x was made in line 6: other%(%):to%(\"cuda:0\"%)")
  check.equal(select(2, out:gsub("x was made", "")), 1)
end)

test("what PyTorch has under a second name or for any kind of device is there", function()
  check.equal(torch.device {type = "cuda", index = 1}, torch.device "cuda:1")
  check.equal({torch.get_autocast_dtype "cuda", torch.get_autocast_dtype "cpu"}, {torch.float16, torch.bfloat16})
  check.equal(torch.autocast("cuda", {dtype = torch.bfloat16}, function() return torch.get_autocast_dtype "cuda" end), torch.bfloat16)
  check.yes(torch.get_device_module "cuda:1" == cuda and torch.get_device_module() == cuda)
  check.equal({torch.get_device_module("cpu").device_count(), torch.cpu.current_device(), torch.cpu.synchronize()}, {1, "cpu"})
  check.raises("argument", "torch.cpu has no", function() return torch.cpu.memory end)
  local s, e = torch.Stream "cuda:1", torch.Event("cuda:1", {enable_timing = true})
  check.equal(tostring(s.device), "cuda:1")
  e:record(s)
  e:synchronize()
  check.equal(e:elapsed_time(e), 0)
  check.yes(torch.Event {device = "cuda", enable_timing = true}.enable_timing)
  check.equal(cuda.memory.memory_allocated(1), cuda.memory_allocated(1))
  check.yes(cuda.random.manual_seed_all == cuda.manual_seed_all)
  local x = torch.ones(3, {device = "cuda:1"})
  cuda.reset_accumulated_memory_stats(1)
  check.equal(cuda.memory_stats(1)["allocation.all.allocated"], 0)
  local y = torch.ones(3, {device = "cuda:1"})
  check.equal(cuda.memory_stats(1)["allocation.all.allocated"], 1)
  check.equal((x + y):cpu(), {2, 2, 2})
end)

test("ctc_loss takes labels and lengths of the CPU beside a device's probabilities, as PyTorch does", function()
  local F = torch.nn.functional
  local x = torch.randn(6, 2, 5):log_softmax(3)
  local targets, given, wanted = torch.tensor {{2, 3, 4}, {3, 5, 2}}, torch.tensor {6, 5}, torch.tensor {3, 2}
  local there = x:cuda(1):requires_grad_()
  local here = x:clone():requires_grad_()
  F.ctc_loss(here, targets, given, wanted):backward()
  for _, call in ipairs {function() return F.ctc_loss(there, targets, given, wanted) end, function() return F.ctc_loss(there, targets:cuda(1), given, wanted) end,
    function() return F.ctc_loss(there, targets:cuda(1), given:cuda(1), wanted:cuda(1)) end, function() return torch.nn.CTCLoss()(there, targets, {6, 5}, {3, 2}) end} do
    there.grad = nil
    local loss = call()
    check.equal(tostring(loss.device), "cuda:1")
    loss:backward()
    check.equal(there.grad:cpu(), here.grad)
  end
end)

test("what says where or how large may lie on another device, as in PyTorch, and what is computed with may not", function()
  local x, i = torch.arange(6):float():cuda(1), torch.tensor {1, 3}
  local a, b, c = x:tensor_split(torch.tensor {2, 4})
  check.equal({a:cpu(), b:cpu(), c:cpu()}, {{0, 1}, {2, 3}, {4, 5}})
  check.equal(x:index_put({i}, torch.tensor(9.0)):cpu(), {9, 1, 9, 3, 4, 5})
  check.equal(x:clone():index_put_({i:cuda(1)}, torch.tensor({7.0, 8.0}, {device = "cuda:1"}), true):cpu(), {7, 1, 10, 3, 4, 5})
  check.equal(x:index_put({x:gt(3):cpu()}, 1):cpu(), {0, 1, 2, 3, 1, 1})
  check.raises("device", "cuda:1", x.index_put, x, {i}, torch.tensor {7.0, 8.0})
  check.raises("device", "cuda:1", x.index_put, x:cpu(), {i:cuda(1)}, torch.tensor {7.0, 8.0})
  for _, name in ipairs {"view_as", "reshape_as", "expand_as"} do check.equal(tostring(torch.zeros(6)[name](torch.ones(6), x).device), "cpu", name) end
  check.equal({tostring(torch.zeros(2):long():type_as(x).device), torch.zeros(2):long():type_as(x).dtype}, {"cuda:1", torch.float32})
  check.raises("device", "LSTM: the state h is on cpu, the input on cuda:1", function()
    return torch.nn.LSTM(3, 2):cuda(1)(torch.randn(2, 1, 3):cuda(1), {torch.zeros(1, 1, 2), torch.zeros(1, 1, 2)})
  end)
end)

test("no operation is left to the CPU where the program has the module for GPUs", function()
  local names, why = cuda._ops_on_cpu()
  if not names then check.skip(why) end
  check.equal(names, {})
end)
