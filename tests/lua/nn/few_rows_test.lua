-- Where there is little of something the loops are other ones: few sequences, few queries, few places of a channel,
-- one column. Each must give what many give, or what plain operations give.
local nn, F = torch.nn, torch.nn.functional

local function near(a, b, tolerance, what)
  check.equal(a.shape, b.shape, what)
  if a:numel() == 0 then return end
  local apart = (a:double() - b:double()):abs():max():item()
  local size = math.max(1, b:double():abs():max():item())
  check.yes(apart <= tolerance * size, ("%s: %g apart"):format(what, apart))
end

test("a sequence's results and gradients do not depend on how many others there are", function()
  for _, kind in ipairs {"LSTM", "GRU", "RNN"} do
    for _, units in ipairs {1, 7, 33, 70, 130} do
      for _, type in ipairs {torch.float32, torch.float64} do
        local m = nn[kind](5, units):to(type)
        local x, g = torch.randn({4, 7, 5}, {dtype = type}), torch.randn({4, 7, units}, {dtype = type})
        local all = x:clone():requires_grad_()
        local y = m(all)
        y:backward(g)
        for n = 1, 4 do
          local some = x[{{}, {1, n}}]:clone():requires_grad_()
          local z = m(some)
          z:backward(g[{{}, {1, n}}])
          local what = ("%s, %d units, %d sequences"):format(kind, units, n)
          near(z, y[{{}, {1, n}}], 1e-5, what)
          near(some.grad, all.grad[{{}, {1, n}}], 1e-4, what .. ", gradient")
        end
      end
    end
  end
end)

test("one sequence gives the same bits on any number of threads", function()
  local before = torch.get_num_threads()
  local m, x = nn.LSTM(20, 300), torch.randn(6, 1, 20)
  torch.set_num_threads(1)
  local one = m(x)
  torch.set_num_threads(3)
  local three = m(x)
  torch.set_num_threads(before)
  check.yes(torch.equal(one, three))
end)

-- f on one thread and on three, which must have the same bits.
local function on_threads(f, what)
  local before = torch.get_num_threads()
  torch.set_num_threads(1)
  local one = f()
  torch.set_num_threads(3)
  local three = f()
  torch.set_num_threads(before)
  check.yes(torch.equal(one, three), what)
  return one
end

