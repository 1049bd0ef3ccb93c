-- torch.autograd.graph: what the graph keeps for backward, and in what form.
local torch = torch
local error = torch._raise
local graph = {}
local hooked = torch._saved_tensors_hooks
torch._saved_tensors_hooks = nil

local function want_function(value, which)
  local meta = type(value) == "table" and getmetatable(value)
  if type(value) ~= "function" and not (type(meta) == "table" and meta.__call) then
    error(("saved_tensors_hooks: %s must be a function, not %s"):format(which, torch.is_tensor(value) and "a tensor" or "a " .. type(value)), 3)
  end
end

---Runs f; what its operations save for backward goes through pack, and backward gets it from unpack. pack is given the
---tensor without its graph and may return anything (a file's name, a smaller copy); unpack turns that into a tensor.
---@param pack function
---@param unpack function
---@param f function
function graph.saved_tensors_hooks(pack, unpack, f)
  want_function(pack, "pack")
  want_function(unpack, "unpack")
  want_function(f, "the third argument, which is run with these hooks,")
  return hooked(pack, unpack, f)
end

---Runs f; what its operations save for backward waits in the CPU's memory, not in that of the devices.
---@param f function
function graph.save_on_cpu(f)
  if type(f) == "table" then error("save_on_cpu: wants the function that is run so", 2) end
  return graph.saved_tensors_hooks(function(x) return {x.device, x:cpu()} end, function(kept) return kept[2]:to(kept[1]) end, f)
end

return torch._strict(graph, "torch.autograd.graph")
