-- memory_format: what a user sees of the order in which dimensions lie in memory is PyTorch's (strides, contiguity,
-- the order of random numbers). Numbers without a remark are what PyTorch 2.15 prints.
local nn, F = torch.nn, torch.nn.functional
local last, last3, rows, keep = torch.channels_last, torch.channels_last_3d, torch.contiguous_format, torch.preserve_format

local function strides(x) return table.concat(x:stride(), " ") end
local function lies_last(x) return x:is_contiguous {memory_format = last} end

test("contiguous, to and clone lay images out with the channels last", function()
  local x = torch.randn(2, 3, 4, 5)
  local y = x:contiguous {memory_format = last}
  check.equal({strides(y), y:is_contiguous(), lies_last(y)}, {"60 1 15 3", false, true})
  check.equal(y, x)
  check.equal(strides(x:to {memory_format = last}), "60 1 15 3")
  check.equal(strides(x:to(torch.float64, {memory_format = last})), "60 1 15 3")
  check.equal(strides(x:double():float {memory_format = last}), "60 1 15 3")
  check.equal({strides(y:clone()), strides(y:clone {memory_format = rows})}, {"60 1 15 3", "60 20 5 1"})
  check.equal({strides(y:to {memory_format = rows}), strides(y:to {memory_format = keep})}, {"60 20 5 1", "60 1 15 3"})
  check.equal({strides(y:double()), strides(y:to(torch.float64, {memory_format = rows}))}, {"60 1 15 3", "60 20 5 1"})
  check.equal(strides(y:contiguous()), "60 20 5 1")
  check.equal(strides(torch.randn(2, 3, 4, 5, 6):contiguous {memory_format = last3}), "360 1 90 18 3")
  check.equal(y:contiguous {memory_format = last}:data_ptr(), y:data_ptr())
end)

test("tensors are made in a memory format", function()
  local y = torch.empty(2, 3, 4, 5, {memory_format = last})
  check.equal(strides(y), "60 1 15 3")
  for _, make in ipairs {torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like, torch.randn_like} do
    check.equal({strides(make(y)), strides(make(y, {memory_format = rows}))}, {"60 1 15 3", "60 20 5 1"})
  end
  check.equal(strides(torch.full_like(torch.zeros(2, 3, 4, 5), 7, {memory_format = last})), "60 1 15 3")
  check.equal(strides(torch.randint_like(y, 1, 5, {memory_format = rows})), "60 20 5 1")
end)

test("images of one channel, one pixel or none lie both ways", function()
  for _, shape in ipairs {{2, 3, 1, 1}, {2, 1, 4, 5}} do
    local x = torch.randn(shape)
    check.equal({x:is_contiguous(), lies_last(x)}, {true, true})
  end
  check.equal(strides(torch.randn(2, 1, 4, 5):to {memory_format = last}), "20 1 5 1")
  local none = torch.randn(0, 3, 4, 5)
  check.equal({none:is_contiguous(), lies_last(none)}, {true, false})
  none = none:to {memory_format = last}
  check.equal({strides(none), none:is_contiguous(), lies_last(none)}, {"60 1 15 3", true, true})
end)

test("what is computed from channels-last images stays so where PyTorch's does", function()
  local y = torch.randn(2, 3, 4, 5):to {memory_format = last}
  local net = nn.Conv2d(3, 4, 3):to {memory_format = last}
  check.equal(strides(net.weight), "27 1 9 3")
  check.equal(strides(net(y:contiguous())), "24 1 12 4")
  for _, z in ipairs {net(y), F.max_pool2d(y, 2), F.relu(y), nn.BatchNorm2d(3)(y), y + y:contiguous(), F.dropout(y),
    nn.GroupNorm(3, 3)(y), F.adaptive_avg_pool2d(y, 2), F.pad(y, {1, 1}), torch.cat({y, y}, 2), y:flip(3),
    F.interpolate(y, {scale_factor = 2}), F.interpolate(y, {scale_factor = 2, mode = "bilinear"}),
    F.conv_transpose2d(y, torch.randn(3, 4, 2, 2))} do
    check.equal({z:is_contiguous(), lies_last(z)}, {false, true})
  end
  for _, z in ipairs {y:contiguous() + y, y:softmax(2), y:cumsum(2), torch.cat({y, y:contiguous()}, 2)} do
    check.equal({z:is_contiguous(), lies_last(z)}, {true, false})
  end
  local x = torch.randn(2, 3, 4, 5):requires_grad_()
  net(x:to {memory_format = last}):sum():backward()
  check.equal(strides(x.grad), "60 20 5 1")
end)

