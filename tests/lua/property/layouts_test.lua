-- Elements that lie in unusual ways are computed as those that lie row by row, whichever shorter path
-- their layout or type opens.

-- x's values in many layouts.
local function layouts(x)
  local n, m = x:size(1), x:size(2)
  local wide = torch.zeros({n, 2 * m}, {dtype = x.dtype})
  wide[{{}, {1, -1, 2}}] = x
  local offset = torch.zeros({n + 1, m + 3}, {dtype = x.dtype})
  offset[{{2, -1}, {3, m + 2}}] = x
  return {x, x:t():clone():contiguous():t(), wide[{{}, {1, -1, 2}}], offset[{{2, -1}, {3, m + 2}}]}
end
local sizes = {{1, 1}, {3, 5}, {17, 9}, {64, 40}, {150, 130}}

-- Also nan's signs count.
local function same_bits(a, b, note)
  check.equal(torch.equal(a:contiguous():view(torch.int16), b:contiguous():view(torch.int16)), true, note)
end

test("the signs of 16-bit floats are flipped and cleared as those of float32", function()
  torch.manual_seed(1)
  for _, dtype in ipairs {torch.float16, torch.bfloat16} do
    for _, size in ipairs(sizes) do
      local x = torch.randn(size):to(dtype)
      x[{1, 1}] = -0.0
      if x:numel() > 3 then x[{1, 2}], x[{1, 3}], x[{2, 1}] = 0 / 0, -math.huge, math.huge end
      local wide = x:to(torch.float32)
      for k, y in ipairs(layouts(x)) do
        same_bits(torch.neg(y), torch.neg(wide):to(dtype), k)
        same_bits(torch.abs(y), torch.abs(wide):to(dtype), k)
        same_bits(-y:abs(), -wide:abs():to(dtype), k)
        local o = layouts(torch.zeros(size, {dtype = dtype}))[k]
        torch.abs(y, {out = o})
        same_bits(o, torch.abs(wide):to(dtype), k)
        y:neg_()
        same_bits(y, torch.neg(wide):to(dtype), k)
        y:neg_()  -- the first layout is x itself
      end
    end
  end
end)

test("rows read and write elements two apart or backwards in every type", function()
  torch.manual_seed(2)
  for _, dtype in ipairs {torch.uint8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64} do
    for _, size in ipairs(sizes) do
      local x = torch.randint(1, 50, size):to(dtype)
      local y = x * 2 + 1
      local back = x:flip {1, 2}
      for k, view in ipairs(layouts(x)) do
        check.equal(torch.equal(view * 2 + 1, y), true, k)
        check.equal(torch.equal(view:flip {1, 2} * 1, back), true, k)
        for _, to in ipairs {torch.bool, torch.int32, torch.float32} do
          check.equal(torch.equal(view:to(to), x:to(to)), true, k)
        end
        if k > 1 then
          view:mul_(2):add_(1)
          check.equal(torch.equal(view, y), true, k)
        end
      end
    end
  end
end)

test("a result is laid out as the operand that does not repeat its elements", function()
  local column, turned = torch.randn(60, 1):expand(60, 7), torch.randn(7, 60):t()
  local y = column - turned
  check.equal(y:stride(), {1, 60})
  check.equal(torch.equal(y, column:contiguous() - turned:contiguous()), true)
  check.equal((turned - column):stride(), {1, 60})
  check.equal((column + column):stride(), {7, 1})
end)

test("small matrices are turned at every size and type", function()
  for _, dtype in ipairs {torch.uint8, torch.int16, torch.float32, torch.float64} do
    for n = 1, 20 do
      for _, m in ipairs {1, 3, 7, 8, 9, 12, 15, 16, 17, 100} do
        local x = torch.arange(n * m):remainder(251):to(dtype):view(n, m)
        local y = x:t():contiguous()
        for i = 1, n do check.equal(torch.equal(y[{{}, i}], x[i]), true) end
      end
    end
  end
end)

test("parts are taken from tensors of any layout", function()
  torch.manual_seed(3)
  local x = torch.randn(6, 21, 40)
  local turned = x:permute(3, 2, 1)
  local straight = turned:contiguous()
  for d = 1, 3 do
    local i = torch.randint(1, straight:size(d) + 1, {50})
    check.equal(torch.equal(turned:index_select(d, i), straight:index_select(d, i)), true)
    local key = {{}, {}, {}}
    key[d] = i
    check.equal(torch.equal(turned[key], straight[key]), true)
  end
end)

