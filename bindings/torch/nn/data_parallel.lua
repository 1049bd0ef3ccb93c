-- nn.DataParallel and what it is made of: one process computes a batch on several devices. Each gets a part of the batch
-- and a replica of the module, whose parameters are copies that an operation makes; its gradient goes back to the
-- module's own parameters, where those of all devices add up.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local Module = require "torch.nn.module"
local parallel = {}

local function device_at(v)
  if math.type(v) == "integer" then return torch.device("cuda", v) end
  local device = torch.device(v)
  if device.type == "cuda" and not device.index then return torch.device("cuda", torch.cuda.current_device()) end
  return device
end

-- "cuda:1", 1 or a device; all devices when nothing is given.
local function devices_of(list, who)
  local out = {}
  if list == nil then
    for i = 1, torch.cuda.device_count() do out[i] = torch.device("cuda", i - 1) end
    return out
  end
  if type(list) ~= "table" then list = {list} end
  for i, v in ipairs(list) do out[i] = device_at(v) end
  if #out == 0 then error(who .. ": device_ids is an empty list; {0, 1} names two devices", 4, "value") end
  return out
end

-- The same; without any device there is nothing to cut for, and one that is not there is an error at once.
local function devices_here(list, who)
  if torch.cuda.device_count() == 0 then return {} end
  local out = devices_of(list, who)
  for _, device in ipairs(out) do
    if device.type == "cuda" and device.index >= torch.cuda.device_count() then
      error(("%s: there is no device %s (there are cuda:0 to cuda:%d)"):format(who, tostring(device), torch.cuda.device_count() - 1), 4, "device")
    end
  end
  return out
end

-- A table of plain data, whose parts are scattered and gathered; objects stay whole.
local function is_plain(v) return type(v) == "table" and getmetatable(v) == nil end

---- Cutting and joining -------------------------------------------------------------------------------

