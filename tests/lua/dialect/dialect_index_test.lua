-- The dialect, page "Indexing": every form of reading and assigning, and every way out of range.
local function grid() return torch.arange(12):view(3, 4) end  -- {{0..3}, {4..7}, {8..11}}
local function raises(kind, part, index)
  check.raises(kind, part, function() return grid()[index] end)
  check.raises(kind, part, function() grid()[index] = 1 end)
end

test("a position picks and drops a dimension; negative ones count from the end", function()
  local a = grid()
  check.equal(a[1], {0, 1, 2, 3})
  check.equal(a[-1], {8, 9, 10, 11})
  check.equal(a[{1, 2}]:item(), 1)
  check.equal(a[{-1, -1}]:item(), 11)
  check.equal(a[1][2]:item(), 1)
  check.shape(a[{1, 2}], {})
  check.equal(a[2.0], {4, 5, 6, 7})
end)

test("an inner table is an inclusive range", function()
  local a = grid()
  check.equal(a[{1, {}}], {0, 1, 2, 3})
  check.equal(a[{{}, 2}], {1, 5, 9})
  check.equal(a[{{1, 2}, {1, 2}}], {{0, 1}, {4, 5}})
  check.equal(a[{{2}}], {{4, 5, 6, 7}, {8, 9, 10, 11}})
  check.equal(a[{{1, -1, 2}}], {{0, 1, 2, 3}, {8, 9, 10, 11}})
  check.equal(a[{{}, {2, 4, 2}}], {{1, 3}, {5, 7}, {9, 11}})
  check.equal(a[{{-2, -1}, {-1, -1}}], {{7}, {11}})
end)

test("empty ranges are {k, k-1} with k from 1 to n + 1", function()
  for k = 1, 4 do check.shape(grid()[{{k, k - 1}}], {0, 4}, k) end
  check.raises("index", nil, function() return grid()[{{5, 4}}] end)
  check.raises("index", nil, function() return grid()[{{0, -1}}] end)
end)

test("ellipsis and newaxis", function()
  local a = grid()
  check.equal(a[{torch.ellipsis, 1}], {0, 4, 8})
  check.shape(a[{{}, torch.newaxis}], {3, 1, 4})
  check.shape(a[{torch.newaxis, torch.ellipsis, torch.newaxis}], {1, 3, 4, 1})
  check.equal(torch.arange(24):view(2, 3, 4)[{1, torch.ellipsis, -1}], {3, 7, 11})
end)

test("the same written as text", function()
  local a = grid()
  check.equal(a["1:2, :"], {{0, 1, 2, 3}, {4, 5, 6, 7}})
  check.equal(a["2:, -1"], {7, 11})
  check.equal(a["1:-1:2"], {{0, 1, 2, 3}, {8, 9, 10, 11}})
  check.equal(a["..., 1"], {0, 4, 8})
  check.shape(a[":, new"], {3, 1, 4})
  check.equal(a["::2, 4"], {3, 11})
  check.equal(a[":2, 1"], {0, 4})
  check.equal(a["2,3"]:item(), 6)
end)

test("masks and tensors of positions pick elements and rows", function()
  local a = grid()
  check.equal(a[a:gt(8)], {9, 10, 11})
  check.equal(a[torch.tensor {3, 1}], {{8, 9, 10, 11}, {0, 1, 2, 3}})
  check.equal(a[torch.tensor {-1}], {{8, 9, 10, 11}})
  check.equal(a[{torch.tensor {1, 2}, {}}], {{0, 1, 2, 3}, {4, 5, 6, 7}})
  check.equal(a[{torch.tensor {1, 2}, torch.tensor {4, 1}}], {3, 4})
  check.equal(a[{{}, torch.tensor {4, 1}}], {{3, 0}, {7, 4}, {11, 8}})
  check.equal(a[torch.tensor {true, false, true}], {{0, 1, 2, 3}, {8, 9, 10, 11}})
  check.equal(a[{torch.tensor {true, false, true}, 2}], {1, 9})
  check.shape(a[torch.tensor {{1, 2}, {3, 1}}], {2, 2, 4})
  check.shape(a[a:gt(100)], {0})
end)

test("basic indexing shares memory, masks and tensors of positions copy", function()
  local a = grid()
  local row, part, picked = a[1], a[{{1, 2}, 2}], a[torch.tensor {1}]
  a[{1, 2}] = 100
  check.equal(row[2]:item(), 100)
  check.equal(part[1]:item(), 100)
  check.equal(picked[{1, 2}]:item(), 1)
end)

