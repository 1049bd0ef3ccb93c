-- What torch._observe, _measure, _attempt, _inspect and _graph tell the prompt's tools.

local function row(seen, name)
  for _, r in ipairs(seen.ops) do
    if r.name == name then return r end
  end
end

test("a matrix product counts two operations per term and the bytes of all three tensors", function()
  local a, b = torch.ones(64, 32), torch.ones(32, 16)
  local seen = torch._observe(function() return a:matmul(b) end)
  check.yes(seen.ok)
  check.equal(seen.flops, 2.0 * 64 * 32 * 16)
  check.equal(seen.bytes, 4.0 * (64 * 32 + 32 * 16 + 64 * 16))
  check.equal(row(seen, "matmul").calls, 1)
  check.equal(seen.results[1]:sum():item(), 64.0 * 32 * 16)
end)

test("a composition counts what its parts do", function()
  local bias, a, b = torch.ones(16), torch.ones(64, 32), torch.ones(32, 16)
  local seen = torch._observe(function() torch.addmm(bias, a, b) end)
  check.equal(seen.flops, 2.0 * 64 * 32 * 16 + 64 * 16)
  check.equal(#seen.ops, 1)
  check.equal(seen.ops[1].name, "addmm")
  check.equal(seen.ops[1].calls, 1)
end)

test("convolutions count one product per weight of an output channel, backwards too", function()
  local x, w = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3, {requires_grad = true})
  local seen = torch._observe(function() torch.nn.functional.conv2d(x, w):sum():backward() end)
  local once = 2.0 * (2 * 4 * 6 * 6) * (3 * 3 * 3)
  check.equal(row(seen, "conv2d").flops, once)
  check.equal(row(seen, "convolution_weight").flops, once)
end)

test("batches, linear layers, dot products and sums count their own way", function()
  local function flops(f) return torch._observe(f).flops end
  local a, b = torch.ones(5, 2, 3), torch.ones(5, 3, 4)
  check.equal(flops(function() a:bmm(b) end), 2.0 * 5 * 2 * 3 * 4)
  local x, w, c = torch.ones(6, 3), torch.ones(4, 3), torch.ones(4)
  check.equal(flops(function() torch.nn.functional.linear(x, w, c) end), 2.0 * 6 * 3 * 4 + 6 * 4)
  check.equal(flops(function() torch.nn.functional.linear(x, w) end), 2.0 * 6 * 3 * 4)
  check.equal(flops(function() c:dot(c) end), 8.0)
  check.equal(flops(function() x:sum() end), 18.0)
  check.equal(flops(function() x:mean(1) end), 18.0)
  check.equal(flops(function() return x + 1 end), 18.0)
end)

test("views move nothing, and a stretched dimension is read once", function()
  local x = torch.ones(8, 8)
  check.equal(torch._observe(function() return x:t(), x:view(64), x[1] end).bytes, 0.0)
  local wide = torch.ones(8, 1):expand(8, 100)
  check.equal(torch._observe(function() return wide:clone() end).bytes, 4.0 * (8 + 800))
end)

test("an operation that raises inside a composition leaves the counting as it was", function()
  local a, b = torch.ones(64, 32), torch.ones(32, 16)
  local seen = torch._observe(function()
    pcall(torch.addmm, torch.ones(15), a, b)
    return a + 1
  end)
  check.equal(row(seen, "add").calls, 1)
  check.equal(row(seen, "add").flops, 64.0 * 32)
  local after = torch._observe(function() error("no") end)
  check.no(after.ok)
  check.contains(after.error, "no")
  check.contains(after.traceback, "stack traceback")
  check.equal(#after.ops, 0)
end)

test("work is counted per line, Lua's own time too", function()
  local x = torch.ones(4)
  local seen = torch._observe(function()
    local s = 0
    for i = 1, 300000 do s = s + i end
    return x + s
  end, true)
  local calls, lua = 0, 0
  for _, line in ipairs(seen.lines) do
    check.contains(line.source, "observe_test.lua")
    calls, lua = calls + line.calls, lua + line.lua
  end
  check.equal(calls, 1)
  check.yes(lua > 0)
end)

test("an attempt gives results or the error with its traceback", function()
  check.equal({torch._attempt(function(...) return ... end, 1, nil, 3)}, {true, 1, nil, 3})
  local ok, err, trace, stopped = torch._attempt(function() error({code = 7}) end)
  check.no(ok)
  check.equal(err.code, 7)
  check.contains(trace, "traceback")
  check.no(stopped)
end)

test("runs are measured until there are enough of them", function()
  local x, n = torch.ones(4), 0
  local m = torch._measure(function() n = n + 1 return x + 1 end, 0.01)
  check.yes(m.ok and m.runs >= 3 and n > m.runs)
  check.yes(m.low <= m.median and m.median <= m.high and m.host > 0)
  check.no(torch._measure(function() error("no") end, 0.01).ok)
  check.equal(torch._measure(function() error("no") end, 0.01).runs, nil)
end)

test("a look at a tensor tells its storage, its base and its node", function()
  local x = torch.ones(2, 3, {requires_grad = true})
  local look = torch._inspect(x)
  check.equal({look.bytes, look.storage_bytes, look.offset, look.numel}, {24, 24, 0, 6})
  check.yes(look.leaf and look.requires_grad)
  local row2 = torch._inspect(x[2])
  check.equal({row2.storage, row2.base, row2.offset}, {look.storage, look.id, 3})
  local y = (x * 2):exp()
  check.equal(torch._inspect(y).node.name, "exp")
  check.equal(torch._inspect(y).node.saved, 1)
  check.equal(torch._inspect(7), nil)
end)

test("a look at a graph tells what it keeps", function()
  local x = torch.ones(100, {requires_grad = true})
  local loss = x:exp():sum()
  local graph = torch._graph(loss)
  local bytes = 0
  for _, b in pairs(graph.saved) do bytes = bytes + b end
  check.equal({graph.nodes, bytes}, {2, 400})
  check.equal(graph.leaves[torch._inspect(x).storage], 400)
  loss:backward()
  check.equal(next(torch._graph(loss).saved), nil)
  check.equal(torch._graph(x), nil)
  check.equal(torch._graph(3), nil)
end)
