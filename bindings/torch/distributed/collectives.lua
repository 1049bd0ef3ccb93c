-- Collectives in PyTorch's forms: in place, into tensors, and with lists of tensors. Each has `async_op`: then a
-- handle comes back at once, and the next operation on the tensors waits by itself.
local torch = torch
local error = torch._raise
local shared = require "torch.distributed.shared"
local arguments = require "torch.utils.arguments"
local dist, native, info, root, red = shared.dist, shared.native, shared.info, shared.root, shared.red

-- --- Handles ---

---A call on its way. `wait` returns when the tensors have their values, and raises the call's error.
---@class Work
local Work = {}
Work.__index = Work
Work.__name = "Work"

function Work:wait()
  local work = self.work
  if work then
    work:wait()
    self.work = nil
  end
  local after = self.after
  if after then
    self.after = nil
    after()
  end
  return true
end
---Whether it is done; also when it has failed.
function Work:is_completed() return not self.work or self.work:is_completed() end
---Whether it is done without an error.
function Work:is_success()
  if not self:is_completed() then return false end
  return (pcall(self.wait, self))
end
function Work:synchronize() return self:wait() end
---For receives: the rank of the world that has sent.
function Work:source_rank() return self.sender end
function Work.__tostring(self) return self:is_completed() and "work (done)" or "work (on its way)" end
shared.Work = Work

-- Runs f now, or, for a call that is not waited for, gives its handle; `after` is done with the values.
local function finish(g, async, after)
  if async then return setmetatable({work = native.last(g.pg), after = after}, Work) end
  if after then after() end
end
shared.finish = finish

-- Leaves are changed without a word to autograd.
local function quiet(t, f, ...)
  if not t.requires_grad then return f(...) end
  local mode <close> = torch.no_grad()
  return f(...)
end

local function tensor(t, who, what)
  if not torch.is_tensor(t) then error(("%s: %s wants a tensor, not %s"):format(who, what or "the first argument", type(t)), 3) end
  return t
end

local function tensors(list, who, what, n)
  if type(list) ~= "table" then error(("%s: %s wants a list of tensors, not %s"):format(who, what, type(list)), 3) end
  if #list ~= n then error(("%s: %s has %d tensors, and the group %d ranks"):format(who, what, #list, n), 3, "shape") end
  for _, t in ipairs(list) do tensor(t, who, what) end
  return list
end

local function same_shapes(list, t, who, what)
  for i, x in ipairs(list) do
    if x:numel() ~= t:numel() or x.dtype ~= t.dtype then
      error(("%s: %s[%d] is %s %s, the tensor %s %s"):format(who, what, i, tostring(x.dtype), tostring(x.shape),
        tostring(t.dtype), tostring(t.shape)), 3, x.dtype ~= t.dtype and "dtype" or "shape")
    end
  end
end

local function stacked(n, t) return torch.empty({n, table.unpack(t.shape)}, {dtype = t.dtype, device = t.device}) end

local function spread(list, all)
  local mode <close> = torch.no_grad()
  for i, t in ipairs(list) do t:copy_(all[{i}]:view_as(t)) end
end

-- --- Into the same tensor ---

---The elements of all ranks, combined, in the tensor of every rank. Equal bits on all ranks, and in every run.
---@param t Tensor changed in place
---@param op? table dist.ReduceOp.SUM, unless given
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.all_reduce(t, op, group, async_op, ...)
  if async_op ~= nil or type(op) == "table" and getmetatable(op) == nil or ... ~= nil or type(group) == "table" then
    local o = arguments("all_reduce", {"tensor", "op", "group", "async_op", needed = 1}, {}, t, op, group, async_op, ...)
    t, op, group, async_op = o.tensor, o.op, o.group, o.async_op
  end
  local g = info(group, "all_reduce")
  if not g then return end
  quiet(tensor(t, "all_reduce"), native.all_reduce_, t, red(op, "all_reduce"), g.handle, async_op and true or false)
  return finish(g, async_op)
end

