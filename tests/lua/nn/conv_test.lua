-- Convolutions in the corners that random configurations against PyTorch found.
local F = torch.nn.functional

-- A transposed convolution as the plain one over an input with zeros between its elements, in one dimension.
local function spread_out(x, w, extra)
  local k = w.shape[3]
  return F.conv1d(F.pad(x, {k - 1, k - 1 + extra}), w:transpose(1, 2):flip(3))
end

test("elements that output_padding adds hold the bias alone, for kernels of one element too", function()
  for _, dtype in ipairs({"float32", "float64", "bfloat16"}) do
    for _, k in ipairs({1, 2}) do
      torch.manual_seed(k)
      local x, w = torch.randn(2, 4, 5, {dtype = dtype}), torch.randn(4, 3, k, {dtype = dtype})
      local b = torch.tensor({1, 2, 3}, {dtype = dtype})
      x:requires_grad_()
      w:requires_grad_()
      local y = F.conv_transpose1d(x, w, b, {output_padding = 1, dilation = 2})
      check.equal(y[{1, {}, -1}], b)
      if k == 1 then
        check.close(y - b:view(3, 1), spread_out(x, w, 1), dtype == "bfloat16" and 0.05 or 1e-5)
        local g = torch.ones_like(y)
        local of_w = torch.autograd.grad(y, {w}, {grad_outputs = g})
        check.close(of_w, x:sum({1, 3}):view(4, 1, 1):expand(4, 3, 1), dtype == "bfloat16" and 0.05 or 1e-5)
      end
    end
  end
end)

test("p-norm pooling takes any p in one to three dimensions, infinity too", function()
  for dims = 1, 3 do
    local sizes = dims == 1 and {2, 3, 6} or dims == 2 and {2, 3, 6, 4} or {2, 3, 6, 4, 2}
    local pool, biggest = F["lp_pool" .. dims .. "d"], F["max_pool" .. dims .. "d"]
    torch.manual_seed(dims)
    local x, ones = torch.randn(sizes), torch.ones(sizes)
    check.close(pool(ones, 2, 2), torch.full_like(pool(ones, 2, 2), 2 ^ (dims / 2)))
    check.equal(pool(x, math.huge, 2), biggest(x:abs(), 2))
    check.equal(pool(x, -math.huge, 2), -biggest(-x:abs(), 2))
    check.equal(pool(x, 2, {table.unpack({2, 1, 2}, 1, dims)}).shape, biggest(x, {table.unpack({2, 1, 2}, 1, dims)}).shape)
  end
end)

