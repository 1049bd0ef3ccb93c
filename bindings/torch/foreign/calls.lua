-- Calls of Python written in Lua: named arguments, points and colons, the functions that every Python has, positions
-- among the arguments.
local torch = torch
local words = require "torch.foreign.words"
local lists = require "torch.foreign.lists"

-- Puts written arguments into a form of words.lua: %1 the first, %* all, %0 the object.
local function fill(form, args, object)
  local missing
  local text = form:gsub("%%([%d%*%%])", function(k)
    if k == "%" then return "%" end
    if k == "*" then return table.concat(args, ", ") end
    if k == "0" then return object end
    local value = args[tonumber(k)]
    if not value then missing = true end
    return value
  end)
  return not missing and text or nil
end

-- How tightly a filled form binds.
local function level_of(form)
  if form:find "^#" then return 12 end
  if form:find " [=~]= " then return 3 end
  if form:find " %+ " then return 10 end
  if form:find " %^ " then return 14 end
  if form:find " %.%. " then return 9 end
  return 20
end

local masked = {masked_fill = 1, masked_fill_ = 1, masked_select = 1, where = 0, masked_scatter = 1, any = 0, all = 0}  -- which argument is a mask

local function shifted(w, e)
  local n = w.number(e)
  if n and n >= 0 and not w.lua then return tostring(n + 1) end
  if (e.kind == "tuple" or e.kind == "table") and not w.lua then
    local out = {}
    for k, item in ipairs(e.items) do out[k] = shifted(w, item) end
    return "{" .. table.concat(out, ", ") .. "}"
  end
  return (w:write(e))
end