-- The lengths of the parts: PyTorch's chunks, or in proportion to `sizes`, which are taken as they are where they add up.
local function lengths(n, parts, sizes)
  local out = {}
  if not sizes then
    local each = math.max(1, (n + parts - 1) // parts)
    for at = 0, math.max(n - 1, 0), each do out[#out + 1] = math.min(each, n - at) end
    return out
  end
  local total, sum, before = 0, 0, 0
  for i = 1, parts do total = total + sizes[i] end
  for i = 1, parts do
    sum = sum + sizes[i]
    local at = total == n and sum or (n * sum + total // 2) // total
    out[i], before = at - before, at
  end
  return out
end

local function check_sizes(sizes, parts, who)
  if sizes == nil then return nil end
  local ok = type(sizes) == "table" and #sizes == parts
  for i = 1, ok and parts or 0 do ok = ok and math.type(sizes[i]) == "integer" and sizes[i] >= 1 end
  if not ok then
    error(("%s: chunk_sizes is a list of whole numbers from 1, one for each of the %d devices"):format(who, parts), 4, "value")
  end
  return sizes
end

local function dim_of(x, dim, who)
  local at = dim < 0 and x.ndim + 1 + dim or dim
  if at < 1 or at > x.ndim then
    error(("%s: dimension %d of a tensor of shape %s is to be cut; dimensions count from 1"):format(who, dim, tostring(x.shape)), 4, "dim")
  end
  return at
end

-- One value for each device: tensors are cut, tables of plain data cut inside, all else is the same everywhere. What
-- is cut into fewer parts than there are devices says so by the length of its list, and a device whose share is nothing
-- is entered in `idle`. The second result says that nothing was cut.
local function scatter_value(v, devices, dim, sizes, idle)
  if torch.is_tensor(v) then
    local out, at = {}, 1
    local along = dim_of(v, dim, "scatter")
    for i, n in ipairs(lengths(v:size(along), #devices, sizes)) do
      out[i] = v:narrow(along, at, n):to(devices[i], {non_blocking = true})
      at = at + n
      if n == 0 and v:size(along) > 0 and idle then idle[i] = true end
    end
    return out
  end
  local out = {}
  if not is_plain(v) then
    for i = 1, #devices do out[i] = v end
    return out, true
  end
  local count, all_whole = #devices, true
  local fields = {}
  for k, one in next, v do
    local parts, whole = scatter_value(one, devices, dim, sizes, idle)
    fields[k], all_whole = parts, all_whole and whole
    if not whole then count = math.min(count, #parts) end
  end
  for i = 1, count do
    out[i] = {}
    for k, parts in next, fields do out[i][k] = parts[i] end
  end
  return out, all_whole
end

---Cuts tensors along a dimension into a part for each device, in tables inside too; all else is the same for each.
---@param inputs any a tensor, or a table of tensors and other values
---@param device_ids table numbers, names or devices
---@param dim? integer default 1
---@param chunk_sizes? integer[] how many each device gets; without it as equal as torch.chunk makes them
---@return table parts one for each device; fewer where there are fewer elements than devices
function parallel.scatter(inputs, device_ids, dim, chunk_sizes)
  if type(dim) == "table" then dim, chunk_sizes = dim.dim, dim.chunk_sizes end
  local devices = devices_of(device_ids, "scatter")
  return (scatter_value(inputs, devices, dim or 1, check_sizes(chunk_sizes, #devices, "scatter")))
end

local function what(v) return v == nil and "nil" or torch.is_tensor(v) and "a tensor" or "a " .. type(v) end

-- Joins the outputs of all replicas: outputs[i] is that of replica i.
local function gather_value(outputs, n, device, dim, place)
  local first = outputs[1]
  for i = 2, n do
    local same = torch.is_tensor(first) == torch.is_tensor(outputs[i]) and type(first) == type(outputs[i])
    if not same then
      error(("gather: %s is %s from replica 1 and %s from replica %d"):format(place, what(first), what(outputs[i]), i), 4, "value")
    end
  end
  if torch.is_tensor(first) then
    local parts = {}
    for i = 1, n do
      local x = outputs[i]
      parts[i] = (x.ndim == 0 and x:unsqueeze(1) or x):to(device)
    end
    return n == 1 and first.ndim > 0 and parts[1] or torch.cat(parts, first.ndim == 0 and 1 or dim_of(first, dim, "gather"))
  end
  if first == nil or first == torch.none then return first end
  if not is_plain(first) then
    error(("gather: %s is %s; what comes back from several devices must be made of tensors (torch.tensor(n) for a number)"):format(place,
      what(first)), 4, "value")
  end
  local out = {}
  for i = 2, n do
    for k in next, outputs[i] do
      if first[k] == nil then error(("gather: %s has the field %q from replica %d alone"):format(place, tostring(k), i), 4, "value") end
    end
  end
  for k in next, first do
    local parts = {}
    for i = 1, n do parts[i] = outputs[i][k] end
    out[k] = gather_value(parts, n, device, dim, ("%s[%s]"):format(place, type(k) == "string" and ("%q"):format(k) or tostring(k)))
  end
  return out
end

---Joins the results of several devices on one of them: tensors along a dimension, 0-d ones to a vector, in tables too.
---@param outputs table one for each device
---@param target_device any a number, a name or a device; "cpu" too
---@param dim? integer default 1
function parallel.gather(outputs, target_device, dim)
  if type(outputs) ~= "table" or #outputs == 0 then error("gather: wants a list with the output of each device", 2) end
  if type(dim) == "table" then dim = dim.dim end
  return gather_value(outputs, #outputs, device_at(target_device), dim or 1, "the output")
end

---- Replicas -----------------------------------------------------------------------------------------

-- A module with the same parts, whose tensors are on `device`: moved by an operation, so that gradients come back.
local function replica(v, device, made, detach)
  if torch.is_tensor(v) then
    if not made[v] then
      made[v] = (detach and v:detach() or v):to(device)
      if Module.is_parameter(v) and not detach then Module.mark_parameter(made[v]) end
    end
    return made[v]
  end
  if type(v) ~= "table" then return v end
  if made[v] then return made[v] end
  local is_module = Module.is_module(v)
  if getmetatable(v) ~= nil and not is_module then return v end
  local out = {}
  made[v] = out
  for k, one in next, v do
    out[k] = (k == "_order" or k == "_buffers" or k == "_names" or k == "_hooks") and one or replica(one, device, made, detach)
  end
  if is_module then Module.inner[out] = out end  -- it is a part of no network that anybody trains
  return setmetatable(out, getmetatable(v))
end

---Modules that compute the same on several devices; backward adds their gradients up in the module's own parameters.
---Buffers are copies, but on the first device, where they are the module's own.
---@param network nn.Module on the first of the devices
---@param device_ids table numbers, names or devices
---@param detach? boolean without gradients
---@return nn.Module[]
function parallel.replicate(network, device_ids, detach)
  local out = {}
  for i, device in ipairs(devices_of(device_ids, "replicate")) do out[i] = replica(network, device, {}, detach) end
  return out
end

---Calls each module on its own inputs, as the devices' current one.
---@param modules table
---@param inputs table for each module a tensor, or a list of arguments
---@param kwargs_tup? table for each module a table of named arguments, which comes last
---@param devices? table
---@return table outputs
function parallel.parallel_apply(modules, inputs, kwargs_tup, devices)
  if type(modules) ~= "table" or type(inputs) ~= "table" or #modules ~= #inputs then
    error(("parallel_apply: wants as many modules as inputs, not %s and %s"):format(type(modules) == "table" and #modules or type(modules),
      type(inputs) == "table" and #inputs or type(inputs)), 2, "value")
  end
  local where = devices and devices_of(devices, "parallel_apply")
  local out = {}
  for i, m in ipairs(modules) do
    local given = inputs[i]
    if not is_plain(given) then given = {given} end
    local args = table.pack(table.unpack(given, 1, given.n or #given))
    local named = kwargs_tup and kwargs_tup[i]
    if named and next(named) ~= nil then
      args.n = args.n + 1
      args[args.n] = named
    end
    local function run() return table.pack(m(table.unpack(args, 1, args.n))) end
    local results = where and torch.cuda.device(where[i], run) or run()
    if results.n == 1 then out[i] = results[1] else out[i] = results end
  end
  return out
end

-- Everything of a call: arguments for each device, replicas, outputs, results.
local function compute(network, devices, output, dim, sizes, args)
  local parts, idle = {}, {}
  local n = args.n == 0 and 1 or #devices
  for i = 1, args.n do
    local whole
    parts[i], whole = scatter_value(args[i], devices, dim, sizes, idle)
    if not whole then n = math.min(n, #parts[i]) end
  end
  local busy, replicas, results, most = {}, {}, {}, 0
  for i = 1, n do
    if not idle[i] then busy[#busy + 1] = i end
  end
  -- All replicas before the first forward, which may change the buffers.
  for _, i in ipairs(busy) do replicas[i] = replica(network, devices[i], {}) end
  for at, i in ipairs(busy) do
    local given = {}
    for k = 1, args.n do given[k] = parts[k][i] end
    results[at] = torch.cuda.device(devices[i], function()
      return table.pack(replicas[i](table.unpack(given, 1, args.n)))
    end)
    most = math.max(most, results[at].n)
  end
  local out = {}
  for k = 1, most do
    local column = {}
    for i = 1, #busy do column[i] = results[i][k] end
    out[k] = gather_value(column, #busy, output, dim, most == 1 and "the output" or "output " .. k)
  end
  return table.unpack(out, 1, most)
end

local function check_place(network, device)
  for _, list in ipairs {network:named_parameters(), network:named_buffers()} do
    for _, pair in ipairs(list) do
      if pair[2].device ~= device then
        error(("module must have its parameters and buffers on device %s (device_ids[1]) but found one of them on device: %s (%s); " ..
          "net:to(%q)"):format(tostring(device), tostring(pair[2].device), pair[1], tostring(device)), 4, "device")
      end
    end
  end
end

local known = {device_ids = true, output_device = true, dim = true, chunk_sizes = true, module_kwargs = true}
local function options_of(who, options, output_device, dim, more)
  if type(options) == "table" and options[1] == nil and next(options) ~= nil then
    for k in pairs(options) do
      if not known[k] then
        error(('%s: no argument "%s" (it has: device_ids, output_device, dim, chunk_sizes)'):format(who, tostring(k)), 4)
      end
    end
    return options
  end
  local out = type(more) == "table" and {module_kwargs = more} or {}
  out.device_ids, out.output_device, out.dim = options, output_device, dim
  return out
end

local function output_of(o, devices)
  if o.output_device == nil then return devices[1] end
  return o.output_device == -1 and torch.device "cpu" or device_at(o.output_device)
end

---Computes a module on several devices at once: its inputs are cut along a dimension, and the results come back joined.
---A loss computed inside forward comes back as a vector with one number for each device: loss:mean():backward().
---@param network nn.Module on the first device
---@param inputs any a tensor or a list of arguments
---@param device_ids? table default: all devices
---@param output_device? any default: the first device
---@param dim? integer default 1
---@param module_kwargs? table named arguments, which are cut too and come last
function parallel.data_parallel(network, inputs, device_ids, output_device, dim, module_kwargs)
  local o = options_of("data_parallel", device_ids, output_device, dim, module_kwargs)
  local devices = devices_here(o.device_ids, "data_parallel")
  local args = is_plain(inputs) and table.pack(table.unpack(inputs, 1, inputs.n or #inputs)) or table.pack(inputs)
  if o.module_kwargs then
    args.n = args.n + 1
    args[args.n] = o.module_kwargs
  end
  if #devices == 0 then return network(table.unpack(args, 1, args.n)) end
  check_place(network, devices[1])
  if #devices == 1 then
    for i = 1, args.n do args[i] = scatter_value(args[i], devices, o.dim or 1)[1] end
    return network(table.unpack(args, 1, args.n))
  end
  return compute(network, devices, output_of(o, devices), o.dim or 1, check_sizes(o.chunk_sizes, #devices, "data_parallel"), args)
end

---A module whose forward runs on several devices: each gets a part of the batch (dimension `dim` of every tensor, in
---tables too) and a replica of the module made for this call, and the results are joined on output_device. Gradients
---add up in the module's parameters, which stay on the first device. What replicas change of themselves is lost, but
---the buffers of the first device, which are the module's own. 0-d results, as of a loss computed in forward, come back
---as a vector of one for each device: loss:mean():backward(). Where the parts are of different length, return counts too.
---The module itself is `net.module`. Without devices it is called as it is.
local DataParallel = nn.class("DataParallel")
parallel.DataParallel = DataParallel

---@param network nn.Module on the first of the devices when it is called
---@param options? {device_ids: table, output_device: any, dim: integer, chunk_sizes: integer[]} or device_ids alone; chunk_sizes are the devices' shares of a batch
function DataParallel:init(network, options, output_device, dim)
  if not Module.is_module(network) then error("DataParallel: wants a module, not " .. what(network), 3) end
  local o = options_of("DataParallel", options, output_device, dim)
  local devices = devices_here(o.device_ids, "DataParallel")
  self.module = network
  rawset(self, "device_ids", devices)
  rawset(self, "dim", o.dim or 1)
  rawset(self, "chunk_sizes", check_sizes(o.chunk_sizes, #devices, "DataParallel"))
  if #devices > 0 then rawset(self, "output_device", output_of(o, devices)) end
end

function DataParallel:forward(...)
  local devices = self.device_ids
  if #devices == 0 then return self.module(...) end
  check_place(self.module, devices[1])
  if #devices == 1 then
    local args = table.pack(...)
    for i = 1, args.n do args[i] = scatter_value(args[i], devices, self.dim)[1] end
    return self.module(table.unpack(args, 1, args.n))
  end
  return compute(self.module, devices, self.output_device, self.dim, self.chunk_sizes, table.pack(...))
end

function DataParallel:extra_repr()
  local names = {}
  for i, d in ipairs(self.device_ids) do names[i] = tostring(d) end
  return table.concat(names, ", ")
end

return parallel
