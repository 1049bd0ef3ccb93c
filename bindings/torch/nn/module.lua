-- nn.Module and nn.class: what every layer and network shares. Tensors and modules assigned to a
-- module's fields, also inside plain tables, are found in the order in which they were assigned.
local torch = torch
local error = torch._raise
local Module = {}

-- Parameters are marked here by identity, so that any other tensor in a field stays just a value.
local is_parameter = setmetatable({}, {__mode = "k"})
debug.getregistry()["tycho.parameters"] = is_parameter  -- they stay so in other threads and processes

---Marks a tensor as a parameter of the module that it is assigned to; it requires grad.
---@param data any a tensor, or what torch.tensor takes
---@param requires_grad? boolean default true
local function Parameter(data, requires_grad)
  if type(requires_grad) == "table" then requires_grad = requires_grad.requires_grad end
  local t = torch.is_tensor(data) and data:detach() or torch.tensor(data)
  t.requires_grad = requires_grad ~= false
  is_parameter[t] = true
  return t
end

-- Tensors that become buffers of the module whose field they are assigned to: tensor -> "kept" or "temporary".
local is_new_buffer = setmetatable({}, {__mode = "k"})

---Marks a tensor as a buffer (saved, not trained) of the module that it is assigned to.
---@param data any
---@param persistent? boolean false leaves it out of state_dict
function Module.Buffer(data, persistent)
  if type(persistent) == "table" then persistent = persistent.persistent end
  local t = torch.is_tensor(data) and data:detach() or torch.tensor(data)
  is_new_buffer[t] = persistent == false and "temporary" or "kept"
  return t
end

local hidden = {_order = true, _buffers = true, _hooks = true, _state_hooks = true, _names = true, training = true}

local is_tensor = torch.is_tensor
local function is_module(v) return type(v) == "table" and rawget(v, "_order") ~= nil end