---The tensor of rank `src` in the tensors of all.
---@param t Tensor changed in place; the same shape and dtype on every rank
---@param src integer a rank of the world; or group_src, of the group
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.broadcast(...)
  local o = arguments("broadcast", {"tensor", "src", "group", "async_op", "group_src", needed = 1}, {}, ...)
  local g = info(o.group, "broadcast")
  if not g then return end
  local t = tensor(o.tensor, "broadcast")
  quiet(t, native.broadcast_, t, root(g, o, "src", "broadcast"), g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

---The elements of all ranks, combined, in the tensor of rank `dst`; others keep theirs.
---@param t Tensor
---@param dst integer
---@param op? table
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.reduce(...)
  local o = arguments("reduce", {"tensor", "dst", "op", "group", "async_op", "group_dst", needed = 1}, {}, ...)
  local g = info(o.group, "reduce")
  if not g then return end
  local t = tensor(o.tensor, "reduce")
  quiet(t, native.reduce_, t, root(g, o, "dst", "reduce"), red(o.op, "reduce"), g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

---Waits until all ranks of the group are here.
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.barrier(...)
  local o = arguments("barrier", {"group", "async_op", "device_ids"}, {}, ...)
  local g = info(o.group, "barrier")
  if not g then return end
  native.barrier(g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

-- --- Of another size ---

---The tensors of all ranks, one behind the other along the first dimension, in one tensor.
---@param output_tensor Tensor of as many elements as all inputs
---@param input_tensor Tensor the same shape on every rank
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.all_gather_into_tensor(...)
  local o = arguments("all_gather_into_tensor", {"output_tensor", "input_tensor", "group", "async_op", needed = 2}, {}, ...)
  local g = info(o.group, "all_gather_into_tensor")
  if not g then return end
  local out = tensor(o.output_tensor, "all_gather_into_tensor")
  local mode <close> = torch.no_grad()
  native.all_gather_into_(out, tensor(o.input_tensor, "all_gather_into_tensor", "input_tensor"), g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

---The tensors of all ranks, in a list of tensors of the same shape: one for each rank.
---@param tensor_list Tensor[] filled
---@param t Tensor
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.all_gather(...)
  local o = arguments("all_gather", {"tensor_list", "tensor", "group", "async_op", needed = 2}, {}, ...)
  local g = info(o.group, "all_gather")
  if not g then return end
  local list, t = tensors(o.tensor_list, "all_gather", "tensor_list", g.size), tensor(o.tensor, "all_gather", "tensor")
  same_shapes(list, t, "all_gather", "tensor_list")
  local mode <close> = torch.no_grad()
  local all = stacked(g.size, t)
  native.all_gather_into_(all, t, g.handle, o.async_op and true or false)
  return finish(g, o.async_op, function() spread(list, all) end)
end

---This rank's share of the elements of all ranks, combined. Rank r of n has the r-th of n equal parts.
---@param output Tensor
---@param input Tensor n times as many elements
---@param op? table
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.reduce_scatter_tensor(...)
  local o = arguments("reduce_scatter_tensor", {"output", "input", "op", "group", "async_op", needed = 2}, {}, ...)
  local g = info(o.group, "reduce_scatter_tensor")
  if not g then return end
  local out = tensor(o.output, "reduce_scatter_tensor")
  local mode <close> = torch.no_grad()
  native.reduce_scatter_into_(out, tensor(o.input, "reduce_scatter_tensor", "input"), red(o.op, "reduce_scatter_tensor"),
    g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

---As reduce_scatter_tensor, with a list of tensors: the r-th of every rank become rank r's output.
---@param output Tensor
---@param input_list Tensor[]
---@param op? table
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.reduce_scatter(...)
  local o = arguments("reduce_scatter", {"output", "input_list", "op", "group", "async_op", needed = 2}, {}, ...)
  local g = info(o.group, "reduce_scatter")
  if not g then return end
  local out, list = tensor(o.output, "reduce_scatter"), tensors(o.input_list, "reduce_scatter", "input_list", g.size)
  same_shapes(list, out, "reduce_scatter", "input_list")
  local mode <close> = torch.no_grad()
  native.reduce_scatter_into_(out, torch.stack(list), red(o.op, "reduce_scatter"), g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

---Rows of every rank's tensor for every other: equal parts, or as many as the split sizes say.
---@param output Tensor
---@param input Tensor
---@param output_split_sizes? integer[] rows from each rank
---@param input_split_sizes? integer[] rows for each rank
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.all_to_all_single(...)
  local o = arguments("all_to_all_single", {"output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op", needed = 2}, {}, ...)
  local g = info(o.group, "all_to_all_single")
  if not g then return end
  local out, input = tensor(o.output, "all_to_all_single"), tensor(o.input, "all_to_all_single", "input")
  local mode <close> = torch.no_grad()
  local function sizes(list)
    if list ~= nil and type(list) ~= "table" then error(("all_to_all_single: split sizes are lists, not %s"):format(type(list)), 3) end
    return list and #list > 0 and list or nil
  end
  native.all_to_all_into_(out, input, sizes(o.output_split_sizes), sizes(o.input_split_sizes), g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end

---A tensor of every rank for every other; shapes may differ from pair to pair.
---@param output_tensor_list Tensor[] filled: from each rank
---@param input_tensor_list Tensor[] for each rank
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.all_to_all(...)
  local o = arguments("all_to_all", {"output_tensor_list", "input_tensor_list", "group", "async_op", needed = 2}, {}, ...)
  local g = info(o.group, "all_to_all")
  if not g then return end
  local outs = tensors(o.output_tensor_list, "all_to_all", "output_tensor_list", g.size)
  local ins = tensors(o.input_tensor_list, "all_to_all", "input_tensor_list", g.size)
  local mode <close> = torch.no_grad()
  local flat, rows_in, rows_out, total = {}, {}, {}, 0
  for i = 1, g.size do
    flat[i], rows_in[i], rows_out[i] = ins[i]:reshape(-1), ins[i]:numel(), outs[i]:numel()
    total = total + rows_out[i]
  end
  local got = torch.empty(total, {dtype = outs[1].dtype, device = outs[1].device})
  native.all_to_all_into_(got, torch.cat(flat), rows_out, rows_in, g.handle, o.async_op and true or false)
  return finish(g, o.async_op, function()
    local quiet_mode <close> = torch.no_grad()
    for i, part in ipairs {got:split(rows_out)} do outs[i]:copy_(part:view_as(outs[i])) end
  end)
end

---The tensors of all ranks, in a list on rank `dst`.
---@param t Tensor
---@param gather_list? Tensor[] filled, on rank dst only
---@param dst? integer 0, unless given
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.gather(...)
  local o = arguments("gather", {"tensor", "gather_list", "dst", "group", "async_op", "group_dst", needed = 1}, {}, ...)
  local g = info(o.group, "gather")
  if not g then return end
  local t, dst = tensor(o.tensor, "gather"), root(g, o, "dst", "gather", g.ranks[1])
  local mode <close> = torch.no_grad()
  if g.rank ~= dst then
    if o.gather_list and #o.gather_list > 0 then error("gather: gather_list is for rank dst only", 2) end
    native.gather_into_(t, t, dst, g.handle, o.async_op and true or false)
    return finish(g, o.async_op)
  end
  local list = tensors(o.gather_list, "gather", "gather_list (on rank dst)", g.size)
  same_shapes(list, t, "gather", "gather_list")
  local all = stacked(g.size, t)
  native.gather_into_(all, t, dst, g.handle, o.async_op and true or false)
  return finish(g, o.async_op, function() spread(list, all) end)
end

---A tensor for each rank from rank `src`.
---@param t Tensor filled
---@param scatter_list? Tensor[] on rank src only
---@param src? integer 0, unless given
---@param group? userdata
---@param async_op? boolean
---@return Work|nil
function dist.scatter(...)
  local o = arguments("scatter", {"tensor", "scatter_list", "src", "group", "async_op", "group_src", needed = 1}, {}, ...)
  local g = info(o.group, "scatter")
  if not g then return end
  local t, src = tensor(o.tensor, "scatter"), root(g, o, "src", "scatter", g.ranks[1])
  local mode <close> = torch.no_grad()
  local all
  if g.rank == src then
    local list = tensors(o.scatter_list, "scatter", "scatter_list (on rank src)", g.size)
    same_shapes(list, t, "scatter", "scatter_list")
    all = torch.stack(list)
  elseif o.scatter_list and #o.scatter_list > 0 then
    error("scatter: scatter_list is for rank src only", 2)
  end
  native.scatter_into_(t, all, src, g.handle, o.async_op and true or false)
  return finish(g, o.async_op)
end
