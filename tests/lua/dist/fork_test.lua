-- torch.fork and torch.wait: results, gradients of any order, errors, nesting, Ctrl-C.
local function leaf(...) return torch.randn(...):requires_grad_() end
local function again(x) return x:detach():requires_grad_() end

test("a fork gives its function's results, all of them", function()
  local k = 3
  local f = torch.fork(function(x, s) return x * k, s, nil, {x = x} end, torch.ones(2), "text")
  local y, s, none, t = torch.wait(f)
  check.equal(y, torch.full({2}, 3.0))
  check.equal({s, t.x}, {"text", torch.ones(2)})
  check.equal(none, nil)
  check.yes(f:done())
  check.equal((f:wait()), y)  -- again: the same
  check.equal(f:value(), y)
  check.contains(tostring(f), "fork_test.lua:")
  check.equal(torch.jit.wait(torch.jit.fork(function(a) return a + 1 end, 1)), 2)
  check.equal(torch.wait {torch.fork(function() return 1 end), torch.fork(function() return 2 end)}, {1, 2})
  check.equal(select("#", torch.wait(torch.fork(function() end))), 0)
end)

test("tensors share their memory, other values are copies", function()
  local x, t = torch.zeros(3), {n = 1}
  torch.fork(function()
    x:fill_(7)
    t.n = 2
  end):wait()
  check.equal(x, torch.full({3}, 7.0))
  check.equal(t.n, 1)
end)

test("gradients flow to arguments and to what the function uses", function()
  local w, v = leaf(3, 4), leaf(4)
  local function f(x) return (x * v):exp():sum(), {mean = x:mean()} end
  local a, b = torch.fork(f, w * 2):wait()
  local loss = a + 3 * b.mean
  loss:backward()
  local w2, v2 = again(w), again(v)
  local x = w2 * 2
  loss = (x * v2):exp():sum() + 3 * x:mean()
  loss:backward()
  check.equal(w.grad, w2.grad)
  check.equal(v.grad, v2.grad)
end)

test("a module's parameters get their gradients, also in several forks", function()
  local net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
  local x = torch.randn(6, 4)
  local forks = {}
  for i = 1, 3 do forks[i] = torch.fork(net, x[{{2 * i - 1, 2 * i}}]) end
  local total = 0
  for _, y in ipairs(torch.wait(forks)) do total = total + y:sum() end
  total:backward()
  local got = {}
  for i, p in ipairs(net:parameters()) do
    got[i] = p.grad:clone()
    p.grad = nil
  end
  net(x):sum():backward()
  for i, p in ipairs(net:parameters()) do check.close(got[i], p.grad) end
end)

test("derivatives are of any order", function()
  local w = leaf(5)
  local y = torch.fork(function(x) return (x ^ 4):sum() end, w):wait()
  local g = torch.autograd.grad(y, {w}, {create_graph = true})
  check.close(g, 4 * w:detach() ^ 3)
  local h = torch.autograd.grad(g:sum(), {w}, {create_graph = true})
  check.close(h, 12 * w:detach() ^ 2)
  local third = torch.autograd.grad(h:sum(), {w})
  check.close(third, 24 * w:detach())
  check.yes(torch.autograd.gradcheck(function(a, b)
    return torch.fork(function(c) return (c * b):sin() end, a):wait()
  end, {torch.randn(3, {dtype = "float64", requires_grad = true}), torch.randn(3, {dtype = "float64", requires_grad = true})}))
end)

test("what needs no gradient, a returned input, and unused outputs", function()
  local w = leaf(3)
  check.no(torch.fork(function(x) return x * 2 end, torch.ones(3)):wait().requires_grad)
  check.no(torch.no_grad(function() return torch.fork(function() return w * 2 end):wait() end).requires_grad)
  local same, twice, made = torch.fork(function(x) return x, x * 2, torch.ones(2, {requires_grad = true}) end, w):wait()
  check.yes(made.is_leaf and made.requires_grad)
  same:sum():backward()
  check.equal(w.grad, torch.ones(3))
  twice:sum():backward()
  check.equal(w.grad, torch.full({3}, 3.0))
  local count = torch.fork(function(x) return x:argmax(), x:sum() end, w):wait()
  check.dtype(count, "int64")
  check.no(count.requires_grad)
end)

test("results of one fork may be parts of several losses", function()
  local w = leaf(2)
  local y, z = torch.fork(function() return (w * w):sum(), (w * 3):sum() end):wait()
  y:backward {retain_graph = true}
  y:backward()
  z:backward()
  check.close(w.grad, 4 * w:detach() + 3)
end)

test("a function with a gradient of its own works inside", function()
  local Twice = torch.autograd.Function "Twice"
  function Twice.forward(ctx, x) return x * 2 end
  function Twice.backward(ctx, g) return g * 10 end
  local w = leaf(2)
  torch.fork(function(x) return Twice.apply(x):sum() end, w):wait():backward()
  check.equal(w.grad, torch.full({2}, 10.0))
end)

test("modes go along: autocast, inference, default dtype", function()
  local x = torch.ones(4, 4)
  local dtype = torch.autocast("cpu", function() return torch.fork(function() return torch.mm(x, x).dtype end):wait() end)
  check.yes(dtype == torch.bfloat16)
  check.yes(torch.fork(function() return torch.mm(x, x).dtype end):wait() == torch.float32)
end)

