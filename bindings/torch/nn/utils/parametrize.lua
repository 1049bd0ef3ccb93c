-- torch.nn.utils.parametrize: a parameter that is computed from others by modules whenever it is read. The original
-- stands in layer.parametrizations, with PyTorch's names in state_dict.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local is_module = require("torch.nn.module").is_module
local parametrize = {}

local cache, depth  -- computed tensors while parametrize.cached runs: layer -> name -> tensor

local List = nn.class("ParametrizationList", getmetatable(nn.ModuleList()))

-- The value of the parameter: the originals through all parametrisations.
function List:forward()
  local x
  if self.original then
    x = self[1](self.original)
  else
    local originals = {}
    for i = 1, self.count do originals[i] = self["original" .. i - 1] end
    x = self[1](table.unpack(originals))
  end
  for i = 2, #self do x = self[i](x) end
  return x
end

-- Takes the originals of a wanted value, by the right inverses from the last to the first.
function List:_set(value)
  for i = #self, 1, -1 do
    if not self[i].right_inverse then
      error(("parametrize: %s has no right_inverse, which an assignment needs"):format(self[i]._name), 3)
    end
    local got = table.pack(self[i]:right_inverse(value))
    value = got[1]
    if i == 1 and not self.original then
      torch.no_grad(function()
        for k = 1, self.count do self["original" .. k - 1].data = got[k]:detach():clone() end
      end)
      return
    end
  end
  torch.no_grad(function() self.original.data = value:detach():clone() end)
end

local function read(self, name)
  local list = rawget(self, "parametrizations")[name]
  if not cache then return list() end
  local known = cache[self]
  if not known then
    known = {}
    cache[self] = known
  end
  known[name] = known[name] or list()
  return known[name]
end

-- The class of one layer whose fields are looked for among the parametrisations first.
local function own_class(layer)
  local of = getmetatable(layer)
  if rawget(of, "_parametrized") then return end
  local class = {}
  for k, v in next, of do class[k] = v end
  class._base, class._parametrized, class._name = of, of, "Parametrized" .. of._name
  class.__name = class._name
  local plain, set = of.__index, of.__newindex
  class.__index = function(self, k)
    local all = rawget(self, "parametrizations")
    if all and type(k) == "string" and rawget(all, k) then return read(self, k) end
    if type(plain) == "function" then return plain(self, k) end
    local v = class[k]
    return v
  end
  class.__newindex = function(self, k, v)
    local all = rawget(self, "parametrizations")
    if all and type(k) == "string" and rawget(all, k) and torch.is_tensor(v) then return rawget(all, k):_set(v) end
    return set(self, k, v)
  end
  setmetatable(class, {__index = of, __name = "class " .. class._name})
  setmetatable(layer, class)
end

local take_out = require("torch.nn.module").forget

local function check_value(layer, name, old, new, who)
  if not torch.is_tensor(new) then error(("register_parametrization: %s must give a tensor, not a %s"):format(who._name, type(new)), 4) end
  if new.shape ~= old.shape then
    error(("register_parametrization: %s gives shape %s, %s of %s has %s; with {unsafe=true} it may"):format(who._name, tostring(new.shape), name,
      layer._name, tostring(old.shape)), 4, "shape")
  end
  if new.dtype ~= old.dtype then
    error(("register_parametrization: %s gives %s, %s is %s; with {unsafe=true} it may"):format(who._name, tostring(new.dtype), name, tostring(old.dtype)), 4, "dtype")
  end
end

