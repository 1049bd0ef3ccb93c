-- Finds layers that a network does not know, so that no optimiser gets their parameters: those in objects
-- that it holds, when an optimiser is made; those that work in it, but stand in a local variable, say,
-- at the optimiser's first step.
local stray = {}

-- A name for the module: a variable that functions of the network, or everybody, can see.
local function place_in(name, v, module)
  if v == module then return name, name end
  if type(v) ~= "table" or getmetatable(v) ~= nil or v == _G or v == package.loaded then return nil end
  for k, one in next, v do
    if one == module then
      return (math.type(k) == "integer" and "%s[%d]" or "%s.%s"):format(name, k), name
    end
  end
end

local function place_of(module, root)
  for _, m in ipairs(root:modules()) do
    for i = 1, 60 do
      local name, v = debug.getupvalue(m.forward, i)
      if not name then break end
      local place, variable = place_in(name, v, module)
      if place then return place, variable end
    end
  end
  for name, v in next, _G do
    if type(name) == "string" and not name:find "^_" then
      local place, variable = place_in(name, v, module)
      if place then return place, variable end
    end
  end
end

local function set_of(list)
  local set = {}
  for _, v in ipairs(list) do set[v] = true end
  return set
end

-- The number of elements that had a gradient but no optimiser; 0 if one of them has.
local function untrained(module, trained)
  local count = 0
  for _, p in ipairs(module:parameters(false)) do
    if trained[p] then return 0 end
    if p.requires_grad and p.grad then count = count + p:numel() end
  end
  return count
end

local function parameters_of(optimizer, set)
  for _, g in ipairs(optimizer.param_groups) do
    for _, p in ipairs(g.params) do set[p] = true end
  end
  return set
end

---Says a note where a layer takes part in a network that `optimizer` trains, and no optimiser has its parameters.
---@param optimizer table
---@param all table optimiser -> true
function stray.check(optimizer, all)
  local module = package.loaded["torch.nn.module"]
  if not module or not next(module.inner) then return end
  local own, trained, known = parameters_of(optimizer, {}), {}, {}
  for one in pairs(all) do parameters_of(one, trained) end
  for module, root in pairs(module.inner) do
    local facts = known[root]
    if not facts then
      facts = {modules = set_of(root:modules()), ours = false}
      for _, p in ipairs(root:parameters()) do facts.ours = facts.ours or own[p] == true end
      known[root] = facts
    end
    local count = facts.ours and not facts.modules[module] and untrained(module, trained) or 0
    if count > 0 then
      local place, variable = place_of(module, root)
      require("torch.notes").tell("REG", "step", {
        layer = ("%s (%s)"):format(place or "a layer", module._name), net = root._name,
        count = count, optimizer = optimizer._name,
        fix = variable and ("self.%s = %s"):format(variable, variable)})
      return
    end
  end
end

local most_fields, most_levels = 5000, 4  -- looked at in all

-- The first layer that `test` accepts in tables with metatables below `t`, which are not registered.
local function hidden_in(t, place, level, seen, is_module, test)
  if seen[t] or level > most_levels then return nil end
  seen[t] = true
  for k, v in next, t do
    seen.fields = seen.fields + 1
    if seen.fields > most_fields then return nil end
    if type(v) == "table" and (type(k) == "string" and not k:find "^_" or math.type(k) == "integer") then
      local name = math.type(k) == "integer" and ("%s[%d]"):format(place, k) or ("%s.%s"):format(place, k)
      if is_module(v) then
        if test(v) then return v, name end
      else
        local found, where = hidden_in(v, name, level + 1, seen, is_module, test)
        if found then return found, where end
      end
    end
  end
end

---Says a note where an object in a field of the network, which is no module, holds a layer that `optimizer` was
---probably meant to train.
---@param optimizer table
---@param root table the module whose parameters it was given
---@param all table optimiser -> true
function stray.hidden(optimizer, root, all)
  local is_module = package.loaded["torch.nn.module"].is_module
  local trained = {}
  for one in pairs(all) do parameters_of(one, trained) end
  local function untouched(module)
    local count = 0
    for _, p in ipairs(module:parameters()) do
      if trained[p] then return nil end
      if p.requires_grad then count = count + p:numel() end
    end
    return count > 0 and count or nil
  end
  local known, seen = set_of(root:modules()), {fields = 0}
  local function forgotten(module) return not known[module] and untouched(module) end
  for owner in pairs(known) do
    local found, place = hidden_in(owner, "self", 1, seen, is_module, forgotten)
    if found then
      return require("torch.notes").tell("REG", "made", {
        layer = ("%s (%s)"):format(place, found._name), net = owner._name, count = untouched(found),
        optimizer = optimizer._name, fix = ("self.%s = %s"):format(place:match "[%a_][%w_]*$" or "layer", place)})
    end
  end
end

return stray
