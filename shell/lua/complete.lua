-- Completion at the prompt: a function of the text and the cursor that gives the first byte to replace
-- and the candidates, {text=, note=}, best first. It runs nothing of the user's: values are read raw,
-- tensors and modules by the tables of their methods.
local T = require("torch.language").text
local torch = torch
local live = require "shell.live"
local signatures = require "shell.signatures"
local new_set = require "shell.candidates"
local shapes = require "shell.shapes"
local rawget, type, next = rawget, type, next
local find = string.find

local most_keys = 50000  -- looked at in one table

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch "%a+" do
  keywords[#keywords + 1] = word
end

-- --- sources ---

local function signature_note(name)
  return function()
    local entry = live.tensor_entry(name)
    if entry and entry.kind == "op" then
      local pages = require "shell.help.pages"
      local text = pages.signature(entry.record, entry.record.signatures[1], "Tensor")
      return (text:match "%b()$" or "")
    elseif entry and entry.kind == "row" then
      return entry.row[2] ~= "" and "(" .. entry.row[2] .. ")" or nil
    end
  end
end

-- Operations that the tensor's shape fits come first, other names of an operation last.
local function rank_of(name, shape)
  local record = torch._ops()[name]
  if not record then return 0 end
  if record.alias_of then return 20 end
  if not shape then return 0 end
  for _, s in ipairs(record.signatures) do
    if shapes.fits(s.rule, shape) then return 0 end
  end
  return 10
end

local function tensor_members(set, mark, value)
  local shape = value ~= nil and table.pack(table.unpack(value.shape)) or nil  -- plain, for a thousand looks
  for name, v in next, torch._tensor_methods() do
    if type(name) == "string" and set:place(name) then
      if type(v) == "function" then
        set:add(name, (mark == ":" and 1 or 2) + rank_of(name, shape), signature_note(name))
      elseif mark == "." then
        local note
        if value ~= nil and (name == "shape" or name == "dtype" or name == "device" or name == "ndim") then
          note = function() return (tostring(value[name]):gsub("^torch%.", "")) end
        end
        set:add(name, 1, note or "")
      end
    end
  end
end

-- The arguments of a function or class of torch.
local function callable_note(v, name)
  return function()
    local entry = live.entry_of(v, name)
    if entry and entry.kind == "op" then
      local pages = require "shell.help.pages"
      return pages.signature(entry.record, entry.record.signatures[1], entry.record.places[1]):match "%b()$"
    elseif entry and entry.kind == "row" then
      return "(" .. entry.row[2] .. ")"
    end
    return (live.note(v):gsub("^%(self,? ?", "("))
  end
end

-- Keys of a table and of the tables behind its __index.
local function table_members(set, mark, value)
  local count = 0
  for level = 1, 10 do
    if type(value) ~= "table" then return end
    if value == torch then
      for _, part in ipairs {"optim", "utils", "nn"} do set:add(part, 1, "table") end
    elseif value == rawget(torch, "nn") then
      local _ = value.Module  -- loads the layers
    end
    for key, v in next, value do
      count = count + 1
      if count > most_keys then return end
      if type(key) == "string" and set:place(key) and find(key, "^[%a_][%w_]*$") then
        local callable = type(v) == "function" or type(v) == "table"
        local hidden = key:find "^__" and debug.getmetatable(value) ~= nil
        if not hidden and (mark == "." or type(v) == "function") then
          set:add(key, (callable and mark == ":" and 1 or 2) + (level - 1), callable and callable_note(v, key) or nil, v)
        end
      end
    end
    value = live.behind(value)
  end
end

-- Fields that only a function knows, by the name of their type.
local fields = {dtype = "is_floating_point itemsize name", device = "type index"}

local function members(set, of, mark)
  if not of then return end
  if live.is_tensor_type(of) then return tensor_members(set, mark, of.value) end
  local value = of.class or of.value
  if type(value) == "string" then return table_members(set, mark, string) end
  if type(value) == "userdata" then
    local meta = debug.getmetatable(value)
    for name in (type(meta) == "table" and mark == "." and fields[rawget(meta, "__name")] or ""):gmatch "%S+" do set:add(name, 1, "") end
    value = live.behind(value)
  end
  table_members(set, mark, value)
end

-- Names declared in the text itself.
local function declared(set, tokens, upto)
  local after
  for i = 1, upto - 1 do
    local t = tokens[i]
    if t.kind == "keyword" and (t.text == "local" or t.text == "for" or t.text == "function") then
      after = t.text
    elseif t.kind == "name" and after then
      set:add(t.text, 1, "local")
    elseif after and t.text ~= "," and t.text ~= "(" and not (after == "local" and (t.text == "<" or t.text == ">")) then
      after = nil
    end
  end
end

local function variables(set, prefix)
  local session = package.loaded["shell.session"]
  local names = type(session) == "table" and rawget(session, "names")
  local origins = names and names.origins or {}
  for name, value in next, _G do
    local own = origins[name] ~= nil
    if prefix ~= "" or own then set:add_name(name, own and 2 or 5, nil, value) end
  end
  if names then
    for name, constant in next, names.constants or {} do set:add(name, 2, nil, constant[1]) end
    if prefix ~= "" then
      for name in next, names.shortcuts or {} do set:add(name, 4, "at the prompt") end
    end
  end
end

-- Names of arguments inside a table of them: those of the call that are not yet given.
local function named_arguments(set, call)
  if not call or not call.named then return end
  local given = {}
  for _, a in ipairs(call.arguments) do
    if a.name then given[a.name] = true end
  end
  for _, list in ipairs(signatures(call)) do
    for i, p in ipairs(list) do
      if p.name ~= "..." and not given[p.name] and i > (call.positional or 0) then
        local note = p.default and "= " .. p.default or p.take or ""
        set:add(p.name .. "=", 0, note)
      end
    end
  end
end

-- Files and directories that begin like the text.
local function files(set, path)
  local directory, name = path:match "^(.*/)([^/]*)$"
  directory, name = directory or "", name or path
  local real = directory:gsub("^~/", (os.getenv "HOME" or "~") .. "/")
  local list = require("shell.native").list_directory
  for _, each in ipairs(list and list(real == "" and "." or real) or {}) do
    if name:sub(1, 1) == "." or each:sub(1, 1) ~= "." then set:add(directory .. each, each:find "/$" and 1 or 2, "") end
  end
end

-- --- the kinds of text ---

local function complete_files(path, first)
  local set = new_set(path)
  files(set, path)
  return first, set:list()
end

local option_values = {
  dtype = function(set)
    for name, v in next, torch do
      if type(name) == "string" and type(v) == "userdata" and name:find "^b?%l+%d+$" or name == "bool" then set:add(name, 1, "") end
    end
  end,
  device = function(set)
    set:add("cpu", 1, "")
    if torch.cuda.is_available() then
      set:add("cuda", 2, "")
      for i = 0, torch.cuda.device_count() - 1 do set:add("cuda:" .. i, 3, "") end
    end
  end,
  reduction = function(set) for _, v in ipairs {"mean", "sum", "none"} do set:add(v, 1, "") end end,
}

local complete_code

local function complete_string(read, token, first)
  local tokens = read.tokens
  local before, name = tokens[#tokens - 1], tokens[#tokens - 2]
  local text = token.text:sub(2)
  local values = before and before.text == "=" and name and option_values[name.text]
  if values then
    local set = new_set(text)
    values(set)
    return first, set:list()
  end
  return complete_files(text, first)
end

-- What the words after a command may be, where they are no code.
local words_of = {
  ["%demo"] = function(set)
    for _, entry in ipairs(require("shell.help.catalog").entries()) do
      if entry.kind == "op" then set:add(entry.name, 1, T(entry.doc)) end
    end
  end,
  ["%learn"] = function(set)
    for i, lesson in ipairs(require("shell.lesson.find").all()) do set:add(lesson.name, i, T(lesson.title)) end
  end,
  ["%lang"] = function(set)
    for code, name in next, require("torch.language").names do set:add(code, 1, name) end
  end,
  ["%explain"] = function(set)
    for _, code in ipairs(require("torch.explain").codes()) do set:add(code, 1, "") end
  end,
}

local function complete_command(left)
  local name, rest = left:match "^(%%[%w_]*)(.*)$"
  local commands = require "shell.commands"
  if rest == "" then
    local set = new_set(name)
    for _, each in ipairs(commands.names("%")) do
      set:add(each, 1, function()
        local row = commands.find(each)
        return row and T(row.doc)
      end)
    end
    return 1, set:list()
  end
  local word = rest:match "%S*$"
  local first = #left - #word + 1
  if name == "%cd" or name == "%ls" or name == "%run" or name == "%edit" or name == "%save" or name == "%log" or name == "%record" then
    return complete_files(word, first)
  elseif words_of[name] then
    local set = new_set(word)
    words_of[name](set)
    return first, set:list()
  end
  local shift = #left - #rest
  local at, list = complete_code(rest)
  return at + shift, list
end

local function complete_topic(left)
  local marks, topic = left:match "^(%?+/?%s*)(.*)$"
  local shift = #marks
  if topic:find "^%%" then
    local first, list = complete_command(topic)
    return first + shift, list
  end
  -- A path through a value first, then the pages.
  if topic:find "[.:%]]" then
    local first, list = complete_code(topic)
    if #list > 0 then return first + shift, list end
  end
  local set = new_set(topic)
  for _, entry in ipairs(require("shell.help.catalog").entries()) do
    local rank = entry.kind == "op" and 2 or entry.kind == "topic" and 1 or 3
    local text = topic:find "[.]" and entry.path or entry.kind == "row" and not entry.path:find "^T%a+%." and entry.path or entry.name
    set:add(text, rank, T(entry.doc))
  end
  for name, value in next, _G do
    if type(name) == "string" then set:add(name, 4, nil, value) end
  end
  return shift + 1, set:list()
end

function complete_code(left)
  local read = live.read(left)
  local tokens = read.tokens
  local last = tokens[#tokens]
  if last and last.last == #left then
    if last.kind == "comment" and not left:sub(last.last):find "\n" then return #left + 1, {} end
    if (last.kind == "string" or last.kind == "error") and last.unfinished then
      if last.text:find "^%[" then return #left + 1, {} end
      return complete_string(read, last, last.first + 1)
    end
  end
  local prefix, first, at = "", #left + 1, #tokens + 1
  if last and last.last == #left and (last.kind == "name" or last.kind == "keyword") then
    prefix, first, at = last.text, last.first, #tokens
  elseif last and last.last == #left and last.kind == "number" then
    return #left + 1, {}
  end
  local set = new_set(prefix)
  local before = tokens[at - 1]
  local mark = before and before.kind == "op" and before.text
  if mark == "." or mark == ":" then
    local of = live.type_at(tokens, at - 2)
    if not of and at == 2 then of = {value = live.variable "_"} end  -- `:sum()` continues the last value
    members(set, of, mark)
    return first, set:list()
  end
  if before and before.kind == "keyword" and before.text == "function" then return first, {} end
  local cut = {}
  for i = 1, at - 1 do cut[i] = tokens[i] end
  local call = (mark == "{" or mark == "," or mark == "(") and live.call_at(cut)
  if call and (mark == "{" or mark == ",") then named_arguments(set, call) end
  declared(set, tokens, at)
  variables(set, prefix)
  if prefix ~= "" then
    for _, word in ipairs(keywords) do set:add(word, 3, "") end
  end
  return first, set:list()
end

---@param text string
---@param cursor integer bytes left of the cursor
---@return integer first, {text: string, note: string|nil}[] candidates
return function(text, cursor)
  local left = text:sub(1, cursor)
  local blank = left:match "^%s*"
  local trimmed = left:sub(#blank + 1)
  local first, list
  if trimmed:find "^%%" then
    first, list = complete_command(trimmed)
  elseif trimmed:find "^%?" then
    first, list = complete_topic(trimmed)
  elseif trimmed:find "^!" then
    local word = trimmed:match "[^%s!]*$"
    first, list = complete_files(word, #trimmed - #word + 1)
  else
    first, list = complete_code(trimmed)
  end
  return first + #blank, list
end
