-- torch.multiprocessing: processes of this same program that run functions, and what they share: tensors,
-- queues, pipes, events and locks. Functions and values cross by the codec (bindings/codec); nothing of
-- the script is run again.
local torch = torch
local error = torch._raise
local mp = {}
package.loaded["torch.multiprocessing"] = mp  -- the other files fill it

local process = require "torch.multiprocessing.process"
require "torch.multiprocessing.queues"
require "torch.multiprocessing.locks"
require "torch.multiprocessing.sync"
require "torch.multiprocessing.values"
require "torch.multiprocessing.spawn"
require "torch.multiprocessing.pool"

-- Why the other ways that Python knows are not there.
local refused = {
  fork = "fork copies a process without its threads, and locks that they hold stay held for ever",
  forkserver = "spawn starts in milliseconds here, so that a server of forks would gain nothing",
}

---Chooses how processes start: "spawn" is the one way.
---@param method string "spawn"
---@param force? boolean accepted and ignored
function mp.set_start_method(method, force)
  local _ = force
  if method == "spawn" then return end
  if refused[method] then error(('set_start_method: "%s" is refused: %s; "spawn" is the way'):format(method, refused[method]), 2, "value") end
  error(('set_start_method: wants "spawn", not %s'):format(type(method) == "string" and '"' .. method .. '"' or tostring(method)), 2)
end
---How processes start: "spawn".
---@return string
function mp.get_start_method() return "spawn" end
---The ways in which processes can start.
---@return string[]
function mp.get_all_start_methods() return {"spawn"} end
---The same functions, for a way of starting; nil or "spawn".
---@param method? string
function mp.get_context(method)
  if method ~= nil then mp.set_start_method(method) end
  return mp
end

---How tensors are shared: by file descriptors.
---@return string
function mp.get_sharing_strategy() return "file_descriptor" end
---Chooses how tensors are shared: "file_descriptor" is the one way.
---@param strategy string
function mp.set_sharing_strategy(strategy)
  if strategy == "file_descriptor" then return end
  error(('set_sharing_strategy: wants "file_descriptor", not %s: shared memory has no name in the file system, so that nothing is left behind'):format(
    type(strategy) == "string" and '"' .. strategy .. '"' or tostring(strategy)), 2, "value")
end
---The ways in which tensors can be shared.
---@return string[]
function mp.get_all_sharing_strategies() return {"file_descriptor"} end

---Not here: what a Manager's tables are for has shorter ways.
function mp.Manager()
  error("Manager: tables that live in a process of their own are not here; results come back by pool:map or a Queue, numbers by mp.Value, mp.Array or a tensor with share_memory_()",
    2, "value")
end

---How many processors the machine has.
---@return integer
function mp.cpu_count() return torch._cpu_count() end

---This process: name, pid, daemon.
function mp.current_process() return process.current end
---The process that started this one (name, pid), or nil in the first one.
function mp.parent_process() return process.parent end
---The processes started from here that have not ended.
---@return table[]
function mp.active_children()
  local list = {}
  for _, p in ipairs(process.started()) do
    if p:is_alive() then list[#list + 1] = p end
  end
  return list
end

torch._strict(mp, "torch.multiprocessing")
return mp
