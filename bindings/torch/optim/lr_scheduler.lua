-- torch.optim.lr_scheduler: schedules that change the groups' rates as training goes on. Epochs and
-- milestones are counts of scheduler steps done, from 0. A schedule computes either the next rates
-- from the current ones (`chain`) or the rates of an epoch (`closed`).
local torch = torch
local error = torch._raise
local schedules = {}

local Scheduler = {}
Scheduler.__index = Scheduler
schedules.LRScheduler = Scheduler

local function wrong(name, key, wants, v) error(("%s: %s must be %s, not %s"):format(name, key, wants, tostring(v)), 5, "value") end

---Checks used by the schedules' rows: raise unless an option fits.
local checks = {}
function checks.count(name, key, v)
  if type(v) ~= "number" or not math.tointeger(v) or v < 1 then wrong(name, key, "an integer from 1", v) end
end
function checks.number(name, key, v)
  if type(v) ~= "number" or v ~= v then wrong(name, key, "a number", v) end
end
checks["function"] = function(name, key, v)
  for _, f in ipairs(type(v) == "table" and v or {v}) do
    local meta = getmetatable(f)
    if type(f) ~= "function" and not (meta and meta.__call) then wrong(name, key, "a function of the epoch, or a list of them", f) end
  end
  if v == nil then wrong(name, key, "a function of the epoch", v) end
end
function checks.list(name, key, v)
  if type(v) ~= "table" then wrong(name, key, "a list of epochs, as in {30, 80}", v) end
end
schedules._checks = checks

