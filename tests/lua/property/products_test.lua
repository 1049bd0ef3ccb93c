-- Products of matrices against sums of products in float64 or integers, term by term, over the shapes and layouts that
-- have ways of their own: few rows or columns, short rows, integers of any size, vectors of bfloat16.

-- The sum over the middle of a[.., m, k, 1] * b[.., 1, k, n].
local function by_terms(a, b)
  local wide = a:is_floating_point() and torch.float64 or torch.int64
  return (a:to(wide):unsqueeze(-1) * b:to(wide):unsqueeze(-3)):sum(-2)
end

local layouts = {
  contiguous = function(t) return t end,
  transposed = function(t) return t.mT:contiguous().mT end,
  sliced = function(t) return torch.cat({t, t, t}, -1):narrow(-1, t:size(-1) + 1, t:size(-1)) end,
  stepped = function(t) return t:repeat_interleave(2, -1)[{{}, {1, -1, 2}}] end,
}

local function agree(a, b, tolerance, what)
  local want = by_terms(a, b)
  for name_a, lay_a in pairs(layouts) do
    for name_b, lay_b in pairs(layouts) do
      local got = lay_a(a):matmul(lay_b(b))
      check.equal(got.dtype, a.dtype)
      local far = (got:to(want.dtype) - want):abs():max():item()
      if not (far <= tolerance * (1 + want:abs():max():item())) then
        error(("%s %s x %s: off by %g"):format(what, name_a, name_b, far))
      end
    end
  end
end

test("products of few rows or few columns are the sums of their terms", function()
  torch.manual_seed(5)
  for _, dtype in ipairs {"float32", "float64"} do
    for _, s in ipairs {{1, 64, 9}, {2, 64, 5}, {4, 130, 7}, {5, 100, 33}, {8, 65, 3}, {9, 71, 2}, {70, 64, 2}, {67, 90, 3}, {130, 77, 4}, {64, 300, 1}, {3, 63, 3}} do
      agree(torch.randn(s[1], s[2], {dtype = dtype}), torch.randn(s[2], s[3], {dtype = dtype}), dtype == "float32" and 1e-5 or 1e-13, dtype .. " " .. table.concat(s, "x"))
    end
  end
end)

test("matrices of short rows times a vector are the sums of their terms, however many threads there are", function()
  torch.manual_seed(6)
  for _, dtype in ipairs {"float32", "float64", "int64"} do
    for k = 1, 34 do
      for _, m in ipairs {1, 7, 16, 37} do
        local a, x = torch.randn(m, k) * 9, torch.randn(k, 1) * 9
        agree(a:to(dtype), x:to(dtype), dtype == "float32" and 1e-5 or dtype == "float64" and 1e-13 or 0, dtype .. " " .. m .. "x" .. k)
      end
    end
    local a, x = (torch.randn(70003, 5) * 9):to(dtype), (torch.randn(5) * 9):to(dtype)
    local threads = torch.get_num_threads()
    torch.set_num_threads(1)
    local one = a:mv(x)
    torch.set_num_threads(3)
    local three = a:mv(x)
    torch.set_num_threads(threads)
    check.equal(torch.equal(one, three), true)
  end
end)

test("products of integers are exact modulo their range, whatever their size", function()
  torch.manual_seed(7)
  for _, dtype in ipairs {"uint8", "int8", "int16", "int32", "int64"} do
    for _, most in ipairs {9, 127, 30000, 2 ^ 31 - 1, 2 ^ 62} do
      most = math.floor(most)
      local a, b = torch.randint(-most, most, {35, 41}):to(dtype), torch.randint(-most, most, {41, 33}):to(dtype)
      for name, lay in pairs(layouts) do
        check.equal(torch.equal(lay(a):matmul(lay(b)), by_terms(a, b):to(dtype)), true, dtype .. " " .. name .. " " .. most)
      end
      check.equal(torch.equal(a:mv(b[{{}, 1}]), by_terms(a, b[{{}, {1, 1}}]):to(dtype):squeeze(-1)), true, dtype)
    end
  end
  local low = torch.full({40, 40}, math.mininteger, {dtype = "int64"})
  check.equal(low:matmul(torch.ones(40, 40, {dtype = "int64"})):count_nonzero():item(), 0)
  check.equal(torch.full({64, 300}, 255, {dtype = "uint8"}):matmul(torch.full({300, 64}, 255, {dtype = "uint8"})):max():item(), 255 * 255 * 300 % 256)
end)

test("bfloat16 matrices and vectors are multiplied in float32", function()
  torch.manual_seed(8)
  for _, s in ipairs {{5, 40}, {4, 64}, {33, 129}, {70, 32}, {1, 1000}} do
    local a, x = torch.randn(s[1], s[2]):bfloat16(), torch.randn(s[2], 1):bfloat16()
    agree(a, x, 1e-2, table.concat(s, "x"))
    local y, z = a[1], x:squeeze(-1)
    local got, want = y:matmul(z):item(), by_terms(y:unsqueeze(1), x):item()
    check.equal(math.abs(got - want) <= 1e-2 * (1 + math.abs(want)), true)
  end
end)

