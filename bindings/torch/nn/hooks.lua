-- Hooks of modules: functions called around forward and in backward, in the order in which they were registered.
local torch = torch
local error = torch._raise
local hooks = {}

local function as_list(v) return type(v) == "table" and getmetatable(v) == nil and v or {v} end

-- Passes tensors on unchanged; f gets the gradients of all of them at once in backward and may return others.
local Watch
local function watched(tensors, n, f)
  local places, given = {}, {}
  for i = 1, n do
    if torch.is_tensor(tensors[i]) and tensors[i].requires_grad then
      places[#places + 1] = i
      given[#given + 1] = tensors[i]
    end
  end
  if #given == 0 then return false end
  Watch = Watch or (function()
    local w = torch.autograd.Function("ModuleHook")
    function w.forward(ctx, g, ...)
      ctx.f = g
      local out = {...}
      for i, x in ipairs(out) do out[i] = x:view_as(x) end
      return table.unpack(out)
    end
    function w.backward(ctx, ...)
      local grads = {...}
      local changed = ctx.f(grads)
      return nil, table.unpack(changed or grads, 1, select("#", ...))
    end
    return w
  end)()
  local passed = table.pack(Watch.apply(function(grads)
    local all = {}
    for i, place in ipairs(places) do all[place] = grads[i] end
    local changed = f(all)
    if changed == nil then return nil end
    changed = as_list(changed)
    local out = {}
    for i, place in ipairs(places) do
      out[i] = changed[place]
      if out[i] == nil then out[i] = grads[i] end
    end
    return out
  end, table.unpack(given)))
  for i, place in ipairs(places) do tensors[place] = passed[i] end
  return true
end

-- Inputs and the named arguments among them: a last table with names.
local function split(inputs)
  local last = inputs[inputs.n]
  if type(last) ~= "table" or getmetatable(last) ~= nil or type(next(last, #last > 0 and #last or nil)) ~= "string" then return inputs, {} end
  local args = table.move(inputs, 1, inputs.n - 1, 1, {n = inputs.n - 1})
  return args, last
end

---Calls a module with its hooks.
function hooks.run(module, list, ...)
  local inputs = table.pack(...)
  for _, h in ipairs(list.pre) do
    local changed, names
    if h.with_kwargs then
      local args, kwargs = split(inputs)
      changed, names = h.f(module, args, kwargs)
      if changed ~= nil then
        changed = table.move(as_list(changed), 1, #as_list(changed), 1, {})
        names = names or kwargs
        if next(names) ~= nil then changed[#changed + 1] = names end
      end
    else
      changed = h.f(module, inputs)
    end
    if changed ~= nil then
      inputs = as_list(changed)
      inputs.n = math.max(#inputs, inputs.n or 0)
    end
  end
  local back = #list.backward > 0 or #list.backward_pre > 0
  local grad_output
  local function call_backward(grad_input)
    local result
    for _, h in ipairs(list.backward) do
      local changed = h.f(module, result or grad_input, grad_output or {})
      if changed ~= nil then result = as_list(changed) end
    end
    return result
  end
  local inputs_watched = back and #list.backward > 0 and watched(inputs, inputs.n, call_backward)
  local outputs = table.pack(module:forward(table.unpack(inputs, 1, inputs.n)))
  for _, h in ipairs(list.post) do
    local changed
    if h.with_kwargs then
      local args, kwargs = split(inputs)
      changed = h.f(module, args, kwargs, outputs[1])
    else
      changed = h.f(module, inputs, outputs[1])
    end
    if changed ~= nil then outputs[1] = changed end
  end
  if back then
    watched(outputs, outputs.n, function(grads)
      local result
      for _, h in ipairs(list.backward_pre) do
        local changed = h.f(module, result or grads)
        if changed ~= nil then result = as_list(changed) end
      end
      grad_output = result or grads
      if not inputs_watched then call_backward {} end
      return result
    end)
  end
  return table.unpack(outputs, 1, outputs.n)
end

local known = {prepend = true, with_kwargs = true, always_call = true}
local function add(self, where, f, options)
  if type(f) ~= "function" then error("register hook: wants a function", 3) end
  for k in pairs(options or {}) do
    if not known[k] then error(('register hook: no argument "%s" (it has: prepend, with_kwargs)'):format(tostring(k)), 3) end
  end
  local list = rawget(self, "_hooks")
  if not list then
    list = {pre = {}, post = {}, backward = {}, backward_pre = {}}
    rawset(self, "_hooks", list)
  end
  local entry = {f = f, with_kwargs = options and options.with_kwargs}
  table.insert(list[where], options and options.prepend and 1 or #list[where] + 1, entry)
  return {remove = function()
    for i, h in ipairs(list[where]) do
      if h == entry then
        table.remove(list[where], i)
        break
      end
    end
    for _, one in next, list do
      if #one > 0 then return end
    end
    if rawget(self, "_hooks") == list then rawset(self, "_hooks", nil) end
  end}
end

---Adds the methods that register hooks to the methods of every module.
function hooks.install(Class)
  ---Calls f(module, inputs, output) after forward; what it returns replaces the output. Gives a handle with remove().
  ---@param options? {prepend?: boolean, with_kwargs?: boolean} with_kwargs: f(module, inputs, named arguments, output)
  function Class:register_forward_hook(f, options) return add(self, "post", f, options) end
  ---Calls f(module, inputs) before forward; what it returns replaces the inputs. Gives a handle with remove().
  ---@param options? {prepend?: boolean, with_kwargs?: boolean} with_kwargs: f(module, inputs, named arguments), which may return both
  function Class:register_forward_pre_hook(f, options) return add(self, "pre", f, options) end
  ---Calls f(module, grad_input, grad_output) in backward (tables of tensors); what it returns replaces the gradients
  ---of the inputs. Gives a handle with remove().
  function Class:register_full_backward_hook(f, options) return add(self, "backward", f, options) end
  Class.register_backward_hook = Class.register_full_backward_hook
  ---Calls f(module, grad_output) in backward, before the module's own; what it returns replaces the gradients of the
  ---outputs. Gives a handle with remove().
  function Class:register_full_backward_pre_hook(f, options) return add(self, "backward_pre", f, options) end
end

return hooks
