-- Python's functions that make lists of what they are given, written in Lua: sorted, list, set, over zip, map and filter.
local Parser = require "torch.foreign.parse"
local lists = {}

local function called(e, name) return e.kind == "call" and e[1].kind == "name" and e[1].text == name end

-- A text whose characters are meant, as far as a name tells.
local function is_text(w, e) return w.is_text(e) or e.kind == "name" and w.text_names[e.text] or false end

-- The different elements of a list, or letters of a text.
local function different(w, e, order)
  local loop = is_text(w, e) and "for each in from:gmatch(utf8.charpattern) do" or "for _, each in ipairs(from) do"
  return ("(function(from) local seen, out = {}, {} %s if not seen[each] then seen[each] = true out[#out + 1] = each end end %sreturn out end)(%s)"):format(
    loop, order, (w:write(e)))
end

---A list, as far as a name tells.
---@param name string
function lists.is_list(name)
  return name == "losses" or name == "history" or name == "lst" or name == "accs" or name == "accuracies" or name:find "_list$" ~= nil or name:find "_losses$" ~= nil
end

---losses[-10:] and its like, of a list.
---@param list string
---@param first any a number, or nil
---@param last any
function lists.part(list, first, last)
  if first and not math.type(first) or last and not math.type(last) then Parser.fail() end
  local from = not first and "1" or first >= 0 and tostring(first + 1) or first == -1 and "#" .. list or ("math.max(1, #%s - %d)"):format(list, -first - 1)
  local to = not last and "#" .. list or last >= 0 and tostring(last) or ("#%s - %d"):format(list, -last)
  return ("{table.unpack(%s, %s, %s)}"):format(list, from, to)
end

---@param named string[] key = .., reverse = ..
function lists.sorted(w, e, named)
  local key, less = nil, "<"
  for _, each in ipairs(named) do
    key = each:match "^key = (.*)$" or key
    if each == "reverse = true" then less = ">" end
  end
  local order = key and (", function(a, b) local key = %s; return key(a) %s key(b) end"):format(key, less) or less == ">" and ", function(a, b) return a > b end" or ""
  local over = e.args[1]
  while called(over, "list") and #over.args == 1 do over = over.args[1] end
  if called(over, "set") and #over.args == 1 then return different(w, over.args[1], ("table.sort(out%s) "):format(order)) end
  local method = over.kind == "call" and over[1].kind == "field" and over[1].name
  if method == "items" and not key then order = (", function(a, b) return a[1] %s b[1] end"):format(less) end
  local made = lists.made(w, "list", over)
  if called(over, "range") and #over.args == 1 then  -- of positions: from 1
    made = ("(function() local out = {} for i = 1, %s do out[i] = i end return out end)()"):format((w:write(over.args[1])))
    return ("(function(t) table.sort(t%s) return t end)(%s)"):format(order, made)
  end
  return ("(function(t) table.sort(t%s) return t end)%s"):format(order, made and method and "(" .. made .. ")" or ("{table.unpack(%s)}"):format(made or (w:write(over))))
end

---list(..) or set(..) of what has to be gone through; nil where it is a list already.
---@return string?
function lists.made(w, name, over)
  if name == "set" then return different(w, over, "") end
  local method = over.kind == "call" and over[1].kind == "field" and #over.args == 0 and over[1].name
  local element = method == "keys" and "key" or method == "values" and "value" or method == "items" and "{key, value}"
  if element then
    return ("(function() local out = {} for key%s in pairs(%s) do out[#out + 1] = %s end return out end)()"):format(method == "keys" and "" or ", value", (w:write(over[1][1])), element)
  end
  if is_text(w, over) then return different(w, over, ""):gsub("local seen, out = {}, {}", "local out = {}"):gsub("if not seen%[each%] then seen%[each%] = true (.-) end end", "%1 end") end
  if (called(over, "map") or called(over, "filter")) and #over.args == 2 then
    local x = {kind = "name", text = "each"}
    local f = over.args[1]
    if f.kind == "lambda" then f = {kind = "group", f} end
    local value = {kind = "call", f, args = {x}}
    local is_map = called(over, "map")
    return (require("torch.foreign.loops").value(w, {kind = "comprehension", element = is_map and value or x, loops = {{target = x, iter = over.args[2], test = not is_map and value or nil}}}))
  end
  if called(over, "enumerate") and #over.args == 1 then
    return ("(function() local out = {} for i, each in ipairs(%s) do out[i] = {i, each} end return out end)()"):format((w:write(over.args[1])))
  end
  if called(over, "zip") and #over.args == 1 and over.args[1].kind == "star" then return (w:write(over)) end
  if called(over, "zip") then
    local names, element = {}, {}
    for k = 1, #over.args do
      names[k] = {kind = "name", text = "each" .. k}
      element[k] = names[k]
    end
    return (require("torch.foreign.loops").value(w, {kind = "comprehension", element = {kind = "tuple", items = element}, loops = {{target = {kind = "tuple", items = names}, iter = over}}}))
  end
end

return lists