test("rows of a few elements are turned round in every type, each by itself", function()
  torch.manual_seed(6)
  for _, dtype in ipairs {"uint8", "bool", "int16", "bfloat16", "int32", "float32", "int64", "float64"} do
    for columns = 1, 33 do
      local order = {}
      for i = 1, columns do order[i] = columns + 1 - i end
      for _, rows in ipairs {1, 2, 3, 7, 40, 300} do
        local wide = torch.randint(0, 100, {rows, columns + 1}):to(torch[dtype])
        for _, x in ipairs {wide[{{}, {2, -1}}]:contiguous(), wide[{{}, {2, -1}}]} do
          local want = x:index_select(2, torch.tensor(order))
          check.equal(torch.equal(x:flip {2}, want), true)
          check.equal(torch.equal(x:flip {1, 2}:flip {1}, want), true)
        end
      end
    end
  end
end)

test("blocks of few columns are folded over any depth", function()
  torch.manual_seed(4)
  for _, depth in ipairs {1, 7, 31, 32, 33, 140} do
    for columns = 1, 9 do
      local x = torch.randn({30, depth, columns}, {dtype = torch.float64})
      local near = x:to(torch.float32)
      check.close(near:sum(2):to(torch.float64), x:sum(2), 1e-4)
      check.close(near:permute(3, 2, 1):sum(2):to(torch.float64), x:sum(2):t(), 1e-4)
      check.equal(torch.equal(near:amax(2), x:amax(2):to(torch.float32)), true)
    end
  end
end)

test("instance_norm of a few places gives what its definition gives", function()
  torch.manual_seed(5)
  local F = torch.nn.functional
  for _, places in ipairs {2, 3, 16, 24, 25} do
    local x = torch.randn({5, 7, places}, {dtype = torch.float64}):requires_grad_()
    local mean = x:mean(3, true)
    local y = (x - mean) / (x:var {dim = 3, unbiased = false, keepdim = true} + 1e-5):sqrt()
    local g = torch.randn({5, 7, places}, {dtype = torch.float64})
    local wanted = torch.autograd.grad((y * g):sum(), {x})
    local z = F.instance_norm(x)
    check.close(z:detach(), y:detach(), 1e-9)
    check.close(torch.autograd.grad((z * g):sum(), {x}), wanted, 1e-8)
    check.close(F.instance_norm(x:detach():to(torch.float32)):to(torch.float64), y:detach(), 1e-4)
  end
end)

test("long blocks are copied to any place within a page, and onto themselves", function()
  local x = torch.arange(20000):to(torch.float32)
  for _, n in ipairs {511, 512, 513, 3000, 12345} do
    for _, before in ipairs {0, 1, 3, 15, 16, 17, 600} do
      local y = torch.nn.functional.pad(x[{{1, n}}], {before, 2})
      check.equal(torch.equal(y[{{before + 1, before + n}}], x[{{1, n}}]), true)
      check.equal(y:sum():item(), x[{{1, n}}]:sum():item())
      local z = torch.cat {x[{{5, n}}], x[{{1, n}}], x[{{2, 4}}]}
      check.equal(torch.equal(z[{{n - 3, 2 * n - 4}}], x[{{1, n}}]), true)
    end
  end
  local moved = x:clone()
  moved[{{1, 9000}}]:copy_(moved[{{11, 9010}}])
  check.equal(torch.equal(moved[{{1, 9000}}], x[{{11, 9010}}]), true)
  local back = x:clone()
  back[{{11, 9010}}]:copy_(back[{{1, 9000}}])
  check.equal(torch.equal(back[{{11, 9010}}], x[{{1, 9000}}]), true)
end)

test("scans along short rows give the numbers that adding one after the other gives", function()
  torch.manual_seed(6)
  for _, dtype in ipairs {torch.int32, torch.int64, torch.float32, torch.float64} do
    for _, n in ipairs {1, 2, 7, 8, 15, 16, 23, 24, 25} do
      local x = torch.randint(1, 4, {37, n}):to(dtype)
      local sum, product = torch.zeros(37), torch.ones(37)
      local sums, products = x:cumsum(2):to(torch.float32), x:cumprod(2):to(torch.float64)
      local reversed = x:flip {2}:cumsum(2)
      check.equal(torch.equal(reversed[{{}, -1}]:to(torch.float32), sums[{{}, -1}]), true)
      product = product:to(torch.float64)
      for i = 1, n do
        local column = x[{{}, i}]
        sum, product = sum + column, product * column
        check.equal(torch.equal(sums[{{}, i}], sum), true)
        if dtype ~= torch.int32 or n < 18 then check.close(products[{{}, i}], product, 1e-6 * product:max():item()) end
      end
    end
  end
end)

