-- Finds layers that work inside a network which does not know them: not assigned to its fields, but
-- standing in a local variable, say. No optimiser gets their parameters. Looked for at a first step.
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

return stray
