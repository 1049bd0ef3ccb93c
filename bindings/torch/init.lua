-- The part of `torch` written in Lua: its namespaces are loaded when they are first looked at.
local torch = torch

local parts = {optim = "torch.optim", utils = "torch.utils", amp = "torch.amp", models = "torch.models"}

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

-- torch.cuda.amp is the older name of torch.amp.
setmetatable(torch.cuda, {
  __index = function(cuda, name)
    if name ~= "amp" then return nil end
    rawset(cuda, "amp", torch.amp)
    return torch.amp
  end,
})

---Switches a note (see ?notes) on or off, or makes it an error; without arguments gives the list of all.
---@param code? string "B2", ..., or "all"
---@param switch? "on"|"off"|"error"
function torch.notes(code, switch) return require("torch.notes").switch(code, switch) end

-- Is there a method of tensors with this name?
local methods = torch._methods
function torch._methods_have(name) return rawget(methods, name) ~= nil end

require "torch.autograd"
require "torch.tensor"
require "torch.printing"
require "torch.functional"
