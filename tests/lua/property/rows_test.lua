-- Long, short, narrow, stretched and stepped rows take ways of their own through norms, softmax, scans, extremes,
-- resizing and padding: each gives what its definition, or the same of a plain tensor, does.
local F = torch.nn.functional

local function near(got, want, off, what)
  local g, w = got:to(torch.float64), want:to(torch.float64)
  check.equal(g.shape, w.shape)
  if not torch.allclose(g, w, off, off, true) then error(what .. " is off by " .. (g - w):abs():max():item()) end
end
local tolerance = {float32 = 2e-6, float64 = 1e-12, bfloat16 = 2e-2, float16 = 3e-3}
local sizes = {{1, 32768}, {2, 32775}, {3, 40001}, {1, 70000}, {17, 500}}

test("softmax of long rows is that of its definition, with its gradient, on any number of threads", function()
  torch.manual_seed(1)
  local threads = torch.get_num_threads()
  for dtype, off in pairs(tolerance) do
    for _, size in ipairs(sizes) do
      local x = (torch.randn(size) * 3):to(torch[dtype])
      x[{1, 5}] = -math.huge
      local g, wide = torch.randn(size):to(torch[dtype]), x:to(torch.float64)
      local e = (wide - wide:amax(2, true)):exp()
      local sum = e:sum(2, true)
      for _, log in ipairs {false, true} do
        local what = dtype .. (log and " log_softmax " or " softmax ") .. size[2]
        local function run(n)
          torch.set_num_threads(n)
          local a = x:clone():requires_grad_()
          local y = log and a:log_softmax(2) or a:softmax(2)
          y:backward(g)
          return y:detach(), a.grad
        end
        local y, d = run(1)
        local y2, d2 = run(2)
        torch.set_num_threads(threads)
        check.equal(torch.equal(y, y2) and torch.equal(d, d2), true, what)
        near(y, log and wide - wide:amax(2, true) - sum:log() or e / sum, log and off * 10 or off, what)
        local h, w = y:to(torch.float64), g:to(torch.float64)
        near(d, log and w - h:exp() * w:sum(2, true) or h * (w - (h * w):sum(2, true)), off * 20, what .. " backward")
      end
    end
  end
  local x = torch.zeros(1, 50000)
  x[{1, 40000}] = 0 / 0
  check.equal(x:softmax(2):isnan():all():item(), true)
  check.equal(torch.full({1, 50000}, -math.huge):softmax(2):isnan():all():item(), true)
end)

test("norms of rows are those of their definition in every type and length, with their gradients", function()
  torch.manual_seed(2)
  local threads = torch.get_num_threads()
  local all = {{3, 1}, {5, 7}, {40, 33}, {2, 32775}, {1, 50000}, {3, 40001}, {9, 768}, {0, 40}}
  for dtype, off in pairs(tolerance) do
    for _, size in ipairs(all) do
      for _, name in ipairs {"layer_norm", "rms_norm", "group_norm"} do
        local function run(n, kind, float)
          torch.manual_seed(size[2])
          torch.set_num_threads(n)
          local x = (torch.randn(size) + 2):to(torch[dtype]):to(kind)
          local w, b = torch.rand(size[2]):to(torch[dtype]):to(kind), torch.randn(size[2]):to(torch[dtype]):to(kind)
          local g = torch.randn(size):to(torch[dtype]):to(kind)
          for _, t in ipairs {x, w, b} do t:requires_grad_() end
          local y
          if name == "group_norm" then
            y = F.group_norm(x:unsqueeze(2), 1) * w + b
          elseif float then
            local c = name == "layer_norm" and x - x:mean(2, true) or x
            y = c / (c:square():mean(2, true) + 1e-5):sqrt() * w
            if name == "layer_norm" then y = y + b end
          elseif name == "layer_norm" then
            y = F.layer_norm(x, {size[2]}, w, b)
          else
            y = F.rms_norm(x, {size[2]}, w, 1e-5)
          end
          y:backward(g:reshape(y.shape))
          return y:detach(), x.grad, w.grad
        end
        local y, dx, dw = run(1, torch[dtype])
        local y2, dx2, dw2 = run(2, torch[dtype])
        torch.set_num_threads(threads)
        local what = name .. " " .. dtype .. " " .. size[1] .. "x" .. size[2]
        check.equal(torch.equal(y, y2) and torch.equal(dx, dx2) and torch.equal(dw, dw2), true, what)
        if name ~= "group_norm" then
          local v, dv, du = run(1, torch.float64, true)
          near(y, v, off * 10, what)
          near(dx, dv, size[2] == 1 and 1 or off * 30, what .. " backward")
          near(dw, du, off * 60, what .. " weight")
        end
      end
    end
  end
  for dtype, off in pairs(tolerance) do
    for k, size in ipairs {{2, 4, 40}, {3, 6, 5, 7}, {1, 2, 40000}, {2, 8, 3}, {5, 4, 17}, {2, 6, 9000},
                           {2, 4, 40}, {2, 2, 40000}, {3, 1, 40, 50}, {3, 20, 17}, {1, 16, 33000}} do
      local function run(kind)
        torch.manual_seed(7)
        local x = (torch.randn(size) + 1):to(torch[dtype]):to(kind):requires_grad_()
        local w = torch.rand(size[2]):to(torch[dtype]):to(kind):requires_grad_()
        local y = k < 7 and F.group_norm(x, 2, w) or F.batch_norm(x, nil, nil, w, nil, {training = true})
        y:backward(torch.randn(size):to(torch[dtype]):to(kind))
        return y:detach(), x.grad, w.grad
      end
      local y, dx, dw = run(torch[dtype])
      local v, dv, du = run(torch.float64)
      local what = "group_norm " .. dtype .. " " .. table.concat(size, "x")
      near(y, v, off * 10, what)
      near(dx, dv, off * 30, what .. " backward")
      near(dw, du, off * 60, what .. " weight")
    end
  end
  local x = torch.randn(2, 4, 20000, {dtype = torch.float64})
  local w = torch.randn(4, {dtype = torch.float64})
  local c = x - x:mean({2, 3}, true)
  near(F.group_norm(x, 1, w), c / (c:square():mean({2, 3}, true) + 1e-5):sqrt() * w:view(4, 1), 1e-11, "group_norm")
end)

