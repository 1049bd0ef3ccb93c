-- torch.func: functions that turn functions into their derivatives, or into functions of many examples at once. They
-- nest in any order. Arguments and results may be tables of tensors; what is a tuple in PyTorch is several values.
local torch = torch
local error = torch._raise
local tree = require "torch.func.tree"
local core = require "torch.func.derivatives"
local func = {}

-- argnums as a list of positions; also whether it was one number.
local function positions(name, argnums)
  if argnums == nil then return {1}, true end
  local single = type(argnums) == "number"
  local list = single and {argnums} or argnums
  if type(list) ~= "table" or #list == 0 then error(name .. ": argnums is a position or a list of positions, from 1", 3, "argument") end
  for _, n in ipairs(list) do
    if math.type(n) ~= "integer" or n == 0 then
      error(("%s: argnums %s: positions of arguments are integers from 1"):format(name, tostring(n)), 3, "index")
    end
  end
  return list, single
end

local function places_in(list, count)
  local places = {}
  for i, n in ipairs(list) do places[i] = n < 0 and count + 1 + n or n end
  return places
end

-- Flat gradients in the tables of the chosen arguments.
local function arranged(state, flat)
  local out, next_place = {}, 1
  for i, chosen in ipairs(state.chosen) do out[i], next_place = tree.fill(chosen, flat, next_place) end
  return out
end

local function value_and_gradient(name, f, argnums, has_aux, args)
  local state = core.open(name, f, args, places_in(argnums, args.n), has_aux)
  local y = state.results[1]
  if state.results.n ~= 1 or not torch.is_tensor(y) or y.ndim > 0 then
    local got = torch.is_tensor(y) and state.results.n == 1 and "a tensor of shape " .. tostring(y.shape)
      or state.results.n .. " values"
    error(("%s: the function must return one number (a tensor without dimensions), not %s; vjp and jacrev take others"):format(name, got), 3, "shape")
  end
  local grads = core.pull(state, state.ys, nil, state.outer, state.outer)
  if not state.outer then y = y:detach() end
  return arranged(state, grads), y, state.aux
end

