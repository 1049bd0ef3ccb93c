-- Lazy layers: their input size is taken from the first input. The parameters stand there from the beginning, empty, so
-- that an optimiser may have them; at the first call the layer becomes the plain one.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local Parameter = nn.Parameter

-- Takes over the parameters and buffers of a layer made with the right sizes, in the tensors that stand there.
local function become(self, real)
  local places = {}
  for k, v in next, real do
    local there = rawget(self, k)
    if k == "_order" or k == "_buffers" or k == "training" then
      places[k] = true
    elseif torch.is_tensor(v) and torch.is_tensor(there) then
      there.data = v:detach()
    else
      rawset(self, k, v)
    end
  end
  rawset(self, "_lazy", nil)
  return setmetatable(self, getmetatable(real))
end

-- `size`: the argument that the input tells; `dim`: where it stands in the input; `from`: where in the weight.
local function lazy(name, of, size, dim, rest, from, parameters, buffers)
  local Real = nn[of]
  local Lazy = nn.class("Lazy" .. of)
  nn[name] = Lazy
  local names = {}
  for word in Real._signature:gmatch "[^,]+" do
    if not word:find("^%s*" .. size .. "%s*$") then names[#names + 1] = (word:gsub("^%s+", "")) end
  end
  Lazy._signature = table.concat(names, ", ")
  Lazy._doc = ("nn.%s whose %s is taken from its first input."):format(of, size)
  Lazy._see = "nn." .. of
  Lazy._rule = Real._rule
  function Lazy:init(...)
    local a = nn._args(self._name, Lazy._signature, ...)
    rawset(self, "_lazy", a)
    local kind = {dtype = a.dtype, device = a.device}
    local affine = a.affine ~= false
    for _, p in ipairs(parameters) do
      if affine and (p ~= "bias" or a.bias ~= false) then self[p] = Parameter(torch.empty(0, kind)) end
    end
    if a.track_running_stats ~= false then
      for _, b in ipairs(buffers or {}) do self:register_buffer(b, b == "num_batches_tracked" and torch.tensor(0, {device = a.device}) or torch.empty(0, kind)) end
    end
  end
  -- Makes the layer for an input of n features.
  function Lazy:_make(n)
    local a = {}
    for k, v in pairs(self._lazy) do a[k] = v end
    a[size] = n
    local first = self[parameters[1]] or self.running_mean
    if first then a.dtype, a.device = first.dtype, first.device end
    local training, flags = self.training, {}
    for _, p in ipairs(parameters) do flags[p] = self[p] and self[p].requires_grad end
    become(self, Real(a))
    rawset(self, "training", training)
    for _, p in ipairs(parameters) do
      if flags[p] ~= nil and self[p] then self[p].requires_grad = flags[p] end
    end
    return self
  end
  function Lazy:_shape_from(given, prefix)
    local t = given[prefix .. parameters[1]] or given[prefix .. "running_mean"]
    if not torch.is_tensor(t) or t.ndim < from then return end
    self:_make(t:size(from) * (rest == "groups" and (self._lazy.groups or 1) or 1))
  end
  function Lazy:forward(x, ...)
    if not torch.is_tensor(x) then error(("%s: the input must be a tensor, not a %s"):format(self._name, type(x)), 2) end
    local at = dim < 0 and x.ndim + 1 + dim or dim
    if x.ndim < math.max(at, 1) or at < 1 then
      error(("%s: an input of shape %s has no dimension for %s"):format(self._name, tostring(x.shape), size), 2, "shape")
    end
    self:_make(x:size(at))
    return self:forward(x, ...)
  end
  function Lazy:reset_parameters() end
  function Lazy:extra_repr()
    local out = self._lazy.out_features or self._lazy.out_channels
    return ("%s=?%s"):format(size, out and (", %s=%d"):format(size:gsub("^in", "out"), out) or "")
  end
  ---Whether the sizes are not known yet.
  function Lazy:has_uninitialized_params() return true end
end

local both = {"weight", "bias"}
local statistics = {"running_mean", "running_var", "num_batches_tracked"}
lazy("LazyLinear", "Linear", "in_features", -1, nil, 2, both)
for dims = 1, 3 do
  lazy(("LazyConv%dd"):format(dims), ("Conv%dd"):format(dims), "in_channels", -dims - 1, "groups", 2, both)
  lazy(("LazyConvTranspose%dd"):format(dims), ("ConvTranspose%dd"):format(dims), "in_channels", -dims - 1, nil, 1, both)
  lazy(("LazyBatchNorm%dd"):format(dims), ("BatchNorm%dd"):format(dims), "num_features", 2, nil, 1, both, statistics)
  -- These have parameters and statistics only where they are asked for.
  lazy(("LazyInstanceNorm%dd"):format(dims), ("InstanceNorm%dd"):format(dims), "num_features", -dims - 1, nil, 1, both, statistics)
end
