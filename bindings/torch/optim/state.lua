-- Saving what optimisers know, in PyTorch's layout, and taking it over again.
local torch = torch
local error = torch._raise

-- State that PyTorch keeps as float32 tensors of one element, and Lua as numbers.
local counters = {step = true, mu_product = true, eta = true, mu = true}

-- What is None in PyTorch and false here.
local nothing = {line_search_fn = true}

local function copy(v)
  if type(v) ~= "table" then return v end
  local out = {}
  for k, one in pairs(v) do out[k] = copy(one) end
  return out
end

-- How PyTorch computes its steps, and what LBFGS there keeps as tensors of one element.
local ways = {foreach = true, fused = true, capturable = true, differentiable = true}
local numbers = {H_diag = true, t = true, ro = true, prev_loss = true}

-- A saved value on the parameter's device and, where it is floating point, in its type.
local function restored(key, v, p)
  if type(v) == "table" then
    local out = {}
    for k, one in pairs(v) do out[k] = restored(key, one, p) end
    return out
  end
  if not torch.is_tensor(v) then return v end
  if counters[key] or numbers[key] then
    v = v:item()
    return key == "step" and math.tointeger(v) or v
  end
  local to = v:to(p.device)
  if v:is_floating_point() and v.dtype ~= p.dtype then to = to:to(p.dtype) end
  return to:clone()
end

return function(Optimizer, base)
  ---Everything needed to go on later, laid out as PyTorch's: `param_groups` holds the options and the
  ---parameters' numbers from 0, `state` the state by that number.
  ---@return {state: table, param_groups: table[]}
  function Optimizer:state_dict()
    base.run_hooks(self, "save_before")
    local groups, state, n = {}, torch._dict {}, 0
    for i, g in ipairs(self.param_groups) do
      groups[i] = {params = {}}
      for k, v in pairs(g) do
        if k ~= "params" then groups[i][k] = nothing[k] and not v and torch.none or copy(v) end
      end
      for j, p in ipairs(g.params) do
        groups[i].params[j] = n
        local s = rawget(self.state, p)
        if s then
          local out = {}
          for k, v in pairs(s) do
            if counters[k] and type(v) == "number" then v = torch.tensor(v + 0.0, {dtype = torch.float32}) end
            out[k] = v
          end
          state[n] = out
        end
        n = n + 1
      end
    end
    return base.run_hooks(self, "save_after", {state = state, param_groups = groups})
  end

  ---Takes over what state_dict gave, here or in PyTorch; tensors are copied to their parameter's device.
  ---@param saved table
  function Optimizer:load_state_dict(saved)
    if type(saved) ~= "table" or type(saved.param_groups) ~= "table" or type(saved.state) ~= "table" then
      error("load_state_dict: wants what state_dict() gives: a table with state and param_groups", 2)
    end
    saved = base.run_hooks(self, "load_before", saved)
    if #saved.param_groups ~= #self.param_groups then
      error(("load_state_dict: %d groups were saved, this optimiser has %d"):format(#saved.param_groups, #self.param_groups), 2)
    end
    for i, g in ipairs(self.param_groups) do
      local from = saved.param_groups[i]
      if #from.params ~= #g.params then
        error(("load_state_dict: group %d had %d parameters, here it has %d"):format(i, #from.params, #g.params), 2, "shape")
      end
    end
    local state = {}
    for i, g in ipairs(self.param_groups) do
      local from = saved.param_groups[i]
      for k, v in pairs(from) do
        if nothing[k] and v == torch.none then v = false end
        if k ~= "params" and not ways[k] and v ~= torch.none then g[k] = copy(v) end
      end
      for j, p in ipairs(g.params) do
        local number = from.params[j]
        local s = saved.state[number] or saved.state[tostring(number)]
        if s then
          state[p] = {}
          for k, v in pairs(s) do state[p][k] = restored(k, v, p) end
        end
      end
    end
    self.state = setmetatable(state, getmetatable(self.state))
    base.run_hooks(self, "load_after")
  end
end
