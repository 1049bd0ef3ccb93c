-- The group `modules`: layers made from constructor arguments, given a state, and compared: results, gradients of
-- parameters and inputs, and the state afterwards.
local compare = require "compare"
local data = require "data"
local json = require "json"
local reader = require "reader"
local values = require "values"
local torch = torch
local group = {}

local build

-- A value of a constructor or of forward; modules and functions may stand in place of values.
local function decode(v, role, make)
  if type(v) == "table" and v.module then return build(v) end
  if type(v) == "table" and v.fn then return torch.nn.functional[v.fn:match "[^.]+$"] or error("missing " .. v.fn, 0) end
  if type(v) == "table" and v.l then
    local out = {}
    for i, one in ipairs(v.l) do
      local part = decode(one, role, make)
      out[i] = part == nil and torch.none or part
    end
    return out
  end
  return values.decode(v, role, make)
end

-- A list of arguments and a table of named ones, the latter last when there are any.
local function arguments(list, named, roles, named_roles, make)
  local out = {n = #list}
  for i, v in ipairs(list) do out[i] = decode(v, roles and roles[i], make) end
  local last
  for key, v in pairs(named or {}) do
    last = last or {}
    local one = decode(v, named_roles and named_roles[key], make)
    if one == nil then one = torch.none end
    last[key] = one
  end
  if last then
    out.n = out.n + 1
    out[out.n] = last
  end
  return out
end

function build(c, make)
  local class = torch.nn[c.module] or error("missing nn." .. c.module, 0)
  local given = arguments(c.ctor, c.ctor_kw, c.ctor_roles, c.ctor_kwroles, make)
  return class(table.unpack(given, 1, given.n))
end

-- Tuples inside results (the states of an LSTM) in line with the others.
local function flat(packed, out)
  for i = 1, packed.n or #packed do
    local v = packed[i]
    if type(v) == "table" then flat(v, out) else out[#out + 1] = v == nil and torch.none or v end
  end
  return out
end

local function run(c, tensors)
  local made = {}
  local function make(name, spec)
    if not made[name] then
      made[name] = tensors[name]:clone()
      if spec.rg then made[name]:requires_grad_() end
    end
    return made[name]
  end
  local module = build(c, make)
  module:train(c.training)
  local state, count = {}, 0
  for name, ref in pairs(c.state) do
    state[name] = tensors[ref]
    count = count + 1
  end
  -- The vectors are float64 where the state is.
  for _, t in pairs(state) do
    if t.dtype == torch.float64 then module:double() end
  end
  for _, v in ipairs(c.forward) do
    if type(v) == "table" and v.t and tensors[v.t].dtype == torch.float64 then module:double() end
  end
  local own = module:state_dict()
  for name in pairs(own) do
    if not state[name] and count > 0 then return "the module has " .. name .. ", the case does not" end
  end
  module:load_state_dict(state, {strict = count > 0})
  local forward_kw = c.forward_kw ~= json.null and c.forward_kw or nil
  local given = arguments(c.forward, forward_kw, c.roles, nil, make)
  local got = flat(table.pack(module(table.unpack(given, 1, given.n))), {})
  for i, ref in ipairs(c.out) do
    if ref == json.null then
      if got[i] ~= nil and got[i] ~= torch.none then return ("result %d must be none"):format(i) end
    else
      local want = type(ref) == "string" and tensors[ref] or decode(ref, nil, make)
      if c.out_roles and c.out_roles[tostring(i - 1)] then want = values.shift(want) end
      local why = compare.values(got[i], want)
      if why then return ("result %d: %s"):format(i, why) end
    end
  end
  local outs, gouts, inputs, wants, names = {}, {}, {}, {}, {}
  for i, k in ipairs(c.gout_of) do outs[i], gouts[i] = got[k + 1], tensors[c.gout[i]] end
  local parameters = {}
  for _, pair in ipairs(module:named_parameters()) do parameters[pair[1]] = pair[2] end
  for name, ref in pairs(c.param_grad) do
    if not parameters[name] then return "no parameter " .. name end
    inputs[#inputs + 1], wants[#wants + 1], names[#names + 1] = parameters[name], ref, name
  end
  for i, name in ipairs(c.input_grad_of) do
    inputs[#inputs + 1], wants[#wants + 1], names[#names + 1] = made[name], c.input_grad[i], name
  end
  if #outs > 0 and #inputs > 0 then
    local grads = table.pack(torch.autograd.grad(outs, inputs, {grad_outputs = gouts, allow_unused = true}))
    for i, ref in ipairs(wants) do
      local want = ref ~= json.null and tensors[ref] or torch.zeros_like(inputs[i])
      local why = compare.tensors(grads[i] or torch.zeros_like(inputs[i]), want)
      if why then return ("gradient of %s: %s"):format(names[i], why) end
    end
  end
  own = module:state_dict()
  for name, ref in pairs(c.state_after or {}) do
    local why = compare.tensors(own[name], tensors[ref])
    if why then return ("%s afterwards: %s"):format(name, why) end
  end
end

function group.run(folder, _, report)
  local path = folder .. "/semantics/modules"
  local tensors = torch.load(path .. ".safetensors")
  for _, c in ipairs(reader.read_lines(path .. ".jsonl")) do
    data.row(report, c.id, run, c, tensors)
  end
end

return group
