-- torch.gradient against values of PyTorch 2.15, and its misuse.
local x = torch.tensor {{1.0, 2, 4, 8}, {10, 20, 40, 80}, {1, 2, 3, 5}}

local function all(...)
  local out = {}
  for i, y in ipairs {...} do out[i] = y:flatten():tolist() end
  return out
end
local function close(got, want)
  check.equal(#got, #want)
  for i, row in ipairs(want) do check.close(torch.tensor(got[i]), row, 2e-5) end
end

test("derivatives along all dimensions, some, with steps and with coordinates are PyTorch's", function()
  close(all(torch.gradient(x)), {{9, 18, 36, 72, 0, 0, -0.5, -1.5, -9, -18, -37, -75}, {1, 1.5, 3, 4, 10, 15, 30, 40, 1, 1, 1.5, 2}})
  close(all(torch.gradient(x, {spacing = 2.0, dim = {2, 1}})),
    {{0.5, 0.75, 1.5, 2, 5, 7.5, 15, 20, 0.5, 0.5, 0.75, 1}, {4.5, 9, 18, 36, 0, 0, -0.25, -0.75, -4.5, -9, -18.5, -37.5}})
  close(all(torch.gradient(x:long(), {spacing = 2, dim = -1})), {{0.5, 0.75, 1.5, 2, 5, 7.5, 15, 20, 0.5, 0.5, 0.75, 1}})
  close(all(torch.gradient(x, {spacing = {1.0, 2.0}, edge_order = 2})),
    {{18, 36, 72.5, 145.5, 0, 0, -0.5, -1.5, -18, -36, -73.5, -148.5}, {0.25, 0.75, 1.5, 2.5, 2.5, 7.5, 15, 25, 0.5, 0.5, 0.75, 1.25}})
  local there = {torch.tensor {0, 2, 5}, torch.tensor {0, 3, 4, 9}}
  close(all(torch.gradient(x, {spacing = there, edge_order = 2})),
    {{7.5, 15, 30.1333, 60.4, 1.5, 3, 5.86667, 11.6, -7.5, -15, -30.53333, -61.6},
      {-0.916667, 1.583333, 1.8, -0.2, -9.166667, 15.83333, 18, -2, -0.1666667, 0.8333333, 0.9, -0.1}})
  check.equal(select("#", torch.gradient(x, {dim = {}})), 0)
  check.equal(select("#", torch.gradient(torch.tensor(1.0))), 0)
  check.equal(tostring(torch.gradient(x:to "float16", {dim = 1}).dtype), "torch.float16")
  check.yes(torch.autograd.gradcheck(function(v)
    return torch.gradient(v, {spacing = {torch.tensor({0.0, 1, 3, 4, 7, 9}, {dtype = "float64"})}, edge_order = 2})
  end, {torch.randn(6, {dtype = "float64", requires_grad = true})}))
end)

test("torch.gradient says what does not fit", function()
  local function raises(kind, text, options, y) check.raises(kind, text, torch.gradient, y or x, options) end
  raises("dim", "no dimension 3 in shape %[3, 4%]", {dim = 3})
  raises("dim", "no dimension 0", {dim = 0})
  raises("dim", "dimension 1 is named twice", {dim = {1, -2}})
  raises("value", "edge_order is 1 or 2, not 3", {edge_order = 3})
  raises("value", "spacing has 1 elements, for 2 dimensions", {spacing = {1}})
  raises("shape", "coordinates of dimension 2 have shape %[3%], not %[4%]", {spacing = {torch.ones(3), torch.ones(3)}})
  raises("shape", "dimension 1 has size 2, and edge_order 2 needs at least 3", {edge_order = 2}, torch.ones(2, 3))
  raises("dtype", "uint8", nil, torch.ones({3}, {dtype = "uint8"}))
  raises("argument", 'no argument "spacin"', {spacin = 2})
  raises("argument", "by name", 2.0)
  raises("argument", "wants a tensor, not a number", nil, 3)
end)