-- Keys of a module's fields in order of assignment; numbers of list parts first.
local function keys_of(t)
  if rawget(t, "_order") then return t._order end
  if rawget(t, "__index") ~= nil then error(("%s is the class; make an object of it first: net = %s(..)"):format(t._name, t._name), 3) end
  local keys = {}
  for i = 1, #t do keys[i] = i end
  local named = {}
  for k in pairs(t) do
    if type(k) == "string" then named[#named + 1] = k end
  end
  table.sort(named)
  for _, k in ipairs(named) do keys[#keys + 1] = k end
  return keys
end

-- The name of a key in state_dict: PyTorch counts lists from 0, and names must exchange.
local numbered = setmetatable({}, {__index = function(known, k)  -- making them anew takes long beside all else
  local name = tostring(k - 1)
  if k <= 1000 then known[k] = name end
  return name
end})
local function key_name(owner, k)
  if type(k) ~= "number" then return k end
  local names = rawget(owner, "_names")
  return names and names[k] or numbered[k]
end

-- Calls visit(owner, key, value, name) for tensors and modules below `t`, in order; a module's own
-- tensors come before those of its children, as in PyTorch. What stands in several places is entered at the first one,
-- or (`again`) at each.
local function walk(t, prefix, visit, seen, again)
  if seen[t] then return end
  seen[t] = true
  local keys, later = keys_of(t), nil
  for i = 1, #keys do
    local k = keys[i]
    local v = rawget(t, k)
    local kind = type(v)
    if kind == "userdata" then
      if is_tensor(v) and not hidden[k] then visit(t, k, v, prefix .. key_name(t, k)) end
    elseif kind == "table" and not hidden[k] and (rawget(v, "_order") ~= nil or getmetatable(v) == nil) then
      later = later or {}
      later[#later + 1] = k
    end
  end
  for i = 1, later and #later or 0 do
    local k = later[i]
    local v = t[k]
    local name = prefix .. key_name(t, k)
    if is_module(v) then visit(t, k, v, name) end
    walk(v, name .. ".", visit, seen, again)
  end
  if again then seen[t] = nil end
end

local Class = {_name = "Module"}  -- methods of every module

local function new_instance(class, ...)
  local self = setmetatable({_order = {}, _buffers = {}, training = true}, class)
  local init = class.init
  if init then init(self, ...) end
  return self
end

-- Not a tail call: while a module runs, this frame stands on the stack, so that errors name the layer
-- (they look for a function of torch.nn whose first local is called `module`).
local function results(...) return ... end

-- Which module called which: module -> the outermost module at whose call it first worked inside. The
-- optimisers look there for layers that the network does not know.
local inner = setmetatable({}, {__mode = "kv"})
-- Whose parameters a list holds: an optimiser that is given it looks there, too.
local origin = setmetatable({}, {__mode = "k"})
local outermost
local outermost_ends = setmetatable({}, {__close = function() outermost = nil end})

-- Fields that hold a parameter: module -> name -> the parameter, as it was assigned.
local held = setmetatable({}, {__mode = "k"})

-- The line of the running script that gives a field of this name a value, where there is only one.
local function assigned_at(name)
  for level = 3, 20 do
    local info = debug.getinfo(level, "S")
    if not info then return "" end
    if info.what ~= "C" and not info.source:find "^=torch/" and not info.source:find "^=shell/" then
      local text = require("torch.source").text(torch._chunks[info.short_src] and "=" .. info.short_src or info.source)
      local found, row = nil, 0
      for line in ((text or "") .. "\n"):gmatch "(.-)\n" do
        row = row + 1
        if line:find("%." .. name .. "%s*=[^=]") and not line:find "Parameter" then
          if found then return "" end
          found = row
        end
      end
      return found and (" (%s:%d)"):format(info.short_src, found) or ""
    end
  end
  return ""
end

local function plain_parameter(owner, name, level)
  error(("%s: field %s held a parameter and now holds a plain tensor%s, which is not trained; assign nn.Parameter(tensor), or copy the values into the parameter with copy_ in torch.no_grad"):format(
    owner._name, name, assigned_at(name:match "[^.]*$")), level + 1)
end

-- What stands in a parameter's field is another value: raises where it is a plain tensor (Lua tells nobody when a field
-- that is there gets a value). One that was computed may be the parameter in another form.
local function look_at_parameter(module, name, level)
  local v = rawget(module, name)
  if v == nil or is_parameter[v] then
    held[module][name] = v
  elseif torch.is_tensor(v) and v.is_leaf and not v.requires_grad and not module._buffers[name] then
    plain_parameter(module, name, level + 1)
  end
end

---Looks at all modules: the first plain tensor in a parameter's field raises, and the parameter is put back.
---@param of? table only these parameters, as keys
---@param level? integer whose fault it is, as error counts
function Module.look_at_parameters(of, level)
  for module, names in next, held do
    for name, p in next, names do
      if not rawequal(rawget(module, name), p) and (not of or of[p]) then
        local ok, err = pcall(look_at_parameter, module, name, 2)
        if not ok then
          rawset(module, name, p)
          error(err, level or 2)
        end
      end
    end
  end
end

-- How often a module was called as the outermost one: at every 64th time, the first one among them, all fields of
-- parameters are looked at.
local calls = setmetatable({}, {__mode = "k"})
local swapped = 0

---Until what it gives is closed, fields of parameters may hold other tensors.
function Module.swap_parameters()
  swapped = swapped + 1
  return setmetatable({}, {__close = function() swapped = swapped - 1 end})
end

local function call(module, ...)
  local first <close> = not outermost and outermost_ends
  if first then
    outermost = module
    local n = calls[module] or 0
    calls[module] = n + 1
    if n & 63 == 0 and swapped == 0 then Module.look_at_parameters(nil, 3) end
  elseif not inner[module] then
    inner[module] = outermost
  end
  local hooks = rawget(module, "_hooks")
  if not hooks then return results(module:forward(...)) end
  return results(require("torch.nn.hooks").run(module, hooks, ...))
end

local function of_torch(info) return info == nil or info.what == "C" or info.source:find "^=torch/" ~= nil or info.source:find "^=shell/" ~= nil end

-- A value that is neither a tensor nor a module beside a parameter of nearly the same name.
local function look_at_name(self, k, v)
  local names = held[self]
  if not names or type(k) ~= "string" or is_module(v) or type(v) == "function" or of_torch(debug.getinfo(3, "S")) then return end
  require("torch.nn.misspelt").written(self, k, names, "parameter")
end

local meta = {
  __call = call,
  __newindex = function(self, k, v)
    if v == nil then return end
    local order = rawget(self, "_order")
    local known = false
    for i = 1, #order do known = known or order[i] == k end
    if not known then
      order[#order + 1] = k
      if is_parameter[v] then
        local names = held[self] or {}
        held[self], names[k] = names, v
      elseif held[self] then
        look_at_name(self, k, v)
      end
    end
    if is_new_buffer[v] then self._buffers[k] = is_new_buffer[v] end
    rawset(self, k, v)
  end,
  __tostring = function(self) return self:_text() end,
}

---Makes a class of modules: `local Net = nn.class("Net")`, then `Net:init(...)`, `Net:forward(x)`,
---and `Net(...)` makes one.
---@param name string shown when a module is printed
---@param base? table the class it extends, default nn.Module
local function class(name, base)
  if type(name) ~= "string" then error('nn.class: wants a name, as in nn.class("Net")', 2) end
  local c = {}
  for k, v in pairs(meta) do c[k] = v end
  c._name = name
  c._base = base or Class
  local item = c._base._item
  -- Lists also answer negative positions.
  c.__index = item and function(self, k)
    local v = c[k]
    if v == nil then return item(self, k) end
    return v
  end or c
  c.__len = c._base.__len
  c.__name = name
  return setmetatable(c, {__index = c._base, __call = new_instance, __name = "class " .. name})
end

Class._call = call

-- A field that no class has: in the user's code it may be a misspelt one.
setmetatable(Class, {__index = function(_, name)
  if type(name) ~= "string" or #name < 4 or name:byte() == 95 then return nil end
  local info = debug.getinfo(2, "Sl")
  if of_torch(info) then return nil end
  -- No tail call: the reader's frame is looked for from here.
  local value = require("torch.nn.misspelt").read(name, info, 2, is_module, function(object)
    local known = {}
    for _, key in ipairs(rawget(object, "_order")) do known[key] = true end
    local class = getmetatable(object)
    while type(class) == "table" do
      for key in next, class do known[key] = true end
      class = class ~= Class and rawget(class, "_base") or nil
    end
    return known
  end)
  return value
end})

---What the module computes; a class defines its own.
function Class:forward()
  error(("%s: has no forward method; write function %s:forward(x) ... end"):format(self._name, self._name), 2)
end

---Registers a tensor that is saved but not trained (a running mean).
---@param persistent? boolean false leaves it out of state_dict
function Class:register_buffer(name, tensor, persistent)
  if not is_module(self) then error("register_buffer: wants the module before a colon: self:register_buffer(name, tensor)", 2) end
  if type(name) ~= "string" or name == "" or name:find(".", 1, true) then
    error(("register_buffer: a name must be a text without dots, not %s"):format(tostring(name)), 2)
  end
  if tensor ~= nil and not torch.is_tensor(tensor) then
    error(('register_buffer: "%s" must be a tensor, not a %s'):format(name, type(tensor)), 2)
  end
  if self[name] ~= nil and not self._buffers[name] then
    error(('register_buffer: this %s has "%s" already, and it is no buffer'):format(self._name, name), 2)
  end
  if type(persistent) == "table" then persistent = persistent.persistent end
  self[name] = tensor
  self._buffers[name] = persistent == false and "temporary" or "kept"
end
---Registers a tensor as a parameter under a name.
function Class:register_parameter(name, tensor)
  self[name] = tensor and (is_parameter[tensor] and tensor or Parameter(tensor)) or nil
end
---Registers a module under a name, as an assignment does.
function Class:add_module(name, module) self[name] = module end
Class.register_module = Class.add_module

local function parameter_at(owner, key, v)
  return torch.is_tensor(v) and (is_parameter[v] or (v.is_leaf and v.requires_grad))
    and not (rawget(owner, "_buffers") and owner._buffers[key])
end

-- Options of the listings by position or by name: prefix, recurse.
local function listing(prefix, recurse)
  if type(prefix) == "table" then prefix, recurse = prefix.prefix, prefix.recurse end
  return prefix and prefix ~= "" and prefix .. "." or "", recurse ~= false
end

---All parameters with their names: a list of {name, tensor}; a shared one is listed once.
---@param prefix? string put before every name
---@param recurse? boolean false: only the module's own
function Class:named_parameters(prefix, recurse)
  local list, seen = {}, {}
  prefix, recurse = listing(prefix, recurse)
  walk(self, prefix, function(owner, key, v, name)
    local names = held[owner]
    if names and names[key] and torch.is_tensor(v) and v.is_leaf and not parameter_at(owner, key, v) and not is_parameter[v] then
      plain_parameter(owner, name, 2)
    end
    if parameter_at(owner, key, v) and not seen[v] and (recurse or owner == self) then
      seen[v] = true
      list[#list + 1] = {name, v}
    end
  end, {})
  return list
end
---All parameters, as a list of tensors: what an optimiser takes.
---@param recurse? boolean false: only the module's own
function Class:parameters(recurse)
  if type(recurse) == "table" then recurse = recurse.recurse end
  local list = self:named_parameters("", recurse)
  for i, p in ipairs(list) do list[i] = p[2] end
  origin[list] = self
  return list
end
---All buffers (saved but not trained) with their names: a list of {name, tensor}.
---@param prefix? string put before every name
---@param recurse? boolean false: only the module's own
function Class:named_buffers(prefix, recurse)
  local list, seen = {}, {}
  prefix, recurse = listing(prefix, recurse)
  walk(self, prefix, function(owner, key, v, name)
    local buffers = rawget(owner, "_buffers")
    if torch.is_tensor(v) and buffers and buffers[key] and not seen[v] and (recurse or owner == self) then
      seen[v] = true
      list[#list + 1] = {name, v}
    end
  end, {})
  return list
end
---All buffers, as a list of tensors.
function Class:buffers()
  local list = self:named_buffers()
  for i, b in ipairs(list) do list[i] = b[2] end
  return list
end
---This module and all below it with their names: a list of {name, module}; a shared one is listed once.
---@param prefix? string put before every name
---@param remove_duplicate? boolean false lists a shared one under each of its names
function Class:named_modules(prefix, remove_duplicate)
  if type(prefix) == "table" then prefix, remove_duplicate = prefix.prefix, prefix.remove_duplicate end
  prefix = prefix or ""
  local list, seen = {{prefix, self}}, {[self] = true}
  walk(self, prefix ~= "" and prefix .. "." or "", function(_, _, v, name)
    if is_module(v) and (remove_duplicate == false or not seen[v]) then
      seen[v] = true
      list[#list + 1] = {name, v}
    end
  end, {}, remove_duplicate == false)
  return list
end
---This module and all below it.
function Class:modules()
  local list = self:named_modules()
  for i, m in ipairs(list) do list[i] = m[2] end
  return list
end
-- Modules in a table's fields, also inside plain tables.
local function children_of(t, prefix, list, seen)
  local keys = keys_of(t)
  for i = 1, #keys do
    local k = keys[i]
    local v = rawget(t, k)
    if type(v) == "table" and not hidden[k] and not seen[v] then
      if rawget(v, "_order") then
        seen[v] = true
        list[#list + 1] = {prefix .. key_name(t, k), v}
      elseif getmetatable(v) == nil then
        seen[v] = true
        children_of(v, prefix .. key_name(t, k) .. ".", list, seen)
      end
    end
  end
  return list
end
---The modules directly below with their names: a list of {name, module}.
function Class:named_children() return children_of(self, "", {}, {}) end
---The modules directly below.
function Class:children()
  local list = self:named_children()
  for i, m in ipairs(list) do list[i] = m[2] end
  return list
end
---Calls f on every module below, the parts of each before it, then on this one; in the order of PyTorch's apply.
---@param f function
function Class:apply(f, entered)
  if f ~= nil and type(f) ~= "function" and not (getmetatable(f) or {}).__call then error("apply: wants a function of a module", 2) end
  entered = entered or {}  -- a module that is below itself (a child that knows its parent) is not entered again
  entered[self] = true
  for _, child in ipairs(self:children()) do
    if not entered[child] then child:apply(f, entered) end
  end
  entered[self] = nil
  f(self)
  return self
end

---Switches this module and all below it to training (dropout and batch statistics are on).
---@param on? boolean false switches to evaluation
function Class:train(on)
  for _, m in ipairs(self:modules()) do rawset(m, "training", on ~= false) end
  return self
end
---Switches this module and all below it to evaluation.
function Class:eval() return self:train(false) end
---Switches gradients of all parameters, to freeze a part of a network.
---@param on? boolean
function Class:requires_grad_(on)
  for _, p in ipairs(self:parameters()) do p.requires_grad = on ~= false end
  return self
end
---Drops the gradients of all parameters (or zeroes them: {set_to_none = false}).
function Class:zero_grad(options)
  local keep = type(options) == "table" and options.set_to_none == false
  for _, p in ipairs(self:parameters()) do
    if keep and p.grad then p.grad:zero_() else p.grad = nil end
  end
end

---Moves or converts every parameter and buffer in place: to("cuda"), to("bfloat16"); {memory_format =
---torch.channels_last} is for weights of four dimensions (channels_last_3d: of five).
function Class:to(...)
  local args = table.pack(...)
  local options = args[args.n]
  if type(options) == "table" and options.memory_format and not getmetatable(options) then
    local format, others = options.memory_format, {}
    for k, v in pairs(options) do if k ~= "memory_format" then others[k] = v end end
    args[args.n] = others
    torch.empty(0):is_contiguous {memory_format = format}  -- raises for what is no format
    self:to(table.unpack(args, 1, args.n))
    walk(self, "", function(_, _, v)
      if not torch.is_tensor(v) or (v:dim() ~= 4 and v:dim() ~= 5) then return end
      v.data = v:detach():to {memory_format = format}
      if v.grad then v.grad = v.grad:to {memory_format = format} end
    end, {})
    return self
  end
  local dtype = torch.empty(0):to(...).dtype
  if not dtype.is_floating_point then
    error(("to: weights are floating point numbers; %s is for data (net:type(..) converts all the same)"):format(tostring(dtype)), 2, "dtype")
  end
  walk(self, "", function(_, _, v)
    if not torch.is_tensor(v) then return end
    local moved = v.dtype.is_floating_point and v:detach():to(table.unpack(args, 1, args.n))
      or v:to(torch.empty(0, {device = v.device}):to(table.unpack(args, 1, args.n)).device)
    v.data = moved
    if v.grad then v.grad = v.grad:to(table.unpack(args, 1, args.n)) end
  end, {})
  return self
end
---Moves every parameter and buffer to a CUDA device.
---@param device? any a number, a name or a device, or {device = ..}; default: the current one
function Class:cuda(device)
  if type(device) == "table" then device = device.device end
  if device == nil then device = "cuda" end
  if torch.device(device).type ~= "cuda" then error(("cuda: %s is no CUDA device"):format(tostring(device)), 2, "device") end
  return self:to(device)
end
---Moves every parameter and buffer to the CPU.
function Class:cpu() return self:to("cpu") end
for _, name in ipairs {"half", "bfloat16", "float", "double"} do
  ---Converts every floating point parameter and buffer to this type.
  Class[name] = function(self) return self:to(torch[name] or name) end
end

---What stands in the brackets when the module is printed.
function Class:extra_repr() return "" end

---Removes a field, so that the module is as if it had never been assigned.
function Module.forget(module, name)
  for i, k in ipairs(module._order) do
    if k == name then
      table.remove(module._order, i)
      break
    end
  end
  rawset(module, name, nil)
  if held[module] then held[module][name] = nil end
end

Module.Base = Class
Module.walk = walk
Module.is_buffer = function(owner, key) return rawget(owner, "_buffers") ~= nil and owner._buffers[key] ~= nil end
Module.is_parameter = function(v) return is_parameter[v] == true end
Module.mark_parameter = function(v) is_parameter[v] = true end
Module.parameter_at = parameter_at
require("torch.nn.hooks").install(Class)
require("torch.nn.tree").install(Module, Class)
require("torch.nn.state").install(Module, Class)
Module.Module = class("Module")
Module.class = class
Module.Parameter = Parameter
Module.is_module = is_module
Module.inner = inner
Module.origin = origin
return Module
