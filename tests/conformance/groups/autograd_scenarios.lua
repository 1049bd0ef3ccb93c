-- The group `autograd_scenarios`: small programs of steps (let, do, scope, raises, expect) about gradients.
local compare = require "compare"
local data = require "data"
local json = require "json"
local reader = require "reader"
local resolve = require "resolve"
local values = require "values"
local torch = torch
local group = {}

-- Which positional arguments are positions (counted from 0 in the file), by function.
local positions = {
  select = {[2] = true, [3] = true}, transpose = {[2] = true, [3] = true}, index_select = {[2] = true, [3] = true},
  getitem = {[2] = true}, setitem = {[2] = true}, chunk = {[3] = true}, ["nn.functional.cross_entropy"] = {[2] = true},
  sum = {[2] = true}, mean = {[2] = true}, max = {[2] = true}, min = {[2] = true}, argmax = {[2] = true}, cat = {[2] = true},
  split = {[3] = true}, stack = {[2] = true}, prod = {[2] = true}, median = {[2] = true},
}

-- Which results are positions.
local position_results = {argmax = 1, argmin = 1, max = 2, min = 2, median = 2}

local verbs = {
  backward = function(x, g, named)
    if named then return x:backward(g, named) end
    return x:backward(g)
  end,
  getitem = function(x, i) return x[i] end,
  setitem = function(x, i, v) x[i] = v end,
  setattr = function(x, name, v) x[name] = v end,
  hook_scale = function(x, s) return x:register_hook(function(g) return g * s end) end,
  same_storage = function(a, b) return a:data_ptr() == b:data_ptr() end,
  is = function(a, b) return rawequal(a, b) end,
  alias = function(x) return x end,
}

local function value_of(v, vars)
  if v == json.null then return nil end
  if type(v) == "string" and v:sub(1, 1) == "$" then
    local at
    for part in v:sub(2):gmatch("[^.]+") do
      if at == nil then at = vars[part] else at = at[part] end
    end
    return at
  end
  if type(v) == "table" then
    if v.slice or v.ellipsis then return values.decode(v, "pyindex") end
    local out = {}
    for k, one in pairs(v) do out[k] = value_of(one, vars) end
    return out
  end
  return v
end

local function call(name, list, named, vars)
  local args = {n = #list}
  for i = 1, #list do
    local v = value_of(list[i], vars)
    local shifts = positions[name] and positions[name][i]
    if shifts and type(list[i]) == "table" and name:find("item$") then
      local index = {}
      for k, part in ipairs(list[i]) do index[k] = values.decode(part, "pyindex") end
      v = index
    elseif shifts then
      v = values.shift(v)
    end
    args[i] = v
  end
  if named and next(named) then
    local t = {}
    for k, v in pairs(named) do
      t[k] = value_of(v, vars)
      if k == "dim" then t[k] = values.shift(t[k]) end
    end
    args.n = args.n + 1
    args[args.n] = t
    if name == "backward" and args.n == 2 then return args[1]:backward(t) end
  end
  local f = verbs[name] or resolve.fn(name)
  if type(f) ~= "function" then
    f = resolve.method(name, args[1]) or error("missing " .. name, 0)
  end
  local out = table.pack(f(table.unpack(args, 1, args.n)))
  local at = position_results[name]
  if at and out[at] then out[at] = out[at] - 1 end
  return table.unpack(out, 1, out.n)
end

local run

local scopes = {
  no_grad = torch.no_grad, enable_grad = torch.enable_grad, inference_mode = torch.inference_mode,
  detect_anomaly = torch.autograd.detect_anomaly,
}

local function step(s, vars)
  local verb = s[1]
  if verb == "let" then
    local out = table.pack(call(s[3], s[4], s[5], vars))
    if type(s[2]) == "table" then
      if type(out[1]) == "table" and out.n == 1 then out = out[1] end
      for i, name in ipairs(s[2]) do vars[name] = out[i] end
    else
      vars[s[2]] = out[1]
    end
  elseif verb == "do" then
    call(s[2], s[3], s[4], vars)
  elseif verb == "scope" then
    local scope = scopes[s[2]] or error("missing scope " .. tostring(s[2]), 0)
    scope(function() run(s[3], vars) end)
  elseif verb == "raises" then
    local ok, err = pcall(step, s[2], vars)
    if ok then error("must fail: " .. s[3].message, 0) end
    if type(err) ~= "table" or not err.kind then error(err, 0) end
  elseif verb == "expect" then
    local got, want = value_of("$" .. s[2], vars), s[3]
    if want.none then
      if got ~= nil then error(s[2] .. " must be nil", 0) end
    elseif want.value ~= nil then
      if got ~= want.value then error(("%s is %s, expected %s"):format(s[2], tostring(got), tostring(want.value)), 0) end
    else
      local why = compare.tensors(got, data.tensor(want))
      if why then error(s[2] .. ": " .. why, 0) end
    end
  else
    error("no rule for step " .. tostring(verb), 0)
  end
end

function run(steps, vars)
  for _, s in ipairs(steps) do step(s, vars) end
end

function group.run(folder, _, report)
  for _, scenario in ipairs(reader.read_json(folder .. "/semantics/autograd_scenarios.json").scenarios) do
    data.row(report, "autograd:" .. scenario.name, function() run(scenario.steps, {}) end)
  end
end

return group