-- A sum that tells orders apart: by place in row-major order.
local function sum_by_place(t)
  t = t:double():contiguous():flatten()
  return (t * torch.arange(1, t:numel() + 1)):sum():item()
end

test("random numbers are drawn in PyTorch's order into channels-last images", function()
  local y = torch.zeros(1, 2, 2, 2):to {memory_format = last} + 0.5
  local draws = {
    {function() return torch.randn_like(y) end, -1.827268},
    {function() return y:clone():uniform_() end, 12.138240},
    {function() return torch.bernoulli(y) end, 21.0},  -- row-major
    {function() return y:clone():bernoulli_(0.3) end, 16.0},
    {function() return y:clone():exponential_() end, 22.058016},
    {function() return F.dropout(y, 0.5) end, 24.0},
    {function() return F.dropout2d(y, 0.5) end, 36.0},
    {function() return F.rrelu(-y, 0.1, 0.3, true) end, -3.391081},  -- row-major
    {function() return torch.poisson(y * 5) end, 69.0},  -- row-major
    {function() return F.alpha_dropout(y, 0.5, true) end, 19.987186},
    {function() return y:clone():random_(0, 1000) end, 17302.0},
  }
  for _, d in ipairs(draws) do
    torch.manual_seed(3)
    check.close(sum_by_place(d[1]()), d[2], 1e-6)
  end
end)

test("matrices out of torch.linalg lie column by column", function()
  local L = torch.linalg
  local a, r, b = torch.randn(2, 3, 3), torch.randn(2, 4, 3), torch.randn(2, 3, 2)
  local s = a:matmul(a.mT) + 3 * torch.eye(3)
  local function columns(want, ...)
    for i, t in ipairs {...} do if t:dim() == 3 then check.equal({i, strides(t)}, {i, want[i]}) end end
  end
  for _, m in ipairs {L.inv(a), L.cholesky(s), L.cholesky(s, {upper = true})} do columns({"9 1 3"}, m) end
  for _, m in ipairs {L.solve(a, b), L.solve_triangular(s:tril(), b, {upper = false}), torch.cholesky_solve(b, L.cholesky(s))} do
    columns({"6 1 3"}, m)
  end
  columns({"12 1 4", "9 1 3"}, L.qr(r))
  columns({"16 1 4", "12 1 4"}, L.qr(r, "complete"))
  columns({"16 1 4", "", "9 1 3"}, L.svd(r))
  columns({"12 1 4", "", "9 1 3"}, L.svd(r, {full_matrices = false}))
  columns({"", "9 1 3"}, L.eigh(s))
  columns({"12 4 1"}, L.pinv(r))
end)

test("the prompt names the order of what is not row-major", function()
  local y = torch.ones(1, 2, 1, 2):to {memory_format = last} * 2
  check.contains(tostring(y), "channels last")
  check.contains(tostring(torch.linalg.inv(torch.eye(2))), "by columns")
  check.contains(tostring(torch.ones(2, 3).T), "non-contiguous")
end)

test("a memory format that does not fit is an error", function()
  local x = torch.randn(2, 3, 4, 5)
  check.raises("shape", "torch.channels_last is for tensors of 4 dimensions", function() return torch.randn(3, 4):contiguous {memory_format = last} end)
  check.raises("shape", "torch.channels_last_3d is for tensors of 5", function() return x:to {memory_format = last3} end)
  check.raises("shape", "empty: torch.channels_last is for", function() return torch.empty(3, {memory_format = last}) end)
  check.raises("argument", "memory_format is torch.contiguous_format", function() return x:clone {memory_format = "nhwc"} end)
  check.raises("argument", "memory_format", function() return x:to {memory_format = 3} end)
  check.raises("argument", "memory_format", function() return x:is_contiguous {memory_format = "nhwc"} end)
  check.raises("argument", "the one argument is memory_format", function() return x:is_contiguous {format = last} end)
  check.raises("argument", "no layout to preserve", function() return torch.empty(2, 2, {memory_format = keep}) end)
  check.raises("argument", "preserve_format", function() return x:transpose(2, 3):contiguous {memory_format = keep} end)
  check.raises("argument", 'no argument "memory_format"', function() return torch.zeros(2, 3, 4, 5, {memory_format = last}) end)
  check.raises("argument", "memory_format", function() return nn.Conv2d(1, 1, 1):to {memory_format = "nhwc"} end)
end)
