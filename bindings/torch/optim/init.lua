-- torch.optim: optimisers over lists of parameters or of groups ({params = ..., lr = ...}).
local torch = torch
local error = torch._raise
local optim = {}

local Optimizer = {}
Optimizer.__index = Optimizer

local function check_parameter(p, i, name)
  if not torch.is_tensor(p) then
    error(("%s: parameter %d must be a tensor, not a %s"):format(name, i, type(p)), 4)
  end
  if not p.is_leaf then
    error(("%s: parameter %d was computed; only leaves can be trained (p:detach():requires_grad_())"):format(name, i), 4, "autograd")
  end
end

-- Sets a group's missing options from the defaults and checks the given ones.
local function make_group(self, group, defaults)
  local out = {params = {}}
  local params = group.params
  if torch.is_tensor(params) then params = {params} end
  for i, p in ipairs(params) do
    check_parameter(p, i, self._name)
    out.params[i] = p
  end
  for k, v in pairs(group) do
    if k ~= "params" then
      if defaults[k] == nil then
        local names = {}
        for n in pairs(defaults) do names[#names + 1] = n end
        table.sort(names)
        error(('%s: no option "%s" (it has: %s)'):format(self._name, tostring(k), table.concat(names, ", ")), 4)
      end
      out[k] = v
    end
  end
  for k, v in pairs(defaults) do
    if out[k] == nil then out[k] = v end
  end
  self._check(out, self._name)
  return out
end

-- A class of optimisers: its defaults, the check of a group's options, and the step of a group.
local function class(name, defaults, check, step)
  local c = setmetatable({_name = name, _check = check, _step = step}, {__index = Optimizer, __name = name})
  c.__index = c
  c.__name = name
  c.__tostring = function(self)
    local lines = {name .. " ("}
    for i, g in ipairs(self.param_groups) do
      local keys = {}
      for k, v in pairs(g) do
        if k ~= "params" and type(v) ~= "table" then keys[#keys + 1] = ("%s = %s"):format(k, tostring(v)) end
      end
      table.sort(keys)
      lines[#lines + 1] = ("  group %d: %d parameters, %s"):format(i, #g.params, table.concat(keys, ", "))
    end
    return table.concat(lines, "\n") .. "\n)"
  end
  optim[name] = setmetatable(c, {
    __index = Optimizer,
    __call = function(_, params, options)
      if type(params) ~= "table" then
        error(name .. ": wants a list of parameters, as in net:parameters()", 2)
      end
      local self = setmetatable({param_groups = {}, state = {}}, c)
      local all = {}
      for k, v in pairs(defaults) do all[k] = v end
      local given = {params = {}}
      for k, v in pairs(options or {}) do given[k] = v end
      local first = make_group(self, given, all)
      for k, v in pairs(first) do
        if k ~= "params" then all[k] = v end
      end
      self.defaults = all
      if #params == 0 and params.params == nil then
        error(name .. ": the list of parameters is empty; layers must be assigned to the module (self.layer = ..., or a table of layers: self.layers = {...})", 2)
      end
      if type(params[1]) == "table" then
        for _, g in ipairs(params) do self.param_groups[#self.param_groups + 1] = make_group(self, g, all) end
      else
        self.param_groups[1] = make_group(self, {params = params}, all)
      end
      return self
    end,
  })
end

---Drops every parameter's gradient (or zeroes it: {set_to_none = false}).
function Optimizer:zero_grad(options)
  local keep = type(options) == "table" and options.set_to_none == false
  for _, g in ipairs(self.param_groups) do
    for _, p in ipairs(g.params) do
      if keep and p.grad then p.grad:zero_() else p.grad = nil end
    end
  end
end

-- Was the gradient of a step's first parameter used by an earlier step, and not zeroed since? Who
-- forgets zero_grad does so from the first step on: later ones are not looked at.
local looked_at = 20
local function check_zeroed(self, group, accumulated)
  self._looked = (self._looked or 0) + 1
  for _, p in ipairs(group.params) do
    local g = p.grad
    if g then
      local passes = torch._use_gradient(g)
      if passes > (accumulated or 1) then require("torch.notes").tell("ACC", "step", {passes = passes}) end
      return
    end
  end
end

---One step; `closure` recomputes the loss and is called first.
---@param closure? function|{accumulated: integer} accumulated: so many backward passes are meant to add up
function Optimizer:step(closure)
  local loss, accumulated
  if type(closure) == "table" then
    for k in pairs(closure) do
      if k ~= "accumulated" and k ~= 1 and k ~= "closure" then
        error(('step: no argument "%s" (it has: closure, accumulated)'):format(tostring(k)), 2)
      end
    end
    accumulated = closure.accumulated
    if accumulated ~= nil and (math.type(accumulated) ~= "integer" or accumulated < 1) then
      error(("step: accumulated is the number of backward passes, an integer from 1, not %s"):format(tostring(accumulated)), 2)
    end
    closure = closure.closure or closure[1]
  end
  if type(closure) == "function" then loss = torch.enable_grad(closure) end
  for _, g in ipairs(self.param_groups) do
    if (self._looked or 0) < looked_at then check_zeroed(self, g, accumulated) end
    self:_step(g)
  end
  return loss
end

---Adds parameters with options of their own: {params = .., lr = ..}.
function Optimizer:add_param_group(group)
  self.param_groups[#self.param_groups + 1] = make_group(self, group, self.defaults)
end

---Everything needed to go on later: options of the groups, and state by the parameter's number from 0.
function Optimizer:state_dict()
  local groups, state, n = {}, {}, 0
  for i, g in ipairs(self.param_groups) do
    groups[i] = {params = {}}
    for k, v in pairs(g) do
      if k ~= "params" then groups[i][k] = v end
    end
    for j, p in ipairs(g.params) do
      groups[i].params[j] = n
      state[tostring(n)] = self.state[p]
      n = n + 1
    end
  end
  return {state = state, param_groups = groups}
end
---Takes over what state_dict gave.
function Optimizer:load_state_dict(saved)
  if #saved.param_groups ~= #self.param_groups then
    error(("load_state_dict: %d groups were saved, this optimiser has %d"):format(#saved.param_groups, #self.param_groups), 2)
  end
  for i, g in ipairs(self.param_groups) do
    local from = saved.param_groups[i]
    if #from.params ~= #g.params then
      error(("load_state_dict: group %d had %d parameters, here it has %d"):format(i, #from.params, #g.params), 2, "shape")
    end
    for k, v in pairs(from) do
      if k ~= "params" then g[k] = v end
    end
    for j, p in ipairs(g.params) do
      local s = saved.state[tostring(from.params[j])]
      if s then
        local copy = {}
        for k, v in pairs(s) do copy[k] = torch.is_tensor(v) and v:clone() or v end
        self.state[p] = copy
      end
    end
  end
end

-- Parameters of a group that have a gradient, with it and their state (made by `fresh` when new).
local function active(self, group, fresh)
  local params, grads, states, n = {}, {}, {}, 0
  for _, p in ipairs(group.params) do
    local g = p.grad
    if g then
      n = n + 1
      params[n], grads[n] = p, g
      if fresh then
        local s = self.state[p]
        if not s then
          s = fresh(p, g)
          self.state[p] = s
        end
        states[n] = s
      end
    end
  end
  return params, grads, states, n
end

local function at_least(group, name, key, least)
  local v = group[key]
  if type(v) ~= "number" or v < least or v ~= v then
    error(("%s: %s must be a number of at least %s, not %s"):format(name, key, tostring(least), tostring(v)), 5, "value")
  end
end

class("SGD", {lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    at_least(g, name, "momentum", 0)
    at_least(g, name, "weight_decay", 0)
    if g.nesterov and (g.momentum == 0 or g.dampening ~= 0) then
      error(name .. ": nesterov needs a momentum and no dampening", 5, "value")
    end
  end,
  function(self, g)
    if g.momentum == 0 then
      local params, grads, _, n = active(self, g)
      if n > 0 then
        torch._fused_sgd(params, grads, nil, g.lr, 0, 0, g.weight_decay, false, g.maximize, false)
      end
      return
    end
    -- A parameter's first step starts its buffer; the others go together.
    local lists = {{{}, {}, {}}, {{}, {}, {}}}
    local params, grads, states = active(self, g, function() return {} end)
    for i, p in ipairs(params) do
      local s = states[i]
      local first = s.momentum_buffer == nil
      if first then s.momentum_buffer = torch.zeros_like(p) end
      local l = lists[first and 1 or 2]
      l[1][#l[1] + 1], l[2][#l[2] + 1], l[3][#l[3] + 1] = p, grads[i], s.momentum_buffer
    end
    for k, l in ipairs(lists) do
      if #l[1] > 0 then
        torch._fused_sgd(l[1], l[2], l[3], g.lr, g.momentum, g.dampening, g.weight_decay, g.nesterov, g.maximize, k == 1)
      end
    end
  end)

local function adam_check(g, name)
  at_least(g, name, "lr", 0)
  at_least(g, name, "eps", 0)
  at_least(g, name, "weight_decay", 0)
  local b = g.betas
  if type(b) ~= "table" or type(b[1]) ~= "number" or type(b[2]) ~= "number" or b[1] < 0 or b[1] >= 1 or b[2] < 0 or b[2] >= 1 then
    error(name .. ": betas must be two numbers in [0, 1), as in {0.9, 0.999}", 5, "value")
  end
end
local function adam_step(decoupled)
  return function(self, g)
    local params, grads, states, n = active(self, g, function(p)
      local s = {step = 0, exp_avg = torch.zeros_like(p), exp_avg_sq = torch.zeros_like(p)}
      if g.amsgrad then s.max_exp_avg_sq = torch.zeros_like(p) end
      return s
    end)
    if n == 0 then return end
    local flags = (g.amsgrad and 1 or 0) + (g.maximize and 2 or 0) + (decoupled and 4 or 0)
    -- Parameters that joined at different times have different step counts.
    local by_step, order = {}, {}
    for i = 1, n do
      local s = states[i]
      s.step = s.step + 1
      local l = by_step[s.step]
      if not l then
        l = {{}, {}, {}, {}, g.amsgrad and {} or nil}
        by_step[s.step] = l
        order[#order + 1] = s.step
      end
      local k = #l[1] + 1
      l[1][k], l[2][k], l[3][k], l[4][k] = params[i], grads[i], s.exp_avg, s.exp_avg_sq
      if g.amsgrad then l[5][k] = s.max_exp_avg_sq end
    end
    for _, step in ipairs(order) do
      local l = by_step[step]
      torch._fused_adam(l[1], l[2], l[3], l[4], l[5], step, g.lr, g.betas[1], g.betas[2], g.eps, g.weight_decay, flags)
    end
  end
end
local adam_defaults = {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = 0, amsgrad = false, maximize = false}
class("Adam", adam_defaults, adam_check, adam_step(false))
local adamw_defaults = {}
for k, v in pairs(adam_defaults) do adamw_defaults[k] = v end
adamw_defaults.weight_decay = 1e-2
class("AdamW", adamw_defaults, adam_check, adam_step(true))

return optim
