-- Definition files for the Lua language server, made from the op table, the help pages and the comments
-- of the half written in Lua: editors then complete and check scripts. `write(directory)` writes them.
local torch = torch
local annotations = {}

local types = {
  tensor = "Tensor", ["tensor or number"] = "Tensor|number", number = "number", integer = "integer", boolean = "boolean",
  string = "string", integers = "integer|integer[]", dim = "integer", dims = "integer|integer[]", position = "integer",
  tensors = "Tensor[]", dtype = "torch.dtype|string", device = "torch.device|string|integer", generator = "torch.Generator",
}

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch "%a+" do
  keywords[word] = true
end
local function safe(name) return keywords[name] and name .. "_" or name end

-- Names of the results that an operation's rule gives: "values [.., k], positions [..]" -> 2 tensors.
local function results_of(signature)
  if signature.number then return "boolean|number" end
  local count = 0
  local right = (signature.rule:match "^[^;]*%->%s*([^;(]*)" or "")
  for _ in right:gmatch "%l+ %b[]" do count = count + 1 end
  if signature.rule:find "parts" or signature.rule:find "for each" or signature.rule:find "n tensors" or signature.rule:find "times %[" then
    return "Tensor ..."
  end
  if count < 2 then return "Tensor" end
  return (("Tensor, "):rep(count):gsub(", $", ""))
end

