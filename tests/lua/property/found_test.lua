-- Where masks are true, and elements along short lines: the same as walking over all elements one by one, at lengths
-- around the blocks of the kernels, in layouts and types.
local function numbers(t) return t:reshape(-1):tolist() end

local function pick(rows, at)
  for _, i in ipairs(at) do rows = rows[i] end
  return rows
end

-- Every element's place from 1 in each dimension, in row-major order.
local function places(shape)
  local at, all, n = {}, {}, 1
  for d, size in ipairs(shape) do at[d], n = 1, n * size end
  for i = 1, n do
    all[i] = {table.unpack(at)}
    local d = #shape
    while d > 0 and at[d] == shape[d] do at[d], d = 1, d - 1 end
    if d > 0 then at[d] = at[d] + 1 end
  end
  return all
end

test("positions of what is not zero are those of a walk over all elements", function()
  for _, shape in ipairs {{7}, {1023}, {1, 1, 1}, {3, 1, 345}, {17, 61}, {5, 9, 2, 13}, {16400}, {4099, 4}} do
    local walk = places(shape)
    for _, most in ipairs {1, 40} do  -- many found, and few
      for _, kind in ipairs {"bool", "float32", "int16"} do
        local x = torch.randint(0, most + 1, shape):eq(most):to(kind)
        local want = {}
        for i, v in ipairs(numbers(x:to "int64")) do
          if v ~= 0 then want[#want + 1] = walk[i] end
        end
        local turned = x:transpose(1, -1):contiguous():transpose(1, -1)
        for _, t in ipairs {x, turned} do
          local rows, columns = t:nonzero(), table.pack(torch.where(t:ne(0)))
          check.yes(rows.shape[1] == #want and rows.shape[2] == #shape and columns.n == #shape)
          if #want > 0 then check.yes(torch.equal(rows, torch.tensor(want))) end
          for d = 1, #shape do check.yes(torch.equal(columns[d], rows[{{}, d}])) end
        end
      end
    end
  end
  check.yes(torch.tensor(3):nonzero().shape[1] == 1 and torch.tensor(0):nonzero().shape[1] == 0)
  check.yes(torch.tensor{0 / 0, -0.0}:nonzero():item() == 1)
end)

test("masked_scatter hands out the source's elements in order", function()
  for _, kind in ipairs {"bool", "uint8", "bfloat16", "float32", "int64"} do
    for _, size in ipairs {1, 19, 515} do
      local x, mask = torch.randint(0, 2, {size, 2}):to(kind), torch.rand(size, 2):gt(0.5)
      local source = torch.randint(0, 2, {mask:sum():item()}):to(kind)  -- exactly enough
      local want, marks, from, k = numbers(x:to "int64"), numbers(mask:to "int64"), numbers(source:to "int64"), 0
      for i = 1, #want do
        if marks[i] == 1 then
          k = k + 1
          want[i] = from[k]
        end
      end
      check.yes(torch.equal(x:masked_scatter(mask, source), torch.tensor(want, {dtype = torch.int64}):view(size, 2):to(kind)))
      local turned = x:t():contiguous():t()
      turned:masked_scatter_(mask, source)
      check.yes(torch.equal(turned, x:masked_scatter(mask, source)))
    end
  end
end)

test("gather and scatters along short lines are the same as one by one", function()
  for _, shape in ipairs {{5, 3}, {2, 70, 4}, {40, 2, 30}} do
    for dim = 1, #shape do
      local to = {table.unpack(shape)}
      to[dim] = 6
      local x, index = torch.randint(-9, 9, shape):to "float32", torch.randint(1, shape[dim] + 1, to)
      local y = torch.randint(-9, 9, to):to "float32"
      local added = x:scatter_add(dim, index, y):tolist()
      local taken, xs, ys, positions, sum = x:gather(dim, index):tolist(), x:tolist(), y:tolist(), index:tolist(), x:tolist()
      for _, at in ipairs(places(to)) do
        local there = {table.unpack(at)}
        there[dim] = pick(positions, at)
        check.equal(pick(taken, at), pick(xs, there))
        local line = pick(sum, {table.unpack(there, 1, #there - 1)})
        line[there[#there]] = line[there[#there]] + pick(ys, at)
      end
      for _, at in ipairs(places(shape)) do check.equal(pick(added, at), pick(sum, at)) end
    end
  end
end)

test("large parts that lie across are selected as small ones are", function()
  torch.manual_seed(22)
  local base = torch.randn(9, 70, 40)
  for _, dtype in ipairs {"float32", "int64", "uint8"} do
    local x = (base * 10):abs():to(torch[dtype]):transpose(2, 3)
    local at = torch.tensor {3, 9, 3, 1}
    local got, want = x:index_select(1, at), x:contiguous():index_select(1, at)
    check.yes(got:eq(want):all():item())
    local y = x:transpose(1, 2)   -- [40, 9, 70]
    check.yes(y:index_select(2, at):eq(y:contiguous():index_select(2, at)):all():item())
  end
end)

test("masked_scatter fills the true places in order and keeps the others", function()
  torch.manual_seed(23)
  for _, dtype in ipairs {"float32", "int64", "uint8", "bfloat16"} do
    for _, share in ipairs {0, 0.3, 1} do
      local x = (torch.randn(33, 7) * 10):abs():to(torch[dtype])
      local mask, source = torch.rand(33, 7):lt(share), torch.arange(231):to(torch[dtype])
      for _, y in ipairs {x, x:t():contiguous():t()} do
        local got, k, want = y:masked_scatter(mask, source):tolist(), 0, y:tolist()
        local m, s = mask:tolist(), source:tolist()
        for r = 1, 33 do
          for c = 1, 7 do
            if m[r][c] then k = k + 1; want[r][c] = s[k] end
          end
        end
        check.equal(got, want)
        check.equal(y:clone():masked_scatter_(mask, source):tolist(), want)
      end
    end
  end
end)
