-- Images of bytes are resized with whole numbers, as PyTorch and Pillow do; layouts do not change values.
local F = torch.nn.functional

test("resized bytes are PyTorch's to the bit", function()
  local x = (torch.arange(0, 70) * 37 % 256):to(torch.uint8):reshape(1, 2, 5, 7)
  local rows = {
    {"bilinear", false, {15, 80, 144, 209, 20, 85, 149, 214, 25, 90, 154, 219}},
    {"bilinear", true, {20, 78, 146, 204, 25, 83, 151, 209, 30, 88, 156, 214}},
    {"bicubic", false, {12, 81, 143, 212, 17, 86, 148, 217, 22, 91, 153, 222}},
    {"bicubic", true, {16, 78, 146, 208, 21, 83, 151, 213, 26, 88, 156, 218}},
  }
  for _, row in ipairs(rows) do
    local y = F.interpolate(x, {size = {3, 4}, mode = row[1], antialias = row[2]})
    check.equal(y.dtype, torch.uint8)
    check.equal(y[1][1]:flatten():tolist(), row[3])
  end
  local larger = F.interpolate(x, {size = {4, 9}, mode = "bicubic"})
  check.equal(larger[1][1][1]:tolist(), {0, 21, 54, 84, 111, 138, 168, 201, 224})
end)

test("resizing gives the same in every layout, and bytes what floats give up to rounding", function()
  torch.manual_seed(8)
  local size = function(most) return torch.randint(1, most, {1}):item() end
  for n = 1, 40 do
    local x = torch.randint(0, 256, {size(3), ({1, 2, 3, 4, 5, 16})[n % 6 + 1], size(40), size(90)}, {dtype = torch.uint8})
    local options = {size = {size(50), size(90)}, mode = n % 4 < 2 and "bilinear" or "bicubic", antialias = n % 3 == 0}
    local last = function(t) return t:contiguous {memory_format = torch.channels_last} end
    local y, floats = F.interpolate(x, options), F.interpolate(x:float(), options)
    check.equal((F.interpolate(last(x), options):ne(y)):sum():item(), 0)
    check.close((F.interpolate(last(x:float()), options) - floats):abs():max():item(), 0, 1e-3)
    if options.mode == "bilinear" then  -- a cubic leaves the range of bytes between the dimensions
      check.equal((y:float() - floats):abs():max():item() < 2, true)
    end
  end
end)

test("the gradient of a resize is its transpose, in every layout and for every number of channels", function()
  local F = torch.nn.functional
  for _, mode in ipairs {"bilinear", "bicubic"} do
    for _, corners in ipairs {true, false} do
      for _, sizes in ipairs {{7, 5, 3, 11}, {5, 7, 13, 2}, {1, 9, 4, 1}, {9, 6, 20, 15}} do
        for _, channels in ipairs {1, 3, 9} do
          torch.manual_seed(channels)
          local x = torch.randn(2, channels, sizes[1], sizes[2], {dtype = torch.float64})
          local options = {size = {sizes[3], sizes[4]}, mode = mode, align_corners = corners}
          local g = torch.randn(2, channels, sizes[3], sizes[4], {dtype = torch.float64})
          for _, last in ipairs {false, true} do
            local input = (last and x:to {memory_format = torch.channels_last} or x:clone()):requires_grad_()
            F.interpolate(input, options):backward(g)
            local other = torch.randn_like(x)
            check.close((input.grad * other):sum():item(), (F.interpolate(other, options) * g):sum():item(), 1e-9)
          end
        end
      end
    end
  end
end)

test("an inf stays with the pixels that take it, in resizing and in its gradient", function()
  local F = torch.nn.functional
  for _, c in ipairs {{"linear", {7}, {16}}, {"linear", {16}, {7}}, {"bilinear", {5, 6}, {11, 13}}, {"bicubic", {9, 8}, {4, 17}}, {"bicubic", {4, 5}, {8, 10}}} do
    for _, channels in ipairs {1, 3, 9} do
      for _, last in ipairs {false, true} do
        local mode, size, to = table.unpack(c)
        local x = torch.zeros(1, channels, table.unpack(size))
        if last and #size == 2 then x = x:contiguous {memory_format = torch.channels_last} end
        x:requires_grad_()
        local y = F.interpolate(x, {size = to, mode = mode})
        for _, place in ipairs {1, 2, to[1] - 1, to[1]} do
          local one = torch.zeros_like(y)
          one:select(3, place):fill_(1.0)
          local g = torch.autograd.grad(y, {x}, {grad_outputs = one, retain_graph = true})
          local h = torch.autograd.grad(y, {x}, {grad_outputs = one:masked_fill(one:eq(1), math.huge), retain_graph = true})
          check.equal(h:isfinite():tolist(), g:eq(0):tolist())
        end
        for _, place in ipairs {1, 2, size[1]} do
          local one = torch.zeros_like(x:detach())
          one:select(3, place):fill_(1.0)
          local plain = F.interpolate(one, {size = to, mode = mode})
          one:select(3, place):fill_(math.huge)
          check.equal(F.interpolate(one, {size = to, mode = mode}):isfinite():tolist(), plain:eq(0):tolist())
        end
      end
    end
  end
end)

test("nearest resizing shows the pixels that its definition names, whole steps and others, and is never a view", function()
  torch.manual_seed(9)
  -- The position that output i of n shows, from 1 on (as PyTorch: floor of the scaled place, or of its middle).
  local function shown(i, from, scale, exact) return math.min(from, math.floor((i - 1 + (exact and 0.5 or 0)) * scale) + 1) end
  local sizes = {{8, 4}, {9, 3}, {9, 4}, {6, 6}, {5, 1}, {4, 8}, {7, 15}, {12, 2}}
  for _, rows in ipairs(sizes) do
    for k, columns in ipairs(sizes) do
      for _, exact in ipairs {false, true} do
        for _, last in ipairs {false, true} do
          local x = torch.randn(2, 3, rows[1], columns[1])
          if k % 3 == 0 then x = (x * 100):to(torch.uint8) end
          if k % 3 == 1 then x = x:to(torch.bfloat16) end
          if last then x = x:to {memory_format = torch.channels_last} end
          local before = x:clone()
          local options = {size = {rows[2], columns[2]}, mode = exact and "nearest-exact" or "nearest"}
          local y = F.interpolate(x, options)
          for i = 1, rows[2] do
            for j = 1, columns[2] do
              local from = x[{{}, {}, shown(i, rows[1], rows[1] / rows[2], exact), shown(j, columns[1], columns[1] / columns[2], exact)}]
              check.equal(y[{{}, {}, i, j}]:eq(from):all():item(), true)
            end
          end
          y:zero_()
          check.equal(x:eq(before):all():item(), true)
        end
      end
    end
  end
  -- The gradient adds up where a pixel is shown often.
  for _, size in ipairs {3, 6, 4, 12} do
    local x = torch.randn(1, 2, 6, 6, {dtype = torch.float64, requires_grad = true})
    local g, other = torch.randn(1, 2, size, size, {dtype = torch.float64}), torch.randn(1, 2, 6, 6, {dtype = torch.float64})
    F.interpolate(x, {size = {size, size}}):backward(g)
    check.close((x.grad * other):sum():item(), (F.interpolate(other, {size = {size, size}}) * g):sum():item(), 1e-9)
  end
end)
