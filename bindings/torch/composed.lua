-- Operations put together from others: distances, covariances, windows, and functions that take a tensor apart.
local torch = torch
local error = torch._raise
local Tensor = torch._tensor_methods()
local F = torch.nn.functional

local function both(name, f) torch[name], Tensor[name] = f, f end

local function want(name, x)
  if not torch.is_tensor(x) then error(("%s: wants a tensor, not a %s"):format(name, type(x)), 3) end
  return x
end
-- Options in a last table, or by position.
local function options(names, ...)
  local first = ...
  if type(first) == "table" then return first end
  local out = {}
  for i, name in ipairs(names) do out[name] = (select(i, ...)) end
  return out
end

---The p-norm of the difference of two tensors.
---@param x userdata
---@param other userdata
---@param p? number default 2
local function dist(x, other, p)
  want("dist", x)
  if type(p) == "table" then p = p.p end
  return torch.linalg.vector_norm(x - want("dist", other), p or 2.0)
end
both("dist", dist)

---The covariances of the rows, whose elements are observations.
---@param x userdata [variables, observations]
---@param options? {correction?: integer, fweights?: userdata, aweights?: userdata}
local function cov(x, ...)
  local o = options({"correction", "fweights", "aweights"}, ...)
  if want("cov", x).ndim > 2 then error("cov: wants at most 2 dimensions, not shape " .. tostring(x.shape), 2, "shape") end
  local rows = x.ndim < 2 and x:reshape(1, -1) or x
  if not rows:is_floating_point() then rows = rows:to(torch.get_default_dtype()) end
  for _, name in ipairs {"fweights", "aweights"} do
    if o[name] ~= nil and not torch.is_tensor(o[name]) then error(("cov: %s must be a tensor, not a %s"):format(name, type(o[name])), 2, "argument") end
  end
  local w = o.aweights
  if o.fweights then w = w and w * o.fweights or o.fweights end
  local correction = o.correction or 1
  local count, mean
  if w then
    w = w:to(rows.dtype)
    local sum = w:sum()
    mean = (rows * w):sum(2, true) / sum
    count = correction == 0 and sum or sum - correction * (o.aweights and (w * o.aweights):sum() / sum or 1)
  else
    mean, count = rows:mean(2, true), torch.tensor(rows:size(2), {dtype = rows.dtype, device = rows.device}) - correction
  end
  local apart = rows - mean
  local out = (w and apart * w or apart):matmul(apart:t()) / count:clamp_min(0)
  return x.ndim < 2 and out:squeeze() or out
end
both("cov", cov)

---The correlations of the rows, from -1 to 1.
---@param x userdata [variables, observations]
local function corrcoef(x)
  local c = cov(want("corrcoef", x))
  if c.ndim == 0 then return c / c end
  local s = c:diagonal():sqrt()
  return (c / s:unsqueeze(2) / s:unsqueeze(1)):clamp(-1, 1)
end
both("corrcoef", corrcoef)

