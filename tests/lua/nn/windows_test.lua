-- Convolutions, pooling and blocks against their definitions over windows of an image.
local F = torch.nn.functional

-- Windows [n, c, out.., kernel..] of a padded input.
local function windows(x, kernel, stride, padding, dilation)
  local pads = {}
  for d = #kernel, 1, -1 do pads[#pads + 1], pads[#pads + 2] = padding, padding end
  x = F.pad(x, pads)
  for d, k in ipairs(kernel) do
    x = x:unfold(d + 2, (k - 1) * dilation + 1, stride)
    if dilation > 1 then x = x:index_select(x.ndim, torch.arange(1, (k - 1) * dilation + 2, dilation)) end
  end
  return x
end

local function convolved(x, w, stride, padding, dilation, groups)
  local kernel, taps, spatial = {}, 1, w.ndim - 2
  for d = 1, spatial do kernel[d], taps = w.shape[d + 2], taps * w.shape[d + 2] end
  local seen = windows(x, kernel, stride, padding, dilation)
  local shape, places = {x.shape[1], w.shape[1]}, 1
  for d = 1, spatial do shape[d + 2], places = seen.shape[d + 2], places * seen.shape[d + 2] end
  seen = seen:reshape(x.shape[1], groups, x.shape[2] // groups, places, taps)
  local weight = w:reshape(groups, w.shape[1] // groups, w.shape[2], taps)
  return torch.einsum("ngcpk,gfck->ngfp", seen, weight):reshape(shape)
end

local layouts = {
  function(x) return x end,
  function(x) return x:transpose(1, x.ndim):contiguous():transpose(1, x.ndim) end,
  function(x) return torch.cat({x, x}, 2):narrow(2, 1, x.shape[2]) end,
  function(x) return x:flip(x.ndim):flip(x.ndim) end,
}

local function agrees(case)
  local stride, padding, dilation, groups = table.unpack(case[3])
  for i, layout in ipairs(layouts) do
    for dtype, bound in pairs {float32 = 2e-5, float64 = 1e-11, bfloat16 = 2e-2} do
      torch.manual_seed(i)
      local x, w = torch.randn(case[1]):to(dtype), torch.randn(case[2]):to(dtype)
      local x64, w64 = x:double():requires_grad_(), w:double():requires_grad_()
      local want = convolved(x64, w64, stride, padding, dilation, groups)
      local g = torch.randn(want.shape):to(dtype)
      local a, k = layout(x):detach():requires_grad_(), layout(w):detach():requires_grad_()
      local have = F["conv" .. #case[1] - 2 .. "d"](a, k, nil, stride, padding, dilation, groups)
      local have_x, have_w = torch.autograd.grad(have, {a, k}, layout(g))
      local want_x, want_w = torch.autograd.grad(want, {x64, w64}, g:double())
      for h, t in pairs {[have] = want, [have_x] = want_x, [have_w] = want_w} do
        local most = (h:detach():double() - t:detach()):abs():max():item()
        check.close(most, 0, bound * (1 + t:detach():abs():max():item()))
      end
    end
  end
end

test("channels by themselves agree with their windows, with steps, gaps, wide padding and parts of lanes", function()
  for _, case in ipairs {
    {{2, 17, 23}, {17, 1, 3}, {1, 1, 1, 17}},
    {{2, 5, 40}, {5, 1, 9}, {3, 6, 2, 5}},
    {{1, 33, 11, 14}, {33, 1, 5, 3}, {2, 2, 1, 33}},
    {{2, 9, 7, 8}, {9, 1, 3, 3}, {3, 2, 2, 9}},
    {{2, 16, 3, 2}, {16, 1, 2, 2}, {1, 3, 1, 16}},
    {{2, 20, 4, 5, 9}, {20, 1, 3, 3, 3}, {1, 1, 1, 20}},
    {{1, 3, 6, 7, 6}, {3, 1, 2, 3, 2}, {2, 1, 2, 3}},
  } do agrees(case) end
end)

test("few windows multiply the weight as it lies, seen by pixels or not, whatever its layout", function()
  for _, case in ipairs {
    {{2, 40, 4, 4}, {24, 40, 4, 4}, {1, 0, 1, 1}},   -- one window each
    {{1, 64, 3, 3}, {32, 64, 3, 3}, {1, 1, 1, 1}},
    {{2, 24, 5, 4}, {64, 12, 5, 5}, {3, 2, 1, 2}},   -- groups
    {{1, 20, 4, 4, 4}, {18, 20, 4, 4, 4}, {3, 3, 2, 1}},  -- taps over padding alone
    {{3, 96, 9}, {40, 96, 7}, {2, 0, 1, 1}},
  } do agrees(case) end
end)

test("adaptive averages are means of their windows, even ones and others", function()
  for _, case in ipairs {{12, 6}, {12, 5}, {7, 7}, {5, 9}, {28, 1}, {71, 3}, {160, 80}, {96, 4}, {33, 11}, {1, 1}} do
    local n, out = case[1], case[2]
    for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
      torch.manual_seed(n)
      local x = torch.randn(2, 3, n, 6):to(dtype)
      for rows = 1, 6 do
        for _, turned in ipairs {false, true} do
          local a = turned and x:transpose(3, 4) or x
          local size = turned and {rows, out} or {out, rows}
          a = a:detach():requires_grad_()
          local y = F.adaptive_avg_pool2d(a, size)
          local z = torch.zeros(2, 3, size[1], size[2]):double()
          local d = a:detach():double()
          local g = torch.zeros(a.shape):double()
          for i = 0, size[1] - 1 do
            for k = 0, size[2] - 1 do
              local top, bottom = i * a.shape[3] // size[1] + 1, -(-(i + 1) * a.shape[3] // size[1])
              local left, right = k * a.shape[4] // size[2] + 1, -(-(k + 1) * a.shape[4] // size[2])
              z[{{}, {}, i + 1, k + 1}] = d[{{}, {}, {top, bottom}, {left, right}}]:mean({3, 4})
              local part = g[{{}, {}, {top, bottom}, {left, right}}]
              part:add_(1 / ((bottom - top + 1) * (right - left + 1)))
            end
          end
          local bound = dtype == "float64" and 1e-12 or dtype == "float32" and 1e-5 or 2e-2
          check.close((y:detach():double() - z):abs():max():item(), 0, bound)
          y:sum():backward()
          check.close((a.grad:double() - g):abs():max():item(), 0, bound * (1 + g:max():item()))
        end
      end
    end
  end
end)

test("averages at the edges of lines count what is inside, with nan and inf where they are seen", function()
  for _, n in ipairs {3, 8, 17, 40, 66} do
    for _, row in ipairs {{3, 2, 1}, {5, 5, 2}, {2, 1, 0}, {3, 17, 1}, {3, 1, 1}} do
      local k, stride, pad = table.unpack(row)
      if n + 2 * pad >= k then
        local x = torch.randn(2, 2, 5, n)
        x[{1, 1, 3, 2}], x[{2, 2, 1, n}] = 0 / 0, 1 / 0
        local have = F.avg_pool2d(x, {1, k}, {1, stride}, {0, pad})
        local want = windows(x:view(20, 1, n):double(), {k}, stride, pad, 1):mean(4):view(have.shape)
        check.equal(have:isnan(), want:isnan())
        check.equal(have:isinf(), want:isinf())
        check.close(have:nan_to_num(0, 0, 0), want:nan_to_num(0, 0, 0):float(), 1e-5)
      end
    end
  end
end)

test("blocks of images are windows, and folding adds them up where they overlap", function()
  for i, layout in ipairs(layouts) do
    for _, row in ipairs {{2, 1, 0, 1}, {3, 1, 1, 1}, {2, 2, 0, 1}, {2, 3, 1, 2}, {1, 2, 0, 1}, {2, 3, 1, 1}, {4, 4, 0, 1}} do
      local k, stride, padding, dilation = table.unpack(row)
      torch.manual_seed(i)
      local x = torch.randn(2, 3, 8, 9)
      local a = layout(x):detach():requires_grad_()
      local y = F.unfold(a, k, dilation, padding, stride)
      local seen = windows(x, {k, k}, stride, padding, dilation)
      check.equal(y:detach(), seen:permute(1, 2, 5, 6, 3, 4):reshape(y.shape))
      -- The gradient folds: the inner products of both sides agree.
      local g = torch.randn(y.shape)
      local folded = F.fold(layout(g), {8, 9}, k, dilation, padding, stride)
      check.close((folded * x):double():sum():item(), (y:detach() * g):double():sum():item(), 1e-3)
      check.close(torch.autograd.grad(y, {a}, g), folded, 1e-6)
      local single = F.fold(g[1], {8, 9}, k, dilation, padding, stride)
      check.equal(single, folded[1])
    end
  end
end)

test("single taps between few channels have results and gradients in every type, layout and batch", function()
  for _, dtype in ipairs {"float32", "bfloat16", "float64"} do
    for _, size in ipairs {{2, 78, 1}, {3, 1, 40}, {2, 1, 1}, {1, 33, 2}} do
      for _, lay in ipairs(layouts) do
        local x = lay(torch.randn(size[1], size[2], 46, 39):to(dtype)):detach():requires_grad_()
        local w = torch.randn(size[3], size[2], 1, 1):to(dtype):requires_grad_()
        local y = F.conv2d(x, w)
        local g = lay(torch.randn(y.shape):to(dtype))
        local gx, gw = torch.autograd.grad(y, {x, w}, {grad_outputs = g})
        local X, W, G = x:detach():double(), w:detach():double():flatten(2), g:double()
        local name = dtype .. " " .. table.concat(size, " ")
        local tolerance = dtype == "bfloat16" and 2e-2 or 1e-4
        local function near(have, want)
          check.equal((have:detach():double() - want):abs():max():item() <= tolerance * (1 + want:abs():max():item()), true, name)
        end
        near(y, torch.einsum("fc,nchw->nfhw", W, X))
        near(gx, torch.einsum("fc,nfhw->nchw", W, G))
        near(gw:flatten(2), torch.einsum("nfhw,nchw->fc", G, X))
      end
    end
  end
end)