test("bags of a table's rows are summed as their rows are, with gradients and errors", function()
  torch.manual_seed(7)
  local F = torch.nn.functional
  for _, dtype in ipairs {torch.float32, torch.float64, torch.bfloat16} do
    for _, width in ipairs {1, 3, 16, 67, 130} do
      for _, n in ipairs {0, 1, 5, 300} do
        local table_of = torch.randn(40, width):to(dtype):requires_grad_()
        local ids = torch.randint(1, 41, {6, n})
        local bags = F.embedding_bag(ids, table_of, {mode = "sum"})
        local exact = F.embedding(ids, table_of:detach():to(torch.float64)):sum(2)
        check.dtype(bags, dtype)
        check.close(bags:detach():to(torch.float64), exact, (dtype == torch.bfloat16 and 0.3 or 1e-4) * math.max(1, n / 20))
        bags:sum():backward()
        check.close(table_of.grad:to(torch.float64):sum():item(), 6.0 * n * width, 1e-2 * (6 * n * width + 1))
        local columns = torch.randn(width, 40):to(dtype):t()
        check.close(F.embedding_bag(ids, columns, {mode = "sum"}):to(torch.float32),
                    F.embedding_bag(ids, columns:contiguous(), {mode = "sum"}):to(torch.float32), 1e-3 * math.max(1, n))
      end
    end
  end
  check.raises("index", "41", function() return F.embedding_bag(torch.tensor {{1, 41}}, torch.randn(40, 2)) end)
  check.raises("index", "0", function() return F.embedding_bag(torch.tensor {{0}}, torch.randn(40, 2)) end)
end)

test("float32 is rounded to bfloat16 to nearest even, one by one and many at a time", function()
  local bits = torch.arange(0, 65536):to(torch.int32) * 65536
  for _, low in ipairs {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} do
    local x = (bits + low):view(torch.float32)
    local many = x:to(torch.bfloat16):view(torch.int16)
    for _, i in ipairs {1, 2, 100, 0x3f80, 0x7f00, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x8000, 0xff7f, 0xff80, 0xffff} do
      local one = x[{{i + 1, i + 1}}]:to(torch.bfloat16):view(torch.int16)
      check.equal(many[i + 1]:item(), one:item(), ("%x %x"):format(i, low))
      if i < 0x7f7f and low ~= 0x8000 then
        check.equal(many[i + 1]:item(), low > 0x8000 and i + 1 or i)
      elseif i < 0x7f7f then
        check.equal(many[i + 1]:item(), i + i % 2)
      end
    end
  end
end)

test("comparisons of every lane type and length are bytes of 0 and 1", function()
  torch.manual_seed(8)
  for _, dtype in ipairs {torch.int64, torch.float32, torch.float64, torch.bfloat16} do
    for n = 1, 70 do
      local x = torch.randint(-1, 2, {n}):to(dtype)
      local values = x:tolist()
      for _, row in ipairs {
        {x:gt(0), function(v) return v > 0 end}, {x:eq(x:flip {1}), function(v, i) return v == values[n + 1 - i] end},
        {x:logical_not(), function(v) return v == 0 end}, {torch.isnan(x), function() return false end},
      } do
        local counts = row[1]:to(torch.int64):tolist()
        for i = 1, n do check.equal(counts[i], row[2](values[i], i) and 1 or 0) end
        check.equal(row[1]:view(torch.uint8):to(torch.int64):sum():item(), row[1]:sum():item())
      end
    end
  end
end)

