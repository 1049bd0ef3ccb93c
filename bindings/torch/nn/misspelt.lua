-- Misspelt fields of modules and optimisers: reading one that looks like a field that is there raises with its name, and
-- writing one beside a parameter gets a note. Loaded when a field is asked for that is not there.
local torch = torch
local error = torch._raise
local source = require "torch.source"
local nearest = require "torch.explain.nearest"
local misspelt = {}

local quiet = {}  -- places that were looked at and are in order

-- The nearest of some names, which differs by letters, not by a number or an end (norm1, norms).
local function near_letters(name, known, plural)
  local letters = name:gsub("%d", "")
  return nearest(name, known, #name < 6 and 1 or 2, function(key)
    local bare = key:gsub("%d", "")
    local grown = not plural and #bare ~= #letters and (bare:find(letters, 1, true) == 1 or letters:find(bare, 1, true) == 1)
    return key:sub(1, 1) ~= "_" and bare ~= letters and not grown
  end)
end

-- What the variables of a running function are.
local function variables(level)
  local values = {}
  local info = debug.getinfo(level + 1, "f")
  for i = 1, 60 do
    local name, v = debug.getupvalue(info.func, i)
    if not name then break end
    values[name] = v
  end
  for i = 1, 250 do
    local name, v = debug.getlocal(level + 1, i)
    if not name then break end
    values[name] = v
  end
  return function(name)
    local v = values[name]
    if v == nil then v = rawget(_G, name) end
    return v
  end
end

-- The object that the line reads the field of, and what the line calls it.
local function object_of(name, info, value_of, is_object)
  local full = torch._chunks[info.short_src] and "=" .. info.short_src or info.source
  local text = source.text(full)
  if not text then return nil end
  for _, node in ipairs((source.parse(text, info.currentline))) do
    if node.kind == "field" and node.name == name and node.line == info.currentline then
      local path, at = {}, node.object
      while at and (at.kind == "field" or at.kind == "index") do
        local key = at.name or text:sub(at.key.first, at.key.last)
        table.insert(path, 1, at.name or tonumber(key) or key:match "^[\"'](.*)[\"']$" or false)
        at = at.object
      end
      local v = at and at.kind == "name" and value_of(at.name) or nil
      for _, key in ipairs(path) do v = type(v) == "table" and rawget(v, key) or nil end
      if is_object(v) then return v, text:sub(node.object.first, node.object.last) end
    end
  end
end

---A field that is not there was read in the user's code: raises where its name looks like that of one that is there.
---@param name string
---@param info table of the reading function, with source, short_src and currentline
---@param level integer of that function, as this one's caller counts
---@param is_object fun(v: any): boolean
---@param known fun(object: table): table the names that it has, as keys
---@param plural? boolean an s too few or too many is a slip, too
function misspelt.read(name, info, level, is_object, known, plural)
  local place = ("%s:%d:%s"):format(info.short_src, info.currentline, name)
  if quiet[place] then return nil end
  local object, called = object_of(name, info, variables(level + 1), is_object)
  local near = object and near_letters(name, known(object), plural)
  if not near then
    quiet[place] = true
    return nil
  end
  error(('%s has no field "%s"; did you mean %s.%s? (rawget(%s, "%s") asks for one that may be absent)'):format(called, name, called, near, called, name), level + 1, "argument")
end

---A new field was written in the user's code: a note where a parameter has nearly its name.
---@param object table
---@param name string
---@param parameters table names of parameters, as keys
---@param form string of note FIELD
function misspelt.written(object, name, parameters, form)
  local near = parameters[name] ~= nil and name or near_letters(name, parameters)
  if not near then return end
  local called
  for level = 3, 6 do  -- what the user's line calls the object
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    local line = info.currentline > 0 and not info.source:find "^=torch/" and require("torch.notes").line_text(info.short_src, info.currentline)
    called = called or line and line:match("([%a_][%w_.%[%]]*)%." .. name .. "%s*=")
  end
  require("torch.notes").tell("FIELD", form, {name = name, near = near, class = object._name or "object", called = called})
end

return misspelt
