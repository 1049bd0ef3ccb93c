-- torch.vmap: a function of one example becomes a function of many. It is called once, with tensors that stand for one
-- example of all (engine/ops/table/batch.h), and every operation computes all examples at once. What only one example
-- can do (branches on values, item(), sizes that follow from values) is done example by example, and the results are
-- stacked: the function then is called once more for each. Gradients go through both.
local torch = torch
local error = torch._raise
local tree = require "torch.func.tree"
local core = require "torch.func.derivatives"
local generators = require "torch.generators"
local batch = torch._batch
torch._batch = nil
local depth = 0  -- of maps inside maps that are computed at once

local function is_none(dim) return dim == nil or dim == false or dim == torch.none end

-- Adds an argument's tensors with the dimensions to take them apart at: {values=, dim=} or {value=}; gives a function
-- from the example's number to the argument.
local function divide(value, dim, where, mapped, depth)
  if tree.is_branch(value) and (tree.is_branch(dim) or not is_none(dim)) then
    local parts = {}
    depth = tree.deeper(depth)
    for _, k in ipairs(tree.keys(value)) do
      local inner = dim
      if tree.is_branch(dim) then inner = dim[k] end
      parts[k] = divide(value[k], inner, where .. (type(k) == "number" and "[" .. k .. "]" or "." .. tostring(k)), mapped, depth)
    end
    return function(i)
      local out = {}
      for k, part in next, parts do out[k] = part(i) end
      return out
    end
  end
  if is_none(dim) then return function() return value end end
  if math.type(dim) ~= "integer" then
    error(("vmap: in_dims for %s is %s; a dimension from 1, or torch.none"):format(where, tostring(dim)), 3, "argument")
  end
  if not torch.is_tensor(value) then
    error(("vmap: %s is %s, which has no dimension %d to map over; say torch.none for it in in_dims"):format(where, core.kind(value), dim), 3, "argument")
  end
  if dim == 0 or dim > value.ndim or dim < -value.ndim then
    error(("vmap: in_dims says dimension %d for %s of shape %s"):format(dim, where, tostring(value.shape)), 3, "dim")
  end
  local entry = {tensor = value, dim = dim, size = value:size(dim), where = where}
  mapped[#mapped + 1] = entry
  return function(i) return entry.parts[i] end
end

local function dims_of(in_dims, count)
  if in_dims == nil then in_dims = 1 end
  local dims = {}
  if tree.is_branch(in_dims) then
    local last = 0
    for k in next, in_dims do
      if math.type(k) ~= "integer" then error("vmap: in_dims is a dimension or a list with one for each argument", 3, "argument") end
      last = math.max(last, k)
    end
    if last > count then
      error(("vmap: in_dims speaks of %d arguments, and there are %d"):format(last, count), 3, "argument")
    end
    return in_dims
  end
  if is_none(in_dims) then error("vmap: in_dims is torch.none, so there is nothing to map over", 3, "argument") end
  for i = 1, count do dims[i] = in_dims end
  return dims
end

local function refuse_random()
  error('vmap: the function draws random numbers, and it is not said whether all examples get the same ones; add {randomness = "different"} or {randomness = "same"}', 4, "value")
end

-- One tensor of all examples' results; `where` names it in messages.
local function joined(values, dim, where)
  local first = values[1]
  if not torch.is_tensor(first) then
    error(("vmap: the function must return tensors, and %s is %s"):format(where, core.kind(first)), 4)
  end
  for i, v in ipairs(values) do
    if not torch.is_tensor(v) or v.shape ~= first.shape then
      error(("vmap: %s has shape %s for example 1 and %s for example %d; the results of all examples are stacked"):format(where,
        tostring(first.shape), torch.is_tensor(v) and tostring(v.shape) or "none", i), 4, "shape")
    end
  end
  if is_none(dim) then
    for i = 2, #values do
      if not torch.equal(values[i], first) then
        error(("vmap: out_dims says torch.none for %s, but it differs from example to example"):format(where), 4, "argument")
      end
    end
    return first
  end
  if math.type(dim) ~= "integer" or dim == 0 or dim > first.ndim + 1 or dim < -first.ndim - 1 then
    error(("vmap: out_dims says %s for %s; its dimensions will be 1 to %d"):format(tostring(dim), where, first.ndim + 1), 4, "dim")
  end
  return torch.stack(values, dim)
end

local function join(values, dim, where, depth)
  if not tree.is_branch(values[1]) then return joined(values, dim, where) end
  local out = {}
  depth = tree.deeper(depth)
  for _, k in ipairs(tree.keys(values[1])) do
    local column, inner = {}, dim
    if tree.is_branch(dim) then inner = dim[k] end
    for i, v in ipairs(values) do
      if not tree.is_branch(v) then error(("vmap: %s is a table for example 1 and none for example %d"):format(where, i), 4) end
      column[i] = v[k]
    end
    out[k] = join(column, inner, where .. (type(k) == "number" and "[" .. k .. "]" or "." .. tostring(k)), depth)
  end
  return out
end

-- What no examples give: the shapes of one made of zeros, with a size of 0.
local function of_none(f, parts, mapped, out_dim)
  for _, m in ipairs(mapped) do
    local shape = {table.unpack(m.tensor:size())}
    table.remove(shape, m.dim < 0 and m.dim + #shape + 1 or m.dim)
    m.parts = {torch.zeros(shape, {dtype = m.tensor.dtype, device = m.tensor.device})}
  end
  local args = {}
  for i = 1, parts.n do args[i] = parts[i](1) end
  local states = generators.states()
  local results = table.pack(torch.no_grad(function() return f(table.unpack(args, 1, parts.n)) end))
  generators.set(states)
  for i = 1, results.n do
    results[i] = tree.map(join({results[i]}, out_dim(i, results.n), "result " .. i), function(t)
      return is_none(out_dim(i, results.n)) and t or t:narrow(math.type(out_dim(i, results.n)) == "integer" and out_dim(i, results.n) or 1, 1, 0)
    end)
  end
  return table.unpack(results, 1, results.n)
end

-- What all examples give, with their dimension at `dim`; raises where the examples have to be looked at one by one.
local function gathered(value, dim, here, count)
  if tree.is_branch(value) then
    local out = {}
    for k, v in next, value do out[k] = gathered(v, tree.is_branch(dim) and dim[k] or dim, here, count) end
    return out
  end
  local all = batch.all(value, here)
  if is_none(dim) then
    if all then error ("vmap: the examples may differ") end
    return value
  end
  all = all or value:unsqueeze(1):expand(count, table.unpack(value:size())):clone()
  return all:movedim(1, dim):contiguous()
end

-- The results of `count` examples from `first` on, computed at once, or nil where the function has to see each example
-- for itself. An error is left to the examples, too: it then tells their shapes.
local function at_once(f, parts, mapped, first, count, out_dim)
  depth = depth + 1
  local here, changes = depth, batch.first()
  batch.refused()
  local ok, results = pcall(function()
    local before = generators.states()
    for _, m in ipairs(mapped) do m.parts = {batch.one(m.tensor:narrow(m.dim, first, count):movedim(m.dim, 1), here)} end
    local args = {}
    for k = 1, parts.n do args[k] = parts[k](1) end
    local out = table.pack(f(table.unpack(args, 1, parts.n)))
    for k = 1, out.n do out[k] = gathered(out[k], out_dim(k, out.n), here, count) end
    if out.n == 0 or not generators.same(before, generators.states()) then
      generators.set(before)
      error("vmap: nothing, or random numbers")
    end
    return out
  end)
  depth = here - 1
  local good = ok and not batch.refused()
  batch.ended(changes, not good)
  if good then return results end
  if not ok and type(results) == "table" and results.kind == "interrupt" then error(results, 0) end
end

-- One result out of those of chunks.
local function chained(values, dim)
  if #values == 1 or is_none(dim) then return values[1] end
  if not tree.is_branch(values[1]) then return torch.cat(values, dim) end
  local out = {}
  for k in next, values[1] do
    local column = {}
    for i, v in ipairs(values) do column[i] = v[k] end
    out[k] = chained(column, tree.is_branch(dim) and dim[k] or dim)
  end
  return out
end

---A function that calls f for every example along a dimension of its arguments and stacks the results. in_dims: one
---dimension for all arguments, or a list with one for each (nil or torch.none: the same for all examples); out_dims
---likewise for the results. randomness: "error" (drawing raises), "different" or "same".
---chunk_size: so many examples are computed at once (all).
---@param f function
---@param options? {in_dims?: integer|table, out_dims?: integer|table, randomness?: string, chunk_size?: integer}
local function vmap(f, options)
  core.want_function("vmap", f)
  local o = core.options("vmap", options, {"in_dims", "out_dims", "randomness", "chunk_size"})
  local randomness = o.randomness or "error"
  if randomness ~= "error" and randomness ~= "different" and randomness ~= "same" then
    error(('vmap: randomness is "error", "different" or "same", not %s'):format(tostring(randomness)), 2, "value")
  end
  if o.chunk_size ~= nil and (math.type(o.chunk_size) ~= "integer" or o.chunk_size < 1) then
    error(("vmap: chunk_size is a positive number of examples, not %s"):format(tostring(o.chunk_size)), 2, "value")
  end
  local out_dims = o.out_dims
  if out_dims == nil then out_dims = 1 end
  local function out_dim(i, count)
    if not tree.is_branch(out_dims) then return out_dims end
    if count == 1 and #out_dims == 0 then return out_dims end  -- names of a table's fields
    local last = 0
    for k in next, out_dims do last = math.max(last, math.type(k) == "integer" and k or 0) end
    if last > count then
      error(("vmap: out_dims speaks of %d results, and the function returns %d"):format(last, count), 4, "argument")
    end
    return out_dims[i]
  end
  return function(...)
    local args, parts, mapped = table.pack(...), {}, {}
    if args.n == 0 then error("vmap: the function was called without arguments, so there is nothing to map over", 2, "argument") end
    local dims = dims_of(o.in_dims, args.n)
    parts.n = args.n
    for i = 1, args.n do parts[i] = divide(args[i], dims[i], "argument " .. i, mapped) end
    if #mapped == 0 then error("vmap: no argument is mapped; give in_dims a dimension", 2, "argument") end
    local count = mapped[1].size
    for _, m in ipairs(mapped) do
      if m.size ~= count then
        error(("vmap: %s has %d examples and %s has %d"):format(mapped[1].where, count, m.where, m.size), 2, "shape")
      end
    end
    if count == 0 then return of_none(f, parts, mapped, out_dim) end
    if randomness == "error" then
      local size, columns, n = o.chunk_size or count, {}, 0
      for first = 1, count, size do
        local results = at_once(f, parts, mapped, first, math.min(size, count - first + 1), out_dim)
        if not results then
          columns = nil
          break
        end
        n = results.n
        for k = 1, n do
          columns[k] = columns[k] or {}
          columns[k][#columns[k] + 1] = results[k]
        end
      end
      if columns then
        for k = 1, n do columns[k] = chained(columns[k], out_dim(k, n)) end
        return table.unpack(columns, 1, n)
      end
    end
    for _, m in ipairs(mapped) do m.parts = {m.tensor:unbind(m.dim)} end
    local before = randomness ~= "different" and generators.states()
    local columns, results = {}, nil
    for i = 1, count do
      if i > 1 and randomness == "same" then generators.set(before) end
      local one = {}
      for k = 1, args.n do one[k] = parts[k](i) end
      results = table.pack(f(table.unpack(one, 1, args.n)))
      if results.n == 0 then error("vmap: the function returned nothing; it must return tensors", 2) end
      for k = 1, results.n do
        columns[k] = columns[k] or {}
        columns[k][i] = results[k]
      end
      if randomness == "error" and (i == 1 or i == count) and not generators.same(before, generators.states()) then refuse_random() end
    end
    local out = {}
    for k = 1, results.n do
      out[k] = join(columns[k], out_dim(k, results.n), results.n == 1 and "its result" or "result " .. k)
    end
    return table.unpack(out, 1, results.n)
  end
end

return vmap
