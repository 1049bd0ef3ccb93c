-- The part of `torch` written in Lua: its namespaces are loaded when they are first looked at.
local torch = torch

local parts = {
  optim = "torch.optim", distributed = "torch.distributed", multiprocessing = "torch.multiprocessing",
  utils = "torch.utils", amp = "torch.amp",
}

setmetatable(torch, {
  __index = function(t, name)
    local part = parts[name]
    if not part then return nil end
    local value = require(part)
    rawset(t, name, value)
    return value
  end,
})