test("random numbers of forks are the same in every run, and differ between forks", function()
  local function draw()
    torch.manual_seed(11)
    local a, b = torch.fork(torch.rand, 3), torch.fork(torch.rand, 3)
    return a:wait(), b:wait(), torch.rand(2)
  end
  local a, b, own = draw()
  local a2, b2, own2 = draw()
  check.no(a:equal(b))
  check.equal(own, own2)
  torch.manual_seed(11)
  check.equal(torch.rand(2), own)  -- forks draw nothing from who forks
  local _ = {a2, b2}
end)

test("an error arrives with its kind, its place and the fork's line", function()
  local f = torch.fork(function() return torch.ones(2) + torch.ones(3) end)
  local err = check.raises("broadcast", "do not broadcast", torch.wait, f)
  check.contains(err.message, "forked at ")
  check.contains(err.message, "fork_test.lua:")
  check.raises("broadcast", nil, torch.wait, f)  -- again
  err = check.raises("value", "plain text", torch.wait, torch.fork(function() error "plain text" end))
  check.contains(err.traceback, "fork_test.lua")
  -- In the backward pass, too.
  local Bad = torch.autograd.Function "Bad"
  function Bad.forward(ctx, x) return x * 2 end
  function Bad.backward() error "bad gradient" end
  local w = leaf(2)
  local y = torch.fork(function(x) return Bad.apply(x):sum() end, w):wait()
  check.contains(check.raises(nil, "bad gradient", y.backward, y).message, "forked at ")
  check.equal(torch.fork(function() return 1 end):wait(), 1)
end)

test("what cannot cross is named with its path", function()
  local log = io.tmpfile()
  check.raises("argument", "fork: log (a variable of f) is an open file, which cannot go to another thread", torch.fork, function() return log end)
  check.raises("argument", "args[1].a is an open file", torch.fork, print, {a = log})
  check.raises("argument", "is an open file, which cannot leave the thread that made it", torch.wait, torch.fork(function() return {1, {x = io.tmpfile()}} end))
  check.raises("argument", "wants a function or a module", torch.fork, 3)
  check.raises("argument", "wants a function or a module", torch.fork)
  check.raises("argument", "wants what torch.fork gave", torch.wait, 3)
  check.raises("argument", "item 2 is not", torch.wait, {torch.fork(print), 3})
  log:close()
end)

test("forks nest, and gradients flow through all levels", function()
  local function fib(n)
    if n < 2 then return n end
    local a = torch.fork(fib, n - 1)
    return fib(n - 2) + a:wait()
  end
  check.equal(fib(5), 5)
  local w = leaf(3)
  local y = torch.fork(function(x)
    local inner = torch.fork(function(z) return z ^ 3 end, x * 2):wait()
    return inner:sum()
  end, w):wait()
  y:backward()
  check.close(w.grad, 24 * w:detach() ^ 2)
  local function deep(n) return n == 0 and 0 or torch.fork(deep, n - 1):wait() + 1 end
  check.equal(deep(4), 4)
end)

test("more forks than processors wait for their turn", function()
  local forks = {}
  for i = 1, 40 do forks[i] = torch.fork(function() return torch.full({100}, i):sum():item() end) end
  for i = 40, 1, -1 do check.equal(forks[i]:wait(), i * 100.0) end
end)

test("forks run at the same time, and may write to parts of one tensor", function()
  -- Each waits for the other: one after the other they would never end.
  if torch.get_num_threads() < 2 then check.skip "one thread" end
  local mp, words = torch.multiprocessing, torch.zeros(2, 1000)
  local left, right = mp.Event(), mp.Event()
  local function meet(mine, other, i)
    for k = 1, 100 do words[i][k] = k end
    mine:set()
    local met = other:wait(60)
    words[i]:add_(i)
    return met
  end
  local a, b = torch.fork(meet, left, right, 1), torch.fork(meet, right, left, 2)
  check.yes(a:wait() and b:wait())
  check.equal(words:sum(2), torch.tensor {5050. + 1000, 5050. + 2000})
end)

test("forks that nobody waits for harm nobody, and graphs are let go", function()
  for _ = 1, 20 do torch.fork(function() return torch.ones(1000) end) end
  local w = leaf(1000, 100)
  local before
  for i = 1, 30 do
    local y = torch.fork(function() return (w * 2):exp():sum() end):wait()
    y:backward()
    y = nil
    collectgarbage()
    if i == 10 then before = torch.memory_allocated and torch.memory_allocated() or 0 end
  end
  torch.fork(collectgarbage):wait()
  if torch.memory_allocated then check.yes(torch.memory_allocated() < before + 20e6) end
end)

test("Ctrl-C ends forks and leaves the program alive", function()
  local path = check.temp "interrupted.lua"
  local f <close> = assert(io.open(path, "w"))
  f:write [[
    local forks = {}
    for i = 1, 2 do forks[i] = torch.fork(function() while true do end end) end
    local ended, place = torch.until_interrupt(function()
      os.execute("(sleep 0.3; kill -INT " .. torch._process_id() .. ") &")
      forks[1]:wait()
    end)
    print(ended, place:match "%d+$")
    local ok, err = pcall(forks[2].wait, forks[2])
    print(ok, err.kind, tostring(err):find("stopped", 1, true) ~= nil)
    print(torch.fork(function() return 5 end):wait())
  ]]
  f:close()
  local out = check.tycho({path}, {before = "ulimit -t 30"})
  check.equal(out.out, "false\t5\nfalse\tvalue\ttrue\n5\n", out.err)
  check.equal(out.status, 0)
end)

test("a program ends while forks run", function()
  local out = check.tycho({"-e", "f = torch.fork(function() while true do end end) print 'end'"}, {before = "ulimit -t 30"})
  check.equal(out.out, "end\n")
  check.equal(out.status, 0)
end)
