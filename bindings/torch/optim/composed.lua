-- Schedules made of schedules (SequentialLR, ChainedScheduler), and the one that watches a number
-- (ReduceLROnPlateau).
local torch = torch
local error = torch._raise
local schedules = require "torch.optim.lr_scheduler"
local Scheduler = schedules.LRScheduler

local function class(name, make)
  local c = setmetatable({_name = name, __name = name}, {__index = Scheduler})
  c.__index = c
  c.__tostring = function(self) return ("%s (epoch %d)"):format(name, self.last_epoch or 0) end
  schedules[name] = setmetatable(c, {
    __index = Scheduler,
    __name = name,
    __call = function(_, ...)
      local self = setmetatable({}, c)
      make(self, ...)
      return self
    end,
  })
  return c
end

local function check_list(name, list, optimizer)
  if type(list) ~= "table" or #list == 0 then error(name .. ": wants a list of schedules", 4) end
  for i, s in ipairs(list) do
    if type(s) ~= "table" or type(s.step) ~= "function" then error(("%s: item %d is no schedule"):format(name, i), 4) end
    if optimizer and s.optimizer ~= optimizer then
      error(("%s: schedule %d belongs to another optimiser"):format(name, i), 4, "value")
    end
  end
end

local function rates_of(optimizer)
  local out = {}
  for i, g in ipairs(optimizer.param_groups) do out[i] = g.lr end
  return out
end

-- Saving a list of schedules: each one's own state.
local function save_list(self)
  local out = {_schedulers = {}}
  for k, v in pairs(self) do
    if k ~= "optimizer" and k ~= "_schedulers" then out[k] = type(v) == "table" and {table.unpack(v)} or v end
  end
  for i, s in ipairs(self._schedulers) do out._schedulers[i] = s:state_dict() end
  return out
