-- Derivatives of functions: torch.func's grad, vjp, jvp, jacobians and hessian, and torch.autograd.functional.
-- All of it is made from the sweep of autograd.grad, whose gradients are operations: a derivative can be derived again.
-- Forward-mode products are two sweeps: J v is the gradient of u^T J by u (Townsend 2017, "A new trick for
-- calculating Jacobian vector products"; the idea is Pearlmutter's, 1994).
local torch = torch
local error = torch._raise
local tree = require "torch.func.tree"
local sweep = torch.autograd.grad
local reaches = torch._reaches
torch._reaches = nil
local M = {}

function M.callable(f)
  local meta = type(f) == "table" and getmetatable(f)
  return type(f) == "function" or type(meta) == "table" and meta.__call ~= nil
end

local function kind(value) return torch.is_tensor(value) and "a tensor" or "a " .. type(value) end
M.kind = kind

---Reads options: a table with no other fields than those of `allowed`.
function M.options(name, given, allowed, level)
  if given == nil then return {} end
  if type(given) ~= "table" then
    error(("%s: the options are a table like {%s=..}, not %s"):format(name, allowed[1], kind(given)), (level or 2) + 1)
  end
  for k in next, given do
    local known = false
    for _, a in ipairs(allowed) do known = known or a == k end
    if not known then
      error(('%s: no argument "%s" (it has: %s)'):format(name, tostring(k), table.concat(allowed, ", ")), (level or 2) + 1, "argument")
    end
  end
  return given
end

function M.want_function(name, f, level)
  if not M.callable(f) then error(("%s: wants a function first, not %s"):format(name, kind(f)), (level or 2) + 1) end
end

-- --- a function opened for derivatives ---

-- Calls f with new inputs: a tensor at one of `places` becomes a leaf of its own, or, when a graph leads to it that the
-- caller may want, a view of itself. Gives {xs=, in_args=, ys=, out=, results=, outer=}: the new inputs (flat, and as
-- they stand in the chosen arguments), the outputs' tensors (flat), and whether the outputs also depend on anything
-- else that requires grad, so that their derivatives must stay in that graph.
function M.open(name, f, args, places, has_aux)
  local outside = torch.is_grad_enabled()
  local state = {xs = {}, own = {}, chosen = {}}
  torch.enable_grad(function()
    local new = table.pack(table.unpack(args, 1, args.n))
    for i, place in ipairs(places) do
      if place < 1 or place > args.n then
        error(("%s: argnums names argument %d, and there are %d"):format(name, place, args.n), 5, "argument")
      end
      new[place] = tree.map(args[place], function(x, where)
        if not torch.is_tensor(x) then
          error(("%s: %s is %s; derivatives are by tensors"):format(name, where, kind(x)), 9, "argument")
        end
        if not x.dtype.is_floating_point then
          error(("%s: %s is %s; only floating point tensors have gradients"):format(name, where, tostring(x.dtype)), 9, "dtype")
        end
        local input
        if x.requires_grad and outside then
          input = x:view_as(x)
        else
          input = x:detach():requires_grad_()
          state.own[#state.own + 1] = input
        end
        state.xs[#state.xs + 1] = input
        return input
      end, "argument " .. place)
      state.chosen[i] = new[place]
    end
    state.results = table.pack(f(table.unpack(new, 1, new.n)))
  end)
  if state.results.n == 0 then error(name .. ": the function returned nothing; it must return a tensor", 4) end
  -- Results of f: tensors, or with has_aux the first of two; several are several values.
  if has_aux then
    if state.results.n ~= 2 then error(name .. ": with has_aux the function returns two values: its result and something besides", 4) end
    state.aux, state.results.n = state.results[2], 1
  end
  state.ys = {}
  for i = 1, state.results.n do
    tree.map(state.results[i], function(y, where)
      if not torch.is_tensor(y) then
        error(("%s: the function must return tensors, and %s is %s"):format(name, where, kind(y)), 8)
      end
      state.ys[#state.ys + 1] = y
    end, state.results.n == 1 and "its result" or "result " .. i)
  end
  state.outer = outside and reaches(state.ys, state.own)
  if has_aux and not state.outer then state.aux = tree.detach(state.aux) end
  return state
end

-- The results as the caller gets them: with their graph only where there is one outside.
function M.values(state)
  local out = {n = state.results.n}
  for i = 1, out.n do out[i] = state.outer and state.results[i] or tree.detach(state.results[i]) end
  return out
end

local function requiring(list)
  for _, t in ipairs(list) do
    if torch.is_tensor(t) and t.requires_grad then return true end
  end
  return false
end

-- weights^T J by the inputs: one tensor per input, zeros where nothing depends on it (an error, where `strict` names
-- who asks).
function M.pull(state, ys, weights, keep, create, strict)
  local roots, given = {}, {}
  for i, y in ipairs(ys) do
    if y.requires_grad then
      roots[#roots + 1] = y
      given[#given + 1] = weights and weights[i]
    end
  end
  local grads = {}
  if #roots > 0 and #state.xs > 0 then
    grads = {sweep(roots, state.xs, {grad_outputs = weights and given or nil, retain_graph = keep, create_graph = create, allow_unused = true})}
  end
  for i, x in ipairs(state.xs) do
    if strict and not grads[i] then
      error(("%s: the function's result does not depend on input %d, and strict=true asks that it does"):format(strict, i), 4, "autograd")
    end
    grads[i] = grads[i] or torch.zeros_like(x):detach()
  end
  return grads
end

-- Makes J v computable: a function from tangents of all inputs to those of all outputs.
function M.push_forward(state)
  local us, roots, weights, number = {}, {}, {}, {}
  for _, y in ipairs(state.ys) do
    if y.requires_grad then
      roots[#roots + 1] = y
      weights[#weights + 1] = torch.zeros_like(y):detach():requires_grad_()
    end
    us[#us + 1] = y.requires_grad and weights[#weights] or false
  end
  local pulled, used = {}, {}
  if #roots > 0 then
    local grads = torch.enable_grad(function()
      return {sweep(roots, state.xs, {grad_outputs = weights, create_graph = true, allow_unused = true})}
    end)
    for i = 1, #state.xs do
      if grads[i] and grads[i].requires_grad then
        pulled[#pulled + 1] = grads[i]
        number[#number + 1] = i
      end
    end
  end
  return function(tangents, create)
    local results = {}
    if #pulled > 0 then
      for k, i in ipairs(number) do used[k] = tangents[i] end
      results = {sweep(pulled, weights, {grad_outputs = used, retain_graph = true, create_graph = create, allow_unused = true})}
    end
    local out, k = {}, 0
    for i, y in ipairs(state.ys) do
      if us[i] then k = k + 1 end
      out[i] = us[i] and results[k] or torch.zeros_like(y):detach()
    end
    return out
  end
end

-- Tangents or cotangents must look as what they belong to; flat.
function M.matching(name, what, like, given, level)
  if not tree.alike(like, given) then
    error(("%s: the %s must be arranged as what they belong to"):format(name, what), level, "argument")
  end
  local tensors = tree.leaves(like)
  local list = tree.leaves(given)
  for i = 1, tensors.n do
    if not torch.is_tensor(list[i]) then error(("%s: the %s must be tensors, not %s"):format(name, what, kind(list[i])), level, "argument") end
    if list[i].shape ~= tensors[i].shape then
      error(("%s: one of the %s has shape %s, what it belongs to %s"):format(name, what, tostring(list[i].shape), tostring(tensors[i].shape)), level, "shape")
    end
    if list[i].dtype ~= tensors[i].dtype then list[i] = list[i]:to(tensors[i].dtype) end
  end
  return list
end

-- So many rows or columns of a jacobian are computed at once, unless the caller says: memory for that many examples.
local kAtOnce = 256

-- f of every tensor that is 1 at one place and 0 elsewhere, of the shape and type of `like`: a list of tensors, with
-- those places as dimension 1.
local function of_units(like, chunk_size, f)
  local count = like:numel()
  if count == 1 then
    local one = f(torch.ones_like(like):detach())
    for i, t in ipairs(one) do one[i] = t:unsqueeze(1) end
    return one
  end
  local units = torch.eye(count, {dtype = like.dtype, device = like.device}):view(count, table.unpack(like:size()))
  local map = require "torch.func.vmap"
  return {map(function(unit) return table.unpack(f(unit)) end, {chunk_size = chunk_size or kAtOnce})(units)}
end

-- The jacobians of all outputs by all inputs: blocks[i][j] of shape y_i.shape ++ x_j.shape, by rows: all in one sweep.
function M.rows(state, create, strict, chunk_size)
  local blocks = {}
  for i, y in ipairs(state.ys) do
    local rows = y:numel() > 0 and of_units(y, chunk_size, function(unit)
      return M.pull(state, {y}, {unit}, true, create, strict)
    end)
    blocks[i] = {}
    for j, x in ipairs(state.xs) do
      local shape = {table.unpack(y:size())}
      table.move(x:size(), 1, x.ndim, #shape + 1, shape)
      blocks[i][j] = rows and rows[j]:reshape(shape) or torch.zeros(shape, {dtype = x.dtype, device = x.device})
    end
  end
  return blocks
end

-- The same by columns.
function M.columns(state, create, _, chunk_size)
  local push, blocks = M.push_forward(state), {}
  for i = 1, #state.ys do blocks[i] = {} end
  for j, x in ipairs(state.xs) do
    local tangents = {}
    for m, other in ipairs(state.xs) do tangents[m] = torch.zeros_like(other):detach() end
    local columns = x:numel() > 0 and of_units(x, chunk_size, function(unit)
      tangents[j] = unit
      return push(tangents, create)
    end)
    for i, y in ipairs(state.ys) do
      local shape = {table.unpack(y:size())}
      table.move(x:size(), 1, x.ndim, #shape + 1, shape)
      blocks[i][j] = columns and columns[i]:movedim(1, -1):reshape(shape) or torch.zeros(shape, {dtype = y.dtype, device = y.device})
    end
  end
  return blocks
end

M.requiring = requiring
return M
