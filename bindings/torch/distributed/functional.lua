-- torch.distributed.nn.functional: collectives with gradients. They give new tensors; the gradient of a sum over ranks
-- is a sum over ranks, so every rank calls backward.
local torch = torch
local error = torch._raise
local shared = require "torch.distributed.shared"
local arguments = require "torch.utils.arguments"
local native, info, root, red = shared.native, shared.info, shared.root, shared.red

local functional = {}

local function member(group, who)
  return info(group, who) or error(who .. ": this rank is no member of the group", 3, "value")
end
local function listed(t) return {t:unbind(1)} end

---The elements of all ranks, combined; has a gradient for SUM and AVG.
---@param tensor Tensor
---@param op? table
---@param group? userdata
---@return Tensor
function functional.all_reduce(...)
  local o = arguments("all_reduce", {"tensor", "op", "group", needed = 1}, {}, ...)
  return native.all_reduce(o.tensor, red(o.op, "all_reduce"), member(o.group, "all_reduce").handle)
end

---The tensor of rank `src`; its gradient is the sum of all ranks', on `src`.
---@param tensor Tensor
---@param src integer
---@param group? userdata
---@return Tensor
function functional.broadcast(...)
  local o = arguments("broadcast", {"tensor", "src", "group", "group_src", needed = 1}, {}, ...)
  local g = member(o.group, "broadcast")
  return native.broadcast(o.tensor, root(g, o, "src", "broadcast"), g.handle)
end

---The elements of all ranks, combined, on rank `dst`; others get their own.
---@param tensor Tensor
---@param dst integer
---@param op? table
---@param group? userdata
---@return Tensor
function functional.reduce(...)
  local o = arguments("reduce", {"tensor", "dst", "op", "group", "group_dst", needed = 1}, {}, ...)
  local g = member(o.group, "reduce")
  return native.reduce(o.tensor, root(g, o, "dst", "reduce"), red(o.op, "reduce"), g.handle)
end

---The tensors of all ranks, as a list.
---@param tensor Tensor
---@param group? userdata
---@return Tensor[]
function functional.all_gather(...)
  local o = arguments("all_gather", {"tensor", "group", needed = 1}, {}, ...)
  return listed(native.all_gather(o.tensor, member(o.group, "all_gather").handle))
end

---The tensors of all ranks as a list on rank `dst`; zeros on others.
---@param tensor Tensor
---@param dst? integer
---@param group? userdata
---@return Tensor[]
function functional.gather(...)
  local o = arguments("gather", {"tensor", "dst", "group", "group_dst", needed = 1}, {}, ...)
  local g = member(o.group, "gather")
  return listed(native.gather_ranks(o.tensor, root(g, o, "dst", "gather", g.ranks[1]), g.handle))
end

---This rank's of a list of tensors that rank `src` has; all ranks give a list of the same shapes.
---@param tensors Tensor[]
---@param src? integer
---@param group? userdata
---@return Tensor
function functional.scatter(...)
  local o = arguments("scatter", {"tensors", "src", "group", "group_src", needed = 1, list = true}, {}, ...)
  local g = member(o.group, "scatter")
  return native.scatter_ranks(torch.stack(o.tensors), root(g, o, "src", "scatter", g.ranks[1]), g.handle)
end

---This rank's share of every rank's list of tensors, combined.
---@param output Tensor gives shape and type; the result is a new tensor
---@param input_list Tensor[]
---@param op? table
---@param group? userdata
---@return Tensor
function functional.reduce_scatter(...)
  local o = arguments("reduce_scatter", {"output", "input_list", "op", "group", needed = 2}, {}, ...)
  return native.reduce_scatter(torch.stack(o.input_list), red(o.op, "reduce_scatter"), member(o.group, "reduce_scatter").handle)
end

---A tensor of every rank for every other, of the same shapes.
---@param output_tensor_list Tensor[] gives shapes; the results are new tensors
---@param input_tensor_list Tensor[]
---@param group? userdata
---@return Tensor[]
function functional.all_to_all(...)
  local o = arguments("all_to_all", {"output_tensor_list", "input_tensor_list", "group", needed = 2}, {}, ...)
  return listed(native.all_to_all_single(torch.stack(o.input_tensor_list), member(o.group, "all_to_all").handle))
end

---Equal parts of every rank's tensor for every other.
---@param output Tensor gives shape and type; the result is a new tensor
---@param input Tensor the first dimension is cut into as many parts as there are ranks
---@param group? userdata
---@return Tensor
function functional.all_to_all_single(...)
  local o = arguments("all_to_all_single", {"output", "input", "output_split_sizes", "input_split_sizes", "group", needed = 2}, {}, ...)
  local g, x = member(o.group, "all_to_all_single"), o.input
  if not torch.is_tensor(x) then error(("all_to_all_single: input wants a tensor, not %s"):format(type(x)), 2) end
  if o.output_split_sizes or o.input_split_sizes then
    error("all_to_all_single: with a gradient, parts are equal; use all_to_all_single of torch.distributed without one", 2)
  end
  if x:dim() == 0 or x:size(1) % g.size ~= 0 then
    error(("all_to_all_single: %s rows are not cut into %d equal parts"):format(tostring(x.shape), g.size), 2, "shape")
  end
  local y = native.all_to_all_single(x:reshape(g.size, x:size(1) // g.size, table.unpack(x.shape, 2)), g.handle)
  return y:reshape(x.shape)
end

return torch._strict(functional, "torch.distributed.nn.functional")
