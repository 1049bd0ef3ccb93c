-- torch.nn.utils: gradients held in bounds, parameters as one vector, reparametrised weights; sequences in utils.rnn.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local utils = {rnn = require "torch.nn.utils.rnn"}

local function list_of(parameters)
  if torch.is_tensor(parameters) then return {parameters} end
  if type(parameters) ~= "table" then error("nn.utils: wants a tensor or a list of them, not a " .. type(parameters), 3) end
  return parameters
end
local function gradients(parameters)
  local out = {}
  for _, p in ipairs(list_of(parameters)) do
    if p.grad then out[#out + 1] = p.grad end
  end
  return out
end

---The norm of all tensors as if they were one vector.
---@param tensors table
---@param norm_type? number default 2; math.huge takes the largest element
function utils.get_total_norm(tensors, norm_type, error_if_nonfinite)
  norm_type = norm_type or 2.0
  tensors = list_of(tensors)
  if #tensors == 0 then return torch.tensor(0.0) end
  local norms = {}
  for i, g in ipairs(tensors) do norms[i] = torch.linalg.vector_norm(g, norm_type):to(tensors[1].device) end
  local total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
  if error_if_nonfinite and not torch.isfinite(total):item() then
    error(("clip_grad_norm_: the norm of the gradients is %s; {error_if_nonfinite=false} lets it pass"):format(tostring(total:item())), 3, "value")
  end
  return total
end

---Scales the gradients so that their norm together is at most max_norm; returns the norm as it was, a 0-d tensor.
---@param parameters table
---@param max_norm number
---@param norm_type? number default 2; math.huge takes the largest element
---@param options? boolean | {norm_type?: number, error_if_nonfinite?: boolean}
function utils.clip_grad_norm_(parameters, max_norm, norm_type, options)
  if type(norm_type) == "table" then norm_type, options = nil, norm_type end
  if type(options) == "boolean" then options = {error_if_nonfinite = options} end
  if type(max_norm) == "table" then max_norm, options = max_norm.max_norm, max_norm end
  if type(max_norm) ~= "number" then error("clip_grad_norm_: max_norm must be a number, not a " .. type(max_norm), 2) end
  options = options or {}
  return torch.no_grad(function()
    local grads = gradients(parameters)
    local total = utils.get_total_norm(grads, norm_type or options.norm_type, options.error_if_nonfinite)
    local factor = (max_norm / (total + 1e-6)):clamp_max(1.0)
    for _, g in ipairs(grads) do g:mul_(factor:to(g.device)) end
    return total
  end)
end

---Holds every element of the gradients between -clip_value and clip_value.
---@param parameters table
---@param clip_value number
function utils.clip_grad_value_(parameters, clip_value)
  torch.no_grad(function()
    for _, g in ipairs(gradients(parameters)) do g:clamp_(-clip_value, clip_value) end
  end)
end

---All parameters, one after the other, as one vector; gradients flow through it.
function utils.parameters_to_vector(parameters)
  local parts = {}
  for i, p in ipairs(list_of(parameters)) do parts[i] = p:reshape(-1) end
  require("torch.optim.devices").check_one("parameters_to_vector", parts)
  return torch.cat(parts)
end

---Copies the parts of a vector into the parameters, in their order.
function utils.vector_to_parameters(vector, parameters)
  local at, count = 1, 0
  for _, p in ipairs(list_of(parameters)) do count = count + p:numel() end
  if count ~= vector:numel() then
    error(("vector_to_parameters: the vector has %d elements, the parameters %d"):format(vector:numel(), count), 2, "shape")
  end
  torch.no_grad(function()
    for _, p in ipairs(list_of(parameters)) do
      p:copy_(vector:narrow(1, at, p:numel()):view_as(p))
      at = at + p:numel()
    end
  end)
end

-- --- weights made from other parameters before each forward ---

-- Puts `name` together from parameters `name .. suffix` in a pre-forward hook.
local function replace(module, name, parts, compute, kind)
  local weight = rawget(module, name)
  if not torch.is_tensor(weight) then error(("%s: this %s has no %s"):format(kind, module._name, name), 3) end
  require("torch.nn.module").forget(module, name)
  for _, part in ipairs(parts) do module[name .. part[1]] = nn.Parameter(part[2]) end
  -- The made tensor is a plain field: no parameter, not in state_dict.
  local function refresh(m) rawset(m, name, compute(m)) end
  refresh(module)
  module:register_forward_pre_hook(refresh)
  local made = rawget(module, "_reparametrised") or {}
  made[name] = {kind = kind, remove = function(m)
    local pre = m._hooks.pre
    for i = #pre, 1, -1 do
      if pre[i].f == refresh then table.remove(pre, i) end
    end
    local value = compute(m):detach()
    for _, part in ipairs(parts) do rawset(m, name .. part[1], nil) end
    rawset(m, name, nil)
    m[name] = nn.Parameter(value)
    rawget(m, "_reparametrised")[name] = nil
  end}
  rawset(module, "_reparametrised", made)
  return module
end
local function take_back(kind)
  ---Makes a plain parameter again of a weight that weight_norm or spectral_norm took apart; returns the module.
  ---@param module table
  ---@param name? string default "weight"
  return function(module, name)
    name = name or "weight"
    local made = (rawget(module, "_reparametrised") or {})[name]
    if not made or made.kind ~= kind then error(("remove_%s: %s of this %s has none"):format(kind, name, module._name), 2, "value") end
    made.remove(module)
    return module
  end
end

local slices = require "torch.nn.utils.slices"
local others, length = slices.others, slices.length

---Splits a weight into its length (name_g) and direction (name_v), as parameters of their own; returns the module.
---@param module table
---@param name? string default "weight"
---@param dim? integer default 1: one length per slice of this dimension; torch.none: one for all
function utils.weight_norm(module, name, dim)
  if type(name) == "table" then name, dim = name.name, name.dim end
  name = name or "weight"
  if dim == nil then dim = 1 elseif dim == torch.none then dim = nil end
  local w = rawget(module, name)
  if dim and dim < 0 then dim = w.ndim + 1 + dim end
  local start = w and w:detach()
  return replace(module, name, {{"_g", start and length(start, dim)}, {"_v", start and start:clone()}}, function(m)
    local v = m[name .. "_v"]
    return v * (m[name .. "_g"] / length(v, dim))
  end, "weight_norm")
end
utils.remove_weight_norm = take_back "weight_norm"

local function unit(v, eps) return v / torch.linalg.vector_norm(v):clamp_min(eps) end

---Divides a weight by its largest singular value, estimated by power iterations in training; returns the module.
---@param module table
---@param name? string default "weight"
---@param options? {n_power_iterations?: integer, eps?: number, dim?: integer}
function utils.spectral_norm(module, name, options)
  if type(name) == "table" then name, options = name.name, name end
  name, options = name or "weight", options or {}
  local steps, eps = options.n_power_iterations or 1, options.eps or 1e-12
  local dim = options.dim or (module._name:find "^ConvTranspose" and 2 or 1)
  local function matrix(w)
    if dim ~= 1 then
      local order = {dim}
      for _, d in ipairs(others(w, dim)) do order[#order + 1] = d end
      w = w:permute(order)
    end
    return w:reshape({w:size(1), -1})
  end
  local w = rawget(module, name)
  if torch.is_tensor(w) then
    local m = matrix(w:detach())
    module:register_buffer(name .. "_u", unit(torch.randn({m:size(1)}, {dtype = m.dtype}):to(m.device), eps))
    module:register_buffer(name .. "_v", unit(torch.randn({m:size(2)}, {dtype = m.dtype}):to(m.device), eps))
  end
  return replace(module, name, {{"_orig", torch.is_tensor(w) and w:detach()}}, function(self)
    local m, u, v = matrix(self[name .. "_orig"]), self[name .. "_u"], self[name .. "_v"]
    if self.training then
      torch.no_grad(function()
        for _ = 1, steps do
          v:copy_(unit(m:t():mv(u), eps))
          u:copy_(unit(m:mv(v), eps))
        end
      end)
    end
    return self[name .. "_orig"] / torch.dot(u:clone(), m:mv(v:clone()))
  end, "spectral_norm")
end
utils.remove_spectral_norm = take_back "spectral_norm"

require "torch.nn.utils.fusion"(utils)

local parts = {parametrize = true, parametrizations = true, prune = true}
return torch._strict(utils, "torch.nn.utils", function(_, name)
  if not parts[name] then return nil end
  local part = require("torch.nn.utils." .. name)
  rawset(utils, name, part)
  return part
end)
