-- The part of `torch` written in Lua: its namespaces are loaded when they are first looked at.
local torch = torch

local parts = {distributed = "torch.distributed", optim = "torch.optim", utils = "torch.utils", amp = "torch.amp", models = "torch.models", metrics = "torch.metrics", distributions = "torch.distributions", func = "torch.func",
  vmap = "torch.func.vmap", multiprocessing = "torch.multiprocessing"}

---Makes a table answer names that it has not: by `look(owner, name)`, else with an error for scripts (torch.strict).
---@param owner table
---@param label string
---@param look? function
function torch._strict(owner, label, look)
  return setmetatable(owner, {
    __name = label,
    __index = function(_, name)
      local value = look and look(owner, name)
      -- No tail call: the reader's frame is looked for from here.
      if value == nil then value = require("torch.strict").missing(owner, label, name) end
      return value
    end,
  })
end

-- Names that one file gives.
local from = {fork = "torch.fork", wait = "torch.fork", jit = "torch.fork", gradient = "torch.gradient"}

torch._strict(torch, "torch", function(t, name)
  if from[name] then
    require(from[name])
    return rawget(t, name)
  end
  local part = parts[name]
  if not part then return nil end
  local value = require(part)
  rawset(t, name, value)
  return value
end)

-- torch.nn already holds the functional ops; the modules join it when first asked for.
setmetatable(torch.nn, {
  __index = function(nn, name)
    require "torch.nn"
    local value = rawget(nn, name)
    if value == nil then value = require("torch.strict").missing(nn, "torch.nn", name) end
    return value
  end,
})

torch._strict(torch.cuda, "torch.cuda", function(cuda, name)
  -- torch.cuda.amp is the older form of torch.amp, whose autocast is that of CUDA devices.
  if name == "amp" then rawset(cuda, "amp", require("torch.amp")._of_cuda()) else require "torch.cuda" end
  return rawget(cuda, name)
end)
torch._strict(torch.nn.functional, "torch.nn.functional", function(F, name)
  if type(name) ~= "string" or not name:find "^fractional_max_pool" then return nil end
  local _ = torch.nn.Module  -- which loads the layers, and with them this function
  return rawget(F, name)
end)
torch._strict(torch.linalg, "torch.linalg")
-- The scopes stand under both names; functional and graph are loaded when they are first looked at.
local scopes = {no_grad = true, enable_grad = true, set_grad_enabled = true, inference_mode = true}
torch._strict(torch.autograd, "torch.autograd", function(autograd, name)
  if name == "functional" or name == "graph" then
    rawset(autograd, name, require("torch.autograd." .. name))
    return rawget(autograd, name)
  end
  return scopes[name] and torch[name] or nil
end)

---Switches a note (see ?notes) on or off, or makes it an error; without arguments gives the list of all.
---@param code? string "B2", ..., or "all"
---@param switch? "on"|"off"|"error"
function torch.notes(code, switch) return require("torch.notes").switch(code, switch) end

-- Is there a method of tensors with this name?
local methods = torch._methods
function torch._methods_have(name) return rawget(methods, name) ~= nil end

-- Python's True is nil to Lua, which would pass for false without a word: reading it is an error in files too.
if not getmetatable(_G) then
  setmetatable(_G, {__name = "tycho.globals", __index = function(_, name)
    if name == "True" or name == "False" then require("torch.strict").python(name) end
  end})
end

require "torch.autograd"
require "torch.tensor"
require "torch.printing"
require "torch.functional"
require "torch.composed"
require "torch.compatibility"
require "torch.backends"
