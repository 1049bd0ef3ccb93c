-- The group `optim`: eight steps of every optimiser with given gradients, LBFGS on two objectives, and clipping.
local compare = require "compare"
local data = require "data"
local json = require "json"
local reader = require "reader"
local values = require "values"
local torch = torch
local group = {}

-- Nested numbers as a float64 tensor.
local function tensor(list, shape)
  local flat = {}
  local function walk(v)
    if type(v) == "table" then
      for _, one in ipairs(v) do walk(one) end
    else
      flat[#flat + 1] = values.float(v)
    end
  end
  walk(list)
  local x = torch.tensor(flat, {dtype = "float64"})
  return shape and x:reshape(shape) or x
end

local function close(got, want, what)
  local why = compare.tensors(got:detach(), want, {atol = 1e-7})
  return why and what .. ": " .. why
end

-- An option as Lua has it; null is nil.
local function option(v)
  if v == json.null then return nil end
  if type(v) ~= "table" then return v end
  local out = {}
  for k, one in pairs(v) do out[k] = option(one) end
  return out
end
group.option = option

local function make(row, params)
  local class = torch.optim[row.optimizer]
  if not class then error("missing optim." .. row.optimizer, 0) end
  local list = params
  if row.groups then
    list = {}
    for i, g in ipairs(row.groups) do
      list[i] = {}
      for k, v in pairs(g) do if k ~= "params" then list[i][k] = option(v) end end
      list[i].params = {}
      for j, n in ipairs(g.params) do list[i].params[j] = params[n + 1] end
    end
  end
  return class(list, option(row.options))
end

-- In the middle the state goes through state_dict into a new optimiser.
local function trajectory(row, reload)
  local params = {}
  for i, block in ipairs(row.start) do params[i] = data.tensor(block):requires_grad_() end
  local opt = make(row, params)
  for name, v in pairs(row.defaults) do
    local why = compare.values(opt.defaults[name], option(v))
    if why and not (type(v) == "number" and opt.defaults[name] == v) then return ("default %s: %s"):format(name, why) end
  end
  for s, grads in ipairs(row.grads) do
    for i, p in ipairs(params) do
      p.grad = grads[i] ~= json.null and grads[i] ~= nil and tensor(grads[i], p.shape) or nil
    end
    opt:step()
    for i, p in ipairs(params) do
      local why = close(p, tensor(row.after[s][i], p.shape), ("step %d, parameter %d"):format(s, i))
      if why then return why end
    end
    if reload and s == 4 then
      local saved = opt:state_dict()
      opt = make(row, params)
      opt:load_state_dict(saved)
    end
  end
  local state = opt:state_dict().state
  for number, fields in pairs(row.state) do
    for name, block in pairs(fields) do
      local got = (state[math.tointeger(tonumber(number))] or {})[name]
      if block ~= json.null and type(block) == "table" and block.dtype then
        if got == nil then return ("state %s of %s is missing"):format(name, number) end
        local why = close(got, data.tensor(block), ("state %s of %s"):format(name, number))
        if why then return why end
      end
    end
  end
end

local function objective(o)
  if o.kind == "quadratic" then
    local a, b = tensor(o.A, {#o.A, #o.A}), tensor(o.b)
    return function(x) return 0.5 * x:dot(a:mv(x)) - b:dot(x) end
  end
  return function(x) return (1 - x[1]) ^ 2 + 100 * (x[2] - x[1] ^ 2) ^ 2 end
end

local function lbfgs(row)
  if not torch.optim.LBFGS then error("missing optim.LBFGS", 0) end
  local x = tensor(row.start):requires_grad_()
  local f, opt = objective(row.objective), torch.optim.LBFGS({x}, option(row.options))
  for s, loss in ipairs(row.returned_loss) do
    local calls = 0
    local got = opt:step(function()
      calls = calls + 1
      opt:zero_grad()
      local y = f(x)
      y:backward()
      return y
    end)
    local why = compare.values(got:item(), values.float(loss))
    if why then return ("loss of step %d: %s"):format(s, why) end
    why = close(x, tensor(row.after[s]), "step " .. s)
    if why then return why end
    if calls ~= row.closure_calls[s] then return ("step %d calls the closure %d times, expected %d"):format(s, calls, row.closure_calls[s]) end
  end
end

local function clip(row)
  local utils = torch.nn.utils
  if not (utils and utils[row.fn]) then error("missing nn.utils." .. row.fn, 0) end
  local params = {}
  for i, g in ipairs(row.grads) do
    params[i] = torch.zeros(#g, {dtype = "float64"}):requires_grad_()
    params[i].grad = tensor(g)
  end
  local named = row.norm_type and {norm_type = values.float(row.norm_type)} or nil
  local total = utils[row.fn](params, row.limit, named)
  if row.total_norm then
    local why = compare.values(total:item(), values.float(row.total_norm))
    if why then return "total norm: " .. why end
  end
  for i, want in ipairs(row.clipped) do
    local why = close(params[i].grad, tensor(want), "gradient " .. i)
    if why then return why end
  end
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/optim.json")
  for _, row in ipairs(rows.optimizers) do
    data.row(report, row.id, trajectory, row)
    data.row(report, row.id .. ":state_dict", trajectory, row, true)
  end
  for _, row in ipairs(rows.lbfgs) do data.row(report, row.id, lbfgs, row) end
  for _, row in ipairs(rows.clip) do data.row(report, row.id, clip, row) end
end

return group
