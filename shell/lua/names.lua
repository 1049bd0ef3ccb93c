-- The names of a session: reading an unknown one at the prompt is an error that names the nearest,
-- constants cannot be assigned, `nn F optim` and the like are at hand, and every variable knows the
-- entry that set it. Files see a plain global table.
local distance = require "torch.explain.distance"
local places = require "torch.explain.places"
local language = require "torch.language"
local T, N = language.text, language.noted
local names = {
  origins = {},    -- name -> number of the entry that set it
  constants = {},  -- name -> {value}
  shortcuts = {},  -- at the prompt only: name -> function that gives its value
}
-- The parts of torch that have a short name.
local homes = {nn = "torch.nn", F = "torch.nn.functional", optim = "torch.optim", data = "torch.utils.data",
  dist = "torch.distributed", plot = "torch.plot", hist = "torch.hist"}
for word, home in pairs(homes) do names.shortcuts[word] = function() return places.reach(home) end end

local getinfo, rawget, rawset, lex = debug.getinfo, rawget, rawset, torch._lex
local globals = _G
local known = {}  -- names that were set before: nil is their value
names.known = known

-- Does the line read `name` as a variable (not as a field, `_G.name` among them)?
local answers, asked = {}, 0
local function reads_variable(source, line, name)
  local text = torch._chunks[source:sub(2)]
  if not text then return true end
  local key = ("%s:%d:%s"):format(source, line, name)
  if answers[key] ~= nil then return answers[key] end
  local on_line, anywhere, fields_on_line = false, false, false
  local before
  local row, from = 1, 1
  for _, token in ipairs(lex(text)) do
    for _ in text:sub(from, token.first):gmatch("\n") do row = row + 1 end
    from = token.first + 1
    if token.kind == "name" and text:sub(token.first, token.last) == name then
      local dot = before and text:sub(before.first, before.last)
      if dot == "." or dot == ":" then
        fields_on_line = fields_on_line or row == line
      else
        anywhere = true
        on_line = on_line or row == line
      end
    end
    before = token
  end
  local answer = on_line or anywhere and not fields_on_line
  asked = asked + 1
  if asked > 1000 then answers, asked = {}, 0 end
  answers[key] = answer
  return answer
end

---@param name string
---@param candidates table|fun(): string|nil names as keys, or an iterator
---@return string|nil nearest
---@return integer|nil edits
function names.nearest(name, candidates)
  local best
  local least = #name <= 2 and 0 or #name <= 5 and 1 or #name <= 8 and 2 or 3
  local function consider(other, d)
    if other:sub(1, 1) == "_" and name:sub(1, 1) ~= "_" then return end
    if d < least or d == least and (not best or other < best) then best, least = other, d end
  end
  if type(candidates) == "table" then
    for other, d in next, torch._near(name, candidates, least) do consider(other, d) end
    return best, best and least
  end
  for other in candidates do
    if type(other) == "string" and other ~= name then
      consider(other, other:lower() == name:lower() and 0 or distance(name, other, least))
    end
  end
  return best, best and least
end

local function kind_of(name)
  local constant = names.constants[name]
  local value = rawget(globals, name)
  if constant then value = constant[1] end
  if names.shortcuts[name] and value == nil then return "module" end
  if type(value) == "userdata" then return "tensor" end
  return type(value)
end

-- The line of an entry as Lua writes it, for a name that only Python has.
local function in_lua(place)
  local entry = place and torch._chunks[place.source:sub(2)]
  local ok, code = pcall(require("torch.foreign").line, entry or "", place and place.currentline or 1, {global = true})
  return ok and code and "\n   " .. T("in Lua: %s"):format((code:gsub("\n", "\n           "))) or ""
end

-- What people type by habit of other prompts.
local typed = {clear = N"Ctrl-L clears the screen", cls = N"Ctrl-L clears the screen", ls = N"!ls asks the system", pwd = N"!pwd asks the system", cd = N"!pwd asks the system where it is",
  who = N"%who lists the variables", whos = N"%who lists the variables", dir = N"%who lists the variables, ?NAME tells of one", vars = N"%who lists the variables",
  globals = N"%who lists the variables", locals = N"%who lists the variables", history = N"%hist lists the entries", reset = N"%quit leaves, and the next session begins anew"}
