-- torch.cuda.comm: tensors of one process from device to device, by PyTorch's names. What PyTorch gives as a tuple comes as
-- several values. Copies are operations, so gradients come back over them.
local torch = torch
local error = torch._raise
local arguments = require "torch.utils.arguments"
local comm = {}

local function tensors_of(list, who, what)
  if type(list) ~= "table" or #list == 0 then error(("%s: wants a list of %s"):format(who, what or "tensors"), 4) end
  for i, t in ipairs(list) do
    if not torch.is_tensor(t) then error(("%s: entry %d is no tensor but a %s"):format(who, i, type(t)), 4) end
  end
  return list
end

local function tensor_of(t, who)
  if not torch.is_tensor(t) then error(("%s: wants a tensor, not a %s"):format(who, type(t)), 4) end
  return t
end

-- A device as a number, a name or a device; numbers below 0 are the CPU, as in PyTorch's destinations.
local function device_at(d)
  if math.type(d) ~= "integer" then return torch.device(d) end
  return d < 0 and torch.device "cpu" or torch.device("cuda", d)
end

local function devices_of(devices, who)
  if devices == nil then
    devices = {}
    for i = 1, torch.cuda.device_count() do devices[i] = i - 1 end
  end
  if type(devices) ~= "table" or #devices == 0 then error(who .. ": wants a list of devices, such as {0, 1}", 4) end
  local out = {}
  for i, d in ipairs(devices) do out[i] = device_at(d) end
  return out
end

local function check_one(o, who)
  if (o.devices == nil) == (o.out == nil) then error(who .. ": wants either devices or out", 4) end
end

---A tensor on every one of several devices: copies, or the tensor itself where it is already. With out, it is copied into
---these tensors.
---@param tensor torch.Tensor
---@param devices? any[] numbers, names or devices; or out
---@param out? torch.Tensor[]
---@return torch.Tensor ... one for each device
function comm.broadcast(...)
  local o = arguments("broadcast", {"tensor", "devices", "out", needed = 1}, {}, ...)
  local t, copies = tensor_of(o.tensor, "broadcast"), {}
  check_one(o, "broadcast")
  if o.out then
    for i, to in ipairs(tensors_of(o.out, "broadcast")) do copies[i] = to:copy_(t) end
  else
    for i, d in ipairs(devices_of(o.devices, "broadcast")) do copies[i] = t:to(d) end
  end
  return table.unpack(copies)
end

---Several tensors on every one of several devices.
---@param tensors torch.Tensor[]
---@param devices any[]
---@param buffer_size? integer what PyTorch packs together; copies need none
---@return torch.Tensor[] ... a list for each device
function comm.broadcast_coalesced(...)
  local o = arguments("broadcast_coalesced", {"tensors", "devices", "buffer_size", needed = 2}, {}, ...)
  tensors_of(o.tensors, "broadcast_coalesced")
  local lists = {}
  for i, d in ipairs(devices_of(o.devices, "broadcast_coalesced")) do
    lists[i] = {}
    for k, t in ipairs(o.tensors) do lists[i][k] = t:to(d) end
  end
  return table.unpack(lists)
end

local function sum_on(inputs, destination, who)
  local device = destination == nil and torch.device("cuda", torch.cuda.current_device()) or device_at(destination)
  local shape, sum = tostring(inputs[1].shape), nil
  for i, t in ipairs(inputs) do
    if tostring(t.shape) ~= shape then
      error(("%s: the tensors have different shapes, %s and %s"):format(who, shape, tostring(inputs[i].shape)), 4, "shape")
    end
    sum = sum and sum + t:to(device) or t:to(device)
  end
  return #inputs == 1 and sum:clone() or sum
end

---The sum of tensors of one shape on several devices.
---@param inputs torch.Tensor[]
---@param destination? any the device of the sum; default: the current one
---@return torch.Tensor
function comm.reduce_add(...)
  local o = arguments("reduce_add", {"inputs", "destination", list = true, needed = 1}, {}, ...)
  return sum_on(tensors_of(o.inputs, "reduce_add"), o.destination, "reduce_add")