test("one image is turned back by all threads as its channels are by themselves", function()
  for _, case in ipairs {
    {{1, 300, 334}, {300, 30, 7}, {stride = 3, padding = 6}}, {{2, 128, 100}, {128, 64, 4}, {stride = 2}},
    {{1, 64, 17, 19}, {64, 32, 3, 5}, {stride = {2, 1}, padding = 1}}, {{1, 96, 40, 30}, {96, 20, 3, 3}, {stride = 2, groups = 3}},
    {{1, 200, 900}, {200, 120, 1}, {}}, {{1, 40, 9, 10, 11}, {40, 30, 3, 3, 3}, {stride = 2, dilation = 2}},
  } do
    for _, type in ipairs {torch.float32, torch.float64} do
      local x, w = torch.randn(case[1], {dtype = type}), torch.randn(case[2], {dtype = type})
      local run = F["conv_transpose" .. #case[1] - 2 .. "d"]
      local what = ("[%s] by [%s]"):format(table.concat(case[1], ", "), table.concat(case[2], ", "))
      local y = on_threads(function() return run(x, w, case[3]) end, what)
      -- Several images at once take a thread each.
      local many = x:repeat_interleave(5, 1)
      near(run(many, w, case[3])[{{1, 5}}], y[{{1, 1}}]:expand(5, table.unpack(y.shape, 2)), 1e-5, what)
    end
  end
end)

test("the input's gradient of a few images is cut into the same sums on any number of threads", function()
  local any = math.random
  for _ = 1, 80 do
    local line, step, dilation, kernel, pad, size = any(2) == 1, {}, {}, {}, {}, {any(3), any(5) * any(40)}
    for d = 1, 2 do
      local one = line and d == 1
      kernel[d], step[d], dilation[d] = one and 1 or any(8), one and 1 or any(4), one and 1 or any(2)
      local reach = (kernel[d] - 1) * dilation[d] + 1
      pad[d], size[d + 2] = any(0, reach - 1), one and 1 or any(reach, line and 600 or 60)
    end
    local type = any(4) == 1 and "bfloat16" or "float32"
    local x, w = torch.randn(size):to(type), torch.randn(any(5) * any(30), size[2], kernel[1], kernel[2]):to(type)
    local options, g = {stride = step, padding = pad, dilation = dilation}, nil
    local function gradient(of, weight)
      local leaf = of:clone():requires_grad_()
      local y = F.conv2d(leaf, weight, options)
      g = g or torch.randn(y.shape):to(type)
      y:backward(g:to(y.dtype))
      return leaf.grad
    end
    local what = ("%s [%s] by [%s], steps %d, %d"):format(type, table.concat(x.shape, ", "), table.concat(w.shape, ", "), step[1], step[2])
    local have = on_threads(function() return gradient(x, w) end, what)
    near(have, gradient(x:double(), w:double()), type == "float32" and 1e-5 or 2e-2, what)
  end
end)

test("few rows by any matrix are those of float64, with the same bits on any number of threads", function()
  local tolerances = {bfloat16 = 1e-2, float16 = 1e-2, float32 = 1e-5, float64 = 1e-12}
  for type, tolerance in pairs(tolerances) do
    for _, sizes in ipairs {{27, 1224, 347}, {8, 1024, 1024}, {32, 500, 300}, {5, 2048, 520}, {31, 3000, 129}, {6, 900, 1100}, {50, 2000, 50}, {130, 700, 90}} do
      local m, k, n = table.unpack(sizes)
      local a, b, bias = torch.randn(m, k):to(type), torch.randn(k, n):to(type), torch.randn(n):to(type)
      for turned = 0, 1 do
        local by = turned == 1 and b:t():contiguous():t() or b
        local what = ("%s %d x %d x %d, turned %d"):format(type, m, k, n, turned)
        local y = on_threads(function() return a:matmul(by) end, what)
        near(y, a:double():matmul(b:double()), tolerance, what)
        local z = on_threads(function() return torch.addmm(bias, a, by) end, what)
        near(z, torch.addmm(bias:double(), a:double(), b:double()), tolerance, what .. ", bias")
      end
    end
  end
end)

test("one and two queries have the gradients that plain operations give", function()
  for _, heads in ipairs {{1, 1}, {4, 4}, {4, 2}} do
    for _, sizes in ipairs {{1, 1, 1, 1}, {1, 130, 20, 33}, {2, 7, 64, 5}, {1, 300, 3, 64}, {2, 129, 8, 8}} do
      for _, masked in ipairs {false, true} do
        local queries, keys, depth, width = table.unpack(sizes)
        local function leaf(...) return torch.randn(...):requires_grad_() end
        local q, k, v = leaf(2, heads[1], queries, depth), leaf(2, heads[2], keys, depth), leaf(2, heads[2], keys, width)
        local mask = masked and torch.randn(queries, keys) or torch.none
        local y = F.scaled_dot_product_attention(q, k, v, {attn_mask = mask, enable_gqa = heads[1] ~= heads[2]})
        local g = torch.randn(y.shape)
        y:backward(g)
        local function wide(t) return t:detach():double():requires_grad_() end
        local q2, k2, v2 = wide(q), wide(k), wide(v)
        local share = heads[1] // heads[2]
        local function each(t) return t:repeat_interleave(share, 2) end
        local s = q2:matmul(each(k2):transpose(-1, -2)) / math.sqrt(depth)
        if masked then s = s + mask:double() end
        local z = s:softmax(-1):matmul(each(v2))
        z:backward(g:double())
        local what = ("heads %d of %d, %d queries, %d keys"):format(heads[1], heads[2], queries, keys)
        near(y, z, 1e-5, what)
        for i, pair in ipairs {{q, q2}, {k, k2}, {v, v2}} do near(pair[1].grad, pair[2].grad, 2e-5, what .. " gradient " .. i) end
      end
    end
  end
end)

test("groups of channels of few places are normalised as plain operations do", function()
  for _, places in ipairs {{}, {1}, {2}, {3, 3}, {4, 4}, {2, 2, 2}, {17}} do
    for _, groups in ipairs {1, 2, 6, 12, #places > 0 and places[1] > 1 and "each" or nil} do
      local each = groups == "each"  -- every channel, by instance_norm
      if each then groups = 12 end
      for _, affine in ipairs {true, false} do
        local shape = {5, 12}
        for _, n in ipairs(places) do shape[#shape + 1] = n end
        local x = torch.randn(shape):requires_grad_()
        local w, b = torch.none, torch.none
        if affine then w, b = torch.randn(12):requires_grad_(), torch.randn(12):requires_grad_() end
        local y = each and F.instance_norm(x, torch.none, torch.none, w, b) or F.group_norm(x, groups, w, b)
        local g = torch.randn(y.shape)
        y:backward(g)
        local x2 = x:detach():double():requires_grad_()
        local rows = x2:reshape(5, groups, -1)
        local centred = rows - rows:mean(-1, true)
        local z = (centred / ((centred * centred):mean(-1, true) + 1e-5):sqrt()):reshape(5, 12, -1)
        local w2, b2
        if affine then
          w2, b2 = w:detach():double():requires_grad_(), b:detach():double():requires_grad_()
          z = z * w2:reshape(12, 1) + b2:reshape(12, 1)
        end
        z = z:reshape(shape)
        z:backward(g:double())
        local what = ("%d groups of %s"):format(groups, table.concat(shape, "x"))
        near(y, z, 1e-4, what)
        near(x.grad, x2.grad, 1e-3, what .. ", gradient")
        if affine then
          near(w.grad, w2.grad, 1e-4, what .. ", of the weight")
          near(b.grad, b2.grad, 1e-4, what .. ", of the bias")
        end
      end
    end
  end
  check.equal(F.group_norm(torch.randn(0, 4, 2), 2).shape, {0, 4, 2})
end)

test("bfloat16 rows of any length meet a vector, and a nan stays where it is", function()
  for k = 33, 50 do
    local a, x = torch.randn(9, k):bfloat16(), torch.randn(k):bfloat16()
    near(a:mv(x), a:double():mv(x:double()), 1e-2, "rows of " .. k)
    near(a:t():contiguous():t():mv(x), a:double():mv(x:double()), 1e-2, "columns of " .. k)
    a[{4, k}] = 0 / 0
    local bad = a:mv(x):isnan()
    check.yes(bad[4]:item() and bad:sum():item() == 1, k)
  end
end)

test("a linear layer of one column adds its bias to every row", function()
  for _, type in ipairs {torch.float32, torch.float64} do
    for _, m in ipairs {1, 2, 9, 70, 1003} do
      for _, k in ipairs {2, 3, 4, 8, 33, 200} do
        local x, w, b = torch.randn({m, k}, {dtype = type}), torch.randn({1, k}, {dtype = type}), torch.randn({1}, {dtype = type})
        near(F.linear(x, w, b), x:double():matmul(w:double():t()) + b:double(), 1e-5, ("%d rows of %d"):format(m, k))
        local turned = x:t():contiguous():t()
        near(F.linear(turned, w, b), x:double():matmul(w:double():t()) + b:double(), 1e-5, ("%d turned rows of %d"):format(m, k))
      end
    end
  end
end)