test("every form can be assigned", function()
  local a = grid()
  a[1] = 7
  check.equal(a[1], {7, 7, 7, 7})
  a[{{2, 3}, {1, 2}}] = 0
  check.equal(a, {{7, 7, 7, 7}, {0, 0, 6, 7}, {0, 0, 10, 11}})
  a["2:, 4"] = torch.tensor {1, 2}
  check.equal(a[{{}, 4}], {7, 1, 2})
  a[a:eq(7)] = -1
  check.equal(a[1], {-1, -1, -1, -1})
  a[torch.tensor {3, 1}] = torch.tensor {1, 2, 3, 4}
  check.equal(a[{3, {}}], {1, 2, 3, 4})
  a[{torch.tensor {1, 2}, torch.tensor {1, 1}}] = torch.tensor {50, 60}
  check.equal(a[{{1, 2}, 1}], {50, 60})
  a[{torch.ellipsis, -1}] = 9
  check.equal(a[{{}, -1}], {9, 9, 9})
  a[torch.tensor {false, true, false}] = 5
  check.equal(a[2], {5, 5, 5, 5})
  a["..."] = 0
  check.equal(a:sum():item(), 0)
  local f = torch.zeros(2)
  f[1] = true
  check.equal(f, {1, 0})
end)

test("what is assigned may have sizes of 1 in front, as in PyTorch", function()
  local y = torch.zeros(3)
  y[1] = torch.tensor {7.0}
  y[torch.tensor {2, 3}] = torch.ones(1, 1, 2) * 5
  check.equal(y, {7, 5, 5})
  y[y:eq(5)] = torch.tensor {{1.0, 2.0}}
  check.equal(y, {7, 1, 2})
  local m = torch.zeros(2, 3)
  m[1] = torch.ones(1, 1, 3)
  m[2] = torch.full({1, 1}, 4.0)
  check.equal(m, {{1, 1, 1}, {4, 4, 4}})
  m[torch.tensor {1}] = torch.full({1, 1, 1, 3}, 6.0)
  check.equal(m[1], {6, 6, 6})
  check.raises("broadcast", "does not fit", function() m[1] = torch.ones(2, 3) end)
  check.raises("broadcast", "does not fit", function() m[1] = torch.ones(1, 2) end)
  local w, z = torch.ones(1, 1):requires_grad_(), torch.zeros(3)
  z[2] = w
  z:sum():backward()
  check.equal(w.grad, {{1}})
end)

test("positions out of range raise with the range there is", function()
  raises("index", "index 0", 0)
  raises("index", "index 4 is out of range for dimension 1 with size 3 (1..3, or -3..-1)", 4)
  raises("index", "index -4", -4)
  raises("index", "dimension 2 with size 4", {1, 5})
  raises("index", "dimension 2 with size 4", {1, {1, 5}})
  raises("index", "index 0", {{0, 2}})
  raises("index", "index 0", {1, 0})
  raises("index", nil, "0")
  raises("index", nil, "1:9")
  raises("index", "index 4", torch.tensor {1, 4})
  raises("index", "index 0", torch.tensor {0})
  raises("index", "index -4", torch.tensor {-4})
  raises("index", "backward", {{3, 1}})
  raises("index", "3 positions", {1, 1, 1})
end)

test("what is no index raises", function()
  raises("index", "1.5", 1.5)
  raises("index", "nan", 0 / 0)
  raises("index", "positive", {{1, 3, -1}})
  raises("index", "positive", {{1, 3, 0}})
  raises("index", "at most three", {{1, 2, 3, 4}})
  raises("index", "no index", "1:2:")
  raises("index", nil, true)
  raises("index", nil, {"x"})
  raises("index", nil, {1, print})
  raises("dtype", "float32", torch.tensor {1.0})
  raises("shape", "mask", torch.tensor {true, false})
  raises("index", nil, {torch.ellipsis, torch.ellipsis})
end)

test("assigning what does not fit raises and changes nothing", function()
  local a = grid()
  check.raises("broadcast", nil, function() a[1] = torch.ones(3, {dtype = "int64"}) end)
  check.raises("broadcast", nil, function() a[a:gt(3)] = torch.ones(3, {dtype = "int64"}) end)
  check.raises("argument", nil, function() a[1] = "x" end)
  check.raises("argument", nil, function() a[1] = print end)
  check.equal(a, grid())
end)

test("reading and assigning are part of the graph", function()
  local x = torch.ones(3, 4, {requires_grad = true})
  local sum = x[{2, {1, 2}}]:sum() + x[torch.tensor {1, 1}]:sum() + x[x:gt(0)]:sum()
  sum:backward()
  check.equal(x.grad, {{3, 3, 3, 3}, {2, 2, 1, 1}, {1, 1, 1, 1}})
  x.grad = nil
  local y, v = x * 2, torch.ones(4, {requires_grad = true})
  y[1] = v * 3
  y:sum():backward()
  check.equal(x.grad, {{0, 0, 0, 0}, {2, 2, 2, 2}, {2, 2, 2, 2}})
  check.equal(v.grad, {3, 3, 3, 3})
end)