---Lets a layer compute a parameter (or buffer) of another whenever it is read: layer[name] = parametrization(original).
---Where it has a method right_inverse, that makes the original from the present value, and from what is assigned later.
---Returns the layer.
---@param layer table
---@param name string "weight"
---@param parametrization table a layer
---@param options? {unsafe?: boolean} unsafe: shape and type may change
function parametrize.register_parametrization(layer, name, parametrization, options)
  if not is_module(layer) then error("register_parametrization: wants a layer first", 2) end
  if not is_module(parametrization) then error("register_parametrization: wants a layer that computes the parameter, not a " .. type(parametrization), 2) end
  local unsafe = type(options) == "table" and options.unsafe
  local all = rawget(layer, "parametrizations")
  local there = all and rawget(all, name)
  local old = there and torch.no_grad(function() return there() end) or rawget(layer, name)
  if not torch.is_tensor(old) then error(('register_parametrization: this %s has no tensor "%s"'):format(layer._name, tostring(name)), 2) end
  parametrization:train(layer.training)
  if there then
    if not unsafe then check_value(layer, name, old, torch.no_grad(function() return parametrization(old) end), parametrization) end
    if parametrization.right_inverse then there:_set(torch.no_grad(function() return parametrization:right_inverse(old) end)) end
    there:append(parametrization)
    return layer
  end
  local list = List()
  local originals = table.pack(old)
  if parametrization.right_inverse then
    originals = table.pack(torch.no_grad(function() return parametrization:right_inverse(old:detach()) end))
  end
  local buffer = layer._buffers[name]
  local function keep(key, value)
    if buffer then
      list:register_buffer(key, value:detach())
    elseif rawequal(value, old) then
      list[key] = old
    else
      local p = nn.Parameter(value:detach():clone(), old.requires_grad)
      list[key] = p
    end
  end
  if originals.n == 1 then
    -- The parameter itself stays what optimisers know; its values become the original's.
    if not rawequal(originals[1], old) then torch.no_grad(function() old.data = originals[1]:detach():clone() end) end
    keep("original", old)
  else
    rawset(list, "count", originals.n)
    for k = 1, originals.n do keep("original" .. k - 1, originals[k]) end
  end
  list:append(parametrization)
  local before = torch.no_grad(function() return old:detach() end)
  if not unsafe then check_value(layer, name, before, torch.no_grad(function() return list() end), parametrization) end
  take_out(layer, name)
  if buffer then layer._buffers[name] = nil end
  own_class(layer)
  if not all then layer.parametrizations = nn.ModuleDict() end
  layer.parametrizations[name] = list
  return layer
end

---Whether a layer, or one parameter of it, is parametrised.
---@param layer table
---@param name? string
function parametrize.is_parametrized(layer, name)
  local all = rawget(layer, "parametrizations")
  if not all or not rawget(getmetatable(layer), "_parametrized") then return false end
  if name == nil then return #all > 0 end
  return all:contains(name)
end

---Makes a plain parameter again. Returns the layer.
---@param layer table
---@param name string
---@param options? {leave_parametrized?: boolean} leave_parametrized=false: with the original's values
function parametrize.remove_parametrizations(layer, name, options)
  if not parametrize.is_parametrized(layer, name) then
    error(('remove_parametrizations: "%s" of this %s is not parametrised'):format(tostring(name), layer._name), 2)
  end
  local leave = options
  if type(options) == "table" then leave = options.leave_parametrized end
  local list = rawget(layer, "parametrizations")[name]
  if leave == false and not list.original then
    error("remove_parametrizations: several originals cannot become one parameter; leave leave_parametrized out", 2)
  end
  local value = torch.no_grad(function() return list() end):detach()
  local original = list.original
  local buffer = list._buffers.original ~= nil
  layer.parametrizations:pop(name)
  if #layer.parametrizations == 0 then
    take_out(layer, "parametrizations")
    setmetatable(layer, getmetatable(layer)._parametrized)
  end
  if buffer then
    layer:register_buffer(name, leave == false and original or value:clone())
  elseif original then
    if leave ~= false then torch.no_grad(function() original.data = value:clone() end) end
    layer[name] = original
  else
    layer[name] = nn.Parameter(value:clone())
  end
  return layer
end

---The class that a layer had before its parameters were parametrised.
function parametrize.type_before_parametrizations(layer)
  local class = getmetatable(layer)
  return rawget(class, "_parametrized") or class
end

---Computes each parametrised tensor once while f runs (or the scope that it gives lasts), where it is read many times.
---@param f? function
function parametrize.cached(f)
  depth = (depth or 0) + 1
  if depth == 1 then cache = setmetatable({}, {__mode = "k"}) end
  local function close()
    depth = depth - 1
    if depth == 0 then cache = nil end
  end
  return torch._scope(close, f, "torch.nn.utils.parametrize.cached")
end

parametrize.ParametrizationList = List
return torch._strict(parametrize, "torch.nn.utils.parametrize")
