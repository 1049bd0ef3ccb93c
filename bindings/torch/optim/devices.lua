-- Parameters of one group that lie on several devices: a step takes each device's in turn, because one call of a
-- kernel works on one device.
local torch = torch
local error = torch._raise
local devices = {}

local last = setmetatable({}, {__mode = "k"})  -- parameter -> where it was in the last step

-- What an optimiser remembers of a parameter stays behind when the network moves, as in PyTorch.
local function moved(optimizer, p, device)
  for _, v in next, optimizer.state[p] or {} do
    if torch.is_tensor(v) and v.ndim > 0 and v.device ~= device then
      error(("%s: a parameter of shape %s went to %s after steps were taken, and what the optimiser remembers of it is still on %s: " ..
        "opt:load_state_dict(opt:state_dict()) takes it there, or make the optimiser after net:to(..)"):format(optimizer._name,
        tostring(p.shape), tostring(device), tostring(v.device)), 4, "device")
    end
  end
  last[p] = device
end

---The group as the steps see it, once for each device of its parameters: a group of those parameters alone, whose
---options are the group's own.
---@param group table
---@param optimizer table
---@return table[]
function devices.split(group, optimizer)
  local first = group.params[1]
  if torch.cuda.device_count() == 0 or not first then return {group} end
  local lists, order = {}, {}
  for _, p in ipairs(group.params) do
    local device = p.device
    if last[p] ~= device then moved(optimizer, p, device) end
    local list = lists[device]
    if not list then
      list = {}
      lists[device], order[#order + 1] = list, device
    end
    list[#list + 1] = p
  end
  if #order == 1 then return {group} end
  local parts = {}
  for i, device in ipairs(order) do
    parts[i] = setmetatable({params = lists[device]}, {__index = group, __newindex = group})
  end
  return parts
end

---Raises unless all tensors lie on one device: for what makes one vector of them.
---@param name string whose error it is
---@param tensors table
function devices.check_one(name, tensors)
  for i = 2, #tensors do
    if tensors[i].device ~= tensors[1].device then
      error(("%s: makes one vector of all parameters, but parameter 1 is on %s and parameter %d on %s"):format(name,
        tostring(tensors[1].device), i, tostring(tensors[i].device)), 3, "device")
    end
  end
end

return devices