-- "fun(self: Tensor, k: integer, dim?: integer): Tensor" of a signature.
local function fun_type(signature, method)
  local parts, self = {}, 1
  for i, p in ipairs(signature.params) do
    if p.name == "self" then self = i end
  end
  if method then parts[1] = "self: Tensor" end
  for i, p in ipairs(signature.params) do
    if not (method and i == self) then
      parts[#parts + 1] = ("%s%s: %s"):format(safe(p.name), p.required and "" or "?", types[p.take] or "any")
    end
  end
  if signature.params[#signature.params] and signature.params[#signature.params].gather then parts[#parts + 1] = "...: any" end
  return ("fun(%s): %s"):format(table.concat(parts, ", "), results_of(signature))
end

-- The comment and head of one operation in one place.
local function operation(lines, record, place, name, method)
  local s = record.signatures[1]
  lines[#lines + 1] = "---" .. s.doc
  if s.rule ~= "" then lines[#lines + 1] = "---" end
  if s.rule ~= "" then lines[#lines + 1] = "---shape: `" .. s.rule .. "`" end
  for i = 2, #record.signatures do lines[#lines + 1] = "---@overload " .. fun_type(record.signatures[i], method) end
  -- All arguments may be given by name in one last table.
  lines[#lines + 1] = method and "---@overload fun(self: Tensor, arguments: table): " .. results_of(s) or "---@overload fun(arguments: table): " .. results_of(s)
  local names, self, gathers = {}, 1, false
  for i, p in ipairs(s.params) do
    if p.name == "self" then self = i end
  end
  for i, p in ipairs(s.params) do
    if not (method and i == self) then
      names[#names + 1] = safe(p.name)
      lines[#lines + 1] = ("---@param %s%s %s%s"):format(safe(p.name), p.required and "" or "?", types[p.take] or "any",
        p.default and p.default ~= "nil" and " default " .. p.default or "")
      gathers = gathers or p.gather
    end
  end
  if gathers then
    names[#names + 1] = "..."
    lines[#lines + 1] = "---@param ... any"
  end
  lines[#lines + 1] = "---@return " .. (results_of(s):gsub("Tensor, ", "Tensor\n---@return "):gsub("Tensor %.%.%.", "Tensor ..."))
  if keywords[name] then
    lines[#lines + 1] = ("%s[\"%s\"] = function(%s%s) end"):format(place, name, method and "self" .. (#names > 0 and ", " or "") or "", table.concat(names, ", "))
  else
    lines[#lines + 1] = ("function %s%s%s(%s) end"):format(place, method and ":" or ".", name, table.concat(names, ", "))
  end
  lines[#lines + 1] = ""
end

-- Arguments of a row of help pages: "a, b=1, {c, d=2}" -> names, and their optional ones.
local function row_arguments(lines, text)
  local names = {}
  local plain, named = text:gsub("%b{}", ""), text:match "%b{}"
  for part in plain:gmatch "[^,|]+" do
    local name, default = part:match "^%s*([%a_][%w_]*)%s*=?%s*(.-)%s*$"
    if part:find "%.%." and not name then name = "..." end
    if name and not keywords[name] then
      names[#names + 1] = name
      lines[#lines + 1] = ("---@param %s%s any"):format(name, default and default ~= "" and default ~= ".." and "?" or "")
    end
  end
  if named then
    local fields = {}
    for part in named:sub(2, -2):gsub("%b{}", "any"):gmatch "[^,]+" do
      local name = part:match "^%s*([%a_][%w_]*)"
      if name then fields[#fields + 1] = name .. "?: any" end
    end
    if #fields > 0 then
      names[#names + 1] = "options"
      lines[#lines + 1] = "---@param options? {" .. table.concat(fields, ", ") .. "}"
    end
  end
  return names
end

local class_names = {torch = "torch", Tensor = "Tensor", nn = "nn", ["nn.init"] = "nn.init", ["nn.utils"] = "nn.utils", ["nn.utils.rnn"] = "nn.utils.rnn", ["nn.parallel"] = "nn.parallel", F = "nn.functional", optim = "optim",
  data = "data", ["data.transforms"] = "data.transforms", ["data.transforms.functional"] = "data.transforms.functional",
  ["torch.linalg"] = "torch.linalg", ["torch.autograd"] = "torch.autograd", ["torch.cuda"] = "torch.cuda", ["torch.cuda.comm"] = "torch.cuda.comm", ["torch.cuda.nvtx"] = "torch.cuda.nvtx",
  ["torch.io"] = "torch.io", ["torch.autograd.functional"] = "torch.autograd.functional", ["torch.func"] = "torch.func", ["torch.autograd.graph"] = "torch.autograd.graph",
  ["torch.utils.checkpoint"] = "torch.utils.checkpoint",
  ["data.text"] = "data.text", ["data.text.BPETokenizer"] = "data.text.BPETokenizer", ["nn.Module"] = "nn.Module", ["optim.Optimizer"] = "optim.Optimizer"}

-- The Lua expression at which a space is defined in the files.
local places = {torch = "torch", Tensor = "Tensor", nn = "nn", ["nn.init"] = "nn.init", ["nn.utils"] = "nn.utils", ["nn.utils.rnn"] = "nn.utils.rnn", ["nn.parallel"] = "nn.parallel", F = "F", optim = "optim", data = "data",
  ["data.transforms"] = "data.transforms", ["data.transforms.functional"] = "data.transforms.functional",
  ["torch.linalg"] = "torch.linalg", ["torch.autograd"] = "torch.autograd", ["torch.cuda"] = "torch.cuda", ["torch.cuda.comm"] = "torch.cuda.comm", ["torch.cuda.nvtx"] = "torch.cuda.nvtx", ["torch.io"] = "torch.io",
  ["torch.autograd.functional"] = "torch.autograd.functional", ["torch.func"] = "torch.func", ["torch.autograd.graph"] = "torch.autograd.graph",
  ["torch.utils.checkpoint"] = "torch.utils.checkpoint",
  ["data.text"] = "data.text", ["data.text.BPETokenizer"] = "data.text.BPETokenizer", ["nn.Module"] = "Module", ["optim.Optimizer"] = "Optimizer"}

local function sorted_names(t)
  local names = {}
  for name in next, t do
    if type(name) == "string" and not name:find "^_" and name:find "^[%a_][%w_]*$" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function is_class(value) return type(value) == "table" and type(rawget(value, "_name")) == "string" end

-- Everything of one space: operations, rows, Lua functions, classes.
local function members(lines, prefix, space)
  local catalog, comments = require "shell.help.catalog", require "shell.help.comments"
  local ops, place = torch._ops(), places[prefix]
  local method = prefix == "Tensor" or prefix == "nn.Module" or prefix == "optim.Optimizer"
  for _, name in ipairs(sorted_names(space)) do
    local value = rawget(space, name)
    local path = prefix .. "." .. name
    local entry = catalog.at(path)
    local record = ops[name] or ops[name:match "^(.-)_$" or ""]
    if entry and entry.kind == "op" and record then
      operation(lines, record, place, name, method)
    elseif is_class(value) then
      local base = prefix == "nn" and "nn.Module" or prefix == "optim" and "optim.Optimizer" or nil
      lines[#lines + 1] = ("---%s"):format(entry and entry.doc or name)
      lines[#lines + 1] = ("---@class %s.%s%s"):format(prefix, name, base and " : " .. base or "")
      local arguments = {}
      local names = row_arguments(arguments, entry and entry.row and entry.row[2] or "")
      local fun = {}
      for _, each in ipairs(names) do fun[#fun + 1] = each == "..." and "...: any" or each .. "?: any" end
      lines[#lines + 1] = ("---@overload fun(%s): %s.%s"):format(table.concat(fun, ", "), prefix, name)
      lines[#lines + 1] = ("%s.%s = {}"):format(place, name)
      lines[#lines + 1] = ""
    elseif type(value) == "function" then
      local names
      lines[#lines + 1] = "---" .. (entry and entry.doc or "")
      if entry and entry.kind == "row" then
        names = row_arguments(lines, entry.row[2])
        lines[#lines + 1] = "---@return any"
      else
        local found = comments.of(value)
        names = {}
        local documented = {}
        for _, p in ipairs(found.params) do
          documented[p.name] = true
          lines[#lines + 1] = ("---@param %s%s %s %s"):format(p.name, p.optional and "?" or "", p.type ~= "" and p.type or "any", p.doc)
        end
        for i, each in ipairs(found.names) do
          if not (method and i == 1) then
            names[#names + 1] = safe(each)
            if not documented[each] then lines[#lines + 1] = ("---@param %s any"):format(safe(each)) end
          end
        end
        for _, r in ipairs(found.returns) do lines[#lines + 1] = "---@return " .. r end
        if #found.returns == 0 then lines[#lines + 1] = "---@return any ..." end
      end
      lines[#lines + 1] = ("function %s%s%s(%s) end"):format(place, method and ":" or ".", name, table.concat(names, ", "))
      lines[#lines + 1] = ""
    end
  end
end

local field_types = {shape = "integer[]", dtype = "torch.dtype", device = "torch.device", ndim = "integer", requires_grad = "boolean",
  is_leaf = "boolean", grad = "Tensor?", grad_fn = "table?", T = "Tensor", mT = "Tensor", is_cuda = "boolean", data = "Tensor"}

local function tensor_file()
  local catalog = require "shell.help.catalog"
  local lines = {"---@meta", "", "---An array of numbers with a type, a shape and a device.", "---@class Tensor"}
  for _, name in ipairs(sorted_names(torch._tensor_methods())) do
    if type(rawget(torch._tensor_methods(), name)) ~= "function" then
      local entry = catalog.at("Tensor." .. name)
      lines[#lines + 1] = ("---@field %s %s %s"):format(name, field_types[name] or "any", entry and entry.doc or "")
    end
  end
  for _, operator in ipairs {"add", "sub", "mul", "div", "idiv", "mod", "pow", "band", "bor", "bxor", "shl", "shr"} do
    lines[#lines + 1] = ("---@operator %s(Tensor|number): Tensor"):format(operator)
  end
  for _, operator in ipairs {"unm", "bnot"} do lines[#lines + 1] = ("---@operator %s: Tensor"):format(operator) end
  lines[#lines + 1] = "---@operator len: integer"
  lines[#lines + 1] = "---@field [integer|table|Tensor|string] Tensor"
  lines[#lines + 1] = "local Tensor = {}"
  lines[#lines + 1] = ""
  members(lines, "Tensor", torch._tensor_methods())
  return lines
end

local function torch_file()
  local lines = {"---@meta torch", "", "---@class torch.dtype", "---@class torch.device", "---@class torch.Generator", "",
    "---The module of tensors.", "---@class torch"}
  for _, name in ipairs(sorted_names(torch)) do
    local value = rawget(torch, name)
    if type(value) == "userdata" then
      local is_dtype = name:find "^b?%l+%d+$" or name == "bool" or name == "float" or name == "double" or name == "half" or name == "long" or name == "int" or name == "short"
      lines[#lines + 1] = ("---@field %s %s"):format(name, is_dtype and "torch.dtype" or "any")
    end
  end
  lines[#lines + 1] = "torch = {}"
  lines[#lines + 1] = ""
  local catalog = require "shell.help.catalog"
  local order = {}
  for _, space in ipairs(catalog.spaces()) do
    if space[1]:find "^torch" and places[space[1]] then order[#order + 1] = space end
  end
  for _, space in ipairs(order) do
    if space[1] ~= "torch" then
      lines[#lines + 1] = ("---@class %s"):format(class_names[space[1]])
      lines[#lines + 1] = ("%s = {}"):format(places[space[1]])
      lines[#lines + 1] = ""
    end
  end
  for _, space in ipairs(order) do members(lines, space[1], space[2]) end
  lines[#lines + 1] = "return torch"
  return lines
end

local function part_file(parts)
  local catalog = require "shell.help.catalog"
  local lines = {"---@meta", ""}
  for _, part in ipairs(parts) do
    lines[#lines + 1] = ("---@class %s"):format(class_names[part[1]])
    lines[#lines + 1] = ("%s%s = {}"):format(part[2], places[part[1]])
    if part[3] then lines[#lines + 1] = part[3] end
    lines[#lines + 1] = ""
  end
  for _, space in ipairs(catalog.spaces()) do
    for _, part in ipairs(parts) do
      if part[1] == space[1] then members(lines, space[1], space[2]) end
    end
  end
  return lines
end

---The files as texts: name -> text.
---@return table<string, string>
function annotations.files()
  local _ = torch.nn.Module
  local made = {
    ["tensor.lua"] = tensor_file(),
    ["torch.lua"] = torch_file(),
    ["nn.lua"] = part_file {{"nn", "", "torch.nn = nn"}, {"nn.Module", "local ", "nn.Module = Module"}, {"nn.init", ""}, {"nn.utils", ""}, {"nn.utils.rnn", ""}, {"nn.parallel", ""}, {"F", "", "nn.functional = F"}},
    ["optim.lua"] = part_file {{"optim", "", "torch.optim = optim"}, {"optim.Optimizer", "local "}},
    ["data.lua"] = part_file {{"data", "", "torch.utils = {data = data}"}, {"data.transforms", ""}, {"data.transforms.functional", ""}},
  }
  local out = {}
  for name, lines in next, made do out[name] = table.concat(lines, "\n") .. "\n" end
  return out
end

---Writes the definition files into a directory, which is made when it is not there.
---@param directory string
---@return string[] paths
function annotations.write(directory)
  local paths = {}
  for name, text in next, annotations.files() do
    local path = directory .. "/" .. name
    local file, why = io.open(path, "w")
    if not file then
      os.execute("mkdir -p '" .. directory:gsub("'", "'\\''") .. "'")
      file, why = io.open(path, "w")
    end
    if not file then error("cannot write " .. tostring(why), 0) end
    file:write(text)
    file:close()
    paths[#paths + 1] = path
  end
  table.sort(paths)
  return paths
end

return annotations
