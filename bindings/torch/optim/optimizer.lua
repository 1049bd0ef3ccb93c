-- What all optimisers share: parameter groups with checked options, steps, and state that is saved in
-- PyTorch's layout.
local torch = torch
local error = torch._raise
local split = require("torch.optim.devices").split
local optim = {}
local base = {optim = optim}

local Optimizer = {}
Optimizer.__index = Optimizer
base.Optimizer = Optimizer

-- PyTorch's options about how a step is computed; the results are the same.
local ways = {foreach = true, fused = true, capturable = true}
---A number as float32 has it.
function base.rounded(x) return (string.unpack("f", string.pack("f", x))) end

local made = setmetatable({}, {__mode = "k"})  -- all optimisers

local function check_parameter(p, i, name)
  if not torch.is_tensor(p) then
    error(("%s: parameter %d must be a tensor, not a %s"):format(name, i, type(p)), 4)
  end
  if not p.is_leaf then
    error(("%s: parameter %d was computed; only leaves can be trained (p:detach():requires_grad_())"):format(name, i), 4, "autograd")
  end
end

-- Sets a group's missing options from the defaults and checks the given ones. A group (not the options of all) may have
-- fields of the user's besides, such as a name, unless they look like a misspelt option.
local function make_group(self, group, defaults, given_alone)
  local out = {params = {}}
  local params = group.params
  if torch.is_tensor(params) then params = {params} end
  if type(params) ~= "table" then
    error(self._name .. ": a group wants its parameters: {params = net:parameters(), lr = 0.1}", 4)
  end
  local seen = {}
  for _, g in ipairs(self.param_groups) do
    for _, p in ipairs(g.params) do seen[p] = "another group" end
  end
  for i, p in ipairs(params) do
    -- named_parameters() gives {name, tensor}.
    if type(p) == "table" and type(p[1]) == "string" then
      out.param_names = out.param_names or {}
      out.param_names[i], p = p[1], p[2]
    end
    check_parameter(p, i, self._name)
    if seen[p] then
      error(("%s: parameter %d is in %s already; it would take every step twice"):format(self._name, i, seen[p]), 4, "value")
    end
    seen[p] = "the list"
    out.params[i] = p
  end
  for k, v in pairs(group) do
    if k ~= "params" and not ways[k] and not (k == "differentiable" and not v) and k ~= "initial_lr" then
      if defaults[k] == nil and (not given_alone or #require("torch.explain.names").nearest(tostring(k), defaults) > 0) then
        local names = {}
        for n in pairs(defaults) do names[#names + 1] = n end
        table.sort(names)
        error(('%s: no option "%s" (it has: %s)'):format(self._name, tostring(k), table.concat(names, ", ")), 4)
      end
      out[k] = v
    elseif k == "initial_lr" then
      out[k] = v
    end
  end
  for k, v in pairs(defaults) do
    if out[k] == nil then out[k] = v end
  end
  self._check(out, self._name)
  return out
end

local function describe(self)
  local lines = {self._name .. " ("}
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

-- optim.SGD{net:parameters(), lr = 0.1}: the options stand in the table of the parameters.
local function options_inside(params)
  if type(params[1]) ~= "table" or params[2] ~= nil or params[1].params then return params end
  local options, any = {}, false
  for k, v in pairs(params) do
    if type(k) == "string" then options[k], any = v, true end
  end
  if any then return params[1], options end
  return params
end

-- optim.SGD(params, 0.1, 0.9): options by position, in PyTorch's order; the last may be a table of named ones.
local function by_position(name, order, ...)
  local given, options, names = table.pack(...), {}, {}
  for option in order:gmatch "%S+" do names[#names + 1] = option end
  local last = given[given.n]
  if type(last) == "table" and getmetatable(last) == nil and (next(last) == nil or type(next(last)) == "string") then
    for k, v in pairs(last) do options[k] = v end
    given.n = given.n - 1
  end
  if given.n > #names then
    error(("%s: takes at most %d options by position (%s), not %d"):format(name, #names, table.concat(names, ", "), given.n), 3)
  end
  for i = 1, given.n do
    if given[i] ~= nil then
      if options[names[i]] ~= nil then error(('%s: option "%s" is given twice'):format(name, names[i]), 3) end
      options[names[i]] = given[i]
    end
  end
  return options
end

---A new field of an optimiser: an option that is set there does nothing.
function base.new_field(self, key, value)
  rawset(self, key, value)
  local options = rawget(self, "defaults")
  if not options or type(key) ~= "string" or type(value) == "function" then return end
  local info = debug.getinfo(2, "S")
  if not info or info.what == "C" or info.source:find "^=torch/" then return end
  require("torch.nn.misspelt").written(self, key, options, "option")
end

---A class of optimisers.
---@param name string
---@param order string the options that may be given by position, as PyTorch has them
---@param defaults table the options with their defaults
---@param check function (group, name): raises where an option of a group is wrong
---@param step function (self, group): one step of a group
---@return table class its methods may be overridden
local function class(name, order, defaults, check, step)
  local c = setmetatable({_name = name, _check = check, _step = step}, {__index = Optimizer, __name = name})
  c.__index = c
  c.__name = name
  c.__tostring = describe
  c.__newindex = base.new_field
  return setmetatable(c, {
    __index = Optimizer,
    __call = function(_, params, options, ...)
      local self = setmetatable({}, c)
      if options ~= nil and type(options) ~= "table" or select("#", ...) > 0 then
        options = by_position(name, order, options, ...)
      end
      base.fill(self, params, options, defaults)
      return self
    end,
  })
end

---Gives an optimiser its groups: what a constructor does.
---@param self table
---@param params table
---@param options? table
---@param defaults table
function base.fill(self, params, options, defaults)
  local name = self._name
  if type(params) ~= "table" then
    error(name .. ": wants a list of parameters, as in net:parameters()", 3)
  end
  local modules = package.loaded["torch.nn.module"]
  if modules and modules.is_module(params) then
    error(("%s: wants the module's parameters, not the module itself: net:parameters()"):format(name), 3)
  end
  if options == nil then params, options = options_inside(params) end
  if type(options) == "number" then options = {lr = options} end
  self.param_groups, self.state = {}, {}
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
    error(name .. ": the list of parameters is empty; layers must be assigned to the module (self.layer = ..., or a table of layers: self.layers = {...})", 3)
  end
  if type(params[1]) == "table" and type(params[1][1]) ~= "string" then
    for _, g in ipairs(params) do self.param_groups[#self.param_groups + 1] = make_group(self, g, all, true) end
  else
    self.param_groups[1] = make_group(self, {params = params.params or params}, all)
  end
  made[self] = true
  local function look(list)
    local root = modules and modules.origin[list]
    if root then require("torch.nn.stray").hidden(self, root, made) end
  end
  look(params.params or params)
  for _, g in ipairs(params) do
    if type(g) == "table" then look(g.params) end
  end
end

-- What optimisers have beside their methods.
local fields = {param_groups = true, state = true, defaults = true}

-- A field that no class has: in the user's code it may be a misspelt one.
setmetatable(Optimizer, {__index = function(_, name)
  if type(name) ~= "string" or #name < 2 or name:byte() == 95 then return nil end
  local info = debug.getinfo(2, "Sl")
  if not info or info.what == "C" or info.source:find "^=torch/" or info.source:find "^=shell/" then return nil end
  local value = require("torch.nn.misspelt").read(name, info, 2, function(v) return type(v) == "table" and rawget(v, "param_groups") ~= nil end, function(object)
    local known = {}
    for key in next, fields do known[key] = true end
    for key in next, object do known[key] = true end
    for _, class in ipairs {getmetatable(object), Optimizer} do
      for key in next, class do known[key] = true end
    end
    return known
  end, true)
  return value
end})

-- One of torch.optim's own classes.
function base.class(name, ...)
  optim[name] = class(name, ...)
  return optim[name]
end

---Drops every parameter's gradient (or zeroes it: {set_to_none = false}).
---@param options? {set_to_none: boolean}
function Optimizer:zero_grad(options)
  local keep = options == false or type(options) == "table" and options.set_to_none == false
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

---Calls the hooks of one place; one that answers something replaces the argument.
function base.run_hooks(self, place, value)
  for _, hook in ipairs(self._hooks and self._hooks[place] or {}) do
    local changed = hook(self, value)
    if changed ~= nil then value = changed end
  end
  return value
end

-- The closure and the number of backward passes from the arguments of step.
local function step_arguments(closure)
  if type(closure) ~= "table" then return closure end
  for k in pairs(closure) do
    if k ~= "accumulated" and k ~= 1 and k ~= "closure" then
      error(('step: no argument "%s" (it has: closure, accumulated)'):format(tostring(k)), 3)
    end
  end
  local accumulated = closure.accumulated
  if accumulated ~= nil and (math.type(accumulated) ~= "integer" or accumulated < 1) then
    error(("step: accumulated is the number of backward passes, an integer from 1, not %s"):format(tostring(accumulated)), 3)
  end
  return closure.closure or closure[1], accumulated
end

-- A rate that is a tensor is read at each step, so that it may be changed in place.
local function with_numbers(self, f, ...)
  local rates
  for _, g in ipairs(self.param_groups) do
    if torch.is_tensor(g.lr) then
      rates = rates or {}
      rates[g], g.lr = g.lr, g.lr:item()
    end
  end
  if not rates then return f(self, ...) end
  local back <close> = setmetatable({}, {__close = function()
    for g, rate in pairs(rates) do g.lr = rate end
  end})
  local result = f(self, ...)
  return result
end

local function plain_step(self, accumulated)
  for _, g in ipairs(self.param_groups) do
    if (self._looked or 0) < looked_at then check_zeroed(self, g, accumulated) end
    for _, part in ipairs(split(g, self)) do self:_step(part) end
  end
end

-- A plain tensor that was put over one of the parameters that this optimiser trains raises.
local function look_at_fields(self)
  local modules = package.loaded["torch.nn.module"]
  if not modules then return end
  local mine = {}
  for _, g in ipairs(self.param_groups) do
    for _, p in ipairs(g.params) do mine[p] = true end
  end
  modules.look_at_parameters(mine)
end

---One step; `closure` recomputes the loss and is called first.
---@param closure? function|{accumulated: integer} accumulated: so many backward passes are meant to add up
function Optimizer:step(closure)
  local loss, accumulated
  local steps = self._steps or 0
  if steps & (steps - 1) == 0 then look_at_fields(self) end  -- at steps 1, 2, 3, 5, 9, ..: it costs nothing then
  closure, accumulated = step_arguments(closure)
  base.run_hooks(self, "before")
  if self._whole_step then
    loss = with_numbers(self, self._whole_step, closure)
  else
    if type(closure) == "function" then loss = torch.enable_grad(closure) end
    if not self._steps then require("torch.nn.stray").check(self, made) end
    with_numbers(self, plain_step, accumulated)
  end
  self._steps = (self._steps or 0) + 1
  base.run_hooks(self, "after")
  if loss ~= nil then return loss end  -- else nothing, so that the prompt shows nothing
end

local function add_hook(self, place, hook)
  if type(hook) ~= "function" then error("register hook: wants a function", 3) end
  self._hooks = self._hooks or {}
  self._hooks[place] = self._hooks[place] or {}
  local list = self._hooks[place]
  list[#list + 1] = hook
  return {remove = function()
    for i, h in ipairs(list) do
      if h == hook then return table.remove(list, i) end
    end
  end}
end

---Calls hook(optimizer) before every step; the handle's remove() ends that.
---@param hook function
function Optimizer:register_step_pre_hook(hook) return add_hook(self, "before", hook) end
---Calls hook(optimizer) after every step; the handle's remove() ends that.
---@param hook function
function Optimizer:register_step_post_hook(hook) return add_hook(self, "after", hook) end

---Calls hook(optimizer) before state_dict. The handle's remove() ends that.
---@param hook function
function Optimizer:register_state_dict_pre_hook(hook) return add_hook(self, "save_before", hook) end
---Calls hook(optimizer, state) after state_dict; what it returns takes the table's place. The handle's remove() ends that.
---@param hook function
function Optimizer:register_state_dict_post_hook(hook) return add_hook(self, "save_after", hook) end
---Calls hook(optimizer, state) before load_state_dict; what it returns takes the table's place. The handle's remove() ends
---that.
---@param hook function
function Optimizer:register_load_state_dict_pre_hook(hook) return add_hook(self, "load_before", hook) end
---Calls hook(optimizer) after load_state_dict. The handle's remove() ends that.
---@param hook function
function Optimizer:register_load_state_dict_post_hook(hook) return add_hook(self, "load_after", hook) end

---Adds parameters with options of their own: {params = .., lr = ..}.
---@param group table
function Optimizer:add_param_group(group)
  if type(group) ~= "table" then error("add_param_group: wants a table: {params = .., lr = ..}", 2) end
  self.param_groups[#self.param_groups + 1] = make_group(self, group, self.defaults, true)
end

require "torch.optim.state"(Optimizer, base)

---Parameters of a group that have a gradient, with it and their state (made by `fresh` when new).
---@return table params, table grads, table states, integer n
function base.active(self, group, fresh)
  local params, grads, states, n = {}, {}, {}, 0
  for _, p in ipairs(group.params) do
    local g = p.grad
    if g then
      n = n + 1
      params[n], grads[n] = p, g
      if fresh then
        local s = self.state[p]
        if not s then
          if torch.cuda._capturing() then
            error(self._name .. ": its state is made by the first step; take one before the capture of a CUDA graph", 0, "value")
          end
          s = fresh(p, g)
          self.state[p] = s
        end
        states[n] = s
      end
    end
  end
  return params, grads, states, n
end

---Raises unless an option is a number of at least `least`.
function base.at_least(group, name, key, least)
  local v = group[key]
  if key == "lr" and torch.is_tensor(v) and v:numel() == 1 then v = v:item() end
  if type(v) ~= "number" or v < least or v ~= v then
    error(("%s: %s must be a number of at least %s, not %s"):format(name, key, tostring(least), type(v) == "string" and ("the string %q"):format(v) or tostring(v)), 5, "value")
  end
end

---Raises unless an option is a number from 0 to below (or up to) 1.
function base.fraction(group, name, key, closed)
  local v = group[key]
  if type(v) ~= "number" or v ~= v or v < 0 or v > 1 or (v == 1 and not closed) then
    error(("%s: %s must be a number in [0, 1%s, not %s"):format(name, key, closed and "]" or ")", tostring(v)), 5, "value")
  end
end

---Raises unless betas are two numbers in [0, 1).
function base.betas(group, name)
  local b = group.betas
  if type(b) ~= "table" or type(b[1]) ~= "number" or type(b[2]) ~= "number" or b[1] < 0 or b[1] >= 1 or b[2] < 0 or b[2] >= 1 then
    error(name .. ": betas must be two numbers in [0, 1), as in {0.9, 0.999}", 5, "value")
  end
end

---Counts the step of each parameter and sorts them by it: those that joined at different times go apart.
---`visit(step, params, grads, states...)` gets the lists of `fields` of the state.
---@param visit function
---@param fields string[]
function base.each_step(self, group, fresh, fields, visit)
  if torch.cuda._capturing() then
    error(self._name .. ": counts its steps on the host, which a CUDA graph does not see; "
      .. "capture forward and backward, and take the step after each replay", 0, "value")
  end
  local params, grads, states, n = base.active(self, group, fresh)
  local by_step, order = {}, {}
  for i = 1, n do
    local s = states[i]
    local step = s.step + 1
    s.step = step
    local l = by_step[step]
    if not l then
      l = {{}, {}}
      for k = 1, #fields do l[k + 2] = {} end
      by_step[step] = l
      order[#order + 1] = step
    end
    local at = #l[1] + 1
    l[1][at], l[2][at] = params[i], grads[i]
    for k = 1, #fields do l[k + 2][at] = s[fields[k]] end
  end
  for _, step in ipairs(order) do visit(step, table.unpack(by_step[step], 1, #fields + 2)) end
end

---Weight decay as the fused steps take it: what is added to the gradient, and the factor of the weights.
function base.decays(g)
  if g.decoupled_weight_decay then return 0, 1 - g.lr * g.weight_decay end
  return g.weight_decay, 1
end

base.new_class, base.describe = class, describe
return base
