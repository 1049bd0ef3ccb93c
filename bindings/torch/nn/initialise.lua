-- torch.nn.init: fills parameters in place, as PyTorch does (He et al. 2015, Glorot and Bengio 2010).
local torch = torch
local error = torch._raise
local init = {}

-- Inputs and outputs of one unit: [out, in, k...].
local function fans(t)
  if t.ndim < 2 then error("nn.init: fan in and out need at least 2 dimensions, not " .. t.ndim, 3, "shape") end
  local field = 1
  for d = 3, t.ndim do field = field * t:size(d) end
  return t:size(2) * field, t:size(1) * field
end
init._calculate_fan_in_and_fan_out = fans

local gains = {
  linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, conv_transpose1d = 1, conv_transpose2d = 1,
  conv_transpose3d = 1, sigmoid = 1, tanh = 5 / 3, relu = math.sqrt(2), selu = 3 / 4,
}
---The factor by which a nonlinearity scales; for leaky_relu `param` is the negative slope.
function init.calculate_gain(name, param)
  if name == "leaky_relu" then return math.sqrt(2 / (1 + (param or 0.01) ^ 2)) end
  return gains[name] or error('nn.init.calculate_gain: no gain for "' .. tostring(name) .. '"', 2)
end

-- The fills run without a graph and return the tensor.
local function fill(method)
  ---Fills a tensor in place without recording: init.constant_(t, value), init.zeros_(t).
  return function(t, ...)
    local args = table.pack(...)
    torch.no_grad(function() t[method](t, table.unpack(args, 1, args.n)) end)
    return t
  end
end
local uniform, normal = fill "uniform_", fill "normal_"
---Fills a tensor with numbers drawn evenly from a to b (0 to 1 unless given).
function init.uniform_(t, a, b)
  if type(a) == "table" then a, b = a.a or a[1], a.b or a[2] end
  return uniform(t, a or 0, b or 1)
end
---Fills a tensor with normal numbers (mean 0, deviation 1 unless given).
function init.normal_(t, mean, std)
  if type(mean) == "table" then mean, std = mean.mean or mean[1], mean.std or mean[2] end
  return normal(t, mean or 0, std or 1)
end
local constant = fill "fill_"
---Fills a tensor with one value.
function init.constant_(t, val)
  if type(val) == "table" then val = val.val or val[1] end
  return constant(t, val)
end
init.zeros_ = fill "zero_"
---Fills a tensor with ones.
function init.ones_(t) return init.constant_(t, 1) end
-- Copies numbers made elsewhere into a tensor of `rank` dimensions (nil: any).
local function copy_in(name, t, least, most, make)
  if not torch.is_tensor(t) then error(("nn.init.%s: wants a tensor, not a %s"):format(name, type(t)), 3) end
  if t.ndim < least or t.ndim > most then
    error(("nn.init.%s: wants %s dimensions, not shape %s"):format(name, least == most and tostring(least)
      or most == math.huge and "at least " .. least or ("%d to %d"):format(least, most), tostring(t.shape)), 3, "shape")
  end
  torch.no_grad(function() t:copy_(make()) end)
  return t
end

---Makes a matrix the identity.
function init.eye_(t)
  return copy_in("eye_", t, 2, 2, function() return torch.eye(t:size(1), t:size(2)) end)
end

-- Positional arguments after the tensor, or a last table of names.
local function given(names, defaults, ...)
  local out, args = setmetatable({}, {__index = defaults}), table.pack(...)
  for i = 1, args.n do
    local v = args[i]
    if type(v) == "table" and getmetatable(v) == nil then
      for k, one in pairs(v) do out[names[k] or k] = one end
    elseif v ~= nil then
      out[names[i]] = v
    end
  end
  return out
end

---Fills with normal numbers that lie between a and b.
---@param t any
---@param mean? number default 0
---@param std? number default 1
---@param a? number default -2
---@param b? number default 2
function init.trunc_normal_(t, mean, std, a, b)
  local o = given({"mean", "std", "a", "b"}, {mean = 0.0, std = 1.0, a = -2.0, b = 2.0}, mean, std, a, b)
  if not (o.a < o.b) then error(("nn.init.trunc_normal_: a must be less than b, not %s and %s"):format(o.a, o.b), 2, "value") end
  torch.no_grad(function()
    t:normal_(o.mean, o.std)
    -- What lies outside is drawn again, with all the rest, as PyTorch does; bounds far out in the tails go by the
    -- inverse of the distribution after some rounds.
    for _ = 1, 200 do
      local outside = t:lt(o.a) | t:gt(o.b)
      if not outside:any():item() then return end
      t:copy_(torch.where(outside, torch.empty_like(t):normal_(o.mean, o.std), t))
    end
    local low, high = torch.erf(torch.tensor({(o.a - o.mean), (o.b - o.mean)}, {dtype = "float64"}) / (o.std * math.sqrt(2))):unbind()
    local again = torch.empty_like(t):uniform_(low:item(), high:item()):erfinv() * (o.std * math.sqrt(2)) + o.mean
    t:copy_(torch.where(t:lt(o.a) | t:gt(o.b), again:clamp(o.a, o.b), t))
  end)
  return t
