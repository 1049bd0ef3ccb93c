-- The group `lr_scheduler`: the rate (and the momentum where it cycles) before each step.
local data = require "data"
local reader = require "reader"
local values = require "values"
local option = require("groups.optim").option
local torch = torch
local group = {}

-- A formula in `epoch` as a function.
local function formula(text)
  return assert(load("local epoch = ... return " .. text))
end

local function make(name, optimizer, options, nested)
  local class = torch.optim.lr_scheduler[name]
  if not class then error("missing lr_scheduler." .. name, 0) end
  local named = option(options)
  if named.lr_lambda then named.lr_lambda = formula(named.lr_lambda) end
  if not nested then return class(optimizer, named) end
  local list = {}
  for i, one in ipairs(nested) do list[i] = make(one.scheduler, optimizer, one.options, one.schedulers) end
  if name == "ChainedScheduler" then return class(list, optimizer) end
  named.schedulers = list
  return class(optimizer, named)
end

local function same(optimizer, want, key, where)
  want = type(want) == "table" and want or {want}
  for i, v in ipairs(want) do
    local got = optimizer.param_groups[i][key]
    if key == "momentum" and optimizer.param_groups[i].betas then got = optimizer.param_groups[i].betas[1] end
    if math.abs(got - values.float(v)) > 1e-12 * math.max(1, math.abs(v)) then
      return ("%s %d of group %d is %.17g, expected %.17g"):format(key, where, i, got, v)
    end
  end
end

local function schedule(row, reload)
  local bases = type(row.base_lr) == "table" and row.base_lr or {row.base_lr}
  local groups = {}
  for i, lr in ipairs(bases) do
    groups[i] = {params = {torch.zeros(1):requires_grad_()}, lr = lr}
  end
  local optimizer = torch.optim.SGD(groups, {lr = bases[1], momentum = row.momentum and 0.9 or 0})
  local scheduler = make(row.scheduler, optimizer, row.options, row.schedulers)
  if row.losses then
    for s, loss in ipairs(row.losses) do
      optimizer:step()
      scheduler:step(values.float(loss))
      local why = same(optimizer, row.lrs_after_each[s], "lr", s)
      if why then return why end
    end
    return nil
  end
  for s, lr in ipairs(row.lrs) do
    local why = same(optimizer, lr, "lr", s) or (row.momentum and same(optimizer, row.momentum[s], "momentum", s))
    if why then return why end
    optimizer:step()
    scheduler:step()
    if reload and s == 4 then
      local saved, state = scheduler:state_dict(), optimizer:state_dict()
      scheduler = make(row.scheduler, optimizer, row.options, row.schedulers)
      optimizer:load_state_dict(state)
      scheduler:load_state_dict(saved)
    end
  end
end

function group.run(folder, _, report)
  for _, row in ipairs(reader.read_json(folder .. "/semantics/lr_scheduler.json").schedules) do
    data.row(report, row.id, schedule, row)
    data.row(report, row.id .. ":state_dict", schedule, row, true)
  end
end

return group