test("matrix_exp is its series at every norm, for each degree that it chooses", function()
  torch.manual_seed(9)
  for _, dtype in ipairs {"float32", "float64"} do
    for _, norm in ipairs {0, 1e-9, 1e-5, 1e-3, 0.04, 0.2, 0.9, 1.4, 2.9, 40} do
      local a = torch.randn(2, 7, 7, {dtype = "float64"})
      a = (a / a:abs():sum(-2):max() * norm):to(dtype)
      local small, id = a:double() / 4096, torch.eye(7, {dtype = "float64"})
      local want = id
      for k = 14, 1, -1 do want = id + small:matmul(want) / k end
      for _ = 1, 12 do want = want:matmul(want) end
      local far = ((torch.matrix_exp(a):double() - want):abs():max() / want:abs():max()):item()
      check.equal(far < (dtype == "float32" and 5e-6 or 1e-11), true, ("%s norm %g: off by %g"):format(dtype, norm, far))
    end
  end
end)

test("products of operands with gaps between their lines are those of their copies", function()
  torch.manual_seed(5)
  local function draw(n) return torch.randint(1, n + 1, {}):item() end
  for case = 1, 200 do
    local dtype = ({"bfloat16", "float16", "float32", "float64"})[case % 4 + 1]
    local m, k, n = draw(case % 3 == 0 and 3 or 70), draw(case % 5 == 0 and 2 or 60), draw(case % 7 == 0 and 2 or 90)
    local function operand(rows, cols)
      local gap, first = draw(5) - 1, draw(3)
      if draw(2) == 1 then return torch.randn(rows + 3, cols + gap + 2):to(dtype):narrow(1, first, rows):narrow(2, first, cols) end
      return torch.randn(cols + 3, rows + gap + 2):to(dtype):narrow(1, first, cols):narrow(2, first, rows):t()
    end
    local a, b = operand(m, k), operand(k, n)
    local got, want = a:mm(b):double(), a:double():mm(b:double())
    local off = ({bfloat16 = 1e-2, float16 = 2e-3, float32 = 1e-5, float64 = 1e-12})[dtype]
    check.yes(torch.allclose(got, want, off, off * 8), ("case %d: %s %dx%dx%d"):format(case, dtype, m, k, n))
  end
end)

test("large matrices of two bytes meet up to four vectors at once, as they meet one", function()
  torch.manual_seed(11)
  for _, dtype in ipairs {"bfloat16", "float16"} do
    for vectors = 1, 5 do
      for _, s in ipairs {{3001, 96}, {257, 1037}, {6000, 45}} do
        local w, x = (torch.randn(s[1], s[2]) / 8):to(dtype), torch.randn(s[2], vectors):to(dtype)
        local what = ("%s %dx%d, %d vectors"):format(dtype, s[1], s[2], vectors)
        local want = w:double():matmul(x:double())
        local far = dtype == "bfloat16" and 5e-3 or 6e-4
        for name, lay in pairs(layouts) do
          local column, row = lay(w):matmul(lay(x)), lay(x).mT:matmul(lay(w).mT)
          check.equal(torch.allclose(column:double(), want, {rtol = far, atol = far}), true, what .. name)
          check.equal(torch.allclose(row:double(), want.mT, {rtol = far, atol = far}), true, what .. name .. " turned")
        end
        local b = torch.randn(s[1]):to(dtype)
        local y = torch.nn.functional.linear(x:t():contiguous():view(1, vectors, s[2]), w, b)
        check.equal(y.shape, torch.Size {1, vectors, s[1]})
        check.equal(torch.allclose(y[1]:double(), want.mT + b:double(), {rtol = far, atol = 2 * far}), true, what .. " with bias")
      end
    end
  end
end)

test("many small matrices times a vector each are the sums of their terms", function()
  torch.manual_seed(12)
  for _, dtype in ipairs {"float32", "float64"} do
    for k = 1, 6 do
      for m = 1, 9 do
        local a, x = torch.randn(23, m, k, {dtype = dtype}), torch.randn(23, k, 1, {dtype = dtype})
        local want, far = by_terms(a, x), dtype == "float32" and 1e-5 or 1e-13
        for _, name in ipairs {"contiguous", "transposed", "sliced"} do
          local got = layouts[name](a):matmul(layouts[name](x)):double()
          check.equal(torch.allclose(got, want, {rtol = far, atol = far}), true, ("%s %s %dx%d"):format(dtype, name, m, k))
        end
      end
    end
  end
end)

test("few rows of halves times a wide matrix give the same bits however many threads there are", function()
  local threads = torch.get_num_threads()
  for i = 1, 12 do
    local m, k, n = torch.randint(5, 41, {1}):item(), torch.randint(800, 3000, {1}):item(), torch.randint(600, 3000, {1}):item()
    local x = torch.randn(m, k):bfloat16()
    local b = torch.randn(n):bfloat16()
    for _, y in ipairs {torch.randn(k, n):bfloat16(), torch.randn(n, k):bfloat16():t()} do
      local out = {}
      for t = 1, 3 do
        torch.set_num_threads(t)
        out[t] = {x:matmul(y), torch.addmm(b, x, y), torch.nn.functional.linear(x, y:t(), b)}
      end
      for t = 2, 3 do
        for q = 1, 3 do check.yes(torch.equal(out[1][q], out[t][q]), ("%d %d %d, way %d on %d threads"):format(m, k, n, q, t)) end
      end
      check.yes((out[1][1]:double() - x:double():matmul(y:double())):abs():max():item() < 0.02 * k ^ 0.5)
    end
  end
  torch.set_num_threads(threads)
end)