---A function that computes the gradient of f, which returns one number: `g = torch.func.grad(f)`, then `g(x)`. With a
---list of argnums the gradients are several values; with has_aux f returns two values and the second is handed on.
---@param f function
---@param options? {argnums?: integer|table, has_aux?: boolean} argnums=1: the arguments to derive by, from 1
function func.grad(f, options)
  core.want_function("grad", f)
  local o = core.options("grad", options, {"argnums", "has_aux"})
  local argnums, single = positions("grad", o.argnums)
  return function(...)
    local grads, _, aux = value_and_gradient("grad", f, argnums, o.has_aux, table.pack(...))
    if o.has_aux then return single and grads[1] or grads, aux end
    return table.unpack(grads, 1, #argnums)
  end
end

---As grad, but the function gives the gradient and f's value (with has_aux, the table {value, aux}).
---@param f function
---@param options? {argnums?: integer|table, has_aux?: boolean}
function func.grad_and_value(f, options)
  core.want_function("grad_and_value", f)
  local o = core.options("grad_and_value", options, {"argnums", "has_aux"})
  local argnums, single = positions("grad_and_value", o.argnums)
  return function(...)
    local grads, value, aux = value_and_gradient("grad_and_value", f, argnums, o.has_aux, table.pack(...))
    return single and grads[1] or grads, o.has_aux and {value, aux} or value
  end
end

local function all_places(count)
  local places = {}
  for i = 1, count do places[i] = i end
  return places
end

-- One value, or the table of several: a result inside other results.
local function packed(values)
  if values.n == 1 then return values[1] end
  return {table.unpack(values, 1, values.n)}
end

-- {has_aux = true} at the end of the arguments is an option.
local function with_options(...)
  local args = table.pack(...)
  local last = args[args.n]
  if tree.is_branch(last) and last.has_aux ~= nil and next(last, next(last)) == nil then
    args[args.n] = nil
    args.n = args.n - 1
    return args, last.has_aux
  end
  return args, false
end

---f's value at the given arguments and a function that turns a cotangent v (shaped as the value) into v^T J, one value
---for each argument. A last argument {has_aux = true}: f returns two values, and the second comes third.
---@param f function
---@param ... any the arguments of f
function func.vjp(f, ...)
  core.want_function("vjp", f)
  local args, has_aux = with_options(...)
  local state = core.open("vjp", f, args, all_places(args.n), has_aux)
  local values = core.values(state)
  local like = packed(state.results)
  local function pull(...)
    local given = table.pack(...)
    local list = core.matching("vjp", "cotangents", like, packed(given), 3)
    local create = torch.is_grad_enabled() and (state.outer or core.requiring(list))
    local grads = arranged(state, core.pull(state, state.ys, list, true, create))
    return table.unpack(grads, 1, #state.chosen)
  end
  if has_aux then return packed(values), pull, state.aux end
  return packed(values), pull
end

-- A table of arguments; a table of names is one argument.
local function as_list(value)
  if tree.is_branch(value) and (#value > 0 or next(value) == nil) then return value end
  return {value}
end

---f's value at the primals and J v: how it changes along the tangents.
---@param f function
---@param primals any the argument of f, or a table of several
---@param tangents any the same for directions
---@param options? {has_aux?: boolean} f returns two values, and the second comes third
function func.jvp(f, primals, tangents, options)
  core.want_function("jvp", f)
  local o = core.options("jvp", options, {"has_aux"})
  primals, tangents = as_list(primals), as_list(tangents)
  if #primals == 0 then error("jvp: wants the argument of the function, or a table of several, second", 2) end
  local list = core.matching("jvp", "tangents", primals, tangents, 3)
  local args = table.pack(table.unpack(primals))
  local state = core.open("jvp", f, args, all_places(args.n), o.has_aux)
  local create = torch.is_grad_enabled() and (state.outer or core.requiring(list))
  local flat, moved, place = core.push_forward(state)(list, create), {n = state.results.n}, 1
  for i = 1, moved.n do moved[i], place = tree.fill(state.results[i], flat, place) end
  if o.has_aux then return packed(core.values(state)), packed(moved), state.aux end
  return packed(core.values(state)), packed(moved)
end

---f's value at the given arguments and a function from tangents (one for each argument) to J v. The value is computed
---once, whatever the number of tangents.
---@param f function
---@param ... any the arguments of f
function func.linearize(f, ...)
  core.want_function("linearize", f)
  local args = table.pack(...)
  if args.n == 0 then error("linearize: wants the arguments of the function after it", 2) end
  local state = core.open("linearize", f, args, all_places(args.n), false)
  local push, like = core.push_forward(state), {table.unpack(args, 1, args.n)}
  return packed(core.values(state)), function(...)
    local list = core.matching("linearize", "tangents", like, {...}, 3)
    local create = torch.is_grad_enabled() and (state.outer or core.requiring(list))
    local flat, moved, place = push(list, create), {n = state.results.n}, 1
    for i = 1, moved.n do moved[i], place = tree.fill(state.results[i], flat, place) end
    return packed(moved)
  end
end

-- jacrev and jacfwd: the tables of the results, each tensor replaced by its jacobian (one argument) or the table of
-- jacobians by all chosen arguments.
local function jacobian(name, blocks_of, f, options)
  core.want_function(name, f)
  local o = core.options(name, options, {"argnums", "has_aux", "chunk_size", "randomness"})
  local argnums, single = positions(name, o.argnums)
  return function(...)
    local args = table.pack(...)
    local state = core.open(name, f, args, places_in(argnums, args.n), o.has_aux)
    local blocks, number = blocks_of(state, state.outer, nil, o.chunk_size), 0
    local out = {n = state.results.n}
    for i = 1, out.n do
      out[i] = tree.map(state.results[i], function()
        number = number + 1
        local by = arranged(state, blocks[number])
        return single and by[1] or by
      end)
    end
    if o.has_aux then return packed(out), state.aux end
    if out.n == 1 and not single and torch.is_tensor(state.results[1]) then return table.unpack(out[1]) end
    return table.unpack(out, 1, out.n)
  end
end

---A function that computes the jacobian of f, backward for all numbers of the result at once: shape of the result,
---then that of the argument.
---@param f function
---@param options? {argnums?: integer|table, has_aux?: boolean, chunk_size?: integer}
function func.jacrev(f, options) return jacobian("jacrev", core.rows, f, options) end

---The same, for all numbers of the argument at once: for functions with fewer arguments than results.
---@param f function
---@param options? {argnums?: integer|table, has_aux?: boolean, randomness?: string}
function func.jacfwd(f, options) return jacobian("jacfwd", core.columns, f, options) end

---A function that computes the second derivatives of f, which returns one number: shape of the argument, twice.
---@param f function
---@param options? {argnums?: integer|table}
function func.hessian(f, options)
  core.want_function("hessian", f)
  local o = core.options("hessian", options, {"argnums"})
  -- Row by row twice: the product along a column is two sweeps here, that along a row is one.
  return func.jacrev(func.jacrev(f, o), o)
end

func.vmap = require("torch.func.vmap")
rawset(torch, "vmap", func.vmap)
for name, f in pairs(require "torch.func.modules") do func[name] = f end

return torch._strict(func, "torch.func")