-- Positional and named arguments, written; positions that are dimensions count from 1.
local function arguments(w, e, name, first)
  local positional, named, places = {}, {}, {}
  for _, place in ipairs(words.dims[name] or {}) do places[place + first] = true end
  if name == "size" and e[1].kind ~= "field" then places = {} end
  for i, arg in ipairs(e.args) do
    if arg.kind == "star" and i < #e.args and e.args[i + 1].kind ~= "named" then  -- only what stands last can be several values
      local rest = {}
      for k = i + 1, #e.args do
        local each = e.args[k]
        if each.kind == "named" or each.kind == "star" then w.fail() end
        rest[#rest + 1] = "t[#t + 1] = " .. (w:write(each))
      end
      positional[#positional + 1] = ("table.unpack((function(t) %s return t end){%s})"):format(table.concat(rest, " "), (w:write(arg)))
      break
    end
    if arg.kind == "named" then
      local value = words.named_dims[arg.name] and shifted(w, arg[1]) or (w:write(arg[1]))
      if value == "nil" then value = "torch.none" end
      named[#named + 1] = w.key(arg.name) .. " = " .. value
      w.said "named"
    elseif arg.kind == "stars" then
      positional[#positional + 1] = (w:write(arg))
    else
      local k = #positional + 1
      positional[k] = places[k] and not e[1].colon and shifted(w, arg) or masked[name] == k - first and (w:mask(arg)) or (w:write(arg))
    end
  end
  return positional, named
end

local function joined(positional, named)
  local all = table.move(positional, 1, #positional, 1, {})
  if #named > 0 then all[#all + 1] = "{" .. table.concat(named, ", ") .. "}" end
  if #all == 1 and all[1]:find "^%b{}$" then return all[1] end
  return "(" .. table.concat(all, ", ") .. ")"
end

local function root(e)
  while e.kind == "field" or e.kind == "index" or e.kind == "call" do e = e[1] end
  return e
end

local of_self = {}  -- methods of a network that its own methods call
for name in ("parameters named_parameters modules children state_dict load_state_dict train eval to forward register_buffer register_parameter zero_grad apply cuda cpu"):gmatch "%S+" do of_self[name] = true end
local receivers = {}  -- methods that are asked of a mask
for name in ("sum any all mean float long int item nonzero to double type cpu squeeze view logical_not numpy"):gmatch "%S+" do receivers[name] = true end

local function print_call(w, positional, named)
  local options = {}
  for _, each in ipairs(named) do
    local key, value = each:match "^%[?\"?(%w+)\"?%]? = (.*)$"
    options[key] = value
  end
  if options["end"] then
    w.said "print_end"
    local all = {}
    for k, value in ipairs(positional) do all[#all + 1] = (k > 1 and '" ", ' or "") .. (value:find "^[\"'(]" and value or "tostring(" .. value .. ")") end
    if options["end"] ~= '""' and options["end"] ~= "''" then all[#all + 1] = options["end"] end
    return "io.write(" .. table.concat(all, ", ") .. ")"
  end
  if options.file == "sys.stderr" or options.file == "io.stderr" then
    local all = {}
    for k, value in ipairs(positional) do all[k] = (k > 1 and '" ", ' or "") .. (value:find "^[\"'(]" and value or "tostring(" .. value .. ")") end
    all[#all + 1] = '"\\n"'
    return "io.stderr:write(" .. table.concat(all, ", ") .. ")"
  end
  local only = options.sep and #positional == 1 and positional[1]:match "^table%.unpack%((.*)%)$"
  if only then return ("print(table.concat(%s, %s))"):format(only, options.sep) end
  if options.sep then return ("print(table.concat({%s}, %s))"):format(table.concat(positional, ", "), options.sep) end
  return "print(" .. table.concat(positional, ", ") .. ")"
end

local of_tensor = {sum = true, mean = true, max = true, min = true, argmax = true, argmin = true, std = true, var = true, norm = true, any = true, all = true, prod = true, median = true}
local makers = {int = "math.floor(%1)", float = "%1 + 0.0"}

return function(w, e)
  local f = e[1]
  if f.kind == "name" then
    local name = f.text
    local positional, named = arguments(w, e, words.functions[name] and "" or name, 0)  -- max(0, x) is Python's own
    if name == "print" then return print_call(w, positional, named), 20 end
    if name == "range" then
      w.said "range"
      return "torch.arange(" .. table.concat(positional, ", ") .. ")", 20
    end
    if name == "complex" then
      w.said "complex"
      w.fail()
    end
    if name == "zip" and #e.args == 1 and e.args[1].kind == "star" then  -- columns of rows
      w.said "columns"
      return ("(function(rows) local out = {} for i, row in ipairs(rows) do for k, value in ipairs(row) do out[k] = out[k] or {}; out[k][i] = value end end return out end)(%s)"):format((w:write(e.args[1][1]))), 20
    end
    if name == "zip" then w.said "zip" end
    if name == "next" and e.args[1] then
      local a = e.args[1]
      if a.kind == "call" and a[1].kind == "name" and a[1].text == "iter" and a.args[1] then return w:object(a.args[1]) .. "()()", 20 end
      return w:object(a) .. "[1]", 20
    end
    if (name == "map" or name == "filter") and #e.args == 2 then return lists.made(w, "list", e), 20 end
    if name == "dict" and #e.args == 1 and e.args[1].kind == "call" and e.args[1][1].text == "zip" and #e.args[1].args == 2 then
      local keys, values = w:object(e.args[1].args[1]), w:object(e.args[1].args[2])
      return ("(function() local out = {} for i = 1, #%s do out[%s[i]] = %s[i] end return out end)()"):format(keys, keys, values), 20
    end
    if name == "dict" and #e.args == 1 and #named == 0 then return ("(function() local out = {} for k, v in pairs(%s) do out[k] = v end return out end)()"):format(positional[1]), 20 end
    if name == "defaultdict" and e.args[1] and e.args[1].kind == "name" then
      local fresh = ({list = "{}", dict = "{}", set = "{}", int = "0", float = "0.0"})[e.args[1].text]
      if fresh then return ("setmetatable({}, {__index = function(t, k) t[k] = %s return t[k] end})"):format(fresh), 20 end
    end
    if (name == "max" or name == "min") and #positional == 1 and (named[1] or ""):find "^key = " then
      return ("(%s)[1]"):format(lists.sorted(w, e, {named[1], name == "max" and "reverse = true" or nil})), 20
    end
    if name == "dict" then return "{" .. table.concat(named, ", ") .. "}", 19 end
    if name == "len" then
      w.said "len"
      local arg = e.args[1] and w:under(e.args[1], 20)
      if arg then return "#" .. arg, 12 end
    end
    if name == "round" and positional[1] then
      if positional[2] then return ('tonumber(("%%.%sf"):format(%s))'):format(positional[2], positional[1]), 20 end
      return ("math.floor(%s + 0.5)"):format(positional[1]), 20
    end
    if (name == "float" or name == "int") and e.args[1] then
      local a = e.args[1]
      if a.kind == "string" then
        local text = a.parts[1].content:lower()
        if text:find "inf$" then return text:find "^%-" and "-math.huge" or "math.huge", 20 end
        if text == "nan" then return "0/0", 11 end
        return "tonumber(" .. positional[1] .. ")", 20
      end
      if a.kind == "call" and a[1].kind == "field" and of_tensor[a[1].name] and not a[1].colon then
        local number = positional[1] .. ":item()"
        return name == "int" and "math.floor(" .. number .. ")" or number, 20
      end
      if name == "float" or a.kind == "name" then
        if a.kind == "name" and (a.text:find "loss" or a.text:find "acc") then return a.text .. ":item()", 20 end
        return fill(makers[name], {(w:under(a, 10))}), name == "int" and 20 or 10
      end
    end
    if name == "isinstance" and e.args[2] then
      local path = w:path(e.args[2])
      if e.args[2].kind == "tuple" or path and path:find "^nn%." or path and path:find "^%u" then return ("torch.isinstance(%s, %s)"):format(positional[1], positional[2]), 20 end
      local kinds = {int = '"number"', float = '"number"', str = '"string"', bool = '"boolean"', list = '"table"', dict = '"table"', tuple = '"table"'}
      if path == "torch.Tensor" then return "torch.is_tensor(" .. positional[1] .. ")", 20 end
      if kinds[path] then return ("type(%s) == %s"):format(positional[1], kinds[path]), 3 end
      return ("torch.isinstance(%s, %s)"):format(positional[1], positional[2]), 20
    end
    if name == "sorted" and positional[1] then return lists.sorted(w, e, named), 20 end
    if name == "input" and positional[1] then return ("(io.write(%s) and io.read())"):format(positional[1]), 20 end
    if (name == "list" or name == "tuple" or name == "set") and #e.args == 1 then
      local a = e.args[1]
      local made = lists.made(w, name, a)
      if made then return made, 20 end
      if a.kind == "call" and a[1].kind == "name" and a[1].text == "range" then return w:write(a), 20 end
      return w:write(a)
    end
    if (name == "list" or name == "dict" or name == "set" or name == "tuple") and #e.args == 0 then return "{}", 19 end
    if (name == "sum" or name == "any" or name == "all" or name == "max" or name == "min") and e.args[1] and e.args[1].kind == "comprehension" then
      return require("torch.foreign.loops").folded(w, name, e.args[1])
    end
    if (name == "max" or name == "min" or name == "abs") and #e.args == 1 then
      if name ~= "abs" then return ("math.%s(table.unpack(%s))"):format(name, positional[1]), 20 end
    end
    if name == "bool" and #e.args == 1 then return w:write(w:truth(e.args[1])) end
    local form = words.functions[name]
    local text = form and fill(form, positional)
    if text then return text, level_of(form) end
    return name .. joined(positional, named), 20
  end
  if f.kind ~= "field" then
    local positional, named = arguments(w, e, "", 0)
    return w:object(f) .. joined(positional, named), 20
  end
  local path = w:path(f)
  local of = f[1]
  local base = root(of)
  local data = of.kind == "name" and of.text == "data" and torch.utils.data
  local library = not (data and data[f.name] == nil) and base.kind == "name" and (words.libraries[base.text] or base.text == "np" or base.text == "numpy") and of.kind ~= "call" and of.kind ~= "index"
  local positional, named = arguments(w, e, f.name, library and 1 or 0)
  if f.colon then return w:object(of) .. ":" .. f.name .. joined(positional, named), 20 end
  local known = (f.name == "MNIST" or f.name == "FashionMNIST" or f.name == "KMNIST") and f.name
  if known then
    w.said "vision"
    local first, rest = positional[1] or '"data"', {}
    for _, each in ipairs(named) do
      local key, value = each:match "^(%w+) = (.*)$"
      if key == "root" then first = value elseif key ~= "download" then rest[#rest + 1] = each end
    end
    local name = ({MNIST = "mnist", FashionMNIST = "fashion_mnist", KMNIST = "kmnist"})[known]
    return ("torch.utils.data.%s(%s%s)"):format(name, first, #rest > 0 and ", {" .. table.concat(rest, ", ") .. "}" or ""), 20
  end
  if path then
    local form = words.modules[path] or words.modules[path:match "^torchvision%.(.*)$" or ""]
    if form and form:find "^%-%-" then w.said("numpy") end
    if form and form:find("%*", 1, true) and #named > 0 then positional[#positional + 1] = "{" .. table.concat(named, ", ") .. "}" end
    local text = form and fill(form, positional)
    if text then
      if path:find "^np%." then w.said "numpy" elseif path:find "^plt%." then w.said "plot" end
      return text, level_of(form)
    end
    if path:find "^np%." then
      w.said "numpy"
      return "torch." .. path:sub(4) .. joined(positional, named), 20
    end
    local rest = path:match "^torchvision%.(.*)$"
    if rest then
      w.said "vision"
      rest = rest:gsub("^datasets%.", ""):gsub("^models%.", "\1")
      return (rest:find "^\1" and "torch.models." .. rest:sub(2) or "torch.utils.data." .. rest) .. joined(positional, named), 20
    end
  end
  if of.kind == "call" and of[1].kind == "name" and of[1].text == "super" then
    w.said "super"
    return "", 20
  end
  if f.name == "format" and w.is_text(of) then
    local n, given = 0, {}
    for _, each in ipairs(named) do given[each:match "^[%w_]+"] = each:match "= (.*)$" end
    local text = (w:write(of)):gsub("%%", "%%%%"):gsub("{([%w_]*):?([^{}]*)}", function(name, spec)
      if given[name] then
        positional[#positional + 1] = given[name]
        n = #positional
      else
        n = n + 1
      end
      local form, changed = w.spec_of((spec:gsub("%%%%", "%%")), positional[n] or "nil")
      positional[n] = changed
      return form
    end)
    return ("(%s):format(%s)"):format(text, table.concat(positional, ", ")), 20
  end
  if f.name == "get" and (#positional == 2 or e.args[1] and e.args[1].kind == "string") then
    local value = w:index {of, items = {e.args[1]}}
    if positional[2] then return value .. " or " .. positional[2], 1 end
    return value, 20
  end
  if #e.args == 0 and (f.name == "keys" or f.name == "values" or f.name == "items") then return lists.made(w, "list", e), 20 end
  if f.name == "add" and of.kind == "name" and #positional == 1 and (of.text:find "seen" or of.text == "visited" or of.text:find "set$") then
    return ("%s[%s] = true"):format(of.text, positional[1]), 20
  end
  if f.name == "insert" and #positional == 2 and w.number(e.args[1]) then
    return ("table.insert(%s, %s, %s)"):format((w:write(of)), w:position(e.args[1]), positional[2]), 20
  end
  if f.name == "pop" and #positional <= 1 then
    if e.args[1] and e.args[1].kind == "string" then return ("%s[%s]"):format(w:object(of), positional[1]), 20 end
    return ("table.remove(%s%s)"):format((w:write(of)), positional[1] and ", " .. w:position(e.args[1]) or ""), 20
  end
  if f.name == "append" and of.kind == "call" and of[1].kind == "field" and of[1].name == "setdefault" and #of.args == 2 and positional[1] then
    local slot = w:index {of[1][1], items = {of.args[1]}}
    return ("%s = %s or %s; table.insert(%s, %s)"):format(slot, slot, (w:write(of.args[2])), slot, positional[1]), 20
  end
  if f.name == "add_argument" and e.args[1] and e.args[1].kind == "string" then  -- the options with their defaults, in a table
    local option = e.args[#positional].parts[1].content:gsub("^%-+", ""):gsub("%-", "_")
    local value = "nil"
    for _, each in ipairs(named) do value = each:match "^default = (.*)$" or each:find "store_true" and "false" or value end
    return ("%s.%s = %s"):format(w:object(of), option, value), 20
  end
  if f.name == "replace" and #e.args == 2 and e.args[1].kind == "string" then
    local plain = positional[1]:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0")
    return ("(%s:gsub(%s, %s))"):format(w:object(of), plain, (positional[2]:gsub("%%", "%%%%"))), 20
  end
  if f.name == "sort" and (named[1] or ""):find "^reverse = true" then return ("table.sort(%s, function(a, b) return a > b end)"):format((w:write(of))), 20 end
  if f.name == "sort" and named[1] and named[1]:find "^key = " then
    return ("table.sort(%s, function(a, b) local key = %s; return key(a) < key(b) end)"):format((w:write(of)), named[1]:sub(7)), 20
  end
  if f.name == "sort" and #positional == 0 and #named == 0 and not library then return ("table.sort(%s)"):format((w:write(of))), 20 end
  if f.name == "split" and not library and #named == 0 and (#e.args == 0 or e.args[1].kind == "string") then
    local between = e.args[1] and "[^" .. e.args[1].parts[1].content:gsub("[%^%]%%%-]", "%%%0") .. "]+" or "%S+"
    local pieces = ('%s:gmatch("%s")'):format(w:object(of), between)
    if w.iterates then return pieces, 20 end
    return ("(function() local out = {} for part in %s do out[#out + 1] = part end return out end)()"):format(pieces), 20
  end
  local object = receivers[f.name] and (of.kind == "group" or of.kind == "compare") and w:mask(of) or nil
  if object then object = (of[1] and of[1].kind == "compare") and object or "(" .. object .. ")" end
  local form = not library and words.methods[f.name]
  if form and not ((f.name == "copy" or f.name == "read") and positional[1]) and not (f.name == "split" and (positional[1] or #named > 0)) then
    local text = fill(form, positional, object or w:object(of))
    if text then return text, level_of(form) end
  end
  if library then return w:object(of) .. "." .. f.name .. joined(positional, named), 20 end
  if base.kind == "name" and base.text == "self" and of.kind == "name" and not of_self[f.name] then
    -- self.fc1(x) is a layer in a field; self.helper(x) a method: both are written so in Python.
    return w:object(of) .. "." .. f.name .. joined(positional, named), 20
  end
  if of.kind == "name" and of.text:find "^%u" and f.name:find "^%u" then return of.text .. "." .. f.name .. joined(positional, named), 20 end
  if f.name:find "^__" then return w:object(of) .. "." .. f.name .. joined(positional, named), 20 end
  w.said "dot"
  return (object or w:object(of)) .. ":" .. (w.keywords[f.name] and "tile" or f.name) .. joined(positional, named), 20
end
