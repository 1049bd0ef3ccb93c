-- torch.amp: mixed precision. autocast chooses the types of operations; GradScaler keeps float16
-- gradients from underflow: the loss is scaled up, gradients are scaled back before the step, and a
-- step with inf or nan in them is skipped and lowers the scale.
local torch = torch
local error = torch._raise
local amp = {autocast = torch.autocast}

local Scaler = {__name = "GradScaler", _name = "GradScaler"}
Scaler.__index = Scaler

local defaults = {init_scale = 65536.0, growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000, enabled = true}
local positions = {"init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"}

local function make(device, ...)
  local given = {device, ...}
  -- The device's name may come first; it decides nothing: a gradient is scaled where it is.
  if type(device) == "string" or type(device) == "userdata" then table.remove(given, 1) end
  local o = {}
  for i, v in ipairs(given) do
    if type(v) == "table" then
      for k, one in pairs(v) do
        if defaults[k] == nil and k ~= "device" and k ~= 1 then
          error(('GradScaler: no argument "%s" (it has: %s)'):format(tostring(k), table.concat(positions, ", ")), 3)
        end
        o[k] = one
      end
    else
      o[positions[i]] = v
    end
  end
  for k, v in pairs(defaults) do
    if o[k] == nil then o[k] = v end
  end
  for _, key in ipairs {"init_scale", "growth_factor", "backoff_factor", "growth_interval"} do
    if type(o[key]) ~= "number" then error(("GradScaler: %s must be a number, not %s"):format(key, tostring(o[key])), 3) end
  end
  if o.growth_factor <= 1 then error(("GradScaler: growth_factor must be above 1, not %s"):format(o.growth_factor), 3, "value") end
  if o.backoff_factor >= 1 or o.backoff_factor <= 0 then
    error(("GradScaler: backoff_factor must be between 0 and 1, not %s"):format(o.backoff_factor), 3, "value")
  end
  return setmetatable({_enabled = o.enabled, _scale = o.init_scale + 0.0, _growth_factor = o.growth_factor,
    _backoff_factor = o.backoff_factor, _growth_interval = o.growth_interval, _growth_tracker = 0,
    ---How many steps were left out because of inf or nan.
    skipped_steps = 0, _of = {}}, Scaler)
end
amp.GradScaler = setmetatable(Scaler, {__name = "GradScaler", __call = function(_, ...) return make(...) end})

Scaler.__tostring = function(self)
  if not self._enabled then return "GradScaler (not enabled)" end
  return ("GradScaler (scale = %g, %d good steps since it changed, %d steps skipped)"):format(self._scale, self._growth_tracker, self.skipped_steps)
end

-- What is known of an optimiser since the last update.
local function record_of(self, optimizer, name)
  if type(optimizer) ~= "table" or type(optimizer.param_groups) ~= "table" then
    error(name .. ": wants the optimiser", 3)
  end
  local r = self._of[optimizer]
  if not r then
    r = {stage = "ready"}
    self._of[optimizer] = r
  end
  return r
end

---The loss (or a list of outputs) times the scale.
---@param outputs torch.Tensor|table
function Scaler:scale(outputs)
  if not self._enabled then return outputs end
  if torch.is_tensor(outputs) then
    return outputs * torch.full({}, self._scale, {dtype = torch.float32, device = outputs.device})
  end
  if type(outputs) ~= "table" then error("scale: wants a tensor or a list of tensors, not a " .. type(outputs), 2) end
  local out = {}
  for i, x in ipairs(outputs) do out[i] = self:scale(x) end
  return out
end

-- The DistributedDataParallel that averages an optimiser's gradients: ranks skip a step together, also where the
-- optimiser has parameters of this rank alone.
local function averaged_by(optimizer)
  local parallel = package.loaded["torch.nn.parallel"]
  if not parallel or next(parallel._owner) == nil then return nil end
  for _, group in ipairs(optimizer.param_groups) do
    for _, p in ipairs(group.params) do
      if parallel._owner[p] then return parallel._owner[p] end
    end
  end
end

