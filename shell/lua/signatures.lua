-- The arguments that a call may have, from the op table, the help pages, comments and Lua itself:
-- for the argument line below an entry and for the completion of named arguments.
local live = require "shell.live"

-- "a, b=1, {c, d=2}" of a row of help pages -> list of {name=, default=, optional=}
local function row_parameters(text)
  local list = {}
  for part in text:gsub("[{}]", ""):gmatch "[^,]+" do
    if part:find "%.%.%." then list[#list + 1] = {name = "...", optional = false} end
    local name, default = part:match "^%s*([%a_][%w_]*)%s*=?%s*(.-)%s*$"
    if name then list[#list + 1] = {name = name, default = default ~= "" and default or nil, optional = default ~= ""} end
  end
  return list
end

-- The arguments of a function of Lua's library, by its bare name.
local library
local function library_arguments(name)
  if not library then
    library = {}
    for _, row in ipairs(require("shell.help.topics").lua) do
      if row[2] then library[row[1]:match "[^.]*$"] = row[2] end
    end
  end
  return library[name]
end

---The signatures of a callee: a list of lists of {name=, default=, optional=, take=}, the tensor of a method
---left out.
---@param call table as call_at gives it
return function(call)
  local entry, value = call.entry, call.callee and call.callee.value
  local method = call.callee and live.is_tensor_type(call.callee.owner)
  local out = {}
  if entry and entry.kind == "op" then
    for _, s in ipairs(entry.record.signatures) do
      local list, self = {rule = s.rule, doc = s.doc}, nil
      for i, p in ipairs(s.params) do
        if p.name == "self" then self = i end
      end
      for i, p in ipairs(s.params) do
        if not (method and i == (self or 1)) then list[#list + 1] = p end
      end
      out[#out + 1] = list
    end
  elseif entry and entry.kind == "row" then
    local list = row_parameters(entry.row[2])
    list.rule, list.doc = entry.row.rule, entry.row[3]
    out[1] = list
  else
    if live.is_class(value) then value = live.field(value, "init") end
    if live.class_of(value) then value = live.field(value, "forward") end
    if type(value) ~= "function" then return out end
    local info = debug.getinfo(value, "Su")
    if info.what == "C" then
      local arguments = library_arguments(call.name)
      if arguments then out[1] = row_parameters(arguments) end
      return out
    end
    local list, found = {}, require("shell.help.comments").of(value)
    local optional = {}
    for _, p in ipairs(found.params) do optional[p.name] = p.optional end
    for i, name in ipairs(found.names) do
      if not (i == 1 and name == "self") then list[#list + 1] = {name = name, optional = optional[name]} end
    end
    list.doc = found.doc
    out[1] = list
  end
  return out
end