local leaving = {exit = true, quit = true, bye = true, q = true}

-- A part of torch as the prompt writes it: its longest beginning that has a shortcut (torch.nn.init: nn.init).
local function shortened(part)
  for at = #part, 1, -1 do
    local whole = at == #part or part:sub(at + 1, at + 1) == "."
    for word, home in pairs(whole and homes or {}) do
      if home == part:sub(1, at) then return word .. part:sub(at + 1) end
    end
  end
  return part
end

---@param place? table where it is read, as debug.getinfo tells
---@return string message
function names.unknown(name, place)
  local text = T('no variable "%s".'):format(name)
  local number = tonumber(name:match("^_(%d+)$"))
  if number then return T("entry %d gave no value"):format(number) end
  if rawget(torch, name) ~= nil then return T('%s Did you mean "torch.%s"?'):format(text, name) end
  for _, row in ipairs(require "shell.help.aliases") do
    if row[1] == name and row[2] == "Python" then return T("%s Python's %s is here: %s"):format(text, name, row[3]) .. in_lua(place) end
  end
  local other = require("torch.foreign.words").roots[name]
  if other then return language.beside(text, other) .. in_lua(place) end
  if typed[name] then return language.beside(text, T(typed[name])) end
  if leaving[name] then return T("%s Ctrl-D on an empty line leaves, or %%quit"):format(text) end
  local part = places.of(name)[1]
  if part then return T('%s Did you mean "%s%s"?'):format(text, shortened(part) .. ".", name) end
  local near, edits
  for _, known in ipairs {globals, names.constants, names.shortcuts} do
    local other, d = names.nearest(name, known)
    if other and (not near or d < edits or d == edits and other < near) then near, edits = other, d end
  end
  if near then
    local from = names.origins[near] and (", from [%d]"):format(names.origins[near]) or ""
    return T('%s Did you mean "%s" (%s%s)?'):format(text, near, kind_of(near), from)
  end
  near = names.nearest(name, torch)
  return near and T('%s Did you mean "torch.%s"?'):format(text, near) or text
end

local results  -- the module of `_`
local function read(_, name)
  local constant = names.constants[name]
  if constant then return constant[1] end
  local reader = getinfo(2, "Sl")
  local source = reader and reader.source or "=?"
  local first = source:sub(1, 1)
  if first == "@" or source:find("^=torch/") or source:find("^=shell/") then return nil end
  if type(name) == "string" and not known[name] then
    if name:byte() == 95 then  -- an underscore
      results = results or require "shell.results"
      local is_result, value, gone = results.read(name)
      if gone then error(gone, 2) end
      if is_result then return value end
    end
    local shortcut = names.shortcuts[name]
    if shortcut then return shortcut() end
    if source:find("^=%[%d+%]$") and reads_variable(source, reader.currentline, name) then
      error(names.unknown(name, reader), 2)
    end
  end
  return nil
end

local function write(_, name, value)
  if names.constants[name] then
    error(T('"%s" is a constant of this session; local %s = ... declares it anew'):format(name, name), 2)
  end
  if type(name) == "string" then
    known[name] = not name:find("^_+%d*$") or nil  -- those are results again when they are gone
    names.origins[name] = names.current
  end
  rawset(globals, name, value)
end

-- After an entry: the names it assigned come from it; those declared <const> become constants.
function names.after(number, assigned, constants)
  for _, name in ipairs(assigned) do
    if rawget(globals, name) ~= nil then names.origins[name] = number end
  end
  for _, name in ipairs(constants) do
    local value = rawget(globals, name)
    if value ~= nil then
      rawset(globals, name, nil)
      names.constants[name] = {value}
      names.origins[name] = number
    end
  end
end

function names.forget_constants(list)
  for _, name in ipairs(list) do names.constants[name] = nil end
end

local at_first = {}  -- the globals of a fresh prompt

---The globals that a fresh prompt has.
---@return table<string, any>
function names.fresh() return at_first end

-- Strict reads begin; a metatable that somebody gave to _G before stays.
function names.install()
  for name, value in next, globals do
    known[name] = true
    at_first[name] = value
  end
  local meta = getmetatable(globals)
  if not meta or meta.__name == "tycho.globals" then setmetatable(globals, {__index = read, __newindex = write}) end
end

return names
