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
