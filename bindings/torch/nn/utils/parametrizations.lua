-- torch.nn.utils.parametrizations: weights as length and direction, with a bounded largest singular value, orthogonal.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local register = require("torch.nn.utils.parametrize").register_parametrization
local parametrizations = {}

local function options_of(names, name, ...)
  if type(name) == "table" then return name end
  local out = {name = name}
  for i, key in ipairs(names) do
    local v = select(i, ...)
    if type(v) == "table" then
      for k, one in pairs(v) do out[k] = one end
    else
      out[key] = v
    end
  end
  return out
end
local function weight_of(what, layer, name)
  local w = type(layer) == "table" and layer[name]
  if not torch.is_tensor(w) then error(('%s: this layer has no tensor "%s"'):format(what, name), 3) end
  return w
end

local slices = require "torch.nn.utils.slices"
local others, length = slices.others, slices.length

local WeightNorm = nn.class("_WeightNorm")
function WeightNorm:init(dim) rawset(self, "dim", dim) end
function WeightNorm:forward(g, v) return v * (g / length(v, self.dim)) end
function WeightNorm:right_inverse(weight) return length(weight, self.dim), weight end

---Splits a weight into its length (original0) and direction (original1); returns the layer.
---@param layer table
---@param name? string default "weight"
---@param dim? integer default 1: one length per slice of this dimension; torch.none: one for all
function parametrizations.weight_norm(layer, name, dim)
  local o = options_of({"dim"}, name, dim)
  local w = weight_of("weight_norm", layer, o.name or "weight")
  local at = o.dim
  if at == nil then at = 1 elseif at == torch.none then at = nil end
  if at and at < 0 then at = w.ndim + 1 + at end
  return register(layer, o.name or "weight", WeightNorm(at), {unsafe = true})
end

local function unit(v, eps) return v / torch.linalg.vector_norm(v):clamp_min(eps) end

local SpectralNorm = nn.class("_SpectralNorm")
function SpectralNorm:init(weight, steps, dim, eps)
  rawset(self, "dim", dim)
  rawset(self, "eps", eps)
  rawset(self, "n_power_iterations", steps)
  if weight.ndim < 2 then return end
  torch.no_grad(function()
    local m = self:_matrix(weight:detach())
    self:register_buffer("_u", unit(torch.randn({m:size(1)}, {dtype = m.dtype}):to(m.device), eps))
    self:register_buffer("_v", unit(torch.randn({m:size(2)}, {dtype = m.dtype}):to(m.device), eps))
    self:_power(m, 15)
  end)
