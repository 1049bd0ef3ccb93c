-- torch.autograd.functional: jacobians, Hessians and products with them, of functions of one tensor or of several (a
-- table). They are torch.func's, in the older spelling.
local torch = torch
local error = torch._raise
local core = require "torch.func.derivatives"
local functional = {}

-- The function opened at its inputs; {single_in=, single_out=} beside what core.open gives.
local function open(name, f, inputs, options, more)
  if not core.callable(f) then error(("%s: wants a function first, not %s"):format(name, core.kind(f)), 3) end
  local single = torch.is_tensor(inputs)
  if not single and (type(inputs) ~= "table" or #inputs == 0) then
    error(("%s: wants a tensor second, or a table of tensors, not %s"):format(name, core.kind(inputs)), 3)
  end
  local list = single and {inputs} or inputs
  for i, x in ipairs(list) do
    if not torch.is_tensor(x) then error(("%s: input %d is %s, not a tensor"):format(name, i, core.kind(x)), 3) end
  end
  local o = core.options(name, options, more, 3)
  local args, places = table.pack(table.unpack(list)), {}
  for i = 1, args.n do places[i] = i end
  local state = core.open(name, f, args, places, false)
  state.create = o.create_graph and state.outer or false
  state.strict = o.strict and name or nil
  state.single_in, state.single_out = single, torch.is_tensor(state.results[1]) and state.results.n == 1
  return state
end

local function value(state)
  local out = {}
  for i, y in ipairs(state.ys) do out[i] = state.create and y or y:detach() end
  return state.single_out and out[1] or out
end

-- The direction: a tensor or a table like `like`, ones where it may be left out.
local function direction(name, v, like, single)
  if v == nil or v == torch.none then
    if #like ~= 1 or like[1]:numel() ~= 1 then
      error(("%s: wants a direction v third; it may be left out for one number only"):format(name), 3)
    end
    return {torch.ones_like(like[1]):detach()}
  end
  local list = single and torch.is_tensor(v) and {v} or v
  if type(list) ~= "table" or #list ~= #like then
    error(("%s: v must be %s, not %s"):format(name, #like == 1 and "a tensor" or ("a table of %d tensors"):format(#like), core.kind(v)), 3)
  end
  return core.matching(name, "parts of v", like, list, 4)
end

local function unwrap(list, single) return single and list[1] or list end

---d f(x) / dx: shape of f(x) followed by the shape of x. With a table of inputs or several results, tables of them.
---@param f function
---@param inputs any a tensor or a table of tensors
---@param options? {create_graph?: boolean, strict?: boolean, vectorize?: boolean, strategy?: string} strict: independent results are an error
function functional.jacobian(f, inputs, options)
  local state = open("jacobian", f, inputs, options, {"create_graph", "strict", "vectorize", "strategy"})
  local forward = options and options.strategy == "forward-mode"
  local blocks = (forward and core.columns or core.rows)(state, state.create, state.strict)
  for i, row in ipairs(blocks) do blocks[i] = unwrap(row, state.single_in) end
  return unwrap(blocks, state.single_out)
end

-- The gradient of f as a function of the same inputs, for second derivatives.
local function gradient(name, f)
  return function(...)
    local y = f(...)
    if not torch.is_tensor(y) or y:numel() ~= 1 then
      error(("%s: the function must return one number, not %s"):format(name, torch.is_tensor(y) and "shape " .. tostring(y.shape) or core.kind(y)), 3, "shape")
    end
    local inputs, grads = {...}, {}
    if y.requires_grad then
      grads = {torch.autograd.grad(y, inputs, {create_graph = true, allow_unused = true})}
    end
    for i, x in ipairs(inputs) do grads[i] = grads[i] or torch.zeros_like(x) end
    return table.unpack(grads, 1, #inputs)
  end
end

---The second derivatives of a function with one number as its value: shape of the input twice.
---@param f function
---@param inputs any a tensor or a table of tensors
---@param options? {create_graph?: boolean, strict?: boolean, vectorize?: boolean, outer_jacobian_strategy?: string}
function functional.hessian(f, inputs, options)
  if not core.callable(f) then error("hessian: wants a function first, not " .. core.kind(f), 2) end
  local state = open("hessian", gradient("hessian", f), inputs, options, {"create_graph", "strict", "vectorize", "outer_jacobian_strategy"})
  local blocks = core.rows(state, state.create, state.strict)
  for i, row in ipairs(blocks) do blocks[i] = unwrap(row, state.single_in) end
  return unwrap(blocks, state.single_in)
end

---f(x) and v^T J; v may be left out where f gives one number.
---@param f function
---@param inputs any a tensor or a table of tensors
---@param v? any shaped as f's value
---@param options? {create_graph?: boolean, strict?: boolean}
function functional.vjp(f, inputs, v, options)
  local state = open("vjp", f, inputs, options, {"create_graph", "strict"})
  local list = direction("vjp", v, state.ys, state.single_out)
  return value(state), unwrap(core.pull(state, state.ys, list, false, state.create, state.strict), state.single_in)
end

---f(x) and J v.
---@param f function
---@param inputs any a tensor or a table of tensors
---@param v? any shaped as the inputs
---@param options? {create_graph?: boolean, strict?: boolean}
function functional.jvp(f, inputs, v, options)
  local state = open("jvp", f, inputs, options, {"create_graph", "strict"})
  local list = direction("jvp", v, state.xs, state.single_in)
  return value(state), unwrap(core.push_forward(state)(list, state.create), state.single_out)
end

-- f's value and H v; the matrix is symmetric, so v^T H is the same.
local function product(name)
  return function(f, inputs, v, options)
    if not core.callable(f) then error(("%s: wants a function first, not %s"):format(name, core.kind(f)), 2) end
    local y
    local state = open(name, gradient(name, function(...)
      y = f(...)
      return y
    end), inputs, options, {"create_graph", "strict"})
    local list = direction(name, v, state.xs, state.single_in)
    local out = core.pull(state, state.ys, list, state.create, state.create, state.strict)
    return state.create and y or y:detach(), unwrap(out, state.single_in)
  end
end

local hvp, vhp = product "hvp", product "vhp"

---f(x), which is one number, and H v with its second derivatives H.
---@param f function
---@param inputs any a tensor or a table of tensors
---@param v any shaped as the inputs
---@param options? {create_graph?: boolean, strict?: boolean}
function functional.hvp(f, inputs, v, options) return hvp(f, inputs, v, options) end

---f(x), which is one number, and v^T H with its second derivatives H.
---@param f function
---@param inputs any a tensor or a table of tensors
---@param v any shaped as the inputs
---@param options? {create_graph?: boolean, strict?: boolean}
function functional.vhp(f, inputs, v, options) return vhp(f, inputs, v, options) end
return torch._strict(functional, "torch.autograd.functional")
