-- Reductions of small random tensors of every type and layout against their definition, element by element: the ways
-- through the folds (runs, columns, narrow and turned blocks, small integers as they lie) differ by shape.

local function random(dtype, sizes)
  if dtype == "bool" then return torch.rand(sizes):gt(0.5) end
  if dtype:find "int" then return torch.randint(dtype == "uint8" and 0 or -100, 100, sizes):to(torch[dtype]) end
  return torch.randn(sizes):to(torch[dtype])
end

local layouts = {
  function(x) return x end,
  function(x) return x:transpose(1, -1) end,
  function(x) return x[{torch.ellipsis, {1, x:size(-1), 2}}] end,
  function(x) return x:unsqueeze(2):expand(x:size(1), 3, table.unpack(x.shape, 2)) end,
}

-- What meets what: a result so far and the next element.
local joins = {
  sum = function(a, b) return a + b end, prod = function(a, b) return a * b end,
  amax = torch.maximum, amin = torch.minimum,
}

local function by_definition(x, dim, join)
  local out = x:select(dim, 1)
  for i = 2, x:size(dim) do out = join(out, x:select(dim, i)) end
  return out
end

test("a reduction joins the elements of its dimension, whatever their type and layout", function()
  torch.manual_seed(3)
  local tolerance = {float32 = 1e-4, float64 = 1e-9, bfloat16 = 2e-2}
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"} do
    for turn = 1, 24 do
      local sizes = {}
      for i = 1, math.random(1, 3) do sizes[i] = math.random(1, turn % 4 == 0 and 70 or 9) end
      local x = layouts[turn % #layouts + 1](random(dtype, sizes))
      local wide = x:to(tolerance[dtype] and torch.float64 or torch.int64):contiguous()
      local what = dtype .. " " .. tostring(x.shape)
      for dim = 1, x:dim() do
        for name, join in pairs(joins) do
          if dtype ~= "bool" or name == "sum" then
            local got, want = torch[name](x, dim):to(wide.dtype), by_definition(wide, dim, join)
            local near = tolerance[dtype] or 0
            if not torch.allclose(got, want, near, near, true) then error(what .. " " .. name .. " " .. dim) end
          end
        end
        check.yes(x:count_nonzero(dim):eq(by_definition(wide:ne(0):to(torch.int64), dim, joins.sum)):all():item())
        if dtype ~= "bool" then
          local best = wide:gather(dim, x:argmax(dim):unsqueeze(dim)):squeeze(dim)
          check.yes(best:eq(wide:amax(dim)):all():item())
        end
      end
    end
  end
end)

test("a nan is the result of every extreme and sum that it is in", function()
  for n = 1, 40 do
    local x = torch.randn(5, n)
    x[{3, math.random(n)}] = 0 / 0
    for _, name in ipairs {"sum", "amax", "amin", "prod"} do
      local nans = torch[name](x, 2):isnan()
      check.equal(nans:tolist(), {false, false, true, false, false})
      check.equal(torch[name](x:t():contiguous(), 1):isnan():tolist(), {false, false, true, false, false})
    end
  end
end)