end

---The sums of lists of tensors, one list for each device.
---@param inputs torch.Tensor[][]
---@param destination? any the device of the sums; default: the current one
---@param buffer_size? integer what PyTorch packs together; sums need none
---@return torch.Tensor ... one for each place in the lists
function comm.reduce_add_coalesced(...)
  local o = arguments("reduce_add_coalesced", {"inputs", "destination", "buffer_size", list = true, needed = 1}, {}, ...)
  if type(o.inputs) ~= "table" or #o.inputs == 0 then error("reduce_add_coalesced: wants a list of lists of tensors", 2) end
  local sums = {}
  for k = 1, #tensors_of(o.inputs[1], "reduce_add_coalesced", "lists of tensors") do
    local column = {}
    for i, list in ipairs(o.inputs) do
      if #tensors_of(list, "reduce_add_coalesced", "lists of tensors") ~= #o.inputs[1] then
        error(("reduce_add_coalesced: list %d has %d tensors, and the first has %d"):format(i, #list, #o.inputs[1]), 2, "value")
      end
      column[i] = list[k]
    end
    sums[k] = sum_on(column, o.destination, "reduce_add_coalesced")
  end
  return table.unpack(sums)
end

---Parts of a tensor on several devices: equal ones, as chunk cuts, or of the sizes that are given.
---@param tensor torch.Tensor
---@param devices? any[] or out
---@param chunk_sizes? integer[] one for each device
---@param dim? integer from 1, which is the default
---@param streams? table[] one for each device, on which the part is copied
---@param out? torch.Tensor[]
---@return torch.Tensor ... one for each device
function comm.scatter(...)
  local o = arguments("scatter", {"tensor", "devices", "chunk_sizes", "dim", "streams", "out", needed = 1}, {}, ...)
  local t, dim, sizes = tensor_of(o.tensor, "scatter"), o.dim or 1, o.chunk_sizes
  check_one(o, "scatter")
  if o.out then
    if sizes then error("scatter: out says the sizes; chunk_sizes goes with devices", 2) end
    sizes = {}
    for i, to in ipairs(tensors_of(o.out, "scatter")) do sizes[i] = to:size(dim) end
  end
  local devices = not o.out and devices_of(o.devices, "scatter") or nil
  if sizes and #sizes ~= #(devices or o.out) then
    error(("scatter: %d chunk_sizes are not one for each of %d devices"):format(#sizes, #devices), 2, "value")
  end
  local parts = {(sizes and t.split or t.chunk)(t, sizes or #devices, dim)}
  for i, part in ipairs(parts) do
    if o.out then
      parts[i] = o.out[i]:copy_(part)
    else
      local stream = o.streams and o.streams[i] or nil
      parts[i] = torch.cuda.stream(stream, function() return part:to(devices[i]) end)
      if stream then torch.cuda.current_stream(devices[i]):wait_stream(stream) end
    end
  end
  return table.unpack(parts)
end

---Tensors of several devices as one, one behind the other.
---@param tensors torch.Tensor[]
---@param dim? integer from 1, which is the default
---@param destination? any default: the current device; "cpu" is one, too
---@param out? torch.Tensor in place of destination
---@return torch.Tensor
function comm.gather(...)
  local o = arguments("gather", {"tensors", "dim", "destination", "out", list = true, needed = 1}, {}, ...)
  tensors_of(o.tensors, "gather")
  if o.out and o.destination ~= nil then error("gather: out says the device; destination goes without out", 2) end
  local device = o.out and o.out.device or
    (o.destination == nil and torch.device("cuda", torch.cuda.current_device()) or device_at(o.destination))
  local there = {}
  for i, t in ipairs(o.tensors) do there[i] = t:to(device) end
  local all = torch.cat(there, o.dim or 1)
  return o.out and o.out:copy_(all) or all
end

return comm