---Divides the gradients by the scale, before they are clipped or looked at; step does it otherwise.
---@param optimizer optim.Optimizer
function Scaler:unscale_(optimizer)
  if not self._enabled then return end
  local r = record_of(self, optimizer, "unscale_")
  if r.stage ~= "ready" then
    error(r.stage == "stepped" and "unscale_: comes before step" or
      "unscale_: the gradients were unscaled already; scaler:update() comes between", 2, "value")
  end
  -- One pass for the gradients of each device.
  local lists, devices, seen = {}, {}, false
  for _, group in ipairs(optimizer.param_groups) do
    for _, p in ipairs(group.params) do
      local g = p.grad
      if g then
        if g.dtype == torch.float16 then
          error("unscale_: float16 gradients cannot be unscaled in place; keep the parameters in float32 and use autocast", 2, "dtype")
        end
        local device = tostring(g.device)
        if not lists[device] then
          lists[device], devices[#devices + 1] = {}, device
        end
        lists[device][#lists[device] + 1] = g
        seen = true
      end
    end
  end
  r.found_inf = false
  for _, device in ipairs(devices) do
    if torch._fused_unscale(lists[device], 1 / self._scale):item() then r.found_inf = true end
  end
  local network = averaged_by(optimizer)
  if network then
    rawset(network, "scaler", self)
    r.found_inf = network.reducer:any_infinite(r.found_inf, self._scale)
  end
  r.stage, r.checked = "unscaled", seen
end

---The optimiser's step, unless a gradient holds inf or nan. Returns what the step does; nil when skipped.
---@param optimizer optim.Optimizer
function Scaler:step(optimizer, ...)
  if not self._enabled then return optimizer:step(...) end
  if type((...)) == "function" then error("step: no closure goes with a GradScaler", 2) end
  local r = record_of(self, optimizer, "step")
  if r.stage == "stepped" then error("step: was called already since the last update()", 2, "value") end
  if r.stage == "ready" then self:unscale_(optimizer) end
  if not r.checked then error("step: no parameter of the optimiser has a gradient; call backward on the scaled loss first", 2, "value") end
  r.stage = "stepped"
  if r.found_inf then
    self.skipped_steps = self.skipped_steps + 1
    optimizer._steps = optimizer._steps or 0
    return nil
  end
  return optimizer:step(...)
end

---After the steps: lowers the scale when one was skipped, raises it after growth_interval good ones.
---@param new_scale? number
function Scaler:update(new_scale)
  if not self._enabled then return end
  if new_scale ~= nil then
    if torch.is_tensor(new_scale) then new_scale = new_scale:item() end
    if type(new_scale) ~= "number" then error("update: new_scale must be a number, not a " .. type(new_scale), 2) end
    self._scale = new_scale + 0.0
  else
    local found, any = false, false
    for _, r in pairs(self._of) do
      found, any = found or r.found_inf or false, any or r.found_inf ~= nil
    end
    if not any then error("update: no step was taken since the last one", 2, "value") end
    if found then
      self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
    else
      self._growth_tracker = self._growth_tracker + 1
      if self._growth_tracker == self._growth_interval then
        local grown = self._scale * self._growth_factor
        if grown < 3.4028235e38 then self._scale = grown end
        self._growth_tracker = 0
      end
    end
  end
  self._of = {}
end

---The factor of the loss; 1 when not enabled.
---@return number
function Scaler:get_scale() return self._enabled and self._scale or 1.0 end
---@return boolean
function Scaler:is_enabled() return self._enabled end
function Scaler:get_growth_factor() return self._growth_factor end
function Scaler:set_growth_factor(v) self._growth_factor = v end
function Scaler:get_backoff_factor() return self._backoff_factor end
function Scaler:set_backoff_factor(v) self._backoff_factor = v end
function Scaler:get_growth_interval() return self._growth_interval end
function Scaler:set_growth_interval(v) self._growth_interval = v end

---The scale, its factors and the count of good steps; empty when not enabled.
---@return table
function Scaler:state_dict()
  if not self._enabled then return {} end
  return {scale = self._scale, growth_factor = self._growth_factor, backoff_factor = self._backoff_factor,
    growth_interval = self._growth_interval, _growth_tracker = self._growth_tracker}
end
---Takes over what state_dict gave.
---@param saved table
function Scaler:load_state_dict(saved)
  if not self._enabled then return end
  if type(saved) ~= "table" or type(saved.scale) ~= "number" then
    error("load_state_dict: wants the state of a scaler that was enabled", 2)
  end
  self._scale, self._growth_factor, self._backoff_factor = saved.scale, saved.growth_factor, saved.backoff_factor
  self._growth_interval, self._growth_tracker = saved.growth_interval, saved._growth_tracker
end

---PyTorch's older torch.cuda.amp: autocast(enabled) is that of CUDA devices.
function amp._of_cuda()
  local function autocast(options, f)
    if type(options) == "function" then options, f = nil, options end
    if type(options) == "boolean" then options = {enabled = options} end
    return torch.autocast("cuda", options or {}, f)
  end
  return setmetatable({autocast = autocast}, {__index = amp})
end

return torch._strict(amp, "torch.amp")