end
function SpectralNorm:_matrix(w)
  if self.dim ~= 1 then
    local order = {self.dim}
    for _, d in ipairs(others(w, self.dim)) do order[#order + 1] = d end
    w = w:permute(order)
  end
  return w:reshape({w:size(1), -1})
end
function SpectralNorm:_power(m, steps)
  for _ = 1, steps do
    self._u:copy_(unit(m:mv(self._v), self.eps))
    self._v:copy_(unit(m:t():mv(self._u), self.eps))
  end
end
function SpectralNorm:forward(weight)
  if weight.ndim < 2 then return unit(weight, self.eps) end
  local m = self:_matrix(weight)
  if self.training then torch.no_grad(function() self:_power(m:detach(), self.n_power_iterations) end) end
  return weight / torch.dot(self._u:clone(), m:mv(self._v:clone()))
end
function SpectralNorm:right_inverse(value) return value end

---Divides a weight by its largest singular value, estimated by power iterations in training; returns the layer.
---@param layer table
---@param name? string default "weight"
---@param options? {n_power_iterations?: integer, eps?: number, dim?: integer}
function parametrizations.spectral_norm(layer, name, options)
  local o = options_of({"n_power_iterations"}, name, options)
  local w = weight_of("spectral_norm", layer, o.name or "weight")
  local steps = o.n_power_iterations or 1
  if math.type(steps) ~= "integer" or steps < 1 then
    error("spectral_norm: n_power_iterations must be an integer from 1, not " .. tostring(steps), 2, "value")
  end
  local transposed = torch.nn.utils.parametrize.type_before_parametrizations(layer)._name:find "^ConvTranspose"
  return register(layer, o.name or "weight", SpectralNorm(w, steps, o.dim or (transposed and 2 or 1), o.eps or 1e-12))
end

-- Wide matrices are made orthogonal as their transposes.
local Orthogonal = nn.class("_Orthogonal")
function Orthogonal:init(map, base)
  rawset(self, "map", map)
  self:register_buffer("base", base)
end
-- The matrix with orthonormal columns from householder vectors below the diagonal of x [n, k].
local function householder(x)
  local n, k = x:size(-2), x:size(-1)
  local a = x:tril(-1) + torch.eye(n, k, {dtype = x.dtype, device = x.device})
  local q = torch.eye(n, k, {dtype = x.dtype, device = x.device}):expand(x.shape):clone()
  for j = k, 1, -1 do
    local v = a:narrow(-1, j, 1)
    local tau = 2 / (v * v):sum({-2}, true)
    q = q - tau * v:matmul(v.mT:matmul(q))
  end
  -- The diagonal holds signs, which are not trained.
  return q * x:diagonal(0, -2, -1):detach():trunc():unsqueeze(-2)
end
function Orthogonal:forward(x)
  local n, k = x:size(-2), x:size(-1)
  local wide = n < k
  if wide then x, n, k = x.mT, k, n end
  local q
  if self.map == "householder" then
    q = householder(x)
  else
    local a = x:tril()
    if n ~= k then a = torch.cat({a, a:new_zeros({n, n - k})}, -1) end
    a = a - a.mT
    if self.map == "matrix_exp" then
      q = torch.linalg.matrix_exp(a)
    else
      local id = torch.eye(n, {dtype = a.dtype, device = a.device})
      q = torch.linalg.solve(id + a * -0.5, id + a * 0.5)
    end
    if n ~= k then q = q:narrow(-1, 1, k) end
  end
  q = self.base:matmul(q)
  return wide and q.mT or q
end
function Orthogonal:right_inverse(q)
  local wide = q:size(-2) < q:size(-1)
  if wide then q = q.mT end
  local n, k = q:size(-2), q:size(-1)
  local full = q
  if n ~= k then
    local more = torch.randn({n, n - k}, {dtype = q.dtype}):to(q.device)
    more = torch.linalg.qr(torch.cat({q, more}, -1))
    full = torch.cat({q, more:narrow(-1, k + 1, n - k)}, -1)
  end
  self.base:copy_(full)
  local start = -torch.eye(n, k, {dtype = q.dtype, device = q.device})
  return wide and start.mT or start
end

---Keeps a matrix orthogonal (or its rows or columns orthonormal) while it is trained; returns the layer.
---@param layer table
---@param name? string default "weight"
---@param options? {orthogonal_map?: string, use_trivialization?: boolean} "matrix_exp" (square), "cayley" or "householder"
function parametrizations.orthogonal(layer, name, options)
  local o = options_of({"orthogonal_map"}, name, options)
  local w = weight_of("orthogonal", layer, o.name or "weight")
  if w.ndim ~= 2 then error("orthogonal: wants a matrix, not shape " .. tostring(w.shape), 2, "shape") end
  local map = o.orthogonal_map or (w:size(1) == w:size(2) and "matrix_exp" or "householder")
  if map ~= "matrix_exp" and map ~= "cayley" and map ~= "householder" then
    error(('orthogonal: orthogonal_map must be "matrix_exp", "cayley" or "householder", not %q'):format(tostring(map)), 2, "value")
  end
  for k in pairs(o) do
    if k ~= "name" and k ~= "orthogonal_map" and k ~= 1 and not (k == "use_trivialization" and o[k] ~= false) then
      error(('orthogonal: no argument "%s" (it has: name, orthogonal_map); training always starts at the present weight'):format(tostring(k)), 2)
    end
  end
  local n = math.max(w:size(1), w:size(2))
  local made = Orthogonal(map, torch.eye(n, {dtype = w.dtype, device = w.device}))
  -- The present weight, made orthonormal, is where training starts.
  local tall = w:size(1) >= w:size(2)
  torch.no_grad(function()
    local q, r = torch.linalg.qr(tall and w:detach() or w:detach().mT)
    local signs = r:diagonal():sign()
    q = q * torch.where(signs:eq(0), 1, signs)
    w.data = (tall and q or q.mT):clone()
  end)
  return register(layer, o.name or "weight", made)
end

return torch._strict(parametrizations, "torch.nn.utils.parametrizations")
