-- grid_sample and its gradients in one pass give what the composition of operations gives, which is used for gradients of
-- gradients and where the grid has another type than the image.
local F = torch.nn.functional

local function each_case(f)
  for _, mode in ipairs {"nearest", "bilinear", "bicubic"} do
    for _, padding in ipairs {"zeros", "border", "reflection"} do
      for _, corners in ipairs {false, true} do
        for _, n in ipairs(mode == "bicubic" and {2} or {2, 3}) do
          for _, channels in ipairs {1, 2, 3, 5, 19} do
            local x = n == 2 and torch.randn(2, channels, 5, 4) or torch.randn(2, channels, 3, 4, 2)
            local grid = (n == 2 and torch.rand(2, 7, 11, 2) or torch.rand(2, 5, 3, 5, 3)) * 3.4 - 1.7
            f(x, grid, {mode = mode, padding_mode = padding, align_corners = corners})
          end
        end
      end
    end
  end
end

test("grid_sample in one pass is what the composition gives", function()
  torch.manual_seed(6)
  each_case(function(x, grid, options)
    local plain = F.grid_sample(x, grid, options)
    local composed = F.grid_sample(x:double(), grid, options)  -- of two types
    check.close(plain:flatten():tolist(), composed:flatten():tolist(), 1e-4)
    local half = F.grid_sample(x:bfloat16(), grid:bfloat16(), options)
    check.equal(half.shape, plain.shape)
    check.equal(half.dtype, torch.bfloat16)
  end)
end)

test("the gradient of grid_sample in one pass is that of the composition, whichever is wanted", function()
  torch.manual_seed(7)
  each_case(function(x, grid, options)
    local x, grid = x:double():requires_grad_(), grid:double():requires_grad_()
    local y = F.grid_sample(x, grid, options)
    local g = torch.randn(y.shape):double()
    local dx, dgrid = torch.autograd.grad(y, {x, grid}, {grad_outputs = g, retain_graph = true})
    local dx2, dgrid2 = torch.autograd.grad(y, {x, grid}, {grad_outputs = g, create_graph = true})
    check.close(dx:flatten():tolist(), dx2:flatten():tolist(), 1e-10)
    check.close(dgrid:flatten():tolist(), dgrid2:flatten():tolist(), 1e-10)
    local alone = torch.autograd.grad(F.grid_sample(x, grid:detach(), options), {x}, {grad_outputs = g})
    check.equal(alone:tolist(), dx:tolist())
    alone = torch.autograd.grad(F.grid_sample(x:detach(), grid, options), {grid}, {grad_outputs = g})
    check.equal(alone:tolist(), dgrid:tolist())
  end)
end)

test("grid_sample of transposed, stepped and offset images and grids is that of their copies", function()
  torch.manual_seed(8)
  local x = torch.randn(6, 9, 5, 4):transpose(1, 3)[{{2, 3}}]            -- [2, 9, 6, 4]
  local grid = (torch.rand(2, 2, 14, 7) * 2 - 1):permute(1, 4, 3, 2)[{{}, {}, {3, 14}}]
  local a, b = x:detach():requires_grad_(), grid:detach():requires_grad_()
  local c, d = x:clone():requires_grad_(), grid:contiguous():requires_grad_()
  local y, z = F.grid_sample(a, b), F.grid_sample(c, d)
  check.equal(y:tolist(), z:tolist())
  local g = torch.randn(y.shape[4], y.shape[3], 9, 2):permute(4, 3, 2, 1)
  y:backward(g)
  z:backward(g:contiguous())
  check.equal(a.grad:tolist(), c.grad:tolist())
  check.equal(b.grad:tolist(), d.grad:tolist())
end)

test("what lies outside of grid_sample's image neither reads nor changes it, whatever it holds", function()
  for _, mode in ipairs {"nearest", "bilinear", "bicubic"} do
    for _, channels in ipairs {1, 3, 17} do
      local x = torch.ones(1, channels, 4, 4)
      x[{{}, {}, 1, 1}] = math.huge
      x:requires_grad_()
      local grid = torch.full({1, 1, 70, 2}, 0.6)
      grid[{1, 1, {1, 35}}] = 3.0                                          -- far outside
      local y = F.grid_sample(x, grid, {mode = mode})
      check.equal(y[{{}, {}, 1, {1, 35}}]:abs():max():item(), 0.0)
      local g = torch.ones_like(y)
      g[{{}, {}, 1, {1, 35}}] = math.huge
      y:backward(g)
      check.equal(x.grad:isfinite():all(), true)
    end
  end
end)

test("no gradient comes to a grid at the image's border, nor of no points", function()
  local x = torch.randn(1, 2, 3, 3)
  local grid = torch.tensor{{{{-1.0, 1.0}, {1.0, -1.0}}}}:requires_grad_()
  F.grid_sample(x, grid, {padding_mode = "border", align_corners = true}):sum():backward()
  check.equal(grid.grad:abs():max():item(), 0.0)
  local none = torch.zeros(1, 0, 5, 2):requires_grad_()
  local image = x:clone():requires_grad_()
  F.grid_sample(image, none):sum():backward()
  check.equal(image.grad:abs():max():item(), 0.0)
  check.equal(none.grad.shape, {1, 0, 5, 2})
end)
