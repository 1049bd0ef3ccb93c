-- Fusion: chains that run together give the bits that one operation after the other gives, whatever
-- comes between: views, changes in place, gradients, forks, errors.
local unary = {"exp", "tanh", "sin", "abs", "neg", "sigmoid", "square", "relu", "sign", "reciprocal", "floor", "erf", "sqrt", "log"}
local binary = {"add", "sub", "mul", "div", "maximum", "minimum", "atan2"}
local compare = {"gt", "le", "eq", "ne"}
local reduce = {"sum", "mean", "amax", "amin", "var", "std", "norm", "nansum", "count_nonzero"}
local in_place = {"add_", "mul_", "sub_", "copy_", "maximum"}

-- Of a nan, that it is one: which sign a nan has that two others make depends on the element's place
-- among the lanes, also without fusion.
local function bits(x)
  x = x:detach():contiguous()
  if not x:is_floating_point() then return x end
  if x.dtype == torch.bfloat16 or x.dtype == torch.float16 then x = x:float() end
  x = torch.where(x:isnan(), x:new_full({}, 0 / 0), x)
  return x:view(x.dtype == torch.float64 and torch.int64 or torch.int32)
end

-- A random program: the same one for the same seed, whoever runs it.
local function program(seed, device)
  torch.manual_seed(seed)
  local function randn(...)
    local shape = {...}
    local options = type(shape[#shape]) == "table" and table.remove(shape) or {}
    options.device = device
    return torch.randn(shape, options)
  end
  local state = seed * 7919 + 17
  local function draw(n)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return (state >> 8) % n + 1
  end
  local rows, columns = draw(5) * 7, draw(6) * 11
  if draw(20) == 1 then columns = columns * 40 end  -- longer than a tile
  local grads = draw(3) == 1
  local leaves, live = {}, {}
  for i = 1, 3 do
    local x = randn(rows, columns, {dtype = draw(8) == 1 and "float64" or "float32"})
    if grads and i < 3 then x:requires_grad_() end
    leaves[i], live[i] = x, x
  end
  if draw(2) == 1 then live[#live + 1] = randn(1) end
  if draw(2) == 1 then live[#live + 1] = torch.randint(0, 2, {rows, columns}, {device = device}):bool() end
  if draw(3) == 1 then live[#live + 1] = randn(columns) end
  if draw(3) == 1 then live[#live + 1] = randn(rows, 1) end
  if draw(5) == 1 then live[#live + 1] = randn(1, {dtype = "float64"}):squeeze() end
  if draw(3) == 1 then
    local half = draw(2) == 1 and "bfloat16" or "float16"
    live[#live + 1], live[#live + 2] = randn(rows, columns):to(half), randn(columns):to(half)
    if draw(2) == 1 then live[1], live[2] = live[1]:detach():to(half), live[2]:detach():to(half) end
  end
  local function any() return live[draw(#live)] end
  local function keep(x)
    if draw(2) == 1 or #live < 4 then live[#live + 1] = x else live[draw(#live)] = x end
  end
  local sums = {}
  local function step()
    local kind = draw(28)
    local x, y = any(), any()
    if kind <= 6 then
      if x.dtype ~= torch.bool then keep(x[unary[draw(#unary)]](x)) end
    elseif kind <= 11 then
      keep(torch[binary[draw(#binary)]](x, y))
    elseif kind == 12 then
      keep(x.dtype == torch.bool and x or torch.nn.functional.gelu(x, {approximate = draw(2) == 1 and "tanh" or "none"}))
    elseif kind == 13 then
      keep(x * (draw(9) / 4 - 1) + draw(3))
    elseif kind == 14 then
      keep(torch.where(x:gt(0), y, 0.5))
    elseif kind == 15 then
      local z = x:clone()
      local view = draw(2) == 1 and z:t() or z[{{1, 1}}]
      local w = z * 2 + 1
      view:mul_(3)
      keep(z)
      keep(w)
    elseif kind == 16 then
      local name = reduce[draw(#reduce)]
      if draw(2) == 1 then
        sums[#sums + 1] = torch[name](x)
      else
        local y = torch[name](x, {dim = -draw(2), keepdim = name ~= "count_nonzero" or nil})
        if draw(2) == 1 then keep(x * y) else keep(y) end
      end
    elseif kind == 17 then
      local z, w = x * 1.5, nil
      w = z + 1
      torch.no_grad(function() z:detach()[in_place[draw(4)]](z:detach(), y:detach():mean()) end)
      keep(w)
    elseif kind == 18 then
      keep(torch.add(x, y, {out = torch.empty(0, {device = device})}))
    elseif kind == 19 then
      collectgarbage(draw(2) == 1 and "step" or "collect")
    elseif kind == 20 then
      torch.no_grad(function() leaves[3]:add_(1) end)
    elseif kind == 21 then
      keep(x[compare[draw(#compare)]](x, draw(2) == 1 and y or draw(5) / 10))
    elseif kind == 22 then
      local mask = x[compare[draw(#compare)]](x, y)
      keep(torch.where(mask, x, y))
      if draw(2) == 1 then keep(mask * y) end
    elseif kind >= 26 then
      -- In place of what is held, which was read before and is read afterwards.
      local z = draw(2) == 1 and x * 1.5 or x - 0.5
      local before = draw(2) == 1 and z + y or nil
      if draw(4) == 1 then sums[#sums + 1] = z:sum() end
      z[({"relu_", "tanh_", "neg_", "square_"})[draw(4)]](z)
      if draw(2) == 1 then z[({"add_", "mul_", "maximum", "div_"})[draw(4)]](z, y) end
      if draw(2) == 1 then keep(z * 2) end
      if draw(3) == 1 then z:sub_(z) end
      keep(z)
      if before then keep(before) end
    elseif kind >= 24 then
      -- What a product keeps of these may be computed again for its gradient.
      local F = torch.nn.functional
      local z, way = x, draw(5)
      if way == 1 then z = F.layer_norm(x, {x:size(-1)}) end
      if way == 2 then z = F.gelu(F.layer_norm(x, {x:size(-1)}):to "float32") end
      if way == 3 then z = F.gelu(x * 0.5):to "bfloat16" end
      if way == 4 then z = F.dropout(x:relu(), 0.25) end
      if way == 5 then z = x:sin() end
      local w = randn(4, x:size(-1), {dtype = z.dtype})
      local product = F.linear(z, w:requires_grad_())
      if draw(4) == 1 then torch.no_grad(function() z:mul_(2) end) end
      if draw(4) == 1 then torch.no_grad(function() x:detach():add_(1) end) end
      keep(product:sum(-1, true):float() + y)
      if grads then leaves[#leaves + 1] = w end
    else
      keep(x:to(({"float32", "bfloat16", "float16", "float64"})[draw(4)]))
    end
  end
  local errors = 0
  for _ = 1, 12 + draw(25) do
    local ok, err = pcall(step)
    if not ok then
      errors = errors + 1
      assert(not tostring(err):find "internal", err)
    end
  end
  if grads then
    local total = torch.zeros(1, {device = device})
    for _, x in ipairs(live) do
      if x.requires_grad then total = total + x:tanh():sum() end
    end
    local ok, err = pcall(total.backward, total)
    assert(ok or not tostring(err):find "internal", err)
  end
  local out = {}
  for _, x in ipairs(live) do out[#out + 1] = x end
  for _, x in ipairs(sums) do out[#out + 1] = x end
  for _, x in ipairs(leaves) do out[#out + 1] = x.grad or x end
  return out, errors
end

local function with_fusion(from, f, ...)
  local on, before = torch.get_fusion()
  torch.set_fusion(from)
  local out = table.pack(pcall(f, ...))
  torch.set_fusion(on and before)
  if not out[1] then error(out[2], 0) end
  return table.unpack(out, 2, out.n)
end

local function same_bits_in_programs(device, cases)
  local first = tonumber(os.getenv "TYCHO_FUSION_FROM") or 1
  cases = tonumber(os.getenv "TYCHO_FUSION_CASES") or cases
  for seed = first, first + cases - 1 do
    local a, errors_a = with_fusion(false, program, seed, device)
    local b, errors_b = with_fusion(1, program, seed, device)
    check.equal(#a, #b)
    check.equal(errors_a, errors_b)
    for i = 1, #a do
      check.equal(a[i].dtype, b[i].dtype)
      check.yes(torch.equal(bits(a[i]), bits(b[i])), ("program %d: result %d"):format(seed, i))
    end
  end
end
test("random programs give the same bits with fusion and without", function() same_bits_in_programs("cpu", 400) end)
test("random programs on a device give the same bits with fusion and without", function()
  if torch.cuda.device_count() == 0 then torch.cuda.simulate(1) end
  same_bits_in_programs("cuda", 200)
end)

local function fused(sentence, f) test(sentence, function() with_fusion(8, f) end) end

fused("what a held row reads is what was there when it was asked for", function()
  local function each(change)
    local x = torch.arange(100, {dtype = "float32"})
    local y = x * 2 + 1
    change(x)
    check.equal(y, torch.arange(100, {dtype = "float32"}) * 2 + 1)
  end
  each(function(x) x:add_(1) end)
  each(function(x) x[3] = 7 end)
  each(function(x) x:view(10, 10)[{{}, 2}]:zero_() end)
  each(function(x) torch.add(x, 1, {out = x}) end)
  each(function(x) x:copy_(torch.ones(100)) end)
  each(function(x) x.data = torch.zeros(3) end)
  each(function(x) torch.fork(function() x:fill_(5) end):wait() end)
  each(function(x) x:unsqueeze_(1):mul_(0) end)
  each(function(x) x:normal_() end)
end)

fused("an optimiser's step and a backward leave what was computed before them", function()
  local w = torch.ones(100):requires_grad_()
  local opt = torch.optim.SGD({w}, {lr = 1})
  torch.sum(w * w):backward()
  local before, grad = w:detach() * 3, w.grad * 5
  opt:step()
  torch.sum(w * w):backward()
  check.equal(before, torch.full({100}, 3.))
  check.equal(grad, torch.full({100}, 10.))
end)

fused("held values reach files, forks, text and numbers", function()
  local x = torch.arange(1, 101, {dtype = "float32"})
  local path = check.temp "held.pt"
  torch.save({y = x * 2}, path)
  check.equal(torch.load(path).y, torch.arange(2, 202, 2, {dtype = "float32"}))
  check.equal(torch.fork(function(y) return y + 1 end, x * 2):wait(), torch.arange(3, 203, 2, {dtype = "float32"}))
  check.equal((x + 1):tolist()[100], 101.)
  check.contains(tostring((x * 10)[{{1, 3}}]), "10")
  check.equal((x - 1)[7]:item(), 6.)
end)

fused("errors come where they are made", function()
  local x = torch.ones(100)
  local y = x * 2
  check.raises("broadcast", nil, function() return y + torch.ones(99) end)
  check.equal(y + 1, torch.full({100}, 3.))
end)

fused("reductions of held rows give the bits of reductions of values", function()
  local function results(shape, dtype)
    torch.manual_seed(1)
    local x, row = torch.randn(shape):to(dtype), torch.randn(shape[#shape]):to(dtype)
    local out = {}
    local function add(...)
      for _, y in ipairs {...} do out[#out + 1] = y end
    end
    for _, name in ipairs(reduce) do
      add(torch[name](x * row + 0.5))
      add(torch[name]((x * row + 0.5):relu(), {dim = -1}))
    end
    local y, mask = (x + row):tanh(), (x - row):gt(0)
    add(y:sum {dtype = "float64"}, y, torch.var_mean(y, -1))  -- several ends of one chain
    add(mask:any(), mask:all(-1), mask:sum(), mask:float():mean())
    local total = (x * 2):sum()
    total:add_(1)
    add(total, y / total, y - y:mean {dim = -1, keepdim = true})
    return out
  end
  for _, shape in ipairs {{131072}, {200001}, {3, 50001}, {20, 9001}, {9000, 10}, {70, 300}, {400, 7}} do
    local dtype = ({"float32", "bfloat16", "float64", "float16"})[shape[1] % 4 + 1]
    local a = with_fusion(false, results, shape, dtype)
    local b = with_fusion(8, results, shape, dtype)
    for i = 1, #a do
      check.yes(torch.equal(bits(a[i]), bits(b[i])), ("[%s] %s: result %d"):format(table.concat(shape, ", "), dtype, i))
    end
  end
end)

-- Links take whole blocks of elements, and what is left over runs row by row; where many tensors meet, tiles
-- are smaller; results past the caches come from tiles.
test("one row over what repeats gives the bits of the row run at once, on any number of threads", function()
  local threads = torch.get_num_threads()
  -- Shapes of both operands: rows, columns, what repeats within and around, with long rows and short ones.
  local shapes = {
    {{30, 1}, {1, 64}}, {{1, 200}, {30, 1}}, {{7, 1, 96}, {1, 5, 1}}, {{300, 333}, {300, 1}}, {{300, 333}, {333}},
    {{5, 64, 1}, {5, 64, 128}}, {{4, 1, 100}, {4, 50, 1}}, {{700, 1}, {1, 65}}, {{3, 33}, {3, 1}},
  }
  for i, shape in ipairs(shapes) do
    for _, dtype in ipairs {"float32", "float64", "bfloat16", "float16"} do
      torch.manual_seed(i)
      local x, y = torch.randn(shape[1]):to(dtype), torch.randn(shape[2]):to(dtype)
      for _, f in ipairs {
        function() return x + y end, function() return y - x end, function() return x:mul(y) end,
        function() return torch.maximum(y, x) end, function() return torch.where(x:gt(0), y, 3) end,
        function() return torch.add(x, y, {alpha = 2}) end, function() return x:lt(y) end,
        function() return torch.atan2(x, y) end,
      } do
        torch.set_fusion(false)
        local want = bits(f())
        for n = 1, 3 do
          torch.set_num_threads(n)
          local got = with_fusion(8, function() return bits(f()) end)
          check.equal(torch.equal(got, want), true, dtype .. " " .. i)
        end
        torch.set_num_threads(threads)
      end
    end
  end
  torch.set_fusion(true)
end)

test("a zero that repeats keeps its sign", function()
  for _, dtype in ipairs {"float32", "float64"} do
    local row = torch.full({40}, -1., {dtype = dtype})
    for _, from in ipairs {false, 1} do
      for _, zero in ipairs {torch.full({3, 1}, -0.0, {dtype = dtype}), torch.tensor(-0.0, {dtype = dtype})} do
        with_fusion(from, function() check.yes(torch.atan2(zero, row):lt(0):all():item()) end)
      end
    end
  end
end)

fused("two conversions in one program keep their numbers apart when nobody has them any more", function()
  for _, types in ipairs {{"bool", "float64"}, {"int64", "float64"}, {"float32", "float64"}, {"bfloat16", "float32"}, {"uint8", "float32"}} do
    local a, b = torch.randint(0, 2, {40}):to(types[1]), torch.randint(0, 2, {40}):to(types[1])
    local x, y = torch.nan_to_num(a:to(types[2])), torch.nan_to_num(b:to(types[2]))
    collectgarbage()
    collectgarbage()
    check.equal(x:tolist(), a:to(types[2]):tolist())
    check.equal(y:tolist(), b:to(types[2]):tolist())
  end
end)

test("links of every length give the bits of single rows", function()
  local function chain(x, y, row)
    local a = x * x * x * 0.25 + x
    local b = (1 - a) * y
    local c = a / (b:abs() + 1)
    local d = torch.maximum(-c, b) - 2 / (a:square() + 1)
    local e = (d + row) * c - (b - a)
    return {a, b, c, d, e, ((e - 0.5) * (e - 0.5)):sum(), (d * e):mean()}
  end
  for _, dtype in ipairs {"float32", "float64"} do
    for _, columns in ipairs {1, 3, 127, 128, 129, 511, 1024, 1025, 2049} do
      local x, y, row = torch.randn(3, columns, {dtype = dtype}), torch.randn(3, columns, {dtype = dtype}),
        torch.randn(columns, {dtype = dtype})
      local a, b = with_fusion(false, chain, x, y, row), with_fusion(1, chain, x, y, row)
      for i = 1, #a do
        check.yes(torch.equal(bits(a[i]), bits(b[i])), ("%s, %d columns: result %d"):format(dtype, columns, i))
      end
    end
  end
end)

test("chains of tensors larger than the caches give the bits of single rows", function()
  local x, y = torch.randn(3000, 3000), torch.randn(3000, 3000)
  local function chain()
    local a = x * 0.5 + y
    local b = a * y - 1
    return a, b, b * x + a
  end
  local a, b = {with_fusion(false, chain)}, {with_fusion(1, chain)}
  for i = 1, 3 do check.yes(torch.equal(a[i], b[i]), "result " .. i) end
end)

-- Results with channels last, and other dense layouts, are held back as they lie.
test("rows of any dense layout give the bits and the layout of rows run at once", function()
  local F = torch.nn.functional
  local function results(shape, dtype, grads)
    torch.manual_seed(shape[1] + shape[2])
    local function randn(s) return torch.randn(s):to(dtype) end
    local c = shape[2]
    local x, y = randn(shape), randn(shape)
    local lying = #shape == 4 and x:contiguous {memory_format = "channels_last"} or x:transpose(1, 2):contiguous():transpose(1, 2)
    local other = torch.empty_like(lying):copy_(y)
    local along = {1, c}
    while #along < #shape do along[#along + 1] = 1 end
    local each, last = randn(along), randn {shape[#shape]}
    local mean, var, w, b = torch.randn(c), torch.rand(c) + 0.5, torch.randn(c), torch.randn(c)
    if grads then lying:requires_grad_() end
    local out = {}
    local function add(t) out[#out + 1] = t end
    local h = lying * each + 0.5
    add(h)
    add((h + other):relu())                     -- all lie alike
    add((h - y):tanh())                         -- one lies otherwise
    add((h * last):sigmoid() - each)
    local k = h * 2
    add(k + other)
    k:add_(other):relu_()
    add(k)
    k = other + each
    local was = k * lying:detach()
    k:mul_(lying:detach()):sub_(each):add_(y)
    add(was)
    add(k)
    add(h:to "float64" * 2)
    add(h:gt(0))
    add((h + 1):sum())
    add((h * 3):permute(table.unpack(#shape == 4 and {2, 4, 1, 3} or {2, 1})) + 1)
    for _, t in ipairs {lying, x} do
      local n = F.batch_norm(t, mean, var, w, b)
      add(n)
      add(F.relu(F.batch_norm(t, mean, var, w) + t))
      n = F.batch_norm(t, mean, var)
      add(F.batch_norm(n, mean, var, nil, b):add_(other):relu_())
    end
    local z = F.conv2d(randn {2, 3, 9, 9}, randn {4, 3, 3, 3})  -- lies with channels last, and does not say so
    local v = (z * 2 + 1):relu_()
    add(v:view(2, -1) * 2)
    add(v)
    if grads then
      local total = 0
      for _, t in ipairs(out) do
        if t.requires_grad then total = total + t:float():sum() end
      end
      total:backward()
      add(lying.grad)
    end
    return out
  end
  for _, shape in ipairs {{2, 8, 5, 7}, {3, 64, 8, 8}, {2, 128, 3, 5}, {1, 5, 9, 31}, {40, 33}, {300, 256}} do
    for i, dtype in ipairs {"float32", "float64", "bfloat16", "float16"} do
      for _, grads in ipairs {false, true} do
        local a = with_fusion(false, results, shape, dtype, grads)
        local b = with_fusion(1, results, shape, dtype, grads)
        check.equal(#a, #b)
        for k = 1, #a do
          local name = ("[%s] %s: result %d"):format(table.concat(shape, ", "), dtype, k)
          check.equal(a[k].dtype, b[k].dtype)
          check.equal(a[k]:stride(), b[k]:stride())
          check.yes(torch.equal(bits(a[k]), bits(b[k])), name)
        end
      end
    end
  end
end)

fused("a row in place joins what is held, and what was read before stays", function()
  local x = torch.arange(1, 101, {dtype = "float32"})
  local y = x * 2
  local z = y + 1
  y:mul_(3):add_(x)
  check.equal(z, x * 2 + 1)
  check.equal(y, x * 7)
  local w = x - 50
  local alias = w.data
  w:relu_()
  check.equal(alias, w)
  w = x * 2
  check.raises("broadcast", nil, function() w:add_(torch.ones(99)) end)
  check.raises("broadcast", nil, function() w:add_(torch.ones(2, 100)) end)
  w:add_(1)
  check.equal(w, x * 2 + 1)
  -- A gradient that wants the old value says so.
  local a = x:clone():requires_grad_()
  local b = a * 2
  local c = b * b
  b:add_(1)
  check.raises("autograd", nil, function() c:sum():backward() end)
end)

test("what is only summed takes no memory", function()
  local out = check.tycho {"-e", [[
    local x, y, z = torch.randn(1000, 1000), torch.randn(1000, 1000), torch.randn(1000)
    local function loss() return (x * y + z):relu():sum():item() + (x - y):square():mean {dim = 2}:sum():item() end
    loss()
    collectgarbage() collectgarbage()
    local before = torch.memory_allocated()
    torch.reset_peak_memory_stats()
    loss()
    print((torch.max_memory_allocated() - before) // 1e6)]]}
  check.equal(out.out, "0.0\n", out.err)
end)

test("temporaries of a chain take no memory", function()
  local out = check.tycho {"-e", [[
    local n = 1000000
    local x = torch.ones(n)
    local function chain()
      local h = x * x * x * 0.25 + x
      return (torch.tanh(h * 0.5) + 1) * x
    end
    chain():sum()
    collectgarbage() collectgarbage()
    local before = torch.memory_allocated()
    torch.reset_peak_memory_stats()
    local y = chain()
    y:sum()
    print((torch.max_memory_allocated() - before) // (4 * n))]]}
  check.equal(out.out, "1\n", out.err)
end)

test("a chain takes no more memory after torch.autograd.grad, a backward or one that fails", function()
  local first
  for _, sweep in ipairs {"", "torch.autograd.grad(y(), {x})", "y():backward()", "local z = y() z:backward() print(pcall(z.backward, z) and 1 or 0)"} do
    local out = check.tycho {"-e", [[
      local n = 1000000
      local x = torch.ones(n, {requires_grad = true})
      local function y() return (x * x):sum() end
      ]] .. sweep .. [[

      local w = torch.ones(n)
      collectgarbage() collectgarbage()
      local before = torch.memory_allocated()
      torch.reset_peak_memory_stats()
      for i = 1, 5 do ((w + 1) * 2 - 3):abs():sum() end
      print((torch.max_memory_allocated() - before) // (4 * n))]]}
    first = first or out.out:match "(%d+)\n$"
    check.equal(out.out:match "(%d+)\n$", first, sweep .. out.err)
  end
end)

test("rows, columns, masks, halves and casts join a chain", function()
  local out = check.tycho {"-e", [[
    local m, n = 1000, 1000
    local x, row, column = torch.randn(m, n), torch.randn(n), torch.randn(m, 1)
    local half = x:to "bfloat16"
    local function chain()
      local h = (x - column) * row + half
      return torch.where(h:gt(0), h, h:to "float16" * 0.1):to "bfloat16":float() * (column + row)
    end
    chain():sum()
    collectgarbage() collectgarbage()
    local before = torch.memory_allocated()
    torch.reset_peak_memory_stats()
    local y = chain()
    y:sum()
    print((torch.max_memory_allocated() - before) // (4 * m * n))]]}
  check.equal(out.out, "1\n", out.err)
end)

test("forward and backward of a chain take the memory of what is kept", function()
  local out = check.tycho {"-e", [[
    local n = 1000000
    local x, g = torch.randn(n):requires_grad_(), torch.ones(n)
    local function step()
      x.grad = nil
      local y = (torch.tanh(x * x * x * 0.25 + x) + 1) * x
      y:backward(g)
      return y
    end
    step()
    collectgarbage() collectgarbage()
    x.grad = nil
    local before = torch.memory_allocated()
    torch.reset_peak_memory_stats()
    local y = step()
    print((torch.max_memory_allocated() - before) // (4 * n), x.grad[1]:item() ~= 0)]]}
  check.equal(out.out, "2\ttrue\n", out.err)  -- y and the gradient
end)

test("results that nobody has any more take no memory", function()
  local out = check.tycho {"-e", [[
    local n = 1000000
    local x = torch.ones(n)
    local before = torch.memory_allocated()
    torch.reset_peak_memory_stats()
    do local y = x * 2 + 1 end
    local z = x * 3 + 1
    z:sum()
    print((torch.max_memory_allocated() - before) // (4 * n))]]}
  check.equal(out.out, "1\n", out.err)
end)

test("fusion is turned on and off", function()
  local on, from = torch.get_fusion()
  with_fusion(false, function() check.equal({torch.get_fusion()}, {false, 0}) end)
  with_fusion(100, function() check.equal({torch.get_fusion()}, {true, 100}) end)
  check.equal({torch.get_fusion()}, {on, from})
  check.raises("argument", "set_fusion: wants true, false, or from how many elements on", torch.set_fusion, 0)
  check.raises("argument", "set_fusion", torch.set_fusion)
  check.raises("argument", "set_fusion", torch.set_fusion, "yes")
  local out = check.tycho({"-e", "print(torch.get_fusion())"}, {before = "export TYCHO_FUSE=0"})
  check.equal(out.out, "false\t0\n")
end)
