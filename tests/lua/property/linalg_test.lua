-- Linear systems of many sizes, alone and in batches, put back into what they solve.
test("solutions, inverses, factors and determinants fit their matrices", function()
  torch.manual_seed(4)
  local function near_zero(what, n, batch, x)
    local e = x:abs():max():item()
    if not (e < 1e-8) then error(("%s of %d x %d, %d of them: %g"):format(what, n, n, batch, e)) end
  end
  for _, n in ipairs {1, 2, 3, 8, 9, 16, 17, 33, 64, 65, 97} do
    for _, batch in ipairs(n < 20 and {1, 3, 21} or {1, 2}) do
      local eye = torch.eye(n):double()
      local a = torch.randn(batch, n, n):double() + eye * 2
      local b = torch.randn(batch, n, 3):double()
      if batch == 1 then a, b = a[1], b[1] end
      near_zero("solve", n, batch, a:matmul(torch.linalg.solve(a, b)) - b)
      near_zero("solve from the right", n, batch, torch.linalg.solve(a, b.mT, false):matmul(a) - b.mT)
      near_zero("inv", n, batch, torch.linalg.inv(a):matmul(a) - eye)
      local p = a:matmul(a.mT) / n + eye
      local l, u = torch.linalg.cholesky(p), torch.linalg.cholesky(p, true)
      near_zero("cholesky", n, batch, l:matmul(l.mT) - p)
      near_zero("upper cholesky", n, batch, u.mT:matmul(u) - p)
      near_zero("both factors", n, batch, u.mT - l)
      local sign, log = torch.linalg.slogdet(a)
      local det = torch.linalg.det(a)
      near_zero("det", n, batch, det / (sign * log:exp()) - 1)
      near_zero("det of a product", n, batch, torch.logdet(p) - 2 * torch.logdet(l))
      local t = torch.randn(n, n):double() * (0.3 / n) + eye
      for _, upper in ipairs {false, true} do
        for _, unit in ipairs {false, true} do
          local whole = (upper and t:triu() or t:tril())
          if unit then whole = whole - whole:diag():diag() + eye end
          near_zero("solve_triangular", n, batch, whole:matmul(torch.linalg.solve_triangular(t, b, upper, true, unit)) - b)
          near_zero("solve_triangular from the right", n, batch,
            torch.linalg.solve_triangular(t, b.mT, upper, false, unit):matmul(whole) - b.mT)
        end
      end
    end
  end
end)

test("a singular matrix among many is named", function()
  for _, n in ipairs {2, 9} do
    local many = torch.stack {torch.eye(n), torch.eye(n), torch.ones(n, n), torch.eye(n), torch.ones(n, n)}
    local ok, why = pcall(torch.linalg.inv, many)
    check.equal(ok, false)
    check.equal(tostring(why):find("matrix 3 of the batch", 1, true) ~= nil, true)
    check.equal(torch.linalg.det(many):tolist(), {1, 1, 0, 1, 0})
  end
end)

test("products of thin matrices and vectors, alone and in batches, are float64's in every type and layout", function()
  local bounds = {[torch.float64] = 1e-12, [torch.float32] = 1e-5, [torch.float16] = 2e-3, [torch.bfloat16] = 1e-2}
  for _, sizes in ipairs {{1, 5, 1}, {1, 25, 5}, {5, 300, 1}, {1, 512, 20}, {1, 40, 33}, {1, 7, 64}, {17, 50, 1}, {40, 6, 48}, {64, 1, 40}, {3, 16, 2}, {2, 65, 70}} do
    local m, k, n = table.unpack(sizes)
    for dtype, bound in pairs(bounds) do
      for layout = 1, 4 do
        torch.manual_seed(m * k + n)
        local a, b = torch.randn(3, m, k):to(dtype), torch.randn(3, k, n):to(dtype)
        if layout % 2 == 0 then a = a.mT:contiguous().mT end
        if layout > 2 then b = b.mT:contiguous().mT end
        local want = (a:double():unsqueeze(-1) * b:double():unsqueeze(2)):sum(3)
        local limit = bound * (1 + want:abs():max():item()) * math.max(1, math.sqrt(k) / 4)
        check.close((torch.bmm(a, b):double() - want):abs():max():item(), 0, limit)
        check.close((a[2]:mm(b[2]):double() - want[2]):abs():max():item(), 0, limit)
        check.close((a:matmul(b[1])[1]:double() - want[1]):abs():max():item(), 0, limit)
        check.close((a[3]:mv(b[3]:select(2, 1)):double() - want[3]:select(2, 1)):abs():max():item(), 0, limit)
        check.close((torch.nn.functional.linear(a[1], b[1].mT):double() - want[1]):abs():max():item(), 0, limit)
      end
    end
  end
end)

test("singular vectors of many small matrices are orthonormal and make up the matrix, whatever its rank and range", function()
  torch.manual_seed(3)
  local function draw(n) return torch.randint(1, n + 1, {}):item() end
  for case = 1, 300 do
    local dtype = case % 2 == 0 and "float32" or "float64"
    local single = dtype == "float32"
    local m, n, full = draw(16), draw(16), draw(2) == 1
    local x = torch.randn(draw(20) + 3, m, n, {dtype = dtype})
    local kind = draw(7)
    if kind == 1 then
      x = x * 0
    elseif kind == 2 then
      x = torch.randn(x:size(1), m, 1, {dtype = dtype}) * torch.randn(x:size(1), 1, n, {dtype = dtype})
    elseif kind == 3 then
      x = x * torch.logspace(0, -18, n, {dtype = dtype})
    elseif kind == 4 then
      x = x * (single and 1e-18 or 1e-200)
    elseif kind == 5 then
      x = x * (single and 1e18 or 1e200)
    elseif kind == 6 then
      x = torch.randint(-1, 2, x.shape):to(dtype)
    end
    local u, s, vh = torch.linalg.svd(x, full)
    local unit, k = (single and 1.2e-7 or 2.2e-16), math.min(m, n)
    local largest = x:abs():amax {dim = {2, 3}, keepdim = true}
    largest = torch.where(largest:eq(0), 1, largest)
    local made = (u:narrow(-1, 1, k) * (s / largest:squeeze(-1)):unsqueeze(-2)):matmul(vh:narrow(-2, 1, k))
    local function off(a, b) return (a - b):abs():max():item() / unit end
    local what = ("case %d: %s %dx%d, kind %d"):format(case, dtype, m, n, kind)
    check.yes(off(u.mT:matmul(u), torch.eye(u:size(-1), {dtype = dtype})) < 100, what .. ", u")
    check.yes(off(vh:matmul(vh.mT), torch.eye(vh:size(-2), {dtype = dtype})) < 100, what .. ", vh")
    check.yes(off(made, x / largest) < 200, what .. ", product")
    check.yes(k < 2 or s:narrow(-1, 1, k - 1):ge(s:narrow(-1, 2, k - 1)):all():item(), what .. ", order")
  end
end)