test("scans of stepped, stretched and narrow tensors are those of the same numbers side by side", function()
  torch.manual_seed(3)
  local views = {
    function(x) return x[{{}, {}, {1, -1, 2}}] end, function(x) return x[{{}, {1, -1, 2}}] end,
    function(x) return x[{{1, -1, 2}}] end, function(x) return x:transpose(1, 3) end,
    function(x) return x[{{}, {}, {1, 1}}]:expand(x:size(1), x:size(2), 37) end,
    function(x) return x[{{1, 1}}]:expand(5, x:size(2), x:size(3)) end,
    function(x) return x[{{}, {1, 1}}]:expand(x:size(1), 6, x:size(3)) end,
  }
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "uint8"} do
    for _, size in ipairs {{4, 6, 90}, {3, 300, 10}, {2, 19, 3}, {1, 5, 80}, {2, 0, 40}} do
      for k, view in ipairs(views) do
        if size[2] > 0 or k < 5 then
          local x = view(torch.randint(1, 4, size):to(torch[dtype]))
          local plain = x:contiguous()
          for dim = 1, 3 do
            local what = dtype .. " view " .. k .. " of " .. table.concat(size, "x") .. " along " .. dim
            local off = tolerance[dtype] and tolerance[dtype] * 4 or 0
            near(x:cumsum(dim), plain:cumsum(dim), off, what)
            if off < 1e-9 then  -- from the end: what is left of the sum
              near(x:flip(dim):cumsum(dim):flip(dim), plain:sum(dim, true) - plain:cumsum(dim) + plain, off * 20, what)
            end
            if x:numel() > 0 then
              local v, i = x:cummax(dim)
              local w, j = plain:cummax(dim)
              check.equal(torch.equal(v, w) and torch.equal(i, j), true, what)
            end
            if tolerance[dtype] then near(x:logcumsumexp(dim), plain:logcumsumexp(dim), off, what) end
          end
        end
      end
    end
  end
  local x = torch.randn(40, 5000)
  for _, t in ipairs {x, x[{{1, 1}}]:expand(40, 5000), x[{{}, {1, 1}}]:expand(40, 5000), x[{{1, -1, 3}, {7, 4800}}], x:t()} do
    for dim = 1, 2 do near(t:logsumexp(dim), t:to(torch.float64):exp():sum(dim):log(), 1e-6, "logsumexp") end
  end
end)

test("extremes of narrow rows have the first of equal positions, and nan wins", function()
  torch.manual_seed(4)
  for _, dtype in ipairs {"float32", "float64", "int64", "int8", "bfloat16"} do
    for _, n in ipairs {1, 2, 7, 8, 33, 63, 64, 127, 128, 1000, 30000} do
      for columns = 1, 7, 2 do
        local x = torch.randint(1, 5, {n, columns}):to(torch[dtype])
        if tolerance[dtype] and n > 6 then x[{math.random(n), 1}], x[{math.random(n), 1}] = 0 / 0, 0 / 0 end
        local lines = x:t():contiguous()
        for _, t in ipairs {{x, 1, lines}, {x:unsqueeze(1):expand(3, n, columns):contiguous()[2], 1, lines}} do
          for _, name in ipairs {"max", "min"} do
            local v, i = t[1][name](t[1], t[2])
            local w, j = t[3][name](t[3], 2)
            check.equal(torch.equal(i, j) and torch.equal(v:nan_to_num(9), w:nan_to_num(9)), true, dtype .. " " .. n)
          end
        end
        local low, high = x:aminmax()
        check.equal(torch.equal(torch.stack {low, high}:nan_to_num(9), torch.stack {x:amin(), x:amax()}:nan_to_num(9)), true)
      end
    end
  end
  for n = 1, 30 do  -- the most frequent, of these the least, and of that the last
    local x = torch.randint(1, 5, {9, n})
    local v, i = x:mode(2)
    for row = 1, 9 do
      local count, best = {}, nil
      for _, k in ipairs(x[row]:tolist()) do count[k] = (count[k] or 0) + 1 end
      for k = 1, 4 do if count[k] and (not best or count[k] > count[best]) then best = k end end
      check.equal(v[row]:item(), best)
      check.equal(x[row][i[row]:item()]:item(), best)
      check.equal(i[row]:item() == n or not x[row][{{i[row]:item() + 1, n}}]:eq(best):any():item(), true)
    end
  end
end)

