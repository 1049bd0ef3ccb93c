-- torch.func on modules: functional_call, stack_module_state.
local torch = torch
local error = torch._raise
local func = {}

-- Where every tensor of a module stands: name -> {{owner=, key=}, ..., tensor=, own=}, own being whether it is a
-- parameter or a buffer. Several places of one tensor (tied weights) share one list under all their names.
local function places_of(module)
  local Module = require "torch.nn.module"
  local places, of_tensor, first_name, again = {}, {}, {[module] = ""}, {}
  Module.walk(module, "", function(owner, key, v, name)
    if Module.is_module(v) then  -- a shared module has its tensors under each of its names
      if first_name[v] then again[#again + 1] = {name .. ".", first_name[v]} else first_name[v] = name .. "." end
      return
    end
    local list = of_tensor[v]
    if not list then
      list = {tensor = v, own = Module.parameter_at(owner, key, v) or Module.is_buffer(owner, key)}
      of_tensor[v] = list
    end
    list[#list + 1] = {owner = owner, key = key, name = name}
    places[name] = list
  end, {})
  for _, pair in ipairs(again) do
    for name, list in pairs(places) do
      if name:sub(1, #pair[2]) == pair[2] then again[pair[1] .. name:sub(#pair[2] + 1)] = list end
    end
  end
  for name, list in next, again do
    if type(name) == "string" then places[name] = places[name] or list end
  end
  return places
end

local function check_names(module, given, places)
  local missing, unexpected, covered = {}, {}, {}
  for name in pairs(given) do
    if places[name] and places[name].own then covered[places[name]] = true else unexpected[#unexpected + 1] = name end
  end
  for name, list in pairs(places) do
    if list.own and not covered[list] then
      covered[list] = true
      missing[#missing + 1] = list[1].name
    end
  end
  if #missing + #unexpected == 0 then return end
  table.sort(missing)
  table.sort(unexpected)
  local parts = {}
  if #missing > 0 then parts[1] = "missing: " .. table.concat(missing, ", ") end
  if #unexpected > 0 then parts[#parts + 1] = "unexpected: " .. table.concat(unexpected, ", ") end
  error(("functional_call: the tensors do not fit this %s; %s"):format(module._name, table.concat(parts, "; ")), 4)
end

-- One table from names to tensors; a list of such tables is joined.
local function joined(tensors)
  if type(tensors) ~= "table" then error("functional_call: wants a table from names to tensors second, not " ..
    (torch.is_tensor(tensors) and "a tensor" or type(tensors)), 3) end
  local all = {}
  for _, part in ipairs(#tensors > 0 and tensors or {tensors}) do
    if type(part) ~= "table" then error("functional_call: a list holds tables from names to tensors, not " .. type(part), 3) end
    for name, t in pairs(part) do
      if type(name) ~= "string" or not torch.is_tensor(t) then
        error(("functional_call: %s is no tensor; give a table from names to tensors"):format(tostring(name)), 3)
      end
      if all[name] ~= nil then
        error(("functional_call: %s is in two of the tables"):format(name), 3)
      end
      all[name] = t
    end
  end
  return all
end

---Calls a module with other tensors in the place of its parameters and buffers; the module is unchanged afterwards,
---also after an error. Names that it does not have are passed over, what is not given stays its own.
---@param module table
---@param tensors table from names (as in state_dict) to tensors, or a list of such tables
---@param args any the argument, or a table of several
---@param kwargs? table named arguments, handed on as a last table
---@param options? {tie_weights?: boolean, strict?: boolean} tie_weights=true: a tensor with several names is replaced at all of them; strict=false
function func.functional_call(module, tensors, args, kwargs, options)
  if not require("torch.nn.module").is_module(module) then
    error("functional_call: wants a module first, not " .. (torch.is_tensor(module) and "a tensor" or type(module)), 2)
  end
  options = options or {}
  if type(options) ~= "table" then error("functional_call: the options are a table {tie_weights=, strict=}", 2) end
  if kwargs ~= nil and type(kwargs) ~= "table" then error("functional_call: the named arguments are a table", 2) end
  local given, places = joined(tensors), places_of(module)
  if options.strict then check_names(module, given, places) end
  local new = {}  -- place -> tensor
  for name, t in pairs(given) do
    for _, place in ipairs(places[name] or {}) do
      if options.tie_weights ~= false then
        if new[place] and not rawequal(new[place], t) then
          error(("functional_call: %s has another name too, and both are given with different tensors; leave one out, or tie_weights=false"):format(name), 2)
        end
        new[place] = t
      elseif place.name == name then
        new[place] = t
      end
    end
  end
  local list = table.pack(args)
  if type(args) == "table" and getmetatable(args) == nil then
    list = {table.unpack(args)}
    list.n = 0
    for k in next, args do  -- a nil between two arguments counts
      if math.type(k) ~= "integer" then
        list = {args, n = 1}
        break
      end
      list.n = math.max(list.n, k)
      list[k] = args[k]
    end
  elseif args == nil then
    list.n = 0
  end
  if kwargs and next(kwargs) ~= nil then
    list.n = list.n + 1
    list[list.n] = kwargs
  end
  local before = {}
  local _ <close> = setmetatable({}, {__close = function()
    for place, t in next, before do rawset(place.owner, place.key, t) end
  end})
  local _ <close> = require("torch.nn.module").swap_parameters()
  for place, t in next, new do
    before[place] = rawget(place.owner, place.key)
    rawset(place.owner, place.key, t)
  end
  local results = table.pack(module(table.unpack(list, 1, list.n)))
  return table.unpack(results, 1, results.n)
end

---The parameters and the buffers of several networks of one kind, stacked: two tables from names to tensors with a
---first dimension for the networks, for torch.vmap over torch.func.functional_call.
---@param models table a list of modules
function func.stack_module_state(models)
  local Module = require "torch.nn.module"
  if type(models) ~= "table" or #models == 0 then error("stack_module_state: wants a list of at least one module", 2) end
  for i, m in ipairs(models) do
    if not Module.is_module(m) then error(("stack_module_state: item %d of the list is no module"):format(i), 2) end
    if getmetatable(m) ~= getmetatable(models[1]) then
      error(("stack_module_state: model %d is a %s, model 1 a %s; all must be of one class"):format(i, m._name, models[1]._name), 2)
    end
    if m.training ~= models[1].training then
      error("stack_module_state: some models are in training mode and some are not; call :train() or :eval() on all", 2)
    end
  end
  local function stacked(list)
    local columns, out = {}, {}
    for _, m in ipairs(models) do
      for _, pair in ipairs(m[list](m)) do
        columns[pair[1]] = columns[pair[1]] or {}
        table.insert(columns[pair[1]], pair[2])
      end
    end
    for name, column in pairs(columns) do
      if #column ~= #models then error(("stack_module_state: not every model has %s"):format(name), 3) end
      local wanted = column[1].requires_grad
      for i, t in ipairs(column) do column[i] = t:detach() end
      out[name] = torch.stack(column):requires_grad_(wanted)
    end
    return out
  end
  return stacked "named_parameters", stacked "named_buffers"
end

return func
