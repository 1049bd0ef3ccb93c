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
-- channels, dilated kernels of channels that fill no block, taps that see no pixel, and AMX's strides with few outputs.
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
