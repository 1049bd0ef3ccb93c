-- Optimisers that users write: optim.class with a step for each group, or a whole step over self.param_groups as
-- PyTorch's subclasses of Optimizer have it.
local torch = torch
local error = torch._raise
local base = require "torch.optim.optimizer"
local optim, Optimizer = base.optim, base.Optimizer

-- The state of a parameter that has none yet is an empty table, as PyTorch's defaultdict gives it.
local fresh_states = {__index = function(states, p)
  if not torch.is_tensor(p) then return nil end
  local s = {}
  rawset(states, p, s)
  return s
end}

---Makes a class of optimisers of one's own: `local Sign = optim.class("Sign", {lr = 0.01}, function(self, group)
---... end)`; the step gets each group, runs under no_grad, and keeps what it needs in self.state[p]. With a name alone it
---is a class as in PyTorch: define `Mine:init(params, options)`, which calls `optim.Optimizer.init(self, params,
---{lr = options.lr})`, and `Mine:step(closure)`, which goes over self.param_groups.
---@param name string
---@param defaults? table the options with their defaults
---@param step? function (self, group)
function optim.class(name, defaults, step)
  if type(name) == "string" and (defaults == nil or defaults == optim.Optimizer) and step == nil then
    local class = {_name = name, __name = name, _check = function() end}
    class.__index, class.__tostring = class, base.describe
    -- The step that a user writes counts, and calls hooks, as the others do.
    local function keep(_, key, value)
      if key == "step" and type(value) == "function" then
        local step_of_user = value
        value = function(self, ...)
          base.run_hooks(self, "before")
          local results = table.pack(step_of_user(self, ...))
          self._steps = (self._steps or 0) + 1
          base.run_hooks(self, "after")
          return table.unpack(results, 1, results.n)
        end
      end
      rawset(class, key, value)
    end
    return setmetatable(class, {__index = Optimizer, __newindex = keep, __name = name, __call = function(_, ...)
      local self = setmetatable({}, class)
      local init = rawget(class, "init")
      if not init then error(("%s: has no init method; write function %s:init(params, options) optim.Optimizer.init(self, params, {lr = 0.1}) end"):format(name, name), 2) end
      init(self, ...)
      if not rawget(self, "param_groups") then
        error(("%s: its init must call optim.Optimizer.init(self, params, {lr = ...})"):format(name), 2)
      end
      return self
    end})
  end
  if type(name) ~= "string" or type(defaults) ~= "table" or type(step) ~= "function" then
    error('optim.class: wants a name, the options with their defaults, and a step: optim.class("Sign", {lr = 0.01}, function(self, group) ... end)', 2)
  end
  return base.new_class(name, "lr", defaults, function() end, function(self, group)
    return torch.no_grad(function() return step(self, group) end)
  end)
end

---The base of all optimisers. Its init gives an optimiser its groups: parameters, and the options with their values.
optim.Optimizer = setmetatable({
  ---@param params table
  ---@param defaults? table the options, with the values that groups have unless they say otherwise
  init = function(self, params, defaults)
    base.fill(self, params, {}, defaults or {})
    setmetatable(self.state, fresh_states)
  end,
}, {__index = Optimizer, __name = "Optimizer", __call = function()
  error('optim.Optimizer: is the base of classes: local Mine = optim.class("Mine")', 2)
end})

return optim
