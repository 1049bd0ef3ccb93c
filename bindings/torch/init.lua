-- The part of `torch` written in Lua: its namespaces are loaded when they are first looked at.
local torch = torch

local parts = {optim = "torch.optim", utils = "torch.utils"}

setmetatable(torch, {
  __index = function(t, name)
    local part = parts[name]
    if not part then return nil end
    local value = require(part)
    rawset(t, name, value)
    return value
  end,
})

-- torch.nn already holds the functional ops; the modules join it when first asked for.
setmetatable(torch.nn, {
  __index = function(nn, name)
    require "torch.nn"
    return rawget(nn, name)
  end,
})

---Switches notes on or off, or makes them errors: torch.notes("B2", "off"); without arguments the list.
function torch.notes(...) return require("torch.notes").switch(...) end

-- Is there a method of tensors with this name?
local methods = torch._methods
function torch._methods_have(name) return rawget(methods, name) ~= nil end

require "torch.autograd"
require "torch.tensor"
require "torch.printing"