-- Options from the arguments: positional ones by the row's order, and a last table of named ones.
local function read_options(name, row, ...)
  local given, n = {...}, select("#", ...)
  local options, known = {}, {}
  for _, o in ipairs(row.options) do known[o[1]] = o end
  local last = given[n]
  if type(last) == "table" and getmetatable(last) == nil and (next(last) == nil or type((next(last))) == "string") then
    n = n - 1
    for k, v in pairs(last) do
      if k ~= "last_epoch" and k ~= "verbose" and not known[k] then
        local names = {}
        for _, o in ipairs(row.options) do names[#names + 1] = o[1] end
        error(('%s: no argument "%s" (it has: %s)'):format(name, tostring(k), table.concat(names, ", ")), 4)
      end
      options[k] = v
    end
  end
  for i = 1, n do
    local o = row.options[i]
    if not o then error(("%s: takes at most %d arguments after the optimiser"):format(name, #row.options), 4) end
    if given[i] ~= nil then options[o[1]] = given[i] end
  end
  for _, o in ipairs(row.options) do
    local key, default, check = o[1], o[2], o[3]
    if options[key] == torch.none then options[key] = nil end
    if options[key] == nil then
      if default == nil then error(('%s: wants the argument "%s"'):format(name, key), 4) end
      if default ~= torch.none then options[key] = default end
    end
    if check and options[key] ~= nil then checks[check](name, key, options[key]) end
  end
  return options
end
schedules._read_options = read_options

function schedules._check_optimizer(name, optimizer)
  if type(optimizer) ~= "table" or type(optimizer.param_groups) ~= "table" then
    error(name .. ": the first argument is the optimiser whose rates it sets", 4)
  end
end

-- Sets the rates and remembers them.
local function set_rates(self, rates)
  self._last_lr = {}
  for i, g in ipairs(self.optimizer.param_groups) do
    if rates[i] then g.lr = rates[i] end
    self._last_lr[i] = g.lr
  end
end

---A class of schedules. row: options = {{name, default or nil, check}, ...}; chain(self, lr, group, i) with
---at(self, base_lr, epoch, i) for jumps, or closed(self, base_lr, epoch, i); init(self) may give base rates.
---@param name string
---@param row table
function schedules._class(name, row)
  local class = setmetatable({_name = name, __name = name, _row = row}, {__index = Scheduler})
  class.__index = class
  class.__tostring = function(self) return ("%s (epoch %d)"):format(name, self.last_epoch or 0) end
  local meta = {__index = Scheduler, __name = name}
  meta.__call = function(_, optimizer, ...)
    schedules._check_optimizer(name, optimizer)
    local self = setmetatable({optimizer = optimizer}, class)
    local options = read_options(name, row, ...)
    local last = options.last_epoch or -1
    options.last_epoch, options.verbose = nil, nil
    for k, v in pairs(options) do self[k] = v end
    self.last_epoch, self._step_count = last, 0
    local own = row.init and row.init(self)
    self.base_lrs = {}
    for i, g in ipairs(optimizer.param_groups) do
      if g.initial_lr == nil then
        if last ~= -1 then error(("%s: last_epoch resumes a schedule, but group %d has no initial_lr; load the optimiser's state first"):format(name, i), 3, "value") end
        g.initial_lr = g.lr
      end
      self.base_lrs[i] = own and own[i] or g.initial_lr
    end
    self:_advance()
    return self
  end
  schedules[name] = setmetatable(class, meta)
  return class
end

-- The rates of the current epoch.
function Scheduler:get_lr()
  local row, rates = self._row, {}
  for i, g in ipairs(self.optimizer.param_groups) do
    if row.closed then
      rates[i] = row.closed(self, self.base_lrs[i], self.last_epoch, i)
    else
      rates[i] = row.chain(self, g.lr, g, i)
    end
  end
  return rates
end

function Scheduler:_advance(epoch)
  self._step_count = self._step_count + 1
  if epoch == nil then
    self.last_epoch = self.last_epoch + 1
    set_rates(self, self:get_lr())
    return
  end
  -- To a given epoch: through the formula where there is one.
  self.last_epoch = epoch
  local row, rates = self._row, {}
  local f = row.closed or row.at
  if f then
    for i in ipairs(self.optimizer.param_groups) do rates[i] = f(self, self.base_lrs[i], epoch, i) end
  else
    rates = self:get_lr()
  end
  set_rates(self, rates)
end

---One epoch (or step, as the schedule counts) is done: sets the rates of the next. Comes after optimizer:step().
---@param epoch? integer
function Scheduler:step(epoch)
  if self._step_count == 1 and not self.optimizer._steps then
    require("torch.notes").tell("LRS", "order", {name = self._name})
  end
  self:_advance(epoch)
end

---The rates set last, one per group.
---@return number[]
function Scheduler:get_last_lr() return {table.unpack(self._last_lr)} end

-- What is saved: numbers, texts, booleans and lists of them; functions are not.
local function plain(v)
  if type(v) ~= "table" then return type(v) ~= "function" and type(v) ~= "userdata" and v or nil end
  if getmetatable(v) ~= nil then return nil end
  local out = {}
  for k, one in pairs(v) do
    local kept = plain(one)
    if one ~= false and kept == nil then return nil end
    out[k] = one == false and false or kept
  end
  return out
end

---What is needed to go on later; functions given to the schedule are not part of it.
---@return table
function Scheduler:state_dict()
  local out = {}
  for k, v in pairs(self) do
    if k ~= "optimizer" then
      if v == false then out[k] = false else out[k] = plain(v) end
    end
  end
  if self._row and self._row.save then self._row.save(self, out) end
  return out
end

---Takes over what state_dict gave, here or in PyTorch.
---@param saved table
function Scheduler:load_state_dict(saved)
  if type(saved) ~= "table" then error("load_state_dict: wants what state_dict() gives", 2) end
  if self._row and self._row.load then saved = self._row.load(saved) end
  for k, v in pairs(saved) do
    if k ~= "optimizer" then self[k] = plain(v) end
    if v == false then self[k] = false end
  end
end

local function per_group(self, v, i) return type(v) == "table" and getmetatable(v) == nil and v[i] or v end
local class = schedules._class

-- PyTorch looks for its list of functions in what it loads; functions themselves are not saved.
local function save_lambdas(self, out)
  out.lr_lambdas = {}
  for i in ipairs(self.optimizer.param_groups) do out.lr_lambdas[i] = torch.none end
end
local function without_lambdas(saved)
  local out = {}
  for k, v in pairs(saved) do
    if k ~= "lr_lambdas" then out[k] = v end
  end
  return out
end

class("LambdaLR", {
  save = save_lambdas, load = without_lambdas,
  options = {{"lr_lambda", nil, "function"}},
  closed = function(self, base, epoch, i) return base * per_group(self, self.lr_lambda, i)(epoch) end,
})

class("MultiplicativeLR", {
  save = save_lambdas, load = without_lambdas,
  options = {{"lr_lambda", nil, "function"}},
  chain = function(self, lr, _, i)
    if self.last_epoch > 0 then return lr * per_group(self, self.lr_lambda, i)(self.last_epoch) end
    return lr
  end,
})

class("StepLR", {
  options = {{"step_size", nil, "count"}, {"gamma", 0.1, "number"}},
  chain = function(self, lr)
    if self.last_epoch == 0 or self.last_epoch % self.step_size ~= 0 then return lr end
    return lr * self.gamma
  end,
  at = function(self, base, epoch) return base * self.gamma ^ (epoch // self.step_size) end,
})

class("MultiStepLR", {
  -- PyTorch keeps how often each epoch is in the list.
  save = function(self, out)
    out.milestones = torch._dict {}
    for _, m in ipairs(self.milestones) do out.milestones[m] = (out.milestones[m] or 0) + 1 end
  end,
  load = function(saved)
    local counts, list, out = saved.milestones, {}, {}
    if type(counts) ~= "table" or torch._is_list(counts) then return saved end
    for m, times in pairs(counts) do
      for _ = 1, times do list[#list + 1] = m end
    end
    table.sort(list)
    for k, v in pairs(saved) do out[k] = v end
    out.milestones = list
    return out
  end,
  options = {{"milestones", nil, "list"}, {"gamma", 0.1, "number"}},
  chain = function(self, lr)
    local times = 0
    for _, m in ipairs(self.milestones) do
      if m == self.last_epoch then times = times + 1 end
    end
    return times > 0 and lr * self.gamma ^ times or lr
  end,
  at = function(self, base, epoch)
    local times = 0
    for _, m in ipairs(self.milestones) do
      if m <= epoch then times = times + 1 end
    end
    return base * self.gamma ^ times
  end,
})

class("ConstantLR", {
  options = {{"factor", 1.0 / 3, "number"}, {"total_iters", 5, "number"}},
  init = function(self)
    if self.factor < 0 or self.factor > 1 then wrong("ConstantLR", "factor", "between 0 and 1", self.factor) end
  end,
  chain = function(self, lr)
    if self.last_epoch == 0 then return lr * self.factor end
    return self.last_epoch == self.total_iters and lr * (1.0 / self.factor) or lr
  end,
  at = function(self, base, epoch) return base * (epoch >= self.total_iters and 1 or self.factor) end,
})

class("LinearLR", {
  options = {{"start_factor", 1.0 / 3, "number"}, {"end_factor", 1.0, "number"}, {"total_iters", 5, "number"}},
  init = function(self)
    if self.start_factor <= 0 or self.start_factor > 1 then wrong("LinearLR", "start_factor", "above 0 and at most 1", self.start_factor) end
    if self.end_factor < 0 or self.end_factor > 1 then wrong("LinearLR", "end_factor", "between 0 and 1", self.end_factor) end
  end,
  chain = function(self, lr)
    if self.last_epoch == 0 then return lr * self.start_factor end
    if self.last_epoch > self.total_iters then return lr end
    local slope = self.end_factor - self.start_factor
    return lr * (1 + slope / (self.total_iters * self.start_factor + (self.last_epoch - 1) * slope))
  end,
  at = function(self, base, epoch)
    return base * (self.start_factor + (self.end_factor - self.start_factor) * math.min(self.total_iters, epoch) / self.total_iters)
  end,
})

class("ExponentialLR", {
  options = {{"gamma", nil, "number"}},
  chain = function(self, lr) return self.last_epoch == 0 and lr or lr * self.gamma end,
  at = function(self, base, epoch) return base * self.gamma ^ epoch end,
})

class("PolynomialLR", {
  options = {{"total_iters", 5, "number"}, {"power", 1.0, "number"}},
  chain = function(self, lr)
    local n = self.total_iters
    if self.last_epoch == 0 or self.last_epoch > n then return lr end
    return lr * ((1.0 - self.last_epoch / n) / (1.0 - (self.last_epoch - 1) / n)) ^ self.power
  end,
  at = function(self, base, epoch) return base * (1.0 - math.min(self.total_iters, epoch) / self.total_iters) ^ self.power end,
})

class("CosineAnnealingLR", {
  options = {{"T_max", nil, "number"}, {"eta_min", 0.0, "number"}},
  chain = function(self, lr, group)
    local t, n, least = self.last_epoch, self.T_max, self.eta_min
    if t == 0 then return lr end
    if self._step_count == 1 and t > 0 then
      return least + (group.initial_lr - least) * (1 + math.cos(t * math.pi / n)) / 2
    end
    if (t - 1 - n) % (2 * n) == 0 then return lr + (group.initial_lr - least) * (1 - math.cos(math.pi / n)) / 2 end
    return (1 + math.cos(math.pi * t / n)) / (1 + math.cos(math.pi * (t - 1) / n)) * (lr - least) + least
  end,
  at = function(self, base, epoch)
    return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2
  end,
})

local warm = class("CosineAnnealingWarmRestarts", {
  options = {{"T_0", nil, "count"}, {"T_mult", 1, "count"}, {"eta_min", 0.0, "number"}},
  init = function(self) self.T_i, self.T_cur = self.T_0, math.max(self.last_epoch, 0) end,
  closed = function(self, base) return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2 end,
})
-- The epoch may have a fraction: scheduler:step(epoch + batch / batches).
function warm:_advance(epoch)
  self._step_count = self._step_count + 1
  if epoch == nil and self.last_epoch < 0 then epoch = 0 end
  if epoch == nil then
    epoch = self.last_epoch + 1
    self.T_cur = self.T_cur + 1
    if self.T_cur >= self.T_i then self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult end
  else
    if epoch < 0 then error(("CosineAnnealingWarmRestarts: the epoch is 0 or more, not %s"):format(tostring(epoch)), 3, "value") end
    self.T_cur, self.T_i = epoch, self.T_0
    while self.T_cur >= self.T_i do self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult end
  end
  self.last_epoch = math.floor(epoch)
  set_rates(self, self:get_lr())
end

package.loaded["torch.optim.lr_scheduler"] = schedules
require "torch.optim.cycles"
require "torch.optim.composed"
return schedules