end

---Makes the kernels of a convolution pass their input on unchanged, as many channels as there are.
---@param t any
---@param groups? integer default 1
function init.dirac_(t, groups)
  local o = given({"groups"}, {groups = 1}, groups)
  return copy_in("dirac_", t, 3, 5, function()
    local n = t:size(1) // o.groups
    if n * o.groups ~= t:size(1) then error(("nn.init.dirac_: %d channels do not divide into %d groups"):format(t:size(1), o.groups), 4, "value") end
    local out = torch.zeros(t.shape, {dtype = t.dtype})
    for g = 0, o.groups - 1 do
      for d = 1, math.min(n, t:size(2)) do
        local at = {g * n + d, d}
        for k = 3, t.ndim do at[k] = t:size(k) // 2 + 1 end
        out[at] = 1
      end
    end
    return out
  end)
end

---Makes the rows or columns of a matrix (further dimensions flattened) perpendicular and of one length (Saxe et al. 2013).
---@param t any
---@param gain? number default 1
function init.orthogonal_(t, gain)
  local o = given({"gain"}, {gain = 1}, gain)
  return copy_in("orthogonal_", t, 2, math.huge, function()
    local rows = t:size(1)
    local cols = t:numel() // math.max(rows, 1)
    local flat = torch.empty({rows, cols}, {dtype = t.dtype}):normal_(0, 1)
    local q, r = torch.linalg.qr(rows < cols and flat:t() or flat)
    q = q * r:diagonal():sign()
    if rows < cols then q = q:t() end
    return (q * o.gain):reshape(t.shape)
  end)
end

---Fills a matrix with normal numbers, with a share of zeros in each column (Martens 2010).
---@param t any
---@param sparsity number
---@param std? number default 0.01
function init.sparse_(t, sparsity, std)
  local o = given({"sparsity", "std"}, {std = 0.01}, sparsity, std)
  if type(o.sparsity) ~= "number" then error("nn.init.sparse_: sparsity must be a number, the share of zeros", 2) end
  return copy_in("sparse_", t, 2, 2, function()
    local rows, cols = t:size(1), t:size(2)
    local zeros = math.ceil(o.sparsity * rows)
    local out = torch.empty({rows, cols}, {dtype = t.dtype}):normal_(0, o.std)
    for c = 1, cols do
      local order = torch.randperm(rows)
      if zeros > 0 then out[{order:narrow(1, 1, zeros), c}] = 0 end
    end
    return out
  end)
end

local function options(o, defaults)
  if o ~= nil and type(o) ~= "table" then o = {gain = o, a = o} end
  return setmetatable(o or {}, {__index = defaults})
end
---Even numbers whose spread keeps the variance through a layer both ways (Glorot and Bengio 2010).
---@param o? {gain?: number}
function init.xavier_uniform_(t, o)
  o = options(o, {gain = 1})
  local fan_in, fan_out = fans(t)
  local bound = math.sqrt(3) * (o.gain * math.sqrt(2 / (fan_in + fan_out)))
  return uniform(t, -bound, bound)
end
---Normal numbers whose spread keeps the variance through a layer both ways.
---@param o? {gain?: number}
function init.xavier_normal_(t, o)
  o = options(o, {gain = 1})
  local fan_in, fan_out = fans(t)
  return normal(t, 0, o.gain * math.sqrt(2 / (fan_in + fan_out)))
end
local function kaiming_std(t, o)
  local fan_in, fan_out = fans(t)
  return init.calculate_gain(o.nonlinearity, o.a) / math.sqrt(o.mode == "fan_out" and fan_out or fan_in)
end
local kaiming = {a = 0, mode = "fan_in", nonlinearity = "leaky_relu"}
---Even numbers whose spread keeps the variance through a layer and its nonlinearity (He et al. 2015).
---@param o? {a?: number, mode?: string, nonlinearity?: string} mode: "fan_in" or "fan_out"
function init.kaiming_uniform_(t, o)
  local bound = math.sqrt(3) * kaiming_std(t, options(o, kaiming))
  return uniform(t, -bound, bound)
end
---Normal numbers whose spread keeps the variance through a layer and its nonlinearity.
---@param o? {a?: number, mode?: string, nonlinearity?: string}
function init.kaiming_normal_(t, o) return normal(t, 0, kaiming_std(t, options(o, kaiming))) end

-- PyTorch's older names, without the underscore.
for _, name in ipairs {"uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform",
  "kaiming_normal", "orthogonal", "sparse"} do
  init[name] = init[name .. "_"]
end

return init
