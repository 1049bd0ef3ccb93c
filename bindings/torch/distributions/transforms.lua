-- Functions that samples are sent through, with their inverses and how they stretch what they take.
local torch = torch
local F = torch.nn.functional
local transforms = {classes = {}}

local function number(x) return torch.is_tensor(x) and x or torch.tensor(x + 0.0) end
-- log of the size of a, which is a number or a tensor, in the shape of x.
local function log_size(a, x) return (number(a):abs():log() + torch.zeros_like(x)) end

-- Between 0 and 1, which are never reached.
function transforms.sigmoid(x)
  local f = torch.finfo(x.dtype)
  return torch.sigmoid(x):clamp(f.tiny, 1 - f.eps)
end
function transforms.logit(y)
  local f = torch.finfo(y.dtype)
  y = y:clamp(f.tiny, 1 - f.eps)
  return y:log() - torch.log1p(-y)
end

---@param v any
---@return boolean
function transforms.is(v) return type(v) == "table" and rawget(v, "_transform") == true end

-- name, its parameters, x -> y, y -> x, and log |dy/dx| of x and y; `sign`: does y grow with x?
local function define(name, names, forward, inverse, log_slope, sign)
  local c = {_name = name}
  c.__index = function(self, key)
    if key == "sign" then return type(sign) == "function" and sign(self) or sign or 1 end
    if key == "inv" then
      local inverted = {_transform = true, _of = self}
      inverted.inv, inverted.sign = self, self.sign
      function inverted:log_abs_det_jacobian(y, x) return -self._of:log_abs_det_jacobian(x, y) end
      setmetatable(inverted, {__call = function(_, y) return inverse(self, y) end, __tostring = function() return tostring(self) .. ".inv" end})
      rawset(self, "inv", inverted)
      return inverted
    end
    return c[key]
  end
  c.__call = function(self, x) return forward(self, x) end
  c.__tostring = function(self)
    local parts = {}
    for i, n in ipairs(names) do parts[i] = ("%s = %s"):format(n, tostring(self[n])) end
    return ("%s(%s)"):format(name, table.concat(parts, ", "))
  end
  ---The logarithm of how much the transform stretches, at x, which it takes to y.
  function c:log_abs_det_jacobian(x, y) return log_slope(self, x, y) end
  transforms.classes[name] = setmetatable(c, {__name = name, __call = function(_, ...)
    local self, first = {_transform = true}, ...
    local named = select("#", ...) == 1 and type(first) == "table" and getmetatable(first) == nil and type(next(first)) == "string"
    for i, n in ipairs(names) do
      local v
      if named then v = first[n] else v = (select(i, ...)) end
      if v == nil then torch._raise(("%s: wants %s"):format(name, table.concat(names, " and ")), 2) end
      self[n] = v
    end
    return setmetatable(self, c)
  end})
end

define("ExpTransform", {}, function(_, x) return x:exp() end, function(_, y) return y:log() end, function(_, x) return x end)
define("AffineTransform", {"loc", "scale"}, function(t, x) return t.loc + t.scale * x end, function(t, y) return (y - t.loc) / t.scale end,
  function(t, x) return log_size(t.scale, x) end, function(t) return torch.is_tensor(t.scale) and t.scale:sign() or t.scale < 0 and -1 or 1 end)
define("SigmoidTransform", {}, function(_, x) return transforms.sigmoid(x) end, function(_, y) return transforms.logit(y) end,
  function(_, x) return -F.softplus(-x) - F.softplus(x) end)
define("TanhTransform", {}, function(_, x) return x:tanh() end, function(_, y) return y:atanh() end,
  function(_, x) return 2 * (math.log(2) - x - F.softplus(-2 * x)) end)
define("SoftplusTransform", {}, function(_, x) return F.softplus(x) end, function(_, y) return y + (-torch.expm1(-y)):log() end,
  function(_, x) return -F.softplus(-x) end)
define("PowerTransform", {"exponent"}, function(t, x) return x ^ t.exponent end, function(t, y) return y ^ (1 / t.exponent) end,
  function(t, x, y) return (t.exponent * y / x):abs():log() end, function(t) return torch.is_tensor(t.exponent) and t.exponent:sign() or t.exponent < 0 and -1 or 1 end)

---Several transforms, one after the other: ComposeTransform{first, second}.
define("ComposeTransform", {"parts"}, function(t, x)
  for _, part in ipairs(t.parts) do x = part(x) end
  return x
end, function(t, y)
  for i = #t.parts, 1, -1 do y = t.parts[i].inv(y) end
  return y
end, function(t, x)
  local log = 0
  for _, part in ipairs(t.parts) do
    local y = part(x)
    log, x = log + part:log_abs_det_jacobian(x, y), y
  end
  return log
end, function(t)
  local sign = 1
  for _, part in ipairs(t.parts) do sign = sign * part.sign end
  return sign
end)

return transforms