end
local function load_list(self, saved)
  if type(saved) ~= "table" or #(saved._schedulers or {}) ~= #self._schedulers then
    error(("load_state_dict: %d schedules were saved, here are %d"):format(#(type(saved) == "table" and saved._schedulers or {}), #self._schedulers), 3)
  end
  for k, v in pairs(saved) do
    if k ~= "_schedulers" then self[k] = type(v) == "table" and {table.unpack(v)} or v end
  end
  for i, s in ipairs(self._schedulers) do s:load_state_dict(saved._schedulers[i]) end
end

-- --- SequentialLR ---

-- Takes back the step that making a schedule did.
local function undo(s)
  for _, inner in ipairs(s._schedulers or {}) do undo(inner) end
  if not s._schedulers then s.last_epoch = s.last_epoch - 1 end
end

local sequential = class("SequentialLR", function(self, optimizer, list, milestones, last_epoch)
  schedules._check_optimizer("SequentialLR", optimizer)
  if type(list) == "table" and list.schedulers then list, milestones, last_epoch = list.schedulers, list.milestones, list.last_epoch end
  if type(milestones) == "table" and milestones.milestones then milestones = milestones.milestones end
  check_list("SequentialLR", list, optimizer)
  if type(milestones) ~= "table" or #milestones ~= #list - 1 then
    error(("SequentialLR: %d schedules want %d milestones, not %s"):format(#list, #list - 1,
      type(milestones) == "table" and tostring(#milestones) or tostring(milestones)), 3, "value")
  end
  self.optimizer, self._schedulers, self._milestones = optimizer, list, {table.unpack(milestones)}
  self.last_epoch = (last_epoch or -1) + 1
  for _, g in ipairs(optimizer.param_groups) do g.lr = g.initial_lr end
  for _, s in ipairs(list) do undo(s) end
  self:_restart(list[1])
  self._last_lr = rates_of(optimizer)
end)

-- The first step of a schedule, again.
function sequential:_restart(s)
  if s._schedulers then
    for _, inner in ipairs(getmetatable(s) == sequential and {s._schedulers[1]} or s._schedulers) do self:_restart(inner) end
    return
  end
  s._step_count = 0
  s:_advance()
end

function sequential:step()
  self.last_epoch = self.last_epoch + 1
  local at = 1
  while self._milestones[at] and self._milestones[at] <= self.last_epoch do at = at + 1 end
  local s = self._schedulers[at]
  if at > 1 and self._milestones[at - 1] == self.last_epoch then s:step(0) else s:step() end
  self._last_lr = rates_of(self.optimizer)
end
sequential.state_dict, sequential.load_state_dict = save_list, load_list

-- --- ChainedScheduler ---

local chained = class("ChainedScheduler", function(self, list, optimizer)
  if type(list) == "table" and list.schedulers then list, optimizer = list.schedulers, list.optimizer end
  if type(list) == "table" and list[1] and type(list[1]) == "table" then optimizer = optimizer or list[1].optimizer end
  check_list("ChainedScheduler", list, optimizer)
  self.optimizer, self._schedulers = optimizer, list
  self._last_lr = rates_of(optimizer)
end)
function chained:step()
  for _, s in ipairs(self._schedulers) do s:step() end
  self._last_lr = rates_of(self.optimizer)
end
chained.state_dict, chained.load_state_dict = save_list, load_list

-- --- ReduceLROnPlateau ---

local plateau_options = {{"mode", "min"}, {"factor", 0.1, "number"}, {"patience", 10, "number"}, {"threshold", 1e-4, "number"},
  {"threshold_mode", "rel"}, {"cooldown", 0, "number"}, {"min_lr", 0}, {"eps", 1e-8, "number"}}

local plateau = class("ReduceLROnPlateau", function(self, optimizer, ...)
  schedules._check_optimizer("ReduceLROnPlateau", optimizer)
  for k, v in pairs(schedules._read_options("ReduceLROnPlateau", {options = plateau_options}, ...)) do self[k] = v end
  if self.factor >= 1 then error(("ReduceLROnPlateau: factor must be below 1, not %s"):format(tostring(self.factor)), 3, "value") end
  if self.mode ~= "min" and self.mode ~= "max" then error('ReduceLROnPlateau: mode is "min" or "max", not ' .. tostring(self.mode), 3, "value") end
  if self.threshold_mode ~= "rel" and self.threshold_mode ~= "abs" then
    error('ReduceLROnPlateau: threshold_mode is "rel" or "abs", not ' .. tostring(self.threshold_mode), 3, "value")
  end
  self.optimizer = optimizer
  if type(self.min_lr) == "table" and #self.min_lr ~= #optimizer.param_groups then
    error(("ReduceLROnPlateau: min_lr has %d values, the optimiser %d groups"):format(#self.min_lr, #optimizer.param_groups), 3, "value")
  end
  self.last_epoch, self.cooldown_counter, self.num_bad_epochs = 0, 0, 0
  self.best = self.mode == "min" and math.huge or -math.huge
  self._last_lr = rates_of(optimizer)
end)

local function better(self, a)
  local margin = self.threshold_mode == "rel" and self.best * self.threshold or self.threshold
  -- An infinite best is beaten by every number.
  if self.best == math.huge or self.best == -math.huge then return a == a and a ~= self.best end
  if self.mode == "min" then return a < self.best - margin end
  return a > self.best + margin
end

---One epoch is done with this number (a loss, an accuracy): the rates fall when it no longer gets better.
---@param metrics number
function plateau:step(metrics)
  if torch.is_tensor(metrics) then metrics = metrics:item() end
  if type(metrics) ~= "number" then error("ReduceLROnPlateau: step wants the number it watches: scheduler:step(loss)", 2) end
  self.last_epoch = self.last_epoch + 1
  if better(self, metrics) then
    self.best, self.num_bad_epochs = metrics, 0
  else
    self.num_bad_epochs = self.num_bad_epochs + 1
  end
  if self.cooldown_counter > 0 then
    self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
  end
  if self.num_bad_epochs > self.patience then
    for i, g in ipairs(self.optimizer.param_groups) do
      local rate = math.max(g.lr * self.factor, type(self.min_lr) == "table" and self.min_lr[i] or self.min_lr)
      if g.lr - rate > self.eps then g.lr = rate end
    end
    self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
  end
  self._last_lr = rates_of(self.optimizer)
end

return schedules
