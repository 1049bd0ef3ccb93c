-- The half of torch.cuda that is written in Lua: scopes of the current device. Loaded when first looked at.
local torch = torch
local error = torch._raise
local cuda = torch.cuda

---Runs f, if given, and then calls `leave`; without f, gives a scope that calls it when its block ends.
local function scope(f, leave)
  local guard = setmetatable({}, {__close = leave})
  if f == nil then return guard end
  if type(f) ~= "function" then error("wants a function, or nothing and a block: local _ <close> = torch.cuda.device(1)", 3) end
  local _ <close> = guard
  local results = table.pack(f())
  return table.unpack(results, 1, results.n)
end

---Makes a device the current one, which "cuda" means, inside f or until the scope's block ends:
---`local _ <close> = torch.cuda.device(1)`. The CPU and a negative number change nothing.
---@param device any a number, a name or a device
---@param f? function
function cuda.device(device, f)
  if math.type(device) == "integer" and device < 0 or device == nil then return scope(f, function() end) end
  local at = math.type(device) == "integer" and torch.device("cuda", device) or torch.device(device)
  if at.type == "cpu" then return scope(f, function() end) end
  local before = cuda.current_device()
  cuda.set_device(at)
  return scope(f, function() cuda.set_device(before) end)
end

---As torch.cuda.device, for the device on which a tensor lies; one of the CPU changes nothing.
---@param tensor torch.Tensor
---@param f? function
function cuda.device_of(tensor, f)
  if not torch.is_tensor(tensor) then error("device_of: wants a tensor, not a " .. type(tensor), 2) end
  return cuda.device(tensor.device, f)
end

return cuda
