-- torch.nn.parallel: DistributedDataParallel (DataParallel and its parts stand in data_parallel.lua). Every rank has the
-- whole network and other batches; gradients are averaged over the ranks while backward goes on (engine/dist/reducer.h),
-- so that all take the same step.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local parallel = {}

-- Options that PyTorch's scripts give; those with false change nothing here: gradients are always views of buckets, and
-- parameters that a loss does not lead to are always found.
local known = {device_ids = true, output_device = true, dim = false, broadcast_buffers = true, init_sync = true, process_group = true,
  bucket_cap_mb = true, find_unused_parameters = false, gradient_as_bucket_view = false, static_graph = false,
  check_reduction = false, shares = true}

-- Who averages the gradients of a parameter: for GradScaler.
local owner = setmetatable({}, {__mode = "kv"})
parallel._owner = owner

---A module whose gradients are the mean over all ranks of the process group. All ranks make it from equal modules, in the
---same order of steps; parameters and buffers become rank 0's.
---
---Parameters that a loss does not lead to, on some ranks or on all, need no option. `net.module` is the module itself:
---save `net.module:state_dict()` on rank 0.
local DDP = nn.class("DistributedDataParallel")
parallel.DistributedDataParallel = DDP

local function options_of(options, ...)
  if options == nil then options = {} end
  if type(options) ~= "table" or select("#", ...) > 0 then
    error("DistributedDataParallel: takes the module and its options in a table: DistributedDataParallel(net, {device_ids = {0}})", 4)
  end
  local out = {}
  for k, v in pairs(options) do
    if math.type(k) == "integer" then
      out.device_ids = out.device_ids or {}
      out.device_ids[k] = v
    elseif known[k] == nil then
      local names = {}
      for name in pairs(known) do names[#names + 1] = name end
      table.sort(names)
      error(('DistributedDataParallel: no argument "%s" (it has: %s)'):format(tostring(k), table.concat(names, ", ")), 4)
    else
      out[k] = v
    end
  end
  return out
end

-- One device for all of a rank's computation, or nil: where the module is.
local function device_of(device_ids)
  if device_ids == nil then return nil end
  if type(device_ids) ~= "table" or #device_ids > 1 then
    error("DistributedDataParallel: device_ids names one device, as in {0}: every rank has its own", 4)
  end
  local id = device_ids[1]
  if id == nil then return nil end
  local device = math.type(id) == "integer" and torch.device("cuda", id) or torch.device(id)
  return device.type == "cuda" and not device.index and torch.device("cuda", torch.cuda.current_device()) or device
end

-- Inputs go to the device of device_ids, so the module's parameters are there; a module over several devices moves them itself.
local function check_place(module, device)
  for _, pair in ipairs(device and module:named_parameters() or {}) do
    local there = pair[2].device
    if there ~= device then
      error(("DistributedDataParallel: device_ids says %s, but %s is on %s: net:to(%q) before, or no device_ids for a network over several devices"):format(
        tostring(device), pair[1], tostring(there), tostring(device)), 4, "device")
    end
  end
end

-- What must be equal on all ranks, one line for each tensor.
local function described(module)
  local lines = {}
  for _, pair in ipairs(module:named_parameters()) do
    local p = pair[2]
    lines[#lines + 1] = ("%s %s %s%s"):format(pair[1], tostring(p.dtype), tostring(p.shape), p.requires_grad and "" or " frozen")
  end
  for _, pair in ipairs(module:named_buffers()) do
    lines[#lines + 1] = ("buffer %s %s %s"):format(pair[1], tostring(pair[2].dtype), tostring(pair[2].shape))
  end
  return lines
end

local function detached(tensors)
  for i, t in ipairs(tensors) do tensors[i] = t:detach() end
  return tensors
end
-- Views that share memory with the parameters and buffers.
local function state_of(module)
  local all = detached(module:parameters())
  for _, b in ipairs(module:buffers()) do all[#all + 1] = b end
  return all
end

---All ranks of the process group make it, from modules of equal names, shapes and dtypes.
---@param module nn.Module
---@param options? {process_group: any, broadcast_buffers: boolean, bucket_cap_mb: number, shares: number[], init_sync: boolean, device_ids: table, find_unused_parameters: boolean, gradient_as_bucket_view: boolean, static_graph: boolean} shares: how many samples each rank's batches have, in proportion, where they differ
function DDP:init(module, options, ...)
  if type(module) ~= "table" or not module.named_parameters then error("DistributedDataParallel: wants a module", 3) end
  local o = options_of(options, ...)
  local group = o.process_group
  if o.bucket_cap_mb ~= nil and (type(o.bucket_cap_mb) ~= "number" or o.bucket_cap_mb <= 0) then
    error(("DistributedDataParallel: bucket_cap_mb must be a number above 0, not %s"):format(tostring(o.bucket_cap_mb)), 3, "value")
  end
  local device = device_of(o.device_ids)
  check_place(module, device)
  torch._check_same(group, "DistributedDataParallel: ranks have different modules", described(module))
  if o.init_sync ~= false then torch._broadcast_all(group, state_of(module), 0, false) end
  local names, tensors = {}, {}
  for i, pair in ipairs(module:named_parameters()) do names[i], tensors[i] = pair[1], pair[2] end
  local cap = o.bucket_cap_mb and math.max(1, math.floor(o.bucket_cap_mb * 2 ^ 20))
  local reducer = torch._reducer(group, tensors, names, cap, cap, o.shares)
  for _, p in ipairs(tensors) do owner[p] = self end
  self.module = module
  rawset(self, "process_group", group)
  rawset(self, "reducer", reducer)
  rawset(self, "broadcast_buffers", o.broadcast_buffers ~= false)
  rawset(self, "device", device)
  ---Whether the next forwards lead to backwards that average over ranks; no_sync switches it off.
  rawset(self, "require_backward_grad_sync", true)
end

local function moved(v, device)
  if torch.is_tensor(v) then return v:to(device) end
  if type(v) ~= "table" or getmetatable(v) ~= nil then return v end
  local out = {}
  for k, one in pairs(v) do out[k] = moved(one, device) end
  return out
end

-- The first rank that still has batches.
local function first_active(events)
  for r, event in ipairs(events) do
    if event ~= "done" then return r - 1 end
  end
end

local function send_buffers(self, root) torch._broadcast_all(self.process_group, self.module:buffers(), root, true) end

---What the module gives; in training its buffers become rank 0's before.
function DDP:forward(...)
  local sync = self.require_backward_grad_sync
  if torch.is_grad_enabled() then
    self.reducer:sync(sync)
    self.reducer:says_yes(torch._interrupt_waits())
    if sync and self.training then self.reducer:count_forward() end
    if sync and self.training and self.broadcast_buffers and #self.module:buffers() > 0 then
      send_buffers(self, self.joining and first_active(self.reducer:tell "forward") or 0)
    end
  end
  if not self.device then return self.module(...) end
  local given = table.pack(...)
  for i = 1, given.n do given[i] = moved(given[i], self.device) end
  return self.module(table.unpack(given, 1, given.n))
end

---A scope whose forwards lead to backwards without averaging: gradients add up on this rank alone, and the first backward
---after the scope averages the whole sum. For batches in several parts.
---@param f? function
function DDP:no_sync(f)
  if f ~= nil and type(f) ~= "function" then error("no_sync: wants a function, or nothing: do local _ <close> = net:no_sync() ... end", 2) end
  local before = self.require_backward_grad_sync
  rawset(self, "require_backward_grad_sync", false)
  return torch._scope(function() rawset(self, "require_backward_grad_sync", before) end, f, "net:no_sync")
end

local join_options = {divide_by_initial_world_size = true, enable = true, throw_on_early_termination = true}

-- This rank has no batch left: it does its part of the others' steps until they have none, too.
local function shadow(self)
  local events
  repeat
    events = self.reducer:tell "done"
    local root = first_active(events)
    local event = root and events[root + 1]
    if event == "forward" then send_buffers(self, root)
    elseif event == "backward" then self.reducer:pass_without_gradients() end
  until not root
end

---A scope in which ranks may have different numbers of batches: who has none left answers for zeros until the last one is
---done, then all take the state of the last. Gradients are divided by the number of all ranks, unless
---{divide_by_initial_world_size = false}; {throw_on_early_termination = true} raises on all ranks when one has none left.
---@param options? {divide_by_initial_world_size: boolean, enable: boolean, throw_on_early_termination: boolean}
---@param f? function
function DDP:join(options, f)
  if type(options) == "function" then options, f = nil, options end
  options = options or {}
  if type(options) ~= "table" then error("join: wants its options in a table, and a function", 2) end
  for k in pairs(options) do
    if not join_options[k] then
      error(('join: no argument "%s" (it has: divide_by_initial_world_size, enable, throw_on_early_termination)'):format(tostring(k)), 2)
    end
  end
  if options.enable == false then return torch._scope(function() end, f) end
  if self.joining then error("join: this module is inside a join already", 2) end
  rawset(self, "joining", true)
  self.reducer:join(true, options.divide_by_initial_world_size ~= false, options.throw_on_early_termination or false)
  return torch._scope(function(why)
    local _ <close> = setmetatable({}, {__close = function()
      rawset(self, "joining", nil)
      self.reducer:join(false, true, false)
    end})
    if why ~= nil then return end
    shadow(self)
    local root, scaler = self.reducer:last_active(), self.scaler
    torch._broadcast_all(self.process_group, state_of(self.module), root, true)
    -- A GradScaler that has missed the last steps goes on with the scale of the others.
    local scale = torch.tensor({scaler and scaler._scale or 0, scaler and scaler._growth_tracker or 0}, {dtype = torch.float64})
    torch._broadcast_all(self.process_group, {scale}, root, false)
    local s = scale:tolist()
    if scaler and s[1] > 0 then scaler._scale, scaler._growth_tracker = s[1], math.tointeger(s[2]) end
  end, f)
end

---Whether Ctrl-C had come, and was held (torch.uninterrupted), on any rank when the forward of the last averaged backward
---began. All ranks answer the same, so they can stop after the same step and save.
---@return boolean
function DDP:interrupted() return self.reducer:any_said_yes() end

---How gradients travel: a list of buckets in the order in which they leave, each with its parameters' names and its bytes.
---@return table
function DDP:buckets() return self.reducer:layout() end

for name, value in pairs(require "torch.nn.data_parallel") do parallel[name] = value end
return torch._strict(parallel, "torch.nn.parallel")
