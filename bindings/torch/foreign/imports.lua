-- Python's imports written in Lua: where the names of torch, torchvision and Python's own modules are.
local torch = torch
local words = require "torch.foreign.words"
local imports = {}

local function module_name(p)
  local name = p:name()
  while p:accept "." do name = name .. "." .. p:name() end
  return name
end
local function declared(s, names, values)
  return ("%s%s = %s"):format(s.global and "" or "local ", table.concat(names, ", "), table.concat(values, ", "))
end
local function part(path)
  local at = torch
  for key in path:gmatch "%.([%w_]+)" do
    local ok, value = pcall(function() return type(at) == "table" and at[key] or nil end)
    at = ok and value or nil
  end
  return at
end
-- Where a module is here: by the list, else PyTorch's own path.
local function place_of(module)
  return words.imports[module] or (module:find "^torchvision%.models%." and "torch.models") or (module:find "^torch%." and module) or nil
end
-- A name of such a module: in it, or in one that it is a file of (torch.utils.data.distributed).
local function name_in(at, name)
  local path = at
  while path and path:find "^torch%." do
    local owner = part(path)
    local ok, value = pcall(function() return owner[name] end)
    if type(owner) == "table" and ok and value ~= nil then return path .. "." .. name end
    path = path:match "^(.*)%.[^.]+$"
  end
  return at .. "." .. name
end
local function standard(s, module)
  local about = words.standard[module] or words.standard[module:match "^[^.]+"]
  if about then s.w.said("import", about) end
  return about and ("-- " .. about) or nil
end
imports["import"] = function(s)
  s.w.said "import"
  local out, comments = {}, {}
  repeat
    local module = module_name(s.p)
    local name = s.p:accept "as" and s.p:name() or nil
    local at = place_of(module)
    if module == "numpy" then
      s.w.said "numpy"
      comments[#comments + 1] = "-- tensors do what arrays do: torch." .. "zeros for np.zeros"
    elseif module:find "^matplotlib" then
      s.w.said "plot"
      out[#out + 1] = declared(s, {"plot"}, {"torch.plot"})
    elseif module == "torch" then
      comments[#comments + 1] = "-- torch is there already"
    elseif at then
      out[#out + 1] = declared(s, {name or module:match "[%w_]+$"}, {at})
    else
      local about = standard(s, module)
      if about then comments[#comments + 1] = about else out[#out + 1] = declared(s, {name or module:match "[%w_]+$"}, {('require "%s"'):format(module)}) end
    end
  until not s.p:accept ","
  return #out > 0 and table.concat(out, "; ") or comments[1]
end
imports["from"] = function(s)
  s.w.said "import"
  local module = ""
  while s.p:accept "." do module = "" end
  if s.p:text() ~= "import" then module = module_name(s.p) end
  s.p:expect "import"
  local bracket = s.p:accept "("
  if s.p:accept "*" then return ("for name, value in pairs(%s) do _G[name] = value end"):format(place_of(module) or ('require "%s"'):format(module)) end
  local names, values = {}, {}
  local at = place_of(module)
  repeat
    if s.p:text() == ")" or not s.p:token() then break end
    local name = s.p:name()
    values[#values + 1] = name
    names[#names + 1] = s.p:accept "as" and s.p:name() or name
  until not s.p:accept ","
  if bracket then s.p:expect ")" end
  if not at then
    local about = standard(s, module)
    if about then return about end
    local key = module ~= "" and module or values[1]
    if module == "" then return declared(s, names, {('require "%s"'):format(key)}) end
    for k, value in ipairs(values) do values[k] = ('require("%s").%s'):format(module, value) end
    return declared(s, names, values)
  end
  if module:find "^torchvision" then s.w.said "vision" end
  local known = {["torch.utils.data.datasets"] = "torch.utils.data", ["torch.utils.data.models"] = "torch.models", ["torch.utils.data.utils"] = "torch.utils.data.transforms", ["torch.utils.data.ToTensor"] = "torch.utils.data.transforms.ToTensor",
    ["torch.utils.data.io"] = "torch.utils.data", ["torch.pyplot"] = "torch", ["torch.utils.data.Image"] = "torch.utils.data", ["torch.amp.autocast"] = "torch.autocast", ["torch.Tensor"] = "torch.tensor",
    ["torch.utils.data.MNIST"] = "torch.utils.data.mnist", ["torch.utils.data.FashionMNIST"] = "torch.utils.data.fashion_mnist"}
  for k, value in ipairs(values) do values[k] = known[at .. "." .. value] or name_in(at, value) end
  return declared(s, names, values)
end

return imports