-- Positions of all choices of r from n, in order, a list for each place of a choice: every choice of fewer is followed
-- by all that may come after its last one.
local function choices(n, r, repeats, device)
  local step = repeats and 0 or 1
  local lists = {torch.arange(1, math.max(n - (r - 1) * step, 0) + 1, {device = device})}
  for k = 2, r do
    local last = lists[k - 1]
    local counts = (n - (r - k) * step + 1 - step) - last
    local before = counts:cumsum(1) - counts
    local first = (last + step - before):repeat_interleave(counts)
    for j = 1, k - 1 do lists[j] = lists[j]:repeat_interleave(counts) end
    lists[k] = first + torch.arange(#first, {device = device})
  end
  return lists
end
---All choices of r elements of a vector, a row each.
---@param x userdata
---@param r? integer default 2
---@param with_replacement? boolean
local function combinations(x, ...)
  local o = options({"r", "with_replacement"}, ...)
  local r = o.r or 2
  if want("combinations", x).ndim ~= 1 then error("combinations: wants a vector, not shape " .. tostring(x.shape), 2, "shape") end
  if math.type(r) ~= "integer" or r < 0 then error("combinations: r must be an integer from 0, not " .. tostring(r), 2, "value") end
  if r == 0 then return x.new_empty and x:new_empty({0, r}) or torch.empty(0, r, {dtype = x.dtype}) end
  local columns = {}
  for k, at in ipairs(choices(#x, r, o.with_replacement, x.device)) do columns[k] = x:index_select(1, at) end
  return torch.stack(columns, 2)
end
both("combinations", combinations)

---The factors of a matrix: u, s, v with x = u diag(s) v^T (torch.linalg.svd gives v^T).
---@param x userdata
---@param some? boolean false: all columns
local function svd(x, ...)
  local o = options({"some"}, ...)
  local u, s, vh = torch.linalg.svd(want("svd", x), {full_matrices = o.some == false})
  return u, s, vh.mT
end
both("svd", svd)
---q and r with x = q r, as torch.linalg.qr.
---@param x userdata
---@param some? boolean false: all columns
local function qr(x, ...)
  local o = options({"some"}, ...)
  return torch.linalg.qr(want("qr", x), {mode = o.some == false and "complete" or "reduced"})
end
both("qr", qr)
---The factor L of L L^T, as torch.linalg.cholesky; with upper its transpose.
---@param x userdata
---@param upper? boolean
local function cholesky(x, ...)
  local l = torch.linalg.cholesky(want("cholesky", x))
  return options({"upper"}, ...).upper and l.mT or l
end
both("cholesky", cholesky)
-- Polynomials of one matrix in as few products as their degree allows, for matrix_exp: Bader, Blanes and Casas,
-- "Computing the matrix exponential with an optimized Taylor polynomial approximation", 2019. `most` are the norms up
-- to which a degree gives all bits of float32 and of float64. A row of `sums` counts with the identity and the powers
-- 1, 2, 3 and 6.
local exponentials = {
  {products = 1, most = {5.978858893805233e-04, 2.580956802971767e-08}},
  {products = 2, most = {5.116619363445086e-02, 3.397168839976962e-04}},
  {products = 3, most = {5.800524627688768e-01, 4.991228871115323e-02}},
  {products = 4, most = {1.461661507209034, 2.996158913811580e-01}, sums = {
    {9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740},
    {5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989},
    {0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230},
    {-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359}}},
  {products = 5, most = {3.010066362817634, 1.090863719290036}, sums = {
    {0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04, 0},
    {0, 3.97849749499645077844e-01, 1.36783778460411720168, 4.98289622525382669416e-01, -6.37898194594723280150e-04},
    {-1.09676396052962061844e+01, 1.68015813878906206114, 5.71779846478865511061e-02, -6.98210122488052056106e-03, 3.34975017086070470649e-05},
    {-9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02, 2.95552570429315521194e-02, -1.39180257516060693404e-05},
    {0, 0, -9.23364619367118555360e-02, -1.69364939002081722752e-02, -1.40086798182036094347e-05}}},
}
local root = math.sqrt(177)
local x3 = 2 / 3
local eighth = {  -- degree 8: what counts with a and a^2 in the first product, and what in both factors of the second
  inner = {x3 * (1 + root) / 88, x3 * (1 + root) / 352},
  outer = {(29 * root - 271) / (315 * x3), 11 * (root - 1) / (1260 * x3), 11 * (root - 9) / (5040 * x3), (89 - root) / (5040 * x3 * x3)},
  rest = (857 - 58 * root) / 630,
}

---The exponential of square matrices, by scaling, a Taylor polynomial and squaring.
---@param x userdata [.., n, n]
local function matrix_exp(x)
  if want("matrix_exp", x).ndim < 2 or x:size(-1) ~= x:size(-2) then error("matrix_exp: wants square matrices, not shape " .. tostring(x.shape), 2, "shape") end
  if not x:is_floating_point() then error("matrix_exp: wants floating point numbers, not " .. tostring(x.dtype), 2, "dtype") end
  local largest = x:numel() > 0 and x:detach():abs():sum(-2):max():item() or 0
  local kind = x.dtype == torch.float64 and 2 or 1
  local degree = 1
  while degree < #exponentials and not (largest <= exponentials[degree].most[kind]) do degree = degree + 1 end
  local how = exponentials[degree]
  local halvings = largest > how.most[kind] and largest < math.huge and math.ceil(math.log(largest / how.most[kind], 2)) or 0
  local a = halvings > 0 and x / 2.0 ^ halvings or x
  local id = torch.eye(x:size(-1), {dtype = x.dtype, device = x.device})
  local powers = {id, a, a:matmul(a)}
  local function sum(row)
    local out
    for i, factor in ipairs(row) do
      if factor ~= 0 then out = out and out + factor * powers[i] or factor * powers[i] end
    end
    return out
  end
  local out
  local a2 = powers[3]
  if how.products == 1 then
    out = id + a + a2 / 2
  elseif how.products == 2 then
    out = id + a + a2:matmul(id / 2 + a / 6 + a2 / 24)
  elseif how.products == 3 then
    local a4 = a2:matmul(eighth.inner[1] * a + eighth.inner[2] * a2)
    powers[4] = a4
    out = id + a + eighth.rest * a2 + (x3 * a2 + a4):matmul(sum(eighth.outer))
  else
    powers[4] = a2:matmul(a)
    if how.products == 5 then powers[5] = powers[4]:matmul(powers[4]) end
    local part = {}
    for i, row in ipairs(how.sums) do part[i] = sum(row) end
    if how.products == 4 then
      local a6 = part[3] + part[4]:matmul(part[4])
      out = part[1] + (part[2] + a6):matmul(a6)
    else
      local a9 = part[4] + part[1]:matmul(part[5])
      out = part[2] + (part[3] + a9):matmul(a9)
    end
  end
  for _ = 1, halvings do out = out:matmul(out) end
  return out
end
both("matrix_exp", matrix_exp)
torch.linalg.matrix_exp = matrix_exp
---The product of several matrices, in the cheapest order.
function torch.chain_matmul(...)
  local first = ...
  return torch.linalg.multi_dot(type(first) == "table" and first or {...})
end

---Writes a value on the diagonal; with wrap again below it in tall matrices.
---@param value number
---@param wrap? boolean
function Tensor:fill_diagonal_(value, wrap)
  if type(wrap) == "table" then wrap = wrap.wrap end
  if self.ndim < 2 then error("fill_diagonal_: wants at least 2 dimensions, not shape " .. tostring(self.shape), 2, "shape") end
  local step, n = 0, math.huge
  for d = 1, self.ndim do
    if self.ndim > 2 and self:size(d) ~= self:size(1) then
      error("fill_diagonal_: more than 2 dimensions must be of one size, not shape " .. tostring(self.shape), 2, "shape")
    end
    step, n = step + self:stride(d), math.min(n, self:size(d))
  end
  if wrap and self.ndim == 2 and self:size(1) > self:size(2) then
    for first = 1, self:size(1), self:size(2) + 1 do self[{{first, -1}}]:diagonal():fill_(value) end
    return self
  end
  self:as_strided({n}, {step}, self:storage_offset()):fill_(value)
  return self
end

---The values of a function of one argument for each element (slowly: f is called for every one).
---@param f function
function Tensor:apply_(f)
  if type(f) ~= "function" then error("apply_: wants a function, not a " .. type(f), 2) end
  local values = self:reshape(-1):tolist()
  for i, v in ipairs(values) do values[i] = f(v) end
  torch.no_grad(function() self:copy_(torch.tensor(values, {dtype = self.dtype}):view_as(self)) end)
  return self
end

-- --- windows ---

-- a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n one less where the window is symmetric.
local function window(name, terms)
  return function(length, ...)
    local o = type((...)) == "table" and (...) or {periodic = (...)}
    if math.type(length) ~= "integer" or length < 0 then error(("%s: wants a length, not %s"):format(name, tostring(length)), 2, "value") end
    local kind = {dtype = o.dtype or torch.get_default_dtype(), device = o.device or torch._default_device()}
    if length < 2 then return torch.ones(length, kind) end
    local at = torch.arange(length, {dtype = "float64"}) / (o.periodic == false and length - 1 or length)
    return terms(at, o):to(kind.dtype):to(kind.device or "cpu")
  end
end
---The window 0.5 - 0.5 cos: length, {periodic=true}.
torch.hann_window = window("hann_window", function(t) return 0.5 - 0.5 * torch.cos(2 * math.pi * t) end)
---The window alpha - beta cos: length, {periodic=true, alpha=0.54, beta=0.46}.
torch.hamming_window = window("hamming_window", function(t, o) return (o.alpha or 0.54) - (o.beta or 0.46) * torch.cos(2 * math.pi * t) end)
---The window 0.42 - 0.5 cos + 0.08 cos: length, {periodic=true}.
torch.blackman_window = window("blackman_window", function(t)
  return 0.42 - 0.5 * torch.cos(2 * math.pi * t) + 0.08 * torch.cos(4 * math.pi * t)
end)
---The window of a triangle: length, {periodic=true}.
torch.bartlett_window = window("bartlett_window", function(t) return 1 - torch.abs(2 * t - 1) end)

-- --- names that take what others do ---

-- "fro" is PyTorch's word for the 2-norm of all elements.
local norm = torch.norm
---As PyTorch's: p may be a number, "fro" or "nuc".
local function any_norm(x, p, ...)
  local o = type(p) == "table" and p or nil
  local word = o and o.p or p
  if type(word) ~= "string" then
    if p == nil and select("#", ...) == 0 then return norm(x) end
    return norm(x, p, ...)
  end
  if word == "nuc" then return torch.linalg.matrix_norm(x, "nuc") end
  if word ~= "fro" then error(('norm: p must be a number, "fro" or "nuc", not %q'):format(word), 2, "value") end
  if not o then return norm(x, 2, ...) end
  local copy = {}
  for k, v in pairs(o) do copy[k] = v end
  copy.p = 2
  return norm(x, copy)
end
torch.norm, Tensor.norm = any_norm, any_norm

---The rows and columns (positions from 1, one tensor per dimension) of positions in one line.
---@param indices userdata
---@param shape integer[]
function torch.unravel_index(indices, shape)
  want("unravel_index", indices)
  if type(shape) ~= "table" then error("unravel_index: wants a shape: {3, 4}", 2) end
  local rest, out, count = indices - 1, {}, 1
  for d = 1, #shape do
    local n = shape[d]
    if math.type(n) ~= "integer" then error(("unravel_index: size %d of the shape is %s, not an integer"):format(d, tostring(n)), 2) end
    count = count * n
  end
  if indices:numel() > 0 and (indices:min():item() < 1 or indices:max():item() > count) then
    error(("unravel_index: positions lie in 1..%d"):format(count), 2, "index")
  end
  for d = #shape, 1, -1 do
    out[d] = rest % shape[d] + 1
    rest = rest // shape[d]
  end
  return table.unpack(out)
end

---A grid for F.grid_sample from affine maps: theta [n, 2, 3] and a size [n, c, h, w], or [n, 3, 4] and [n, c, d, h, w].
---@param theta userdata
---@param size integer[]
---@param align_corners? boolean
function F.affine_grid(theta, size, align_corners)
  if type(align_corners) == "table" then align_corners = align_corners.align_corners end
  want("affine_grid", theta)
  if type(size) ~= "table" then error("affine_grid: wants the size as a table {n, c, h, w}, not " .. tostring(size), 2, "argument") end
  local dims = #size - 2
  if theta.ndim ~= 3 or (dims ~= 2 and dims ~= 3) or theta:size(2) ~= dims or theta:size(3) ~= dims + 1 or theta:size(1) ~= size[1] then
    error(("affine_grid: theta %s does not fit the size %s; it is [n, 2, 3] for 4 sizes and [n, 3, 4] for 5"):format(
      tostring(theta.shape), tostring(torch.Size(size))), 2, "shape")
  end
  local axes = {}
  for d = 1, dims do
    local n = size[d + 2]
    local line = n == 1 and torch.zeros(1) or torch.linspace(-1, 1, n)
    if not align_corners and n > 1 then line = line * ((n - 1) / n) end
    axes[d] = line:to(theta.dtype):to(theta.device)
  end
  local grids = {torch.meshgrid(axes, {indexing = "ij"})}
  local parts = {}
  for d = dims, 1, -1 do parts[#parts + 1] = grids[d]:reshape(-1) end  -- x first
  parts[#parts + 1] = torch.ones_like(parts[1])
  local points = torch.stack(parts, 2)  -- [points, dims + 1]
  local shape = {size[1]}
  for d = 1, dims do shape[#shape + 1] = size[d + 2] end
  shape[#shape + 1] = dims
  return points:matmul(theta:transpose(2, 3)):reshape(shape)
end

---The older name of F.interpolate.
function F.upsample(x, ...) return F.interpolate(x, ...) end