test("the k best are the first of the sorted ones, however the line goes", function()
  torch.manual_seed(9)
  for _, dtype in ipairs {"float32", "float64", "int64", "int8", "bfloat16"} do
    for _, n in ipairs {1, 5, 16, 17, 93, 130, 400, 3000} do
      for _, k in ipairs {1, 2, 6, 16, 17, 40} do
        local line = torch.arange(1, 2 * n + 1):view(2, n):float()
        for _, x in ipairs(k <= n and {torch.randn(2, n) * 50, line, -line, torch.randint(1, 4, {2, n}):float()} or {}) do
          x = x:clamp(-100, 100):to(torch[dtype])
          for _, largest in ipairs {true, false} do
            local v, i = x:topk(k, {dim = 2, largest = largest})
            local w, j = torch.sort(x, {dim = 2, descending = largest, stable = true})
            check.equal(torch.equal(v, w[{{}, {1, k}}]) and torch.equal(i, j[{{}, {1, k}}]), true, dtype .. " " .. n .. " " .. k)
          end
        end
      end
    end
  end
end)

test("lines are resized as their definition says, at every length", function()
  torch.manual_seed(5)
  for _, dtype in ipairs {torch.float32, torch.float64} do
    for _, lines in ipairs {1, 3, 4, 9} do
      for _, n in ipairs {{2, 40}, {5, 5}, {17, 100}, {33, 64}, {100, 37}, {100, 16}, {500, 1201}, {64, 20}} do
        local x = torch.randn(1, lines, n[1], {dtype = dtype})
        local at = torch.arange(0, n[2], {dtype = torch.float64}) * ((n[1] - 1) / (n[2] - 1))
        local low = at:floor():clamp(0, n[1] - 2)
        local i, t = low:to(torch.int64) + 1, at - low
        local wide = x:to(torch.float64)
        local want = wide:index_select(3, i) * (1 - t) + wide:index_select(3, i + 1) * t
        near(F.interpolate(x, {size = n[2], mode = "linear", align_corners = true}), want, 1e-5, "linear " .. n[1] .. " to " .. n[2])
      end
    end
  end
end)

test("a large tensor is padded as a small one", function()
  for _, dtype in ipairs {"float32", "float64", "uint8", "bfloat16"} do
    for _, c in ipairs {{{700, 1600}, {1, 2, 3, 0}}, {{5, 7, 190, 191}, {0, 3, 1, 1}}, {{5, 7, 190, 191}, {2, 3, 0, 0, 1, 1}},
                        {{3, 4, 300, 300}, {1, 0, 0, 1, 2, 0, 1, 1}}, {{1300000}, {5, 0}}, {{14000, 9, 9}, {0, 0, 1, 2}},
                        {{14000, 9, 9}, {4, 3}}, {{1400, 900}, {-1, 3}}} do
      local x = torch.rand(c[1]):mul(100):to(torch[dtype])
      local y = F.pad(x, c[2], {value = 3})
      local hole, from = torch.full(y.shape, 3, {dtype = x.dtype}), x
      local want = hole
      for k = 1, #c[2] / 2 do
        local d, before = x:dim() - k + 1, c[2][2 * k - 1]
        local first = math.max(0, -before)
        from = from:narrow(d, first + 1, x:size(d) - first)
        hole = hole:narrow(d, math.max(0, before) + 1, from:size(d))
      end
      hole:copy_(from)
      check.equal(torch.equal(y, want), true, dtype)
    end
  end
end)

test("combinations stand in the order of their positions", function()
  local function choices(n, r, repeats)
    local at, out = {}, {}
    local function go(k, from)
      if k > r then out[#out + 1] = table.move(at, 1, r, 1, {}) return end
      for i = from, n do
        at[k] = i
        go(k + 1, repeats and i or i + 1)
      end
    end
    go(1, 1)
    return out
  end
  for n = 0, 6 do
    for r = 1, 4 do
      for _, repeats in ipairs {false, true} do
        local got = torch.combinations(torch.arange(1, n + 1), {r = r, with_replacement = repeats})
        check.equal(got:tolist(), choices(n, r, repeats))
        check.equal(got:size(2), r)
      end
    end
  end
end)
