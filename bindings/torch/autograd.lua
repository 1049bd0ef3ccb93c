-- torch.autograd in Lua: Function (gradients written by the user), numeric checks, Jacobians.
local torch = torch
local error = torch._raise
local autograd = torch.autograd

local detect, set_detect = torch._detect_anomaly, torch._set_detect_anomaly
torch._detect_anomaly, torch._set_detect_anomaly = nil, nil

local sweep = autograd._backward
autograd._backward = nil

---A scope in which backward raises at the first operation whose gradient holds a nan. It looks at every gradient,
---so it is slow; `%nan loss` finds the place without it.
---@param f? function
function autograd.detect_anomaly(f) return detect(f) end

---The same as detect_anomaly where `on` is true.
---@param on boolean
---@param f? function
function autograd.set_detect_anomaly(on, f) return set_detect(on, f) end

---Computes the gradients of several tensors together, each weighted by one of grad_tensors (1 for a single number).
---@param tensors table
---@param grad_tensors? table
---@param options? {retain_graph?: boolean, create_graph?: boolean, inputs?: table}
function autograd.backward(tensors, grad_tensors, options)
  if torch.is_tensor(tensors) then tensors, grad_tensors = {tensors}, grad_tensors and {grad_tensors} end
  if type(tensors) ~= "table" then error("backward: wants a tensor or a list of them, not a " .. type(tensors), 2) end
  if grad_tensors ~= nil and type(grad_tensors) ~= "table" then
    error("backward: grad_tensors is a list of tensors, not a " .. type(grad_tensors), 2)
  end
  local o, gradients = options or {}, {}
  for i, t in ipairs(tensors) do
    local g = grad_tensors and grad_tensors[i]
    if g == torch.none then g = nil end
    if not torch.is_tensor(t) then error(("backward: value %d of the list is a %s, not a tensor"):format(i, type(t)), 2) end
    if not g and t:numel() ~= 1 then error(("backward: tensor %d has shape %s, and no gradient in grad_tensors"):format(i, tostring(t.shape)), 2, "autograd") end
    gradients[i] = g or torch.none
  end
  if #tensors == 0 then return end
  sweep(tensors, {gradient = gradients, retain_graph = o.retain_graph, create_graph = o.create_graph, inputs = o.inputs})
end

---The tensor itself: tensors carry gradients since PyTorch 0.4.
---@param x userdata
---@param requires_grad? boolean
function autograd.Variable(x, requires_grad)
  if not torch.is_tensor(x) then error("Variable: wants a tensor, not a " .. type(x), 2) end
  if type(requires_grad) == "table" then requires_grad = requires_grad.requires_grad end
  return requires_grad and x:detach():requires_grad_() or x
end

-- What a Function's forward and backward share.
local Context = {}
Context.__index = function(ctx, key)
  if key == "saved_tensors" then return autograd._saved(ctx) end
  return Context[key]
end
---Keeps tensors for backward, guarded against changes in place.
function Context:save_for_backward(...)
  local list, versions = {...}, {}
  for i, t in ipairs(list) do
    if not torch.is_tensor(t) then error("save_for_backward: argument " .. i .. " is no tensor; put it into a field of ctx", 2) end
    versions[i] = t:_version()
  end
  rawset(self, "_saved", list)
  rawset(self, "_versions", versions)
end
function Context:mark_non_differentiable(...) rawset(self, "_constant", {...}) end
function Context:set_materialize_grads(on) rawset(self, "_keep_undefined", not on) end

---A function with its own gradient: define `forward(ctx, ...)` and `backward(ctx, ...)`, then call it.
---@param name string
function autograd.Function(name)
  if type(name) ~= "string" then error('autograd.Function: wants a name, as in torch.autograd.Function("Exp")', 2) end
  local f = {}
  function f.apply(...)
    local inputs = table.pack(...)
    local ctx = setmetatable({}, Context)
    local needs, any = {}, false
    for i = 1, inputs.n do
      needs[i] = torch.is_tensor(inputs[i]) and inputs[i].requires_grad or false
      any = any or needs[i]
    end
    rawset(ctx, "needs_input_grad", needs)
    if not f.forward then error(name .. ": has no forward function", 2) end
    local outputs = table.pack(torch.no_grad(function() return f.forward(ctx, table.unpack(inputs, 1, inputs.n)) end))
    if not any or not torch.is_grad_enabled() then return table.unpack(outputs, 1, outputs.n) end
    if not f.backward then error(name .. ": has no backward function", 2, "autograd") end
    return autograd._record(name, ctx, f.backward, inputs, outputs)
  end
  return setmetatable(f, {
    __call = function(_, ...) return f.apply(...) end,
    __tostring = function() return "autograd.Function " .. name end,
  })
end

local function as_list(x) return torch.is_tensor(x) and {x} or x end

local function want(ok, name, what, got)
  if not ok then error(("%s: wants %s, not %s"):format(name, what, torch.is_tensor(got) and "a tensor" or type(got)), 3) end
end
local function callable(f)
  local meta = type(f) == "table" and getmetatable(f)
  return type(f) == "function" or type(meta) == "table" and meta.__call ~= nil
