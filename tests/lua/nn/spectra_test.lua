-- Spectra and QR of many small matrices at once against those of each alone, and against what they are.
local EPSILON = {float32 = 2 ^ -23, float64 = 2 ^ -52}

-- Matrices that are hard: very large, very small, with rows of zeros, of one rank, of zeros and ones.
local function hard(kind, count, m, n, dtype)
  local a = torch.randn(count, m, n, {dtype = dtype})
  if kind == 1 then return a * 1e30 end
  if kind == 2 then return a * 1e-30 end
  if kind == 3 then a[{{}, 1}] = 0 end
  if kind == 4 then return (a[{{}, {}, {1, 1}}] * torch.randn(count, 1, n, {dtype = dtype})):contiguous() end
  if kind == 5 then return a:gt(0):to(dtype) end
  return a
end

local function each_hard(f)
  torch.manual_seed(5)
  for dtype, epsilon in pairs(EPSILON) do
    for trial = 1, 48 do
      local m, n = 1 + (trial * 7) % 17, 1 + (trial * 5) % 17
      local a = hard(trial % 6, 4 + trial % 30, m, n, dtype)
      f(a, 10 * epsilon * math.max(m, n), dtype)
    end
  end
end

local function most(x) return x:abs():max():item() end

test("singular values of many small matrices are those of each alone, in any layout", function()
  each_hard(function(a, part)
    local found = torch.linalg.svdvals(a)
    check.equal(torch.linalg.svdvals(a.mT:contiguous().mT), found)
    check.equal(torch.linalg.svdvals(a:flip(1):flip(1)), found)
    for i = 1, #a do
      assert(most(found[i] - torch.linalg.svdvals(a[i])) <= part * most(a[i]))
      assert(most(found[i]:sort{descending = true} - found[i]) == 0)
    end
  end)
end)

test("QR of many small matrices multiplies to them, with orthogonal columns and LAPACK's signs", function()
  each_hard(function(a, part, dtype)
    for _, mode in ipairs {"reduced", "complete"} do
      local q, r = torch.linalg.qr(a, mode)
      local eye = torch.eye(q.shape[3], {dtype = dtype})
      for i = 1, #a do
        assert(most(q[i]:matmul(r[i]) - a[i]) <= part * most(a[i]))
        assert(most(q[i].mT:matmul(q[i]) - eye) <= part)
        assert(most(r[i]:tril(-1)) == 0)
      end
      check.equal(select(2, torch.linalg.qr(a, mode)), r)
    end
    local _, r = torch.linalg.qr(a, "r")
    local _, one = torch.linalg.qr(a[1])
    assert(r[{1, 1, 1}]:item() * one[{1, 1}]:item() >= 0)
  end)
end)

test("eigenvalues of many small symmetric matrices are those of each alone, of either triangle", function()
  each_hard(function(a, part, dtype)
    local b = a / (most(a) + 1e-37)
    local n = a.shape[2]
    local s = b:matmul(b.mT)
    local values, vectors = torch.linalg.eigh(s)
    local junk = torch.full({n, n}, 7, {dtype = dtype})
    for uplo, half in pairs {L = s:tril() + junk:triu(1), U = s:triu() + junk:tril(-1)} do
      assert(most(torch.linalg.eigvalsh(half, uplo) - values) <= part * most(s))
    end
    for i = 1, #s do
      assert(most(values[i] - torch.linalg.eigvalsh(s[i])) <= part * most(s[i]))
      assert(most(vectors[i]:matmul(torch.diag(values[i])):matmul(vectors[i].mT) - s[i]) <= part * most(s[i]))
      assert(most(vectors[i].mT:matmul(vectors[i]) - torch.eye(n, {dtype = dtype})) <= part)
    end
  end)
end)

test("a matrix that is not finite is named, whatever the size", function()
  for n = 1, 3 do
    local x = torch.ones(5, n, n)
    x[{3, 1, 1}] = 0 / 0
    for _, f in ipairs {torch.linalg.svdvals, torch.linalg.eigvalsh} do
      local ok, err = pcall(f, x)
      assert(not ok and tostring(err):find("matrix 3 of the batch", 1, true))
    end
  end
end)
