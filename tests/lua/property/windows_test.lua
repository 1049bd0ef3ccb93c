-- Convolutions against products of unfolded windows in float64, with their gradients: random sizes, steps, paddings and
-- distances (with common factors, too), groups, odd and even channels, layouts and types.
local F = torch.nn.functional

test("convolutions are products of their windows, whatever their steps and distances have in common", function()
  torch.manual_seed(21)
  local function any(low, high) return torch.randint(low, high + 1, {1}):item() end
  local tolerance = {float32 = 2e-5, float64 = 1e-12, bfloat16 = 3e-2}
  local tried = 0
  while tried < 70 do
    local g = ({1, 1, 2, 3})[any(1, 4)]
    local channels, out, n = g * any(1, 20), g * any(1, 20), any(1, 3)
    local k, s, p, d, size = {}, {}, {}, {}, {}
    local fits = true
    for i = 1, 2 do
      k[i], s[i], p[i], d[i], size[i] = any(1, 4), any(1, 4), any(0, 6), any(1, 4), any(1, 18)
      if any(1, 2) == 1 then d[i] = s[i] end
      fits = fits and size[i] + 2 * p[i] >= (k[i] - 1) * d[i] + 1
    end
    if fits then
      tried = tried + 1
      local x = torch.randn(n, channels, size[1], size[2], {dtype = "float64"}):requires_grad_()
      local w = torch.randn(out, channels // g, k[1], k[2], {dtype = "float64"}):requires_grad_()
      local windows = F.unfold(x, k, d, p, s)
      local count = windows:size(3)
      local want = w:view(1, g, out // g, -1):matmul(windows:view(n, g, -1, count)):reshape(n, out, count)
      local grad = torch.randn(want.shape, {dtype = "float64"})
      local dx, dw = torch.autograd.grad(want, {x, w}, grad)
      for dtype, far in pairs(tolerance) do
        local a, b = x:detach():to(dtype), w:detach():to(dtype):requires_grad_()
        if any(1, 3) == 1 then a = a:contiguous {memory_format = torch.channels_last} end
        a:requires_grad_()
        local y = F.conv2d(a, b, nil, s, p, d, g)
        local da, db = torch.autograd.grad(y, {a, b}, grad:to(dtype):view(y.shape))
        for name, both in pairs {result = {y:reshape(want.shape), want}, ["input's gradient"] = {da, dx}, ["weight's gradient"] = {db, dw}} do
          local off = (both[1]:double() - both[2]):abs():max():item() / (1 + both[2]:abs():max():item())
          if not (off <= far) then
            error(("%s, %s off by %g: x %s w %s stride %s padding %s dilation %s groups %d"):format(dtype, name, off, tostring(x.shape),
              tostring(w.shape), table.concat(s, ","), table.concat(p, ","), table.concat(d, ","), g))
          end
        end
      end
    end
  end
end)
