-- FractionalMaxPool2d and 3d (Graham 2015): the largest element of windows that stand at random distances.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F = nn.functional
local layer = require "torch.nn.layer"

-- Where the windows begin (from 0) in each plane: u is [planes], in [0, 1).
local function starts(u, size, out, kernel)
  if out == 1 then return torch.full({u:size(1), 1}, size - kernel, {dtype = "int64"}) end
  local step = (size - kernel) / (out - 1)
  local at = torch.arange(out - 1, {dtype = u.dtype})
  local first = ((at + u:unsqueeze(2)) * step):floor() - (u:unsqueeze(2) * step):floor()
  return torch.cat({first:long(), torch.full({u:size(1), 1}, size - kernel, {dtype = "int64"})}, 2)
end

local function pool(name, dims)
  local names = {kernel_size = true, output_size = true, output_ratio = true, return_indices = true, _random_samples = true}
  return function(x, kernel_size, output_size, output_ratio, return_indices, _random_samples)
    local o = {kernel_size = kernel_size, output_size = output_size, output_ratio = output_ratio, return_indices = return_indices, _random_samples = _random_samples}
    for _, given in ipairs {kernel_size, output_size, output_ratio} do
      if type(given) == "table" and #given == 0 and getmetatable(given) == nil then
        for k in pairs(o) do
          if o[k] == given then o[k] = nil end
        end
        for k, v in pairs(given) do
          if not names[k] then error(('%s: no argument "%s" (it has: kernel_size, output_size, output_ratio, return_indices)'):format(name, tostring(k)), 2) end
          o[k] = v
        end
      end
    end
    if not torch.is_tensor(x) or (x.ndim ~= dims + 1 and x.ndim ~= dims + 2) then
      error(("%s: wants a tensor of %d or %d dimensions, not %s"):format(name, dims + 1, dims + 2, torch.is_tensor(x) and "shape " .. tostring(x.shape) or type(x)), 2, "shape")
    end
    if (o.output_size == nil) == (o.output_ratio == nil) then error(name .. ": wants either output_size or output_ratio", 2) end
    local kernel = layer.sizes(name, "kernel_size", o.kernel_size, dims)
    local out = {}
    local ratios = layer.list(o.output_ratio, dims)
    for d = 1, dims do
      local size = x:size(x.ndim - dims + d)
      if o.output_ratio then
        local ratio = ratios[d]
        if type(ratio) ~= "number" or ratio <= 0 or ratio >= 1 then error(("%s: output_ratio must lie between 0 and 1, not %s"):format(name, tostring(ratio)), 2, "value") end
        out[d] = math.floor(size * ratio)
      end
    end
    if o.output_size then out = layer.sizes(name, "output_size", o.output_size, dims) end
    local planes, inner = 1, 1
    for d = 1, x.ndim - dims do planes = planes * x:size(d) end
    for d = 1, dims do
      local size = x:size(x.ndim - dims + d)
      inner = inner * size
      if out[d] < 1 or out[d] + kernel[d] - 1 > size then
        error(("%s: %d windows of %d do not fit a size of %d"):format(name, out[d], kernel[d], size), 2, "shape")
      end
    end
    local samples = o._random_samples
    if not samples then
      local lead = {x.ndim == dims + 1 and 1 or x:size(1), x:size(x.ndim - dims), dims}
      samples = torch.rand(lead, {dtype = x.dtype})
    end
    samples = samples:reshape(planes, dims):double()
    -- The positions of every window's elements in the plane, [planes, out.., kernel..], counted from 0.
    local at
    for d = 1, dims do
      local size = x:size(x.ndim - dims + d)
      local u = samples:select(2, dims == 2 and 3 - d or d)  -- in two dimensions the width's number comes first
      local where = starts(u, size, out[d], kernel[d]):unsqueeze(3) + torch.arange(kernel[d])
      local shape = {planes}
      for k = 1, 2 * dims do shape[k + 1] = k == d and out[d] or k == dims + d and kernel[d] or 1 end
      where = where:view(shape)
      at = at and at * size + where or where
    end
    local count = 1
    for d = 1, dims do count = count * out[d] end
    local index = (at:reshape(planes, -1) + 1):to(x.device)
    local windows = x:reshape(planes, inner):gather(2, index):view(planes, count, -1)
    local values, best = windows:max(3)
    local shape = {}
    for d = 1, x.ndim - dims do shape[d] = x:size(d) end
    for d = 1, dims do shape[#shape + 1] = out[d] end
    if not o.return_indices then return values:view(shape) end
    return values:view(shape), index:view(planes, count, -1):gather(3, best:unsqueeze(3)):view(shape)
  end
end

for dims = 2, 3 do
  local name = ("FractionalMaxPool%dd"):format(dims)
  local f = pool(("fractional_max_pool%dd"):format(dims), dims)
  F[("fractional_max_pool%dd"):format(dims)] = f
  layer.define(name, "kernel_size, output_size=nil, output_ratio=nil, return_indices=false, _random_samples=nil",
    "The largest element of windows at random distances, as many as output_size (or output_ratio of the size) says.", {
    see = ("nn.MaxPool%dd"):format(dims), rule = ("[.., C%s] -> [.., C, output_size]"):format((", n"):rep(dims)),
    init = function(self, a)
      if (a.output_size == nil) == (a.output_ratio == nil) then error(name .. ": wants either output_size or output_ratio", 3) end
    end,
    forward = function(self, x) return f(x, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples) end})
end

layer.define("CrossMapLRN2d", "size, alpha=1e-4, beta=0.75, k=1.0", "LocalResponseNorm for images.", {
  repr = "size!, alpha, beta, k", see = "nn.LocalResponseNorm", rule = "[N, C, H, W] -> the same shape",
  forward = function(self, x) return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k) end})
