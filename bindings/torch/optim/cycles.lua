-- Schedules that go up and down, with the momentum against them: OneCycleLR and CyclicLR.
local torch = torch
local error = torch._raise
local schedules = require "torch.optim.lr_scheduler"

local function one_of(name, key, v, ...)
  for _, word in ipairs {...} do
    if v == word then return end
  end
  error(('%s: %s must be "%s", not %s'):format(name, key, table.concat({...}, '" or "'), tostring(v)), 5, "value")
end

-- One value for every group, from a number or a list.
local function each_group(name, key, optimizer, v)
  local groups, out = optimizer.param_groups, {}
  if type(v) == "table" and #v ~= #groups then
    error(("%s: %s has %d values, the optimiser %d groups"):format(name, key, #v, #groups), 5, "value")
  end
  for i in ipairs(groups) do
    out[i] = type(v) == "table" and v[i] or v
    schedules._checks.number(name, key, out[i])
  end
  return out
end

local function needs_momentum(name, group)
  if group.betas == nil and group.momentum == nil then
    error(name .. ": the optimiser has no momentum to cycle; give cycle_momentum = false", 5, "value")
  end
end
local function set_momentum(group, m)
  if group.betas then group.betas = {m, table.unpack(group.betas, 2)} else group.momentum = m end
end

-- --- OneCycleLR (Smith and Topin 2019) ---

local function anneal(strategy, from, to, part)
  if strategy == "linear" then return (to - from) * part + from end
  return to + (from - to) / 2.0 * (1 + math.cos(math.pi * part))
end

-- Each phase: its last step, then the group's fields where rate and momentum begin and end.
local function phases_of(self)
  local n, up = self.total_steps, self.pct_start
  if self.three_phase then
    return {
      {up * n - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"},
      {2 * up * n - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"},
      {n - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"},
    }
  end
  return {
    {up * n - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"},
    {n - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"},
  }
end

local none = torch.none
schedules._class("OneCycleLR", {
  options = {{"max_lr"}, {"total_steps", none, "count"}, {"epochs", none, "count"}, {"steps_per_epoch", none, "count"},
    {"pct_start", 0.3, "number"}, {"anneal_strategy", "cos"}, {"cycle_momentum", true}, {"base_momentum", 0.85},
    {"max_momentum", 0.95}, {"div_factor", 25.0, "number"}, {"final_div_factor", 1e4, "number"}, {"three_phase", false}},
  init = function(self)
    one_of("OneCycleLR", "anneal_strategy", self.anneal_strategy, "cos", "linear")
    if not self.total_steps then
      if not (self.epochs and self.steps_per_epoch) then
        error("OneCycleLR: wants total_steps, or epochs and steps_per_epoch", 4)
      end
      self.total_steps = self.epochs * self.steps_per_epoch
    end
    if self.pct_start < 0 or self.pct_start > 1 then
      error(("OneCycleLR: pct_start must be between 0 and 1, not %s"):format(tostring(self.pct_start)), 4, "value")
    end
    if self.last_epoch ~= -1 then return end
    local highest = each_group("OneCycleLR", "max_lr", self.optimizer, self.max_lr)
    local low = each_group("OneCycleLR", "base_momentum", self.optimizer, self.base_momentum)
    local high = each_group("OneCycleLR", "max_momentum", self.optimizer, self.max_momentum)
    for i, g in ipairs(self.optimizer.param_groups) do
      g.initial_lr, g.max_lr = highest[i] / self.div_factor, highest[i]
      g.min_lr = g.initial_lr / self.final_div_factor
      if self.cycle_momentum then
        needs_momentum("OneCycleLR", g)
        set_momentum(g, high[i])
        g.max_momentum, g.base_momentum = high[i], low[i]
      end
    end
  end,
  chain = function(self, _, g)
    local step, start = self.last_epoch, 0
    if step > self.total_steps then
      error(("OneCycleLR: step %d of a schedule of %d steps"):format(step, self.total_steps), 4, "value")
    end
    local phases = phases_of(self)
    for i, phase in ipairs(phases) do
      if step <= phase[1] or i == #phases then
        local part = (step - start) / (phase[1] - start)
        if self.cycle_momentum then set_momentum(g, anneal(self.anneal_strategy, g[phase[4]], g[phase[5]], part)) end
        return anneal(self.anneal_strategy, g[phase[2]], g[phase[3]], part)
      end
      start = phase[1]
    end
  end,
})

-- --- CyclicLR (Smith 2017) ---

-- How high cycle c (or iteration i) goes.
local function height(self, cycle)
  if self.scale_fn then return self.scale_fn(self.scale_mode == "cycle" and cycle or self.last_epoch) end
  if self.mode == "triangular2" then return 1 / 2.0 ^ (cycle - 1) end
  if self.mode == "exp_range" then return self.gamma ^ self.last_epoch end
  return 1.0
end

schedules._class("CyclicLR", {
  save = function(_, out) out._scale_fn_custom = torch.none end,  -- PyTorch looks for its function there
  options = {{"base_lr"}, {"max_lr"}, {"step_size_up", 2000, "count"}, {"step_size_down", none, "count"}, {"mode", "triangular"},
    {"gamma", 1.0, "number"}, {"scale_fn", none, "function"}, {"scale_mode", "cycle"}, {"cycle_momentum", true},
    {"base_momentum", 0.8}, {"max_momentum", 0.9}},
  init = function(self)
    if not self.scale_fn then one_of("CyclicLR", "mode", self.mode, "triangular", "triangular2", "exp_range") end
    one_of("CyclicLR", "scale_mode", self.scale_mode, "cycle", "iterations")
    local optimizer = self.optimizer
    self.step_size_down = self.step_size_down or self.step_size_up
    self.max_lrs = each_group("CyclicLR", "max_lr", optimizer, self.max_lr)
    self.base_momentums = each_group("CyclicLR", "base_momentum", optimizer, self.base_momentum)
    self.max_momentums = each_group("CyclicLR", "max_momentum", optimizer, self.max_momentum)
    local lowest = each_group("CyclicLR", "base_lr", optimizer, self.base_lr)
    for i, g in ipairs(optimizer.param_groups) do
      if self.cycle_momentum then needs_momentum("CyclicLR", g) end
      if self.last_epoch == -1 then
        g.lr = lowest[i]
        if self.cycle_momentum then set_momentum(g, self.max_momentums[i]) end
      end
    end
    return lowest
  end,
  closed = function(self, base, epoch, i)
    local total = self.step_size_up + self.step_size_down
    local ratio = self.step_size_up / total
    local cycle = math.floor(1 + epoch / total)
    local x = 1.0 + epoch / total - cycle
    local part = x <= ratio and x / ratio or (x - 1) / (ratio - 1)
    local up = height(self, cycle)
    if self.cycle_momentum then
      local high = self.max_momentums[i]
      set_momentum(self.optimizer.param_groups[i], high - (high - self.base_momentums[i]) * part * up)
    end
    return base + (self.max_lrs[i] - base) * part * up
  end,
})

return schedules
