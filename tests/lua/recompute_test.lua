-- Values that only gradients hold are let go where a cheap operation computes them again: the same bits,
-- the same errors, less memory.
local F = torch.nn.functional

local function both_ways(f)
  local on, before = torch.get_fusion()
  local results = {}
  for i, from in ipairs {false, 8} do
    torch.set_fusion(from)
    torch.manual_seed(3)
    local ok, result = pcall(f)
    torch.set_fusion(on and before)
    if not ok then error(result, 0) end
    results[i] = result
  end
  return results[1], results[2]
end

local function same(f)
  local kept, again = both_ways(f)
  check.equal(#kept, #again)
  for i = 1, #kept do check.yes(torch.equal(kept[i], again[i]), "result " .. i) end
end

local function parts()
  local x, w = torch.randn(64, 32):requires_grad_(), torch.randn(48, 32):requires_grad_()
  return x, w, torch.randn(32):requires_grad_(), torch.randn(32):requires_grad_()
end

local forms = {
  gelu = function(x) return F.gelu(x * 2) end,
  norm = function(x, g, b) return F.layer_norm(x * 2, {32}, g, b) end,
  sine = function(x) return (x * 2):sin() end,
  dropout = function(x) return F.dropout((x * 2):relu(), 0.3) end,
  chain = function(x, g, b) return F.gelu(F.layer_norm(x * 2, {32}, g, b)):to "float64":float() end,
  root = function(x) return F.rms_norm(x * 2, {32}) end,
}

for name, form in pairs(forms) do
  test("what a product keeps is computed again with the same bits: " .. name, function()
    same(function()
      local x, w, g, b = parts()
      local y = F.linear(form(x, g, b), w)
      collectgarbage() collectgarbage()
      y:square():sum():backward()
      return {x.grad, w.grad, g.grad or x.grad, b.grad or x.grad}
    end)
  end)

  test("two passes, two products and second derivatives read the same values: " .. name, function()
    same(function()
      local x, w, g, b = parts()
      local z = form(x, g, b)
      local y = F.linear(z, w):sum() + F.linear(z, w * 3):square():mean()
      z = nil
      collectgarbage() collectgarbage()
      y:backward {retain_graph = true}
      y:backward {retain_graph = true}
      local slope = torch.autograd.grad(y, {w}, {create_graph = true})
      collectgarbage() collectgarbage()
      slope:square():sum():backward()
      return {x.grad, w.grad}
    end)
  end)

  test("inputs may change where keeping the values would have let them: " .. name, function()
    same(function()
      local x, w, g, b = parts()
      local y = F.linear(form(x, g, b), w)
      collectgarbage() collectgarbage()
      torch.autograd.grad(y:sum(), {w}, {retain_graph = true})
      torch.no_grad(function() x:add_(1) b:mul_(2) end)
      g.data = torch.ones(32)
      return {(torch.autograd.grad(y:square():sum(), {w}))}
    end)
  end)

  test("a kept value that was changed in place is an error as ever: " .. name, function()
    local function changed()
      local x, w, g, b = parts()
      local z = form(x, g, b)
      local y = F.linear(z, w)
      torch.no_grad(function() z:add_(1) end)
      local view = z:view(-1)
      z = nil
      collectgarbage() collectgarbage()
      local ok, err = pcall(function() y:sum():backward() end)
      check.no(ok)
      check.contains(tostring(err), "linear")
      check.contains(tostring(err), "changed it in place")
      return {view}
    end
    same(changed)
  end)
end

test("what was changed before it is used is used as it is", function()
  same(function()
    local x, w = parts()
    local z = F.gelu(x * 2)
    torch.no_grad(function() z:add_(1) end)
    local y = F.linear(z, w)
    z = nil
    collectgarbage() collectgarbage()
    return {(torch.autograd.grad(y:square():sum(), {w}))}
  end)
end)

test("a second pass over a freed graph says so", function()
  local x, w = torch.randn(100, 100):requires_grad_(), torch.randn(100, 100):requires_grad_()
  local y = F.linear(F.gelu(x * 2), w):sum()
  collectgarbage()
  y:backward()
  check.raises("autograd", "already used", function() y:backward() end)
end)

-- In units of the tensor between the layers.
local function peak_of(setting)
  local out = check.tycho({"-e", [[
    local nn, F = torch.nn, torch.nn.functional
    local n, d = 1024, 128
    local function block()
      return {up = nn.Linear(d, 4 * d), down = nn.Linear(4 * d, d), norm = nn.LayerNorm(d)}
    end
    local blocks = {}
    for i = 1, 6 do blocks[i] = block() end
    local x = torch.randn(n, d)
    local function step()
      local h = x
      for _, m in ipairs(blocks) do
        h = h + m.down(F.gelu(m.up(m.norm(h))))
        collectgarbage()
      end
      h:square():mean():backward()
    end
    step() step()
    collectgarbage() collectgarbage()
    local before = torch.memory_allocated()
    torch.reset_peak_memory_stats()
    step()
    print((torch.max_memory_allocated() - before) / (4 * n * d))]]}, {before = setting})
  check.equal(out.err, "")
  return tonumber(out.out)
end

test("a step of transformer blocks takes less memory where values are computed again", function()
  local kept, again = peak_of "export TYCHO_FUSE=0", peak_of "export TYCHO_FUSE=8192"
  check.yes(again < 0.75 * kept, ("%g against %g"):format(again, kept))
end)
