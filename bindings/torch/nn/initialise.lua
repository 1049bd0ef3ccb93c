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
function init.uniform_(t, a, b) return uniform(t, a or 0, b or 1) end
---Fills a tensor with normal numbers (mean 0, deviation 1 unless given).
function init.normal_(t, mean, std) return normal(t, mean or 0, std or 1) end
init.constant_ = fill "fill_"
init.zeros_ = fill "zero_"
---Fills a tensor with ones.
function init.ones_(t) return init.constant_(t, 1) end
---Makes a matrix the identity.
function init.eye_(t)
  torch.no_grad(function() t:copy_(torch.eye(t:size(1), t:size(2))) end)
  return t
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

return init
