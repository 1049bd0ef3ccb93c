-- Memory: temporaries go at once, peaks stay bounded, cycles are freed, and running out is an error
-- that a session survives. Peaks are measured in a process of their own.

-- Sanitizers see in a tenth of the steps all that they see, and their peaks are not those of a plain build.
local part = os.getenv "TYCHO_SANITIZED" and 10 or 1

-- Runs code and gives the peak of its resident memory in MB and what it printed.
local function peak(code, options)
  local tail = [[
    io.stdout:flush()
    for line in io.lines("/proc/self/status") do
      local kb = line:match("^VmHWM:%s*(%d+) kB")
      if kb then io.write("peak ", kb, "\n") end
    end]]
  local r = check.tycho({"-e", ("local part = %d "):format(part) .. code .. "\n" .. tail}, options)
  check.equal(r.status, 0, r.err)
  return tonumber(r.out:match("peak (%d+)")) / 1024, r.out
end

local function bounded(megabytes, limit)
  if part == 1 then check.yes(megabytes < limit, ("%.0f MB, limit %d"):format(megabytes, limit)) end
end

test("a loop that makes temporaries of 4 MB stays under 256 MB", function()
  bounded(peak [[
    local x = torch.ones(1000000)
    for i = 1, 2000 // part do local y = x + i end]], 256)
end)

test("the same with a million other Lua objects alive", function()
  bounded(peak [[
    local others = {}
    for i = 1, 1000000 // part do others[i] = {i} end
    local x = torch.ones(1000000)
    for i = 1, 2000 // part do local y = x + i end]], 256 + 100)
end)

test("a loop of results smaller than a megabyte uses few blocks again and again, whatever was made before it", function()
  local kept = {}
  for i = 1, 40 do kept[i] = torch.ones(100000) end
  local x, blocks, count = torch.ones(200000), {}, 0
  local function run(n)
    blocks, count = {}, 0
    for _ = 1, n do
      local y = x + 1
      local at = y:data_ptr()
      if not blocks[at] then blocks[at], count = true, count + 1 end
    end
  end
  run(300)  -- what was kept is found out
  run(300)
  if part == 1 then check.yes(count <= 4, count .. " blocks") end
end)

test("the same in coroutines, by methods, in place and with gradients", function()
  bounded(peak [[
    local x = torch.ones(1000000):requires_grad_()
    local co = coroutine.wrap(function() while true do coroutine.yield((x * 2):exp()) end end)
    for i = 1, 300 // part do
      local y = co()
      y:sum():backward()
      x.grad = nil
    end]], 256)
end)

test("a loop of one result finds back to few blocks after memory has grown and shrunk", function()
  if part > 1 then check.skip "sanitizers keep freed memory apart" end
  local r = check.tycho({"-e", [[
    torch.set_fusion(false)
    local others, kept, x = {}, {}, torch.ones(400000)
    for i = 1, 8000 do others[i] = {i} end
    local function loop(n)
      local r, many = nil, 0
      local before = torch.memory_allocated()
      for _ = 1, n do
        r = x * 2
        if torch.memory_allocated() - before > 4 * 1600000 then many = many + 1 end
      end
      return many
    end
    for i = 1, 8 do kept[i] = x + i end
    kept = nil
    local many = 0
    for _ = 1, 50 do many = many + loop(20) end
    print(many)]]})
  check.equal(r.status, 0, r.err)
  check.yes(tonumber(r.out) < 60, r.out)
end)

test("results that replace one another share two blocks of memory", function()
  if part > 1 then check.skip "sanitizers keep freed memory apart" end
  local x = torch.randint(0, 100, {1000000})
  for _, make in ipairs {
    function() return x + 1 end, function() return x:to(torch.int32) end,
    function() return x:double() end, function() return x[{{1, -1, 2}}]:contiguous() end,
  } do
    local r
    for _ = 1, 60 do r = make() end
    local seen, count = {}, 0
    for _ = 1, 20 do
      r = make()
      local at = r:data_ptr()
      if not seen[at] then seen[at], count = true, count + 1 end
    end
    check.yes(count <= 3, count)
  end
end)

test("a training run of a perceptron with Adam has a bounded peak", function()
  bounded(peak [[
    local nn, F = torch.nn, torch.nn.functional
    local net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    local opt = torch.optim.Adam(net:parameters(), {lr = 0.001})
    for step = 1, 200 // part do
      local x, y = torch.randn(256, 784), torch.randint(1, 11, {256})
      opt:zero_grad()
      F.cross_entropy(net(x), y):backward()
      opt:step()
    end]], 200)
end)

test("a training run of a convolutional network with Adam has a bounded peak", function()
  bounded(peak [[
    local nn, F = torch.nn, torch.nn.functional
    local net = nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 144, 10))
    local opt = torch.optim.Adam(net:parameters(), {lr = 0.001})
    for step = 1, 200 // part do
      local x, y = torch.randn(64, 1, 28, 28), torch.randint(1, 11, {64})
      opt:zero_grad()
      F.cross_entropy(net(x), y):backward()
      opt:step()
    end]], 300)
end)

test("a chain of a million nodes runs backward and is freed", function()
  local code = [[
    local x = torch.ones(1):requires_grad_()
    local before = torch.memory_allocated()
    local y = x
    for i = 1, 1000000 // part do y = y + 1 end
    y:backward()
    print(x.grad:item(), y:item())
    local z = x
    for i = 1, 1000000 // part do z = z * 1 end
    y, z, x.grad = nil, nil, nil
    collectgarbage() collectgarbage()
    print(torch.memory_allocated() - before)]]
  local _, out = peak(code)
  check.contains(out, ("1.0\t%.1f\n0\n"):format(1000000 // part + 1))
end)

-- Live bytes after `make` has run 20 times and everything was collected, less those before.
local function left_over(make)
  make()
  collectgarbage() collectgarbage() collectgarbage()
  local x = torch.ones(1) + 1  -- an entry of the engine: what the collector dropped goes
  collectgarbage() collectgarbage()
  local before = torch.memory_allocated()
  for i = 1, 20 do make() end
  collectgarbage() collectgarbage() collectgarbage()
  local y = torch.ones(1) + 1
  x, y = nil, nil
  collectgarbage() collectgarbage() collectgarbage()
  return torch.memory_allocated() - before
end

local function no_leak(make) check.yes(left_over(make) < 4096, ("%d bytes are left"):format(left_over(make))) end

test("graphs that were never run backward are freed", function()
  no_leak(function()
    local x = torch.ones(10000):requires_grad_()
    local y = (x * x):exp():sum()
  end)
end)

test("graphs of graphs are freed", function()
  no_leak(function()
    local x = torch.ones(10000):requires_grad_()
    local y = (x ^ 3):sum()
    local g = torch.autograd.grad(y, {x}, {create_graph = true})
    g:sum():backward()
  end)
end)

test("a hook lives as long as the graph that needs it", function()
  local seen = 0
  local x = torch.ones(3):requires_grad_()
  local z
  do
    local y = x * 2
    y:register_hook(function(g) seen = seen + 1 return g * 10 end)
    z = y:sum()
  end
  collectgarbage() collectgarbage() collectgarbage()
  for i = 1, 100 do local t = torch.ones(10) + 1 end
  collectgarbage() collectgarbage()
  z:backward()
  check.equal(seen, 1)
  check.equal(x.grad, {20, 20, 20})
  do
    local w = torch.ones(3):requires_grad_()
    w:register_hook(function(g) seen = seen + 1 end)
    z = (w * 2):sum()
  end
  collectgarbage() collectgarbage() collectgarbage()
  z:backward()
  check.equal(seen, 2)
end)

test("tensors of autograd.Function are freed, also when it keeps its input and output", function()
  local Square = torch.autograd.Function("Square")
  function Square.forward(ctx, x)
    local y = x * x
    ctx:save_for_backward(x, y)
    ctx.input, ctx.output = x, y
    return y
  end
  function Square.backward(ctx, g) return g * ctx.saved_tensors[1] * 2 end
  no_leak(function()
    local x = torch.ones(10000):requires_grad_()
    Square(x):sum():backward()
  end)
  no_leak(function()
    local x = torch.ones(10000):requires_grad_()
    local y = Square(x)
  end)
end)

test("module hooks and modules that hold their outputs are freed", function()
  no_leak(function()
    local net = torch.nn.Linear(100, 100)
    net:register_forward_hook(function(m, inputs, output) m.last = output end)
    local y = net(torch.ones(10, 100)):sum()
    y:backward()
  end)
end)

test("tensors held only by dead or forgotten coroutines are freed", function()
  no_leak(function()
    local co = coroutine.wrap(function()
      local x = torch.ones(10000)
      coroutine.yield()
      return x
    end)
    co()
  end)
  no_leak(function()
    local co = coroutine.create(function()
      local x = torch.ones(10000)
      error("no")
    end)
    coroutine.resume(co)
  end)
end)

test("torch.scope frees what was made inside, in both forms", function()
  local before = torch.memory_allocated()
  local kept = {}
  local a, b = torch.scope(function()
    local x = torch.ones(1000000)
    kept.y = x + 1
    return x * 2, 7
  end)
  check.equal(b, 7)
  check.equal(a[1]:item(), 2)
  local held = torch.memory_allocated() - before
  check.yes(held <= 2 * 4000000 + 4096, ("%d bytes are held, 8,000,000 should be"):format(held))
  do
    local _ <close> = torch.scope()
    kept.z = torch.ones(1000000) * 3
  end
  collectgarbage()
  check.equal(kept.z[5]:item(), 3)
  kept, a = nil, nil
  check.raises("shape", nil, function()
    torch.scope(function() local x = torch.ones(1000000) error(select(2, pcall(torch.matmul, torch.ones(2, 3), torch.ones(2, 3)))) end)
  end)
end)

test("out of memory names the largest holder, and the session goes on", function()
  local r = check.tycho({"-e", [[
    cache = {}
    for i = 1, 8 do cache[i] = torch.ones(4000000) end
    small = torch.ones(10)
    local ok, err = pcall(function()
      local more = {}
      for i = 1, 100000 do more[i] = torch.ones(4000000) end
    end)
    print(ok, err.kind, tostring(err):find("cache", 1, true) ~= nil or tostring(err):find("more", 1, true) ~= nil)
    print(small:sum():item())
    local x = torch.ones(4000000) + 1   -- what `more` held is free again
    print(x[1]:item())
    local huge = select(2, pcall(torch.zeros, 1 << 40))
    print(huge.kind, tostring(huge):find("cache", 1, true) ~= nil)
    print(#cache, cache[8]:sum():item())
  ]]}, {limit_kb = 1200000})
  check.equal(r.status, 0, r.err)
  check.equal(r.out, "false\toom\ttrue\n10.0\n2.0\noom\ttrue\n8\t4000000.0\n")
end)

test("garbage is collected before memory is said to be out", function()
  local r = check.tycho({"-e", [[
    collectgarbage("stop")
    for i = 1, 200 do local x = torch.ones(8000000) end
    print("done")]]}, {limit_kb = 1200000})
  check.equal(r.out, "done\n", r.err)
end)

test("out of memory at the prompt's input and in scripts is one error", function()
  local r = check.tycho({"-e", "hold = torch.ones(50000000) local x = {} while true do x[#x + 1] = torch.ones(50000000) end"}, {limit_kb = 2000000})
  check.equal(r.status, 1)
  check.contains(r.err, "out of memory")
  check.contains(r.err, "x ")
  r = check.tycho({"-e", "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end"}, {limit_kb = 800000})
  check.equal(r.status, 1)
  check.contains(r.err, "not enough memory")
end)

test("simulated devices have counts and limits of their own", function()
  local r = check.tycho({"-e", [[
    local before = torch.memory_allocated()
    local x = torch.ones(1000000, {device = "cuda:1"})
    print(torch.memory_allocated() - before, torch.cuda.memory_allocated(1), torch.cuda.memory_allocated("cuda:0"), torch.memory_allocated("cuda:1"))
    x = nil
    collectgarbage()
    print(torch.cuda.memory_allocated(1), torch.cuda.max_memory_allocated(1) >= 4000000)]]}, {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.equal(r.out, "0\t4000000\t0\t4000000\n0\ttrue\n", r.err)
end)

test("zeros are zeros, in fresh memory and in memory that was used before", function()
  for round = 1, 40 do
    local n = 40000 + round % 3 * 100000  -- on both sides of what comes from the system directly
    local x = round % 2 == 0 and torch.zeros(n) or torch.zeros_like(torch.empty(n))
    check.equal(x:ne(0):sum():item(), 0, round)
    x:fill_(round)
    local y = torch.empty(n):fill_(7):zero_()
    check.equal(y:ne(0):sum():item(), 0, round)
    local z = torch.empty(n)
    z:fill_(1)
    z:zero_()
    check.equal(z:ne(0):sum():item(), 0, round)
    if round % 4 == 0 then
      x, y, z = nil, nil, nil
      collectgarbage()
    end
  end
end)

test("a huge tensor of zeros is there at once: no byte of it is touched", function()
  if os.getenv "TYCHO_SANITIZED" then check.skip "sanitizers have an allocator of their own" end
  local ok, x = pcall(torch.zeros, 40000, 25000)  -- 4 GB, where the machine gives addresses for it
  if ok then
    local file = io.open "/proc/self/statm"
    local pages = file and tonumber(select(3, file:read "a":find "^%d+ (%d+)")) or 0
    if file then file:close() end
    check.yes(pages * 4096 < 3e9, "4 GB lie in memory")
    check.equal(x[{40000, 25000}]:item(), 0.0)
  end
end)
