-- Results computed into tensors that are there already: out= in every layout, beside and over its
-- operands.

-- Tensors of one shape that lie in memory in different ways.
local layouts = {
  function(r, c) return torch.rand(r, c) end,
  function(r, c) return torch.rand(c, r):t() end,
  function(r, c) return torch.rand(r, c + 3)[{{}, {2, c + 1}}] end,
  function(r, c) return torch.rand(2 * r, c)[{{1, 2 * r, 2}}] end,
}
local calls = {
  function(x, y, o) return torch.add(x, y, {out = o}) end,
  function(x, y, o) return torch.mul(x, y[{1}], {out = o}) end,
  function(x, _, o) return torch.sign(x, {out = o}) end,
  function(x, _, o) return torch.sub(x, 0.25, {out = o}) end,
  function(x, y, o) return torch.maximum(x, y, {out = o}) end,
  function(x, _, o) return torch.clamp(x, 0.2, 0.7, {out = o}) end,
  function(x, y, o) return torch.div(x, y, {rounding_mode = "floor", out = o}) end,
  function(x, _, o) return torch.softmax(x, 2, {out = o}) end,
}

test("the values are those of the call without it, in every layout", function()
  torch.manual_seed(3)
  for _, size in ipairs { {3, 5}, {70, 130} } do
    for _, call in ipairs(calls) do
      for _, from in ipairs(layouts) do
        for _, to in ipairs(layouts) do
          local x, y, o = from(size[1], size[2]), layouts[1](size[1], size[2]), to(size[1], size[2])
          local expected, steps, held = call(x, y), o:stride(), o:data_ptr()
          local result = call(x, y, o)
          check.yes(torch.equal(result, expected))
          check.yes(torch.equal(o, expected))
          check.equal(o:stride(), steps)
          check.equal(result:data_ptr(), held)
        end
      end
    end
  end
end)

test("operands may lie in the same memory, place for place or not", function()
  for _, n in ipairs {6, 200} do
    local base = torch.rand(n, n)
    local x = base:clone()
    check.yes(rawequal(torch.add(x, x, {out = x}), x))
    check.yes(torch.equal(x, base * 2))
    x = base:clone()
    torch.mul(x, x:t(), {out = x})
    check.yes(torch.equal(x, base * base:t()))
    x = base:clone()
    torch.add(x[{{1, n - 1}}], 1, {out = x[{{2, n}}]})
    check.yes(torch.equal(x[{{2, n}}], base[{{1, n - 1}}] + 1))
    x = base:clone()
    torch.neg(x[{1}], {out = x[{n}]})
    check.yes(torch.equal(x[{n}], -base[{1}]))
  end
end)

test("a held row that reads the old values has read them", function()
  local x, o = torch.rand(100000), torch.rand(100000)
  local old = o:clone()
  local y = o * 2
  torch.add(x, 1, {out = o})
  check.yes(torch.equal(y, old * 2))
  check.yes(torch.equal(o, x + 1))
  local z = x * 3
  torch.add(z, o, {out = z})
  check.yes(torch.equal(z, x * 3 + o))
end)

test("other types take what they can hold, others raise and stay as they are", function()
  local i = torch.tensor {1, 2, 3}
  check.equal(torch.add(i, i, {out = torch.zeros(3)}):tolist(), {2.0, 4.0, 6.0})
  check.equal(torch.gt(i, 1, {out = torch.empty(3, {dtype = torch.bool})}):tolist(), {false, true, true})
  local half = torch.zeros(3, {dtype = torch.float16})
  torch.div(i, 3, {out = half})
  check.yes(torch.equal(half, (i / 3):half()))
  local whole = torch.zeros(3, {dtype = torch.int64})
  check.raises("dtype", "cannot be stored", function() torch.div(i, 2, {out = whole}) end)
  check.raises("shape", "out has shape", function() torch.neg(i, {out = torch.zeros(4, {dtype = torch.int64})}) end)
  check.raises("value", "share one place", function() torch.neg(i, {out = torch.zeros(1, {dtype = torch.int64}):expand(3)}) end)
  check.raises("argument", "must be a tensor", function() torch.neg(i, {out = 3}) end)
  check.equal(whole:tolist(), {0, 0, 0})
end)

test("gradients are refused before anything is written, and a graph sees the change", function()
  local w, o = torch.ones(3, {requires_grad = true}), torch.zeros(3)
  check.raises("autograd", "does not support gradients", function() torch.mul(w, 2, {out = o}) end)
  check.raises("autograd", "does not support gradients", function() torch.mul(o, 2, {out = w}) end)
  check.equal(o:tolist(), {0.0, 0.0, 0.0})
  torch.no_grad(function() torch.mul(w, 2, {out = o}) end)
  check.equal(o:tolist(), {2.0, 2.0, 2.0})
  local s = (w * o):sum()
  torch.add(o, 1, {out = o})
  check.raises("autograd", "changed", function() s:backward() end)
end)
