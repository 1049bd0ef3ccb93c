-- The group `grad_scaler`: traces of torch.amp.GradScaler, on the CPU and on a simulated device.
local compare = require "compare"
local data = require "data"
local json = require "json"
local reader = require "reader"
local values = require "values"
local torch = torch
local group = {}

local function near(got, want, what)
  local why = compare.values(got, values.float(want))
  return why and what .. ": " .. why
end

local function trace(row, device)
  local options = {}
  for k, v in pairs(row.options) do options[k] = v end
  local scaler = torch.amp.GradScaler(device, options)
  local p = torch.tensor(row.start, {dtype = "float32", device = device}):requires_grad_()
  local opt = torch.optim.SGD({p}, {lr = row.lr})
  local clip = row.clip_norm ~= json.null and row.clip_norm
  for s, t in ipairs(row.trace) do
    local at = "step " .. s .. ", "
    local why = near(scaler:get_scale(), t.scale_before, at .. "scale before")
      or near(scaler:scale(torch.ones({}, {device = device})):item(), t.scaled_one, at .. "scaled one")
    if why then return why end
    opt:zero_grad()
    scaler:scale((p * torch.tensor(t.gradient_before_scaling, {dtype = "float32", device = device})):sum()):backward()
    if t.found_inf then torch.no_grad(function() p.grad[2] = math.huge end) end
    if clip then
      scaler:unscale_(opt)
      if t.unscaled then
        for i, v in ipairs(t.unscaled) do
          why = near(p.grad[i]:item(), v, at .. "unscaled")
          if why then return why end
        end
      end
      if not torch.nn.utils then error("missing nn.utils.clip_grad_norm_", 0) end
      why = near(torch.nn.utils.clip_grad_norm_({p}, clip):item(), t.norm, at .. "norm")
      if why then return why end
    end
    local before = opt._steps or 0
    scaler:step(opt)
    if ((opt._steps or 0) > before) ~= t.step_taken then return at .. "step taken: " .. tostring(not t.step_taken) end
    scaler:update()
    for i, v in ipairs(t.param_after) do
      why = math.abs(p[i]:item() - v) > 1e-6 and ("%sparameter %d is %.9g, expected %.9g"):format(at, i, p[i]:item(), v)
      if why then return why end
    end
    why = near(scaler:get_scale(), t.scale_after, at .. "scale after")
    if why then return why end
    if t.growth_tracker ~= json.null and t.growth_tracker ~= scaler:state_dict()._growth_tracker then return at .. "growth tracker" end
    -- The state moves to a new scaler on the way.
    if s == 2 then
      local saved = scaler:state_dict()
      scaler = torch.amp.GradScaler(device, options)
      scaler:load_state_dict(saved)
    end
  end
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/grad_scaler.json")
  if torch.cuda.device_count() == 0 then torch.cuda.simulate(1) end
  for _, row in ipairs(rows.traces) do
    data.row(report, row.id, trace, row, "cpu")
    data.row(report, row.id .. ":cuda", trace, row, "cuda")
  end
  data.row(report, "scaler:defaults:options", function()
    local s = torch.cuda.amp.GradScaler()
    local state = s:state_dict()
    return near(s:get_scale(), rows.defaults.init_scale, "init_scale") or near(state.growth_factor, rows.defaults.growth_factor, "growth_factor")
      or near(state.backoff_factor, rows.defaults.backoff_factor, "backoff_factor") or near(state.growth_interval, rows.defaults.growth_interval, "growth_interval")
  end)
end

return group