end
local function want_tensor(name, y) want(torch.is_tensor(y), name, "a function that gives a tensor", y) end

-- The sum of products of tensors and weights: one number whose gradient is the weighted one.
local function weighted(outputs, weights)
  local sum
  for i, y in ipairs(outputs) do
    if y.dtype.is_floating_point then
      local term = (y * weights[i]):sum()
      sum = sum and sum + term or term
    end
  end
  return sum
end

-- Compares the gradient of f at inputs with central differences; returns true or nil and a message.
local function check(f, inputs, o, order)
  want(callable(f), order, "a function first", f)
  want(type(as_list(inputs)) == "table", order, "a tensor or a table of tensors second", inputs)
  want(type(o) == "table", order, "a table of options third", o)
  inputs = as_list(inputs)
  local eps, atol, rtol = o.eps or 1e-6, o.atol or 1e-5, o.rtol or 1e-3
  for i, x in ipairs(inputs) do
    if torch.is_tensor(x) and x.requires_grad and tostring(x.dtype) ~= "torch.float64" then
      return nil, ("%s: input %d is %s; finite differences need float64"):format(order, i, tostring(x.dtype))
    end
  end
  local function call() return {f(table.unpack(inputs))} end
  local outputs = call()
  local weights = {}
  for k, y in ipairs(outputs) do
    want_tensor(order, y)
    weights[k] = (torch.arange(1, y:numel() + 1, {dtype = "float64", device = y.device}) * 0.7548776662466927 % 1 + 0.25):reshape(y:size())
  end
  local wanted, numbers = {}, {}
  for i, x in ipairs(inputs) do
    if torch.is_tensor(x) and x.requires_grad then
      wanted[#wanted + 1] = x
      numbers[#numbers + 1] = i
    end
  end
  if #wanted == 0 then return nil, order .. ": no input requires grad" end
  local total = weighted(outputs, weights)
  if not total or not total.requires_grad then return nil, order .. ": no output depends on an input that requires grad" end
  local grads = {torch.autograd.grad(total, wanted, {allow_unused = true})}
  for k, x in ipairs(wanted) do
    local flat = x.data:view(-1)
    local analytic = grads[k] and grads[k]:reshape(-1)
    for j = 1, x:numel() do
      local old = flat[j]:item()
      local function at(v)
        flat[j] = v
        local s = torch.no_grad(function() return weighted(call(), weights):item() end)
        return s
      end
      local numeric = (at(old + eps) - at(old - eps)) / (2 * eps)
      flat[j] = old
      local exact = analytic and analytic[j]:item() or 0
      if not (math.abs(numeric - exact) <= atol + rtol * math.abs(numeric)) then
        return nil, ("%s: input %d, element %d: the gradient is %.8g, finite differences give %.8g"):format(
          order, numbers[k], j, exact, numeric)
      end
    end
  end
  return true
end

local function report(ok, message, o)
  if not ok and o.raise_exception ~= false then error(message, 3, "autograd") end
  return ok or false, message
end

---Compares gradients with finite differences (central, float64).
---@param f function
---@param inputs table|any tensors; those that require grad are checked
---@param options? {eps?: number, atol?: number, rtol?: number, raise_exception?: boolean}
function autograd.gradcheck(f, inputs, options)
  options = options or {}
  local ok, message = check(f, inputs, options, "gradcheck")
  return report(ok, message, options)
end

---The same for the second order: the gradient's own gradient.
function autograd.gradgradcheck(f, inputs, options)
  options = options or {}
  want(callable(f), "gradgradcheck", "a function first", f)
  want(type(as_list(inputs)) == "table", "gradgradcheck", "a tensor or a table of tensors second", inputs)
  inputs = as_list(inputs)
  local function first(...)
    local outputs = {f(...)}
    local weights, wanted = {}, {}
    for k, y in ipairs(outputs) do
      want_tensor("gradgradcheck", y)
      weights[k] = (torch.arange(1, y:numel() + 1, {dtype = "float64", device = y.device}) * 0.5698402909980532 % 1 + 0.25):reshape(y:size())
    end
    for _, x in ipairs {...} do
      if torch.is_tensor(x) and x.requires_grad then wanted[#wanted + 1] = x end
    end
    local grads = table.pack(torch.enable_grad(function()
      return torch.autograd.grad(weighted(outputs, weights), wanted, {create_graph = true, allow_unused = true})
    end))
    local used = {}
    for i = 1, #wanted do
      if grads[i] then used[#used + 1] = grads[i] end
    end
    return table.unpack(used)
  end
  -- Numeric differences run without a graph, but the first gradient itself needs one.
  local function with_graph(...)
    local args = table.pack(...)
    return torch.enable_grad(function() return first(table.unpack(args, 1, args.n)) end)
  end
  local outputs = {with_graph(table.unpack(inputs))}
  local any = false
  for _, g in ipairs(outputs) do any = any or g.requires_grad end
  if not any then return true end  -- linear: the second order is zero
  local ok, message = check(with_graph, inputs, options, "gradgradcheck")
  return report(ok, message, options)
end