-- The convolutions that left their memory in oneDNN 2.6.3 (engine/cpu/library/trust.cpp): strided single taps of few
-- channels, dilated kernels of channels that fill no block, strides from padded planes, taps that see no pixel, and AMX's strides with few outputs.
test("convolutions that a library's kernels computed wrong agree with float64, with their gradients", function()
  local list = {
    {"float32", {1, 3, 448, 448}, {64, 3, 1, 1}, {stride = 2}},
    {"float32", {1, 8, 112, 112}, {64, 8, 1, 1}, {stride = 2}},
    {"float32", {2, 1, 4932}, {256, 1, 1}, {stride = 2}},
    {"bfloat16", {1, 112, 88, 154}, {1, 112, 3, 5}, {stride = 4, padding = {1, 2}}},
    {"bfloat16", {1, 112, 19, 81}, {5, 112, 1, 7}, {stride = 3}},
    {"bfloat16", {1, 40, 47, 69}, {2, 40, 2, 5}, {stride = 4}},
    {"bfloat16", {1, 4, 179, 320}, {4, 1, 1, 3}, {padding = {0, 1}, dilation = {3, 2}, groups = 4}},
    {"bfloat16", {1, 21, 17, 83}, {3, 21, 4, 3}, {stride = {1, 2}, padding = {5, 2}, dilation = {3, 1}}},
    {"bfloat16", {2, 16, 5, 1}, {256, 16, 2, 6}, {stride = {4, 3}, padding = {1, 3}}},
    {"bfloat16", {2, 16, 7, 8, 6}, {15, 16, 7, 7, 4}, {stride = {3, 1, 1}, padding = {2, 0, 2}}},
    {"float32", {2, 17, 5, 19, 10}, {17, 17, 5, 6, 5}, {stride = {2, 3, 1}, padding = {3, 2, 0}}},
    -- Cut into pieces, of which oneDNN takes the first and not the last.
    {"float32", {1, 38, 30, 43}, {101, 38, 3, 2}, {stride = 3, padding = {2, 1}}},
    {"bfloat16", {2, 32, 1, 1, 1}, {152, 32, 3, 4, 2}, {stride = {2, 1, 2}, padding = {2, 2, 1}}},
  }
  local threads = torch.get_num_threads()
  for _, case in ipairs(list) do
    local dtype, size, kernel, options = table.unpack(case)
    local f = F["conv" .. (#size - 2) .. "d"]
    for count = 1, 2 do
      torch.manual_seed(count)
      torch.set_num_threads(count)
      local x, w = torch.rand(size):sub(0.5):to(dtype), torch.rand(kernel):sub(0.5):to(dtype)
      local g
      local function results(type)
        local a, b = x:to(type):requires_grad_(), w:to(type):requires_grad_()
        local y = f(a, b, nil, options)
        g = g or torch.rand_like(y:detach()):sub(0.5)
        return {y:detach(), torch.autograd.grad(y, {a, b}, {grad_outputs = g:to(type)})}
      end
      local have, want = results(dtype), results("float64")
      for i, name in ipairs {"result", "input's gradient", "weight's gradient"} do
        local off = (have[i]:double() - want[i]):abs():max():item() / want[i]:abs():max():item()
        check.yes(off <= (dtype == "float32" and 1e-5 or 1e-2), ("%s of %s by %s off by %g"):format(name, check.show(size), check.show(kernel), off))
      end
    end
  end
  torch.set_num_threads(threads)
end)

-- The engine keeps images with their channels side by side; nothing that a program can see tells so.
local function images()
  torch.manual_seed(4)
  local x, w, b = torch.randn(2, 3, 9, 8), torch.randn(5, 3, 3, 3), torch.randn(5)
  return F.max_pool2d(F.relu(F.conv2d(x, w, b, {padding = 1})), 2)
end
-- The same values in memory that was row-major from the start.
local function plain() return torch.tensor(images():tolist()) end

test("results of convolutions, and what is made of them, are contiguous with PyTorch's strides", function()
  local y = images()
  for _, t in ipairs {y, y + 1, y:clone(), torch.zeros_like(y), F.batch_norm(y, nil, nil, nil, nil, true), y:double(), y:detach()} do
    check.yes(t:is_contiguous())
    check.equal(t:stride(), {80, 16, 4, 1})
    check.equal(t:stride(2), 16)
    check.equal(t:storage_offset(), 0)
  end
  check.yes(not tostring(y):find("contiguous"))
  check.yes(y:contiguous():data_ptr() == y:data_ptr())
end)

test("random numbers for results of convolutions are drawn in PyTorch's order", function()
  local function drawn(of, f)
    torch.manual_seed(9)
    return f(of())
  end
  for name, f in pairs {
    randn_like = torch.randn_like,
    rand_like = torch.rand_like,
    normal_ = function(t) return t:normal_() end,
    uniform_ = function(t) return t:uniform_() end,
    bernoulli_ = function(t) return t:bernoulli_(0.3) end,
    bernoulli = function(t) return torch.bernoulli(torch.sigmoid(t)) end,
    exponential_ = function(t) return t:exponential_() end,
    dropout = function(t) return F.dropout(t) end,
    dropout2d = function(t) return F.dropout2d(t) end,
    alpha_dropout = function(t) return F.alpha_dropout(t, 0.5, true) end,
    rrelu = function(t) return F.rrelu(t - 1, {training = true}) end,
    poisson = torch.poisson,
    normal = function(t) return torch.normal(t, 1.0) end,
    gumbel = function(t) return F.gumbel_softmax(t) end,
  } do
    check.close(drawn(images, f), drawn(plain, f), 1e-6, name)
  end
end)

test("a seeded network with dropout between its convolutions learns as one whose images are row-major", function()
  local function losses(straight)
    torch.manual_seed(2)
    local a, b, c = torch.nn.Conv2d(1, 4, 3), torch.nn.Conv2d(4, 6, 3), torch.nn.Linear(6 * 16, 3)
    local all = {}
    for _, m in ipairs {a, b, c} do for _, p in ipairs(m:parameters()) do all[#all + 1] = p end end
    local opt = torch.optim.SGD(all, {lr = 0.1})
    local x, t = torch.randn(4, 1, 8, 8), torch.randint(1, 4, {4})
    local list = {}
    for _ = 1, 4 do
      local h = F.relu(a(x))
      if straight then h:data_ptr() end
      h = F.dropout(h, 0.4)
      h = b(h)
      if straight then h:data_ptr() end
      local loss = F.cross_entropy(c(F.dropout(h):view(4, -1)), t)
      opt:zero_grad()
      loss:backward()
      opt:step()
      list[#list + 1] = loss:item()
    end
    return torch.tensor(list)
  end
  check.close(losses(false), losses(true), 1e-5)
end)

test("views of a convolution's result share its memory, whatever they show", function()
  for name, f in pairs {
    view = function(t) return t:view(2, -1) end,
    reshape = function(t) return t:reshape(-1) end,
    flatten = function(t) return t:flatten(2) end,
    permute = function(t) return t:permute(1, 3, 4, 2) end,
    select = function(t) return t[1] end,
    slice = function(t) return t[{{}, {2, 3}}] end,
    as_strided = function(t) return t:as_strided({3, 2}, {1, 40}, 5) end,
    unbind = function(t) return select(2, t:unbind(2)) end,
    chunk = function(t) return select(2, t:chunk(2, 3)) end,
    diagonal = function(t) return t:diagonal(0, 3, 4) end,
    unfold = function(t) return t:unfold(3, 2, 2) end,
    int = function(t) return t:view("int32") end,
    data = function(t) return t.data end,
  } do
    local y, p = images(), plain()
    local twin = y:detach()
    local v, want = f(y), f(p)
    check.equal(v, want, name)
    check.equal(v:stride(), want:stride(), name)
    check.equal(v:storage_offset(), want:storage_offset(), name)
    v:zero_()
    want:zero_()
    check.equal(y, p, name)
    check.equal(twin, p, name)
    twin:add_(1)
    check.equal(y, p + 1, name)
  end
end)

test("files hold a convolution's result as PyTorch writes it", function()
  local path = os.tmpname()
  torch.save({y = images(), z = images():transpose(2, 3)}, path)
  local back = torch.load(path)
  os.remove(path)
  check.equal(back.y, plain())
  check.equal(back.y:stride(), {80, 16, 4, 1})
  check.equal(back.z:stride(), plain():transpose(2, 3):stride())
end)

test("images that a program lays out with the channels last give results laid out so, as PyTorch's", function()
  local x = torch.randn(2, 6, 5, 3):permute(1, 4, 2, 3)
  local y = F.conv2d(x, torch.randn(4, 3, 3, 3))
  check.equal(y:stride(), {48, 1, 12, 4})
  check.yes(not y:is_contiguous())
  check.equal(F.relu(y):stride(), {48, 1, 12, 4})
  check.raises("shape", "view", function() y:view(-1) end)
end)

test("single taps with an odd number of channels have float64's gradients in bfloat16", function()
  for _, out in ipairs {3, 11, 16, 17} do
    for _, n in ipairs {1161, 2876, 5931} do
      torch.manual_seed(out)
      local x, w = torch.randn(1, 21, n):to(torch.bfloat16), torch.randn(out, 21, 1):to(torch.bfloat16)
      local g = torch.randn(1, out, n):to(torch.bfloat16)
      local function gradient(type)
        local input = x:to(type):detach():clone():requires_grad_()
        F.conv1d(input, w:to(type)):backward(g:to(type))
        return input.grad:double()
      end
      check.close(gradient(torch.bfloat16), gradient(torch.float64), 0.1)
    end
  end
end)

test("windows of a whole line are pooled in lanes, with the first of equal maxima and the last nan", function()
  for _, n in ipairs {1, 3, 15, 16, 17, 31, 32, 33, 47, 100, 848} do
    local x = torch.arange(n, {dtype = torch.float32}) % 7
    local y, at = F.adaptive_max_pool1d(x:view(1, 1, n), 1, {return_indices = true})
    check.equal(y:item(), math.min(n - 1, 6) + 0.0)
    check.equal(at:item(), math.min(n, 7))
    check.close(F.adaptive_avg_pool1d(x:view(1, 1, n), 1):item(), x:double():mean():item(), 1e-5)
    if n > 3 then
      x[n - 1], x[2] = 0 / 0, 0 / 0
      y, at = F.adaptive_max_pool1d(x:view(1, 1, n), 1, {return_indices = true})
      check.equal(y:isnan():item(), true)
      check.equal(at:item(), n - 1)
    end
    local whole = torch.arange(3 * n):view(1, 3, n)
    check.equal(F.adaptive_max_pool1d(whole, 1), whole[{{}, {}, {n, n}}])
    local input = torch.randn(2, 3, n):requires_grad_()
    F.adaptive_avg_pool1d(input, 1):sum():backward()
    check.close(input.grad, torch.full({2, 3, n}, 1 / n), 1e-6)
  end
end)

test("few channels, narrow results and long kernels have float64's results and gradients in float32", function()
  for _, row in ipairs {
    {{2, 1, 30, 4}, {128, 1, 9, 1}, {2, 1}},    -- one channel, many in the result
    {{2, 5, 9, 9}, {120, 5, 3, 3}, {1, 1}},
    {{2, 3, 12, 8}, {24, 3, 5, 3}, {2, 2}},     -- the input's gradient has few channels
    {{2, 32, 17, 3}, {24, 32, 9, 3}, {1, 1}},   -- a result one pixel wide
    {{3, 16, 6, 6}, {32, 16, 6, 6}, {1, 1}},    -- a result of one pixel
  } do
    torch.manual_seed(5)
    local x, w = torch.randn(row[1]), torch.randn(row[2])
    local g
    local function pass(type)
      local a, b = x:to(type):detach():clone():requires_grad_(), w:to(type):detach():clone():requires_grad_()
      local y = F.conv2d(a, b, nil, {stride = row[3]})
      g = g or torch.randn(y.shape)
      y:backward(g:to(type))
      return {y:detach(), a.grad, b.grad}
    end
    local have, want = pass(torch.float32), pass(torch.float64)
    for k = 1, 3 do check.close((have[k]:double() - want[k]):abs():max():item(), 0, 1e-4 * (1 + want[k]:abs():max():item())) end
  end
end)

test("volumes whose planes the kernel does not join are convolved as images are", function()
  for _, groups in ipairs {1, 7} do
    torch.manual_seed(groups)
    local x, w = torch.randn(2, 7, 5, 12, 9), torch.randn(7, 7 // groups, 1, 4, 3)
    local options = {padding = {0, 1, 2}, groups = groups}
    local input = x:clone():requires_grad_()
    local y = F.conv3d(input, w, nil, options)
    local g = torch.randn(y.shape)
    y:backward(g)
    for plane = 1, 5 do
      local image = x[{{}, {}, plane}]:clone():requires_grad_()
      local flat = F.conv2d(image, w[{{}, {}, 1}], nil, {padding = {1, 2}, groups = groups})
      flat:backward(g[{{}, {}, plane}])
      check.close((y[{{}, {}, plane}] - flat):abs():max():item(), 0, 1e-4)
      check.close((input.grad[{{}, {}, plane}] - image.grad):abs():max():item(), 0, 1e-4)
    end
  end
end)

test("single taps read images as they lie: whole, turned, stepped, flipped, shared and cut out of others", function()
  local layouts = {
    function(n, c, h, w) return torch.randn(n, c, h, w) end,
    function(n, c, h, w) return torch.randn(n, h, w, c):permute(1, 4, 2, 3) end,
    function(n, c, h, w) return torch.randn(n, c, w, h):transpose(3, 4) end,
    function(n, c, h, w) return torch.randn(n, c, h, 2 * w)[{{}, {}, {}, {1, 2 * w, 2}}] end,
    function(n, c, h, w) return torch.randn(n, c, h, w):flip(2, 4) end,
    function(n, c, h, w) return torch.randn(1, c, h, w):expand(n, c, h, w) end,
    function(n, c, h, w) return torch.randn(n, 1, h, w):expand(n, c, h, w) end,
    function(n, c, h, w) return torch.randn(n, c + 3, h, w)[{{}, {2, c + 1}}] end,
  }
  for _, size in ipairs {{2, 3, 9, 11}, {1, 17, 13, 1}, {3, 6, 1, 1}, {9, 33, 8, 9}} do
    for i, make in ipairs(layouts) do
      for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
        for _, groups in ipairs {1, size[2] % 3 == 0 and 3 or 1} do
          for _, out in ipairs {groups, 7 * groups} do
            torch.manual_seed(i)
            local c = size[2]
            local x, w, b = make(table.unpack(size)), torch.randn(out, c // groups, 1, 1), torch.randn(out)
            local a, k = x:to(dtype), w:to(dtype):requires_grad_()
            if dtype == "float32" then a = x end
            local y = F.conv2d(a, k, b:to(dtype), {groups = groups})
            -- By products of matrices in float64.
            local n, h, wide = size[1], size[3], size[4]
            local flat = a:detach():double():contiguous():view(n, groups, c // groups, h * wide)
            local matrix = k:detach():double():view(groups, out // groups, c // groups)
            local want = torch.matmul(matrix, flat):view(n, out, h, wide) + b:to(dtype):double():view(out, 1, 1)
            local bound = (dtype == "bfloat16" and 2e-2 or 1e-4) * (1 + want:abs():max():item())
            check.close((y:detach():double() - want):abs():max():item(), 0, bound)
            -- The transposed convolution is the input's gradient.
            local z = F.conv_transpose2d(a, torch.randn(c, out // groups, 1, 1):fill_(1):to(dtype), nil, {groups = groups})
            local sums = flat:sum(3, true):expand(n, groups, out // groups, h * wide):contiguous():view(n, out, h, wide)
            bound = (dtype == "bfloat16" and 2e-2 or 1e-4) * (1 + sums:abs():max():item())
            check.close((z:detach():double() - sums):abs():max():item(), 0, bound)
          end
        end
      end
    end
  end
end)

test("an odd number of bfloat16 channels changes no result and no gradient", function()
  for _, row in ipairs {
    {{2, 1, 30, 31}, {20, 1, 5, 5}}, {{2, 3, 30, 31}, {17, 3, 3, 3}, {stride = 2}}, {{1, 21, 19, 18}, {1, 21, 5, 4}, {padding = 2}},
    {{4, 17, 60}, {19, 17, 9}, {dilation = 2}}, {{1, 5, 9, 8, 7}, {8, 5, 3, 3, 3}, {stride = 2, padding = 1}},
  } do
    torch.manual_seed(3)
    local size, kernel, options = table.unpack(row)
    local x, w = torch.randn(size):to(torch.bfloat16), torch.randn(kernel):to(torch.bfloat16)
    for _, name in ipairs {"conv", "conv_transpose"} do
      if name == "conv_transpose" then x = torch.randn({size[1], kernel[1], table.unpack(size, 3)}):to(torch.bfloat16) end
      local g
      local function pass(type)
        local a, b = x:to(type):detach():clone():requires_grad_(), w:to(type):detach():clone():requires_grad_()
        local y = F[name .. (#size - 2) .. "d"](a, b, nil, options or {stride = 1})
        g = g or torch.randn(y.shape):to(torch.bfloat16)
        y:backward(g:to(type))
        return {y:detach(), a.grad, b.grad}
      end
      local have, want = pass(torch.bfloat16), pass(torch.float64)
      for k = 1, 3 do check.close((have[k]:double() - want[k]):abs():max():item(), 0, 2e-2 * (1 + want[k]:abs():max():item())) end
    end
  end
end)

-- By a loop over taps, in float64.
local function by_taps(x, w, stride, pad, dilation, groups)
  x, w = x:double():contiguous(), w:double():contiguous()
  local n, c, out = x.shape[1], x.shape[2] // groups, w.shape[1] // groups
  local padded = F.pad(x, {pad[3], pad[3], pad[2], pad[2], pad[1], pad[1]})
  local size = {}
  for d = 1, 3 do size[d] = (padded.shape[d + 2] - (w.shape[d + 2] - 1) * dilation[d] - 1) // stride[d] + 1 end
  local y = torch.zeros(n, groups, out, size[1] * size[2] * size[3], {dtype = torch.float64})
  for a = 1, w.shape[3] do for b = 1, w.shape[4] do for e = 1, w.shape[5] do
    local at = {{}, {}}
    for d, t in ipairs {a, b, e} do
      local first = (t - 1) * dilation[d] + 1
      at[d + 2] = {first, first + (size[d] - 1) * stride[d], stride[d]}
    end
    local seen = padded[at]:contiguous():view(n, groups, c, size[1] * size[2] * size[3])
    y = y + torch.matmul(w[{{}, {}, a, b, e}]:contiguous():view(groups, out, c), seen)
  end end end
  return y:view(n, groups * out, size[1], size[2], size[3])
end

test("few channels in a group are summed along lines, with steps, gaps and volumes, from any layout", function()
  for i, row in ipairs {
    -- groups, channels and outputs of one, size, kernel, stride, padding, dilation
    {1, 1, 2, {1, 26, 26}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 3, 3}},
    {1, 3, 8, {1, 40, 33}, {1, 5, 5}, {1, 2, 3}, {0, 2, 7}, {1, 1, 2}},
    {3, 1, 1, {18, 18, 18}, {3, 3, 2}, {1, 1, 1}, {1, 1, 0}, {1, 1, 1}},
    {4, 3, 5, {1, 1, 300}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}, {1, 1, 3}},
    {1, 2, 3, {9, 10, 31}, {2, 4, 2}, {2, 1, 2}, {2, 3, 1}, {3, 2, 5}},
    {5, 2, 1, {4, 12, 70}, {1, 2, 4}, {1, 3, 4}, {0, 5, 20}, {1, 2, 7}},
    {1, 7, 7, {5, 12, 20}, {1, 4, 3}, {1, 1, 1}, {0, 1, 2}, {1, 1, 1}},
    {1, 17, 9, {5, 12, 20}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {1, 33, 1, {3, 5, 17}, {1, 1, 1}, {1, 1, 2}, {0, 0, 0}, {1, 1, 1}},
    {1, 3, 3, {1, 20, 50}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {1, 5, 8, {1, 20, 50}, {1, 3, 1}, {1, 1, 1}, {0, 1, 0}, {1, 2, 1}},
    {1, 8, 6, {1, 30, 40}, {1, 1, 3}, {1, 2, 1}, {0, 0, 2}, {1, 1, 2}},
  } do
    local groups, c, out, size, kernel, stride, pad, dilation = table.unpack(row)
    local z, h, wide = table.unpack(size)
    c = c * groups
    local layouts = {
      function(n) return torch.randn(n, c, z, h, wide) end,
      function(n) return torch.randn(n, z, h, wide, c):permute(1, 5, 2, 3, 4) end,
      function(n) return torch.randn(n, c, z, h, 2 * wide)[{{}, {}, {}, {}, {1, 2 * wide, 2}}] end,
      function(n) return torch.randn(n, c + 2, z, h, wide)[{{}, {2, c + 1}}] end,
      function(n) return torch.randn(1, c, z, h, wide):expand(n, c, z, h, wide):flip(5) end,
    }
    for j, make in ipairs(layouts) do
      for n = 1, 2 do
        torch.manual_seed(i * 10 + j)
        local x, w = make(n), torch.randn(groups * out, c // groups, table.unpack(kernel))
        local b = torch.randn(groups * out)
        local options = {stride = stride, padding = pad, dilation = dilation, groups = groups}
        local want = by_taps(x, w, stride, pad, dilation, groups)
        local y = F.conv3d(x, w, b, options)
        check.close((y - b:view(-1, 1, 1, 1) - want):abs():max():item(), 0, 1e-4 * (1 + want:abs():max():item()))
        -- <gradient, x> = <g, y>: the input's gradient is the transpose.
        local a, g = x:detach():clone():requires_grad_(), torch.randn(y.shape)
        F.conv3d(a, w, nil, options):backward(g)
        local left, right = (a.grad:double() * x:double()):sum():item(), (g:double() * want):sum():item()
        check.close(left, right, 1e-4 * (1 + (g:double() * want):abs():sum():item()))
        local exact, other = x:double():detach():clone():requires_grad_(), w:double():detach():clone():requires_grad_()
        F.conv3d(exact, other, nil, options):backward(g:double())
        check.close((a.grad - exact.grad):abs():max():item(), 0, 1e-4 * (1 + exact.grad:abs():max():item()))
      end
    end
  end
end)

test("maxima of windows a few columns apart are found in lanes, at the edges and with nan too", function()
  for _, n in ipairs {17, 50, 133, 400} do
    for stride = 1, 9 do
      for _, k in ipairs {2, 3, 5, 18, 40} do
        for _, pad in ipairs {0, k // 2} do
          for _, dilation in ipairs {1, 2} do
            local out = (n + 2 * pad - (k - 1) * dilation - 1) // stride + 1
            if out >= 1 then
              torch.manual_seed(n + k)
              local x = torch.randint(0, 9, {2, 3, n}):to(torch.float32)
              if n == 50 then x[{1, 2, 7}] = 0 / 0 end
              local y, at = F.max_pool1d(x, k, stride, pad, dilation, {return_indices = true})
              local padded = F.pad(x, {pad, pad}, {value = -math.huge})
              local want = torch.stack((function()
                local taps = {}
                for t = 0, k - 1 do
                  local first = t * dilation + 1
                  taps[#taps + 1] = padded[{{}, {}, {first, first + (out - 1) * stride, stride}}]
                end
                return taps
              end)()):amax(1)
              check.equal(y:nan_to_num(-5), want:nan_to_num(-5))
              check.equal(F.max_pool1d(x, k, stride, pad, dilation):nan_to_num(-5), want:nan_to_num(-5))
              check.equal(x:gather(3, at):nan_to_num(-5), want:nan_to_num(-5))
            end
          end
        end
      end
    end
  end
end)

-- The transposed convolution by its definition, in float64: what lies between a stepped input's elements is zero.
local function spread_by_zeros(x, w, stride, padding, dilation, extra)
  local dims = x.ndim - 2
  local pads, order = {}, {}
  for d = 1, dims do
    local n = x.shape[d + 2]
    local between = x:new_zeros({x:numel() // n, n, stride[d]})
    between[{{}, {}, 1}] = x:movedim(d + 2, -1):reshape(-1, n)
    local shape = x:movedim(d + 2, -1).shape
    shape[#shape] = n * stride[d]
    x = between:reshape(shape):narrow(-1, 1, (n - 1) * stride[d] + 1):movedim(-1, d + 2)
    local reach = (w.shape[d + 2] - 1) * dilation[d] - padding[d]
    pads[2 * (dims - d) + 1], pads[2 * (dims - d) + 2] = reach, reach + extra[d]
    order[d] = d + 2
  end
  return F["conv" .. dims .. "d"](F.pad(x, pads), w:transpose(1, 2):flip(order), nil, {dilation = dilation})
end

test("transposed convolutions from many channels to few, with steps, add up planes of sums", function()
  local before = torch.get_num_threads()
  for i, row in ipairs {
    -- images, channels, size, results, kernel, stride, padding, dilation, output_padding
    {8, 70, {300}, 1, {3}, {2}, {0}, {1}, {1}},
    {2, 64, {500}, 2, {5}, {3}, {4}, {2}, {2}},
    {4, 64, {31, 17}, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 128, {40, 21}, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}},
    {3, 100, {20, 30}, 2, {4, 2}, {1, 5}, {3, 1}, {3, 2}, {0, 2}},
    {2, 64, {9, 8, 20}, 1, {2, 3, 2}, {3, 1, 2}, {1, 2, 0}, {1, 2, 3}, {2, 0, 1}},
  } do
    local n, c, size, out, kernel, stride, padding, dilation, extra = table.unpack(row)
    local dims = #size
    local options = {stride = stride, padding = padding, dilation = dilation, output_padding = extra}
    for _, dtype in ipairs {torch.float32, torch.float64} do
      torch.manual_seed(i)
      local x = torch.randn({n, c, table.unpack(size)}):to(dtype)
      local w, b = torch.randn({c, out, table.unpack(kernel)}):to(dtype), torch.randn(out):to(dtype)
      local want = spread_by_zeros(x:double(), w:double(), stride, padding, dilation, extra)
      local first
      for _, threads in ipairs {1, 3} do
        torch.set_num_threads(threads)
        for _, seen in ipairs {x, x:transpose(2, -1):contiguous():transpose(2, -1), x:flip(1):contiguous():flip(1)} do
          local y = F["conv_transpose" .. dims .. "d"](seen, w, b, options)
          first = first or y
          check.equal(y, first)
        end
      end
      local bias = b:view(out, table.unpack({1, 1, 1}, 1, dims))
      check.equal(first.shape, want.shape)
      check.close(((first - bias):double() - want):abs():max():item(), 0,
        (dtype == torch.float32 and 1e-5 or 1e-13) * (1 + want:abs():max():item()))
    end
  end
  torch.set_num_threads(before)
end)
