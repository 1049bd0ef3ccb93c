-- What a module saves and takes over again: state_dict and load_state_dict, with PyTorch's names; and what is converted
-- as a whole.
local torch = torch
local error = torch._raise
local state = {}

local function sorted(names)
  table.sort(names)
  return names
end

-- "missing: a, b, and 3 more"
local function complaint(title, names)
  if #names == 0 then return nil end
  local shown = table.concat(names, ", ", 1, math.min(#names, 6))
  return ("%s: %s%s"):format(title, shown, #names > 6 and (", and %d more"):format(#names - 6) or "")
end

-- The prefix that all names have and the module's have not ("module.", as DataParallel saves them).
local function common_prefix(given, own)
  local first = next(given)
  local prefix = type(first) == "string" and first:match "^[%w_]+%."
  if not prefix or not next(own) then return nil end
  local count = 0
  for name in pairs(given) do
    if name:sub(1, #prefix) ~= prefix or own[name:sub(#prefix + 1)] == nil then return nil end
    count = count + 1
  end
  return prefix, count
end

-- The field of a whole checkpoint in which the module's state stands: {epoch = 3, model = {...}}.
local function part_inside(given, own)
  for key, part in pairs(given) do
    if type(part) == "table" and not torch.is_tensor(part) then
      for name in pairs(own) do
        if part[name] ~= nil then return key end
      end
    end
  end
end

-- What load_state_dict answers: the list of missing names, which also has both lists as fields.
local function answer(missing, unexpected)
  return setmetatable(missing, {__name = "names", __index = {missing_keys = missing, unexpected_keys = unexpected},
    __tostring = function()
      if #missing == 0 and #unexpected == 0 then return "<All keys matched successfully>" end
      return ("missing_keys={%s}, unexpected_keys={%s}"):format(table.concat(missing, ", "), table.concat(unexpected, ", "))
    end})
end

local function hooks_of(layer, place)
  local all = rawget(layer, "_state_hooks")
  return all and all[place] or {}
end
local function add_hook(layer, place, f)
  if type(f) ~= "function" then error("register hook: wants a function", 3) end
  local all = rawget(layer, "_state_hooks") or {}
  rawset(layer, "_state_hooks", all)
  all[place] = all[place] or {}
  local list, entry = all[place], {f = f}
  list[#list + 1] = entry
  return {remove = function()
    for i, h in ipairs(list) do
      if h == entry then return table.remove(list, i) end
    end
  end}
end
local function run_hooks(layer, place, ...)
  for _, h in ipairs(hooks_of(layer, place)) do h.f(layer, ...) end
end

-- A method that a layer's class may have. (Reading a field that is not there looks for what was meant.)
local function method(layer, name)
  local class = getmetatable(layer)
  while type(class) == "table" do
    local f = rawget(class, name)
    if f ~= nil then return f end
    class = rawget(class, "_base")
  end
end

local function named(layer) return layer:named_modules("", false) end
local function dotted(name) return name == "" and "" or name .. "." end

function state.install(Module, Class)
  ---A plain table from PyTorch's names to tensors (which share storage with the layer); pairs gives them in PyTorch's order.
  ---@param options? {prefix?: string, keep_vars?: boolean} keep_vars: the parameters themselves
  function Class:state_dict(options)
    if options ~= nil and type(options) ~= "table" then error("state_dict: the options are a table: {prefix=\"net.\"}", 2) end
    local prefix, keep = options and options.prefix or "", options and options.keep_vars
    local out, order = {}, {}
    local modules, hooked = named(self), false
    for _, pair in ipairs(modules) do
      hooked = hooked or rawget(pair[2], "_state_hooks") ~= nil
      run_hooks(pair[2], "save_pre", prefix .. dotted(pair[1]), keep or false)
    end
    Module.walk(self, prefix, function(owner, key, v, name)
      if not torch.is_tensor(v) then return end
      local buffer = rawget(owner, "_buffers") and owner._buffers[key]
      if buffer == "kept" or (not buffer and Module.parameter_at(owner, key, v)) then
        out[name], order[#order + 1] = keep and v or v:detach(), name
      end
    end, {}, true)
    if hooked then modules = named(self) end  -- a hook may have changed them
    for _, pair in ipairs(modules) do
      local layer, name = pair[2], prefix .. dotted(pair[1])
      if method(layer, "get_extra_state") then out[name .. "_extra_state"] = layer:get_extra_state() end
      run_hooks(layer, "save_post", out, name)
    end
    torch._keep_order(out, order)
    return out
  end

  ---Copies tensors of a state_dict into the layer. All names and shapes are checked first. Returns the names that were
  ---missing, and those that were not expected (also as the fields missing_keys and unexpected_keys of the first).
  ---@param saved table
  ---@param options? {strict?: boolean, assign?: boolean, strip?: string} strict=false: missing and unexpected names pass; assign: the parameters take the given tensors' memory; strip: a prefix to remove from the names
  function Class:load_state_dict(saved, options)
    if type(options) == "boolean" then options = {strict = options} end
    options = options or {}
    if not Module.is_module(self) then error("load_state_dict: wants the module before a colon: net:load_state_dict(state)", 2) end
    if Module.is_module(saved) then error("load_state_dict: wants a table of tensors, not a module; take its state: net:state_dict()", 2) end
    if type(saved) ~= "table" then error("load_state_dict: wants a table of tensors, not a " .. type(saved), 2) end
    for k in pairs(options) do
      if k ~= "strict" and k ~= "assign" and k ~= "strip" then
        error(('load_state_dict: no argument "%s" (it has: strict, assign, strip)'):format(tostring(k)), 2)
      end
    end
    local given = {}
    for name, t in pairs(saved) do
      if options.strip and type(name) == "string" and name:sub(1, #options.strip) == options.strip then name = name:sub(#options.strip + 1) end
      given[name] = t
    end
    local modules = named(self)
    for _, pair in ipairs(modules) do
      run_hooks(pair[2], "load_pre", given, dotted(pair[1]))
      if pair[2]._shape_from then pair[2]:_shape_from(given, dotted(pair[1])) end
    end
    local own, order, extra = {}, {}, {}
    Module.walk(self, "", function(owner, key, v, name)
      if not torch.is_tensor(v) then return end
      local buffer = rawget(owner, "_buffers") and owner._buffers[key]
      if buffer == "kept" or (not buffer and Module.parameter_at(owner, key, v)) then
        own[name], order[#order + 1] = v, name
      end
    end, {}, true)
    for _, pair in ipairs(modules) do
      if method(pair[2], "set_extra_state") then extra[dotted(pair[1]) .. "_extra_state"] = pair[2] end
    end
    local missing, unexpected, wrong = {}, {}, {}
    local prefix, count = common_prefix(given, own)
    if prefix then
      error(("load_state_dict: all %d names start with '%s', which this %s does not have; load with {strip=\"%s\"}"):format(
        count, prefix, self._name, prefix), 2)
    end
    for _, name in ipairs(order) do
      local t, from = own[name], given[name]
      if from == nil then missing[#missing + 1] = name
      elseif not torch.is_tensor(from) then wrong[#wrong + 1] = name .. " is no tensor"
      elseif from.shape ~= t.shape then
        wrong[#wrong + 1] = ("%s is %s here and %s there"):format(name, tostring(t.shape), tostring(from.shape))
      end
    end
    for name in pairs(extra) do
      if given[name] == nil then missing[#missing + 1] = name end
    end
    for name in pairs(given) do
      if own[name] == nil and not extra[name] then unexpected[#unexpected + 1] = tostring(name) end
    end
    sorted(unexpected)
    local problems = {}
    if options.strict ~= false then
      local part = #missing > 0 and part_inside(given, own)
      if part then
        error(("load_state_dict: this is a whole checkpoint; the %s's part of it is its field \"%s\": net:load_state_dict(state[\"%s\"])"):format(
          self._name, tostring(part), tostring(part)), 2)
      end
      local wrapper = #missing > 0 and common_prefix(own, given)
      if wrapper then
        error(("load_state_dict: the names in this %s begin with '%s' and those of the state do not; load into the module inside: net.%s:load_state_dict(state)"):format(
          self._name, wrapper, wrapper:sub(1, -2)), 2)
      end
      problems[1] = complaint("missing", sorted({table.unpack(missing)}))
      problems[#problems + 1] = complaint("unexpected", unexpected)
    end
    problems[#problems + 1] = complaint("shapes differ", sorted(wrong))
    if #problems > 0 then
      error(("load_state_dict: the state does not fit this %s; %s"):format(self._name, table.concat(problems, "; ")), 2, #wrong > 0 and "shape" or "argument")
    end
    torch.no_grad(function()
      for _, name in ipairs(order) do
        local from = given[name]
        if from and options.assign then own[name].data = from:detach() elseif from then own[name]:copy_(from) end
      end
    end)
    for name, layer in pairs(extra) do
      if given[name] ~= nil then layer:set_extra_state(given[name]) end
    end
    local out = answer(missing, unexpected)
    for _, pair in ipairs(modules) do run_hooks(pair[2], "load_post", out) end
    return out, unexpected
  end

  ---Calls f(layer, prefix, keep_vars) before state_dict reads the layer. Gives a handle with remove().
  function Class:register_state_dict_pre_hook(f) return add_hook(self, "save_pre", f) end
  ---Calls f(layer, state, prefix) after state_dict; f may change the table. Gives a handle with remove().
  function Class:register_state_dict_post_hook(f) return add_hook(self, "save_post", f) end
  ---Calls f(layer, state, prefix) before load_state_dict looks at the table (a copy, which f may change). Gives a
  ---handle with remove().
  function Class:register_load_state_dict_pre_hook(f) return add_hook(self, "load_pre", f) end
  ---Calls f(layer, names) after load_state_dict; f may take names out of names.missing_keys. Gives a handle with remove().
  function Class:register_load_state_dict_post_hook(f) return add_hook(self, "load_post", f) end

  ---Converts every parameter and buffer, of integers too, to a type.
  ---@param dtype any
  function Class:type(dtype)
    Module.walk(self, "", function(_, _, v)
      if not torch.is_tensor(v) then return end
      v.data = v:detach():type(dtype)
      if v.grad then v.grad = v.grad:type(dtype) end
    end, {})
    return self
  end
  ---Moves every parameter and buffer to a device without its values.
  ---@param device any
  function Class:to_empty(device)
    if type(device) == "table" then device = device.device end
    Module.walk(self, "", function(_, _, v)
      if torch.is_tensor(v) then v.data = torch.empty_like(v:detach(), {device = device}) end
    end, {})
    return self
  end
  ---Moves parameters and buffers to memory that other processes see, too: one piece for all. Gives back the layer.
  function Class:share_memory()
    local list = {}
    Module.walk(self, "", function(_, _, v)
      if torch.is_tensor(v) then list[#list + 1] = v end
    end, {})
    torch._share(list)
    return self
  end
  ---Gives back the layer: nothing is compiled beforehand here.
  function Class:compile() return self end
end

return state
