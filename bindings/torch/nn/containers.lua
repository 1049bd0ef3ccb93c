-- Modules that hold others: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local Parameter = nn.Parameter
local is_module, forget = require("torch.nn.module").is_module, require("torch.nn.module").forget

-- Lists: elements at 1, 2, ..; negative positions count from the end; layers with names answer to them.
local function item(self, k)
  if math.type(k) == "integer" and k < 0 then return rawget(self, #self + 1 + k) end
  if type(k) ~= "string" then return nil end
  for i, name in next, rawget(self, "_names") or {} do
    if name == k then return rawget(self, i) end
  end
end

-- Writes all elements anew, so that their order and their names are right.
local function set_all(self, elements)
  for i = #self, 1, -1 do rawset(self, i, nil) end
  local order = {}
  for _, k in ipairs(self._order) do
    if math.type(k) ~= "integer" then order[#order + 1] = k end
  end
  rawset(self, "_order", order)
  rawset(self, "_names", nil)
  for i, v in ipairs(elements) do self[i] = v end
  return self
end
local function elements_of(self) return table.move(self, 1, #self, 1, {}) end

local function check_layer(name, i, v)
  if not is_module(v) and type(v) ~= "function" then
    if type(v) == "table" and rawget(v, "_base") then
      error(("%s: layer %s is the class %s; nn.%s(..) makes a layer"):format(name, tostring(i), v._name, v._name), 4)
    end
    error(("%s: layer %s is a %s, not a module"):format(name, tostring(i), torch.is_tensor(v) and "tensor" or type(v)), 4)
  end
  return v
end
local function position(self, i, last)
  local n = #self
  if math.type(i) ~= "integer" or i == 0 or i > last or i < -n then
    error(("%s: position %s is out of range (1..%d)"):format(self._name, tostring(i), last), 3, "index")
  end
  return i < 0 and n + 1 + i or i
end

local function list_class(name, signature, doc, take, more)
  local List = nn.class(name)
  nn[name] = List
  List._signature, List._doc, List._item = signature, doc, item
  List._see, List._example, List._rule = more.see, more.example, more.rule
  List.__index = function(self, k)
    local v = List[k]
    if v == nil then return item(self, k) end
    return v
  end
  function List:init(...)
    local given = {...}
    local first = given[1]
    local other = type(first) == "table" and getmetatable(first)
    if #given == 1 and type(first) == "table" and (other == nil or (not more.nests and rawget(other, "_item"))) then given = first end
    local count = 0
    for i, v in ipairs(given) do self[i], count = take(name, i, v), i end
    for k in next, given do  -- {a, nil, b}
      if math.type(k) == "integer" and k > count then error(("%s: element %d is nil"):format(name, count + 1), 3) end
    end
  end
  ---Adds one at the end; returns the list.
  function List:append(v)
    self[#self + 1] = take(name, #self + 1, v)
    return self
  end
  ---Adds all elements of a list at the end; returns the list.
  function List:extend(list)
    for _, v in ipairs(list) do self[#self + 1] = take(name, #self + 1, v) end
    return self
  end
  ---Puts one before position i.
  function List:insert(i, v)
    local all = elements_of(self)
    table.insert(all, position(self, i, #self + 1), take(name, i, v))
    return set_all(self, all)
  end
  ---Takes out the element at position i (the last one unless given) and returns it.
  function List:pop(i)
    local all = elements_of(self)
    local out = table.remove(all, position(self, i or #self, #self))
    set_all(self, all)
    return out
  end
  ---The elements from first to last (both inclusive) as a new list of the same kind.
  function List:slice(first, last)
    local all, n = {}, #self
    first, last = first or 1, last or n
    if first < 0 then first = n + 1 + first end
    if last < 0 then last = n + 1 + last end
    for i = first, last do all[#all + 1] = self[i] end
    return set_all(nn[name](), all)
  end
  return List
end

local Sequential = list_class("Sequential", "layer, layer, ..", "Layers one after the other; net[2] is the second, #net their number, append adds one.", check_layer,
  {nests = true, see = "nn.ModuleList, nn.class"})
function Sequential:forward(...)
  local n = #self
  if n == 0 then return ... end
  local x = self[1](...)
  for i = 2, n do x = self[i](x) end
  return x
end
-- nn.Sequential{{"conv", nn.Conv2d(..)}, {"relu", nn.ReLU()}}: layers with names, in order.
local make_list = Sequential.init
function Sequential:init(...)
  local first = ...
  local named = select("#", ...) == 1 and type(first) == "table" and getmetatable(first) == nil and type(first[1]) == "table"
    and getmetatable(first[1]) == nil and type(first[1][1]) == "string"
  if not named then return make_list(self, ...) end
  for _, pair in ipairs(first) do self:add_module(pair[1], pair[2]) end
end

---Adds a layer at the end under a name ("conv1"), or takes the place of the one that has it.
---@param name string
---@param layer table
function Sequential:add_module(name, layer)
  if type(name) ~= "string" or name == "" or name:find(".", 1, true) then
    error(("add_module: a name must be a text without dots, not %s"):format(tostring(name)), 2)
  end
  check_layer("Sequential", name, layer)
  local names = rawget(self, "_names") or {}
  local place = math.tointeger(tonumber(name))
  place = place and place + 1
  for i, known in next, names do
    if known == name then place = i end
  end
  if not place or place > #self + 1 or place < 1 then place = #self + 1 end
  if tostring(place - 1) ~= name then
    names[place] = name
    rawset(self, "_names", names)
  end
  self[place] = layer
end
Sequential.register_module = Sequential.add_module
-- net.relu = nn.ReLU() adds a layer, as in PyTorch.
local set = Sequential.__newindex
Sequential.__newindex = function(self, k, v)
  if type(k) == "string" and is_module(v) then return self:add_module(k, v) end
  return set(self, k, v)
end

list_class("ModuleList", "{module, module, ..}", "A list whose modules are registered, for a forward of one's own.", check_layer,
  {see = "nn.Sequential, nn.class"})

local function as_parameter(_, _, v)
  if torch.is_tensor(v) and not torch.nn._is_parameter(v) then return Parameter(v) end
  return v
end
list_class("ParameterList", "{tensor, tensor, ..}", "A list whose tensors are registered as parameters.", as_parameter,
  {see = "nn.Parameter, nn.ModuleList", example = "#nn.ParameterList{torch.ones(2), torch.ones(3)}:parameters() --> 2"})

-- --- by name ---

local function dict_class(name, doc, take, more)
  local Dict = nn.class(name)
  nn[name] = Dict
  Dict._signature, Dict._doc, Dict._see, Dict._example = "{name=value, ..}", doc, more.see, more.example
  local function put(self, key, v)
    if type(key) ~= "string" or key == "" or key:find(".", 1, true) then
      error(("%s: a key must be a text without dots, not %s"):format(name, tostring(key)), 4)
    end
    if Dict[key] ~= nil or key == "training" then error(('%s: "%s" is a name of its own'):format(name, key), 4) end
    self[key] = take(name, key, v)
  end
  function Dict:init(given)
    if given then self:update(given) end
  end
  ---Adds all of a table, or of a list of {name, value} in its order (a table's names are sorted).
  function Dict:update(given)
    if type(given) ~= "table" then error(("%s: wants a table {name=value}, not a %s"):format(name, torch.is_tensor(given) and "tensor" or type(given)), 3) end
    if is_module(given) then given = given:items() end
    if given[1] then
      for _, pair in ipairs(given) do put(self, pair[1], pair[2]) end
      return self
    end
    local keys = {}
    for k in pairs(given) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(keys) do put(self, k, given[k]) end
    return self
  end
  ---The names, in order.
  function Dict:keys()
    local out = {}
    for _, k in ipairs(self._order) do
      if rawget(self, k) ~= nil then out[#out + 1] = k end
    end
    return out
  end
  ---The values, in order.
  function Dict:values()
    local out = self:keys()
    for i, k in ipairs(out) do out[i] = rawget(self, k) end
    return out
  end
  ---A list of {name, value}, in order.
  function Dict:items()
    local out = self:keys()
    for i, k in ipairs(out) do out[i] = {k, rawget(self, k)} end
    return out
  end
  ---Whether there is a value under a name.
  function Dict:contains(key) return type(key) == "string" and Dict[key] == nil and key ~= "training" and rawget(self, key) ~= nil end
  ---Takes out the value under a name and returns it.
  function Dict:pop(key)
    local out = self:contains(key) and rawget(self, key) or error(('%s: there is no "%s"'):format(name, tostring(key)), 2, "index")
    forget(self, key)
    return out
  end
  ---Takes out everything.
  function Dict:clear()
    for _, k in ipairs(self:keys()) do self:pop(k) end
  end
  Dict.__len = function(self) return #Dict.keys(self) end
  return Dict
end
dict_class("ModuleDict", "Modules by name, registered, for a forward of one's own; keys(), items(), contains(name), pop(name).", check_layer,
  {see = "nn.ModuleList, nn.class", example = "nn.ModuleDict{relu=nn.ReLU(), fc=nn.Linear(2, 3)}.fc(torch.ones(1, 2)).shape --> [1, 3]"})
dict_class("ParameterDict", "Parameters by name, registered.", as_parameter,
  {see = "nn.ParameterList", example = "#nn.ParameterDict{w=torch.ones(2)}:parameters() --> 1"})
