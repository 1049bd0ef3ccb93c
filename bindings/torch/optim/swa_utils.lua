-- torch.optim.swa_utils: averages of a model's weights over the steps of its training. Equal ones are
-- SWA (Izmailov and others 2018), decaying ones EMA (Polyak averaging).
local torch = torch
local error = torch._raise
local schedules = require "torch.optim.lr_scheduler"
local nn = torch.nn
local swa = {}

local function decay_of(name, decay)
  if type(decay) == "table" then decay = decay.decay end
  decay = decay or 0.999
  if type(decay) ~= "number" or decay < 0 or decay > 1 then
    error(("%s: decay must be between 0 and 1, not %s"):format(name, tostring(decay)), 3, "value")
  end
  return decay
end

local function floating(x) return x:is_floating_point() end

---For AveragedModel's multi_avg_fn: each update moves the average by (1 - decay) of the way.
---@param decay? number 0.999 unless given
function swa.get_ema_multi_avg_fn(decay)
  decay = decay_of("get_ema_multi_avg_fn", decay)
  return function(averages, values)
    for i, a in ipairs(averages) do
      if floating(a) then a:lerp_(values[i]:to(a.dtype), 1 - decay) else a:copy_(values[i]) end
    end
  end
end
---For AveragedModel's multi_avg_fn: all updates count the same.
function swa.get_swa_multi_avg_fn()
  return function(averages, values, n)
    for i, a in ipairs(averages) do
      if floating(a) then a:lerp_(values[i]:to(a.dtype), 1 / (n + 1)) else a:add_((values[i] - a) // (n + 1)) end
    end
  end
end
---For AveragedModel's avg_fn: decay * average + (1 - decay) * value.
---@param decay? number 0.999 unless given
function swa.get_ema_avg_fn(decay)
  decay = decay_of("get_ema_avg_fn", decay)
  return function(average, value) return average * decay + value * (1 - decay) end
end
---For AveragedModel's avg_fn: average + (value - average) / (n + 1).
function swa.get_swa_avg_fn()
  return function(average, value, n) return average + (value - average) / (n + 1) end
end

---A copy of a model whose weights are averages of the model's at each update_parameters(model).
local Averaged = nn.class("AveragedModel")
swa.AveragedModel = Averaged

---@param model nn.Module
---@param options? {device: string, avg_fn: function, multi_avg_fn: function, use_buffers: boolean}
function Averaged:init(model, options)
  if type(model) ~= "table" or not model.named_parameters then error("AveragedModel: wants a module", 3) end
  if type(options) ~= "table" then options = {device = options} end
  for k in pairs(options) do
    if k ~= "device" and k ~= "avg_fn" and k ~= "multi_avg_fn" and k ~= "use_buffers" then
      error(('AveragedModel: no argument "%s" (it has: device, avg_fn, multi_avg_fn, use_buffers)'):format(tostring(k)), 3)
    end
  end
  if options.avg_fn and options.multi_avg_fn then error("AveragedModel: give avg_fn or multi_avg_fn, not both", 3) end
  self.module = model:clone()
  if options.device then self.module:to(options.device) end
  self:register_buffer("n_averaged", torch.tensor(0, {device = options.device}))
  rawset(self, "avg_fn", options.avg_fn)
  rawset(self, "multi_avg_fn", options.multi_avg_fn)
  rawset(self, "use_buffers", options.use_buffers or false)
end

function Averaged:forward(...) return self.module(...) end

-- Parameters, and buffers where they are averaged too.
local function tensors_of(module, buffers)
  local list = module:parameters()
  if buffers then
    for _, b in ipairs(module:buffers()) do list[#list + 1] = b end
  end
  return list
end

---Takes the model's present weights into the averages; the first time they are copied.
---@param model nn.Module
function Averaged:update_parameters(model)
  local averages, values = tensors_of(self.module, self.use_buffers), tensors_of(model, self.use_buffers)
  if #averages ~= #values then error("update_parameters: the model has other parameters than the one that was copied", 2, "shape") end
  torch.no_grad(function()
    local n = self.n_averaged:item()
    for i, a in ipairs(averages) do values[i] = values[i]:detach():to(a.device) end
    if n == 0 then
      for i, a in ipairs(averages) do a:copy_(values[i]) end
    elseif self.avg_fn then
      for i, a in ipairs(averages) do a:copy_(self.avg_fn(a:detach(), values[i], n)) end
    else
      (self.multi_avg_fn or swa.get_swa_multi_avg_fn())(averages, values, n)
    end
    if not self.use_buffers then
      local mine, theirs = self.module:buffers(), model:buffers()
      for i, b in ipairs(mine) do b:copy_(theirs[i]) end
    end
    self.n_averaged:add_(1)
  end)
end

-- Batches from a loader, a list or an iterator function.
local function each_batch(loader)
  if type(loader) == "function" then return loader end
  local meta = getmetatable(loader)
  if meta and meta.__call then return loader() end
  local i = 0
  return function()
    i = i + 1
    return loader[i]
  end
end

---Computes the running statistics of a model's batch norm layers anew, over a loader's batches.
---@param loader table the first value of each batch is the input
---@param model nn.Module
---@param device? string where inputs go first
function swa.update_bn(loader, model, device)
  local norms, momenta = {}, {}
  for _, m in ipairs(model:modules()) do
    if torch.is_tensor(m.running_mean) and torch.is_tensor(m.running_var) then
      norms[#norms + 1], momenta[#norms + 1] = m, m.momentum
      torch.no_grad(function()
        m.running_mean:zero_()
        m.running_var:fill_(1)
        if torch.is_tensor(m.num_batches_tracked) then m.num_batches_tracked:zero_() end
      end)
    end
  end
  if #norms == 0 then return end
  local was, trained = model.training, {}
  model:train()
  -- Training mode is meant here, so parameters are frozen where no_grad would be remarked on.
  for _, p in ipairs(model:parameters()) do
    if p.requires_grad then
      trained[#trained + 1] = p
      p.requires_grad = false
    end
  end
  local ok, why = pcall(function()
    local count = 0
    for x in each_batch(loader) do
      if type(x) == "table" and not torch.is_tensor(x) then x = x[1] end
      if device then x = x:to(device) end
      -- The average of all batches: each counts 1/n of what is there after it.
      count = count + 1
      for _, m in ipairs(norms) do rawset(m, "momentum", 1 / count) end
      model(x)
    end
  end)
  for i, m in ipairs(norms) do rawset(m, "momentum", momenta[i]) end
  for _, p in ipairs(trained) do p.requires_grad = true end
  model:train(was)
  if not ok then error(why, 0) end
end

-- --- SWALR ---

local function anneal(strategy, t) return strategy == "linear" and t or (1 - math.cos(math.pi * t)) / 2 end

schedules._class("SWALR", {
  options = {{"swa_lr"}, {"anneal_epochs", 10, "number"}, {"anneal_strategy", "cos"}},
  init = function(self)
    if self.anneal_strategy ~= "cos" and self.anneal_strategy ~= "linear" then
      error(('SWALR: anneal_strategy must be "cos" or "linear", not %s'):format(tostring(self.anneal_strategy)), 4, "value")
    end
    for i, g in ipairs(self.optimizer.param_groups) do
      g.swa_lr = type(self.swa_lr) == "table" and self.swa_lr[i] or self.swa_lr
      schedules._checks.number("SWALR", "swa_lr", g.swa_lr)
    end
  end,
  -- The rate between where it was and swa_lr; another schedule may have moved it in between.
  chain = function(self, lr, g)
    local step = self._step_count - 1
    if self.anneal_epochs == 0 then step = math.max(1, step) end
    local function part(s) return anneal(self.anneal_strategy, math.max(0, math.min(1, s / math.max(1, self.anneal_epochs)))) end
    local before, now = part(step - 1), part(step)
    local start = before == 1 and g.swa_lr or (lr - before * g.swa_lr) / (1 - before)
    return g.swa_lr * now + start * (1 - now)
  end,
})
swa.SWALR, schedules.SWALR = schedules.SWALR, nil

return swa