test("maxima of windows over a few channels side by side are those of planes, with places and gradients", function()
  local F = torch.nn.functional
  torch.manual_seed(11)
  local function draw(n) return torch.randint(1, n + 1, {}):item() end
  for case = 1, 300 do
    local dtype = ({"float32", "float64", "bfloat16", "float16", "int32"})[draw(5)]
    local kernel, stride = {draw(4), draw(5)}, {draw(4), draw(4)}
    if draw(3) == 1 then stride = kernel end  -- windows that cover the image
    local size = {draw(3), 1 + draw(8), 0, 0}
    local dilation = draw(4) == 1 and 2 or 1
    local padding = {draw(kernel[1] // 2 + 1) - 1, draw(kernel[2] // 2 + 1) - 1}
    for d = 1, 2 do
      size[d + 2] = stride == kernel and kernel[d] * (dilation + draw(11)) or kernel[d] * dilation + draw(40)
    end
    local x = torch.randint(-4, 5, size):to(dtype)
    if dtype ~= "int32" then  -- many are equal; some are nan, some the least
      x = torch.where(torch.rand(size):lt(0.1), 0 / 0, torch.where(torch.rand(size):lt(0.2), -math.huge, x)):to(dtype)
    end
    local function run(a)
      if dtype ~= "int32" then a = a:detach():requires_grad_() end
      local y, at = F.max_pool2d(a, kernel, stride, padding, dilation, false, true)
      if dtype ~= "int32" then
        torch.manual_seed(case)
        y:backward(torch.randint(1, 9, y.shape):to(dtype))
      end
      return y:detach(), at, a.grad or y:detach()
    end
    local y, at, d = run(x)
    local y2, at2, d2 = run(x:to {memory_format = "channels_last"})
    local what = ("case %d: %s %dx%dx%d"):format(case, dtype, size[2], size[3], size[4])
    check.equal(torch.allclose(y:double(), y2:double(), 0, 0, true), true, what)
    check.equal(torch.equal(at, at2), true, what .. ", places")
    check.equal(torch.allclose(d:double(), d2:double(), 0, 0, true), true, what .. ", gradients")
    torch.manual_seed(case * 31)
  end
end)

test("operands of many elements that are turned against each other are computed as those that lie alike", function()
  torch.manual_seed(9)
  local threads = torch.get_num_threads()
  local function pick(list) return list[torch.randint(1, #list + 1, {1}):item()] end
  local function number(low, high) return torch.randint(low, high + 1, {1}):item() end
  -- x's values, its dimensions in another order in memory, and maybe with gaps, backwards or repeated.
  local function turned(x)
    local order = torch.randperm(x:dim())
    local dims, back = order:tolist(), {}
    for k, d in ipairs(dims) do back[d] = k end
    local y = x:permute(dims):contiguous()
    local way = number(1, 4)
    if way == 1 then
      y = torch.stack({y, y, y}, 2):select(2, number(1, 3))
    elseif way == 2 then
      local d = number(1, y:dim())
      y = y:flip {d}:contiguous():flip {d}
    end
    return y:permute(back)
  end
  for i = 1, 70 do
    local shape, rank = {}, number(2, 4)
    for d = 1, rank do shape[d] = rank == 2 and number(35, 600) or pick {2, 5, 33, 48, 70, 90} end
    local types = {"float32", "float64", "int64", "bfloat16", "int32", "uint8"}
    local type = pick(types)
    local function fresh() return (torch.randn(shape) * 9):abs():to(torch[type]) end
    local x, y, z = fresh(), fresh(), (torch.randn(shape) * 9):abs():to(torch[i % 3 == 0 and pick(types) or type])
    if i % 5 == 0 then
      local d = number(1, rank)
      y = y:narrow(d, 1, 1)
    end
    local tx, ty, tz = turned(x), turned(y), turned(z)
    torch.set_num_threads(number(1, 3))
    check.yes(torch.equal(tx, x))
    check.yes(torch.equal(tx + ty, x + y), type)
    check.yes(torch.equal(x * tz, x * z), type)
    check.yes(torch.equal(tz:ge(tx), z:ge(x)), type)
    check.yes(torch.equal(torch.where(ty:gt(x), tx, tz), torch.where(y:gt(x), x, z)), type)
    check.yes(torch.equal(torch.maximum(tz, ty), torch.maximum(z, y)), type)
    if type:find "float" then check.yes(torch.equal(torch.addcmul(x, ty, tx), torch.addcmul(x, y, x)), type) end
    local out = turned(x * 0)
    torch.add(x, ty, {out = out})
    check.yes(torch.equal(out, x + y), type)
    out:mul_(tx)
    check.yes(torch.equal(out, (x + y) * x), type)
  end
  torch.set_num_threads(threads)
end)
