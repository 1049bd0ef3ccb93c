-- Errors of Lua's own that come from habits of Python: its functions and modules, loops over lists without ipairs, texts
-- joined to values, self in a function written with a point. Each says what to write.
local torch = torch
local source = require "torch.source"
local words = require("torch.messages").words

-- The line as Lua writes it, when that differs.
local function in_lua(at)
  local code = require("torch.foreign").line(at.text, at.line)
  return code
end

local builtins = {}
for name in ("len str int float abs max min list tuple set dict range enumerate zip sorted reversed isinstance issubclass input exit quit sum any all round map filter iter next hasattr getattr setattr tqdm repr bool ord chr open vars dir super ValueError RuntimeError Exception help callable"):gmatch "%S+" do
  builtins[name] = true
end

local list_methods = {pop = true, items = true, sort = true, index = true, format_map = true, split = true, tolist = false, remove = false, lower = false, upper = false}

-- A sum of texts with .. between them, and where it stands.
local function with_dots(text, line)
  local sum
  for _, node in ipairs((source.parse(text, line))) do
    if node.kind == "binary" and node.op == "+" and node.line == line and (not sum or node.first <= sum.first and node.last >= sum.last) then sum = node end
  end
  if not sum then return nil end
  local parts = {}
  local function add(node)
    if node.kind == "binary" and node.op == "+" then
      add(node.args[1])
      add(node.args[2])
    else
      local code = text:sub(node.first, node.last)
      local plain = node.kind == "value" or node.kind == "call" and (node.name == "tostring" or node.name == "format" or node.name == "rep" or node.name == "sub")
      parts[#parts + 1] = plain and code or "tostring(" .. code .. ")"
    end
  end
  add(sum)
  return table.concat(parts, " .. "), {sum.first, sum.last}
end

local rows = {
  {"^attempt to call a nil value %(global '([%w_]+)'%)", function(at, name)
    if name == "f" and at.code:find "f[\"']" then return words.python_text, in_lua(at), name end
    if not builtins[name] then return nil end
    return words.python_function:format(name), in_lua(at), name
  end},
  {"^attempt to call a nil value %(%w+ '([%w_]+)'%)", function(at, name)
    local library = require "torch.foreign.words"
    local of_os = at.code:match("%f[%w_]os%.%s*[%w_.]*%f[%w_]" .. name)
    if of_os then return words.python_function:format(of_os), in_lua(at), of_os end
    if not (library.methods[name] or list_methods[name]) or not at.code:find("[.:]%s*" .. name .. "%s*%(") then return nil end
    local code = in_lua({text = at.text:gsub(":" .. name .. "%(", "." .. name .. "("), line = at.line})
    return words.python_method:format(name), code, name
  end},
  {"^attempt to index a nil value %(global '([%w_]+)'%)", function(at, name)
    local library = require "torch.foreign.words"
    if library.shortcuts[name] then
      return words.at_the_prompt:format(name), ("local %s = %s"):format(name, library.shortcuts[name]), name
    end
    if name == "self" then
      for row = at.line, 1, -1 do
        local owner, method, arguments = (at.lines[row] or ""):match "function%s+([%a_][%w_.]*)%.([%a_][%w_]*)%s*(%b())"
        if owner then
          return words.self_is_nil:format(owner .. "." .. method), ("function %s:%s%s"):format(owner, method, (arguments:gsub("^%(%s*self%s*,?%s*", "("))), name
        end
      end
      return nil
    end
    if library.roots[name] then return words.no_module:format(name, library.roots[name]), in_lua(at), name end
  end},
  {"^module '([%w_.]+)' not found", function(at, name)
    local library = require "torch.foreign.words"
    local here = library.imports[name] or library.imports[name:match "^%w+"]
    local about = library.standard[name] or library.standard[name:match "^%w+"]
    if not here and not about or name:find "^torch%f[^%w]" then return nil end
    return words.python_module:format(name), here and ('require "%s"'):format(here) or about, 'require'
  end},
  {"^attempt to index a nil value %(%w+ '([%w_]+)'%)", function(at, name)
    local of_os = at.code:match("%f[%w_]os%.%s*" .. name .. "[%w_.]*")
    if of_os then return words.python_function:format(of_os), in_lua(at), of_os end
    for row = at.line, 1, -1 do
      local opened = (" " .. (at.lines[row] or "")):match("[^%w_.]" .. name .. "%s*=%s*(io%.p?open%s*%b())")
      if opened then return words.not_opened:format(name), ("local %s = assert(%s)"):format(name, opened), name end
    end
  end},
  {"^attempt to call an? ([%w_. ]+) value %(for iterator", function(at, kind)
    local lead, over = at.code:match "^.-for%s+([%w_,%s]-)%s+in%s+(.-)%s+do%f[%W]"
    if not over then return nil end
    local first = lead:match "^[%w_]+"
    if kind == "number" then return words.loop_number, ("for %s = 1, %s do"):format(first, over), over end
    if kind == "Tensor" then return words.loop_tensor, ("for i = 1, #%s do local %s = %s[i]"):format(over, first, over), over end
    if kind ~= "table" then return nil end
    if over:find "named_%a+%(%)$" and lead:find "," then  -- pairs of a name and what has it
      return words.loop_list, ("for _, each in ipairs(%s) do local %s = each[1], each[2]"):format(over, lead), over
    end
    local plain = lead:find "," and lead or "_, " .. lead
    return words.loop_list, ("for %s in ipairs(%s) do"):format(plain, over), over
  end},
  {"^variable '[%w_]+' got a non%-closable value", function(at)
    local value = at.code:match "<close>%s*=%s*(.-)%s*$"
    if not value then return nil end
    local inside = value:match "^torch%.device%((.*)%)$"
    if inside then return words.no_scope_held, ("torch.device(%s, function() ... end)"):format(inside), value end
    if value:find "^torch[%w_.]*$" then return words.no_scope_called, ("local _ <close> = %s()"):format(value), value end
    return words.no_scope, nil, value
  end},
  {"^attempt to mod a 'string'", function(at) return words.format, in_lua(at), nil end},
  {"^attempt to add an? '(%w+)' with an? '%w+'", function(at)
    local code, place = with_dots(at.text, at.line)
    if code then return words.text_plus, nil, place, code end
  end},
  {"^attempt to mul a 'string' with a 'number'", function(at)
    for _, node in ipairs((source.parse(at.text, at.line))) do
      if node.kind == "binary" and node.op == "*" and node.line == at.line then
        local text, n = at.text:sub(node.args[1].first, node.args[1].last), at.text:sub(node.args[2].first, node.args[2].last)
        return words.text_times, nil, {node.first, node.last}, ("(%s):rep(%s)"):format(text:gsub("^%((.*)%)$", "%1"), n)
      end
    end
  end},
  {"^attempt to perform arithmetic on a (table) value", function(at)
    local name = at.message:match "'([%w_]+)'%)$"
    return words.table_arithmetic, name and ("torch.tensor(%s)"):format(name) or "torch.tensor{1, 2}", name
  end},
  {"^attempt to index a number value", function(at)
    local list = at.code:match "next(%b())"
    if list then return words.next_of, list:sub(2, -2) .. "[1]", "next" .. list end
  end},
  {"^attempt to concatenate an? ([%w_]+) value", function(at, kind)
    if kind == "nil" or kind == "function" then return nil end
    local name = at.message:match "%(%w+ '([^']*)'%)"
    local call = {text = at.text}
    local found, several, place
    for _, node in ipairs((source.parse(at.text, at.line))) do
      if node.kind == "binary" and node.op == ".." and node.line == at.line then
        for _, side in ipairs(node.args) do
          local code = call.text:sub(side.first, side.last)
          local plain = side.kind == "value" or side.kind == "binary" or side.kind == "call" and (side.name == "tostring" or side.name == "format" or side.name == "rep" or side.name == "sub")
          if not plain and (not name or side.name == name) then
            if found and found ~= code then several = true end
            found, place = found or code, place or {side.first, side.last}
          end
        end
      end
    end
    if not found or several and not name and kind ~= "Tensor" then return words.joined_value:format(kind), several and found and "tostring(" .. found .. ")" or nil, place end
    return words.joined_value:format(kind), nil, place, ("tostring(%s)"):format(found)
  end},
}

---An error object for an error of Lua's own that a habit of Python made; else nil.
---@param chunk string
---@param line integer
---@param message string
local function foreign(chunk, line, message)
  local full = torch._chunks[chunk] and "=" .. chunk or "@" .. chunk
  local text = source.text(full)
  if not text then return nil end
  for _, row in ipairs(rows) do
    local found = message:match(row[1])
    if found then
      local lines, begin = {}, 1
      for each in (text .. "\n"):gmatch "(.-)\r?\n" do lines[#lines + 1] = each end
      for each = 1, line - 1 do begin = (text:find("\n", begin, true) or #text) + 1 end
      local at = {text = text, line = line, code = lines[line] or "", lines = lines, message = message}
      local said, hint, marked, fix = row[2](at, found)
      if not said then return nil end
      local err = setmetatable({kind = "argument", op = "", hint = hint or "", where = chunk .. ":" .. line, message = said, _code = "NAME-1", _fixes = {fix and {code = fix}},
        _call = ("S %d %s\nF ? ?\n"):format(line, full)}, debug.getregistry()["tycho.error"])
      local place = type(marked) == "string" and at.code:find(marked, 1, true)
      if type(marked) == "table" then err._call = err._call .. ("P %d %d\n"):format(marked[1], marked[2]) end
      if place then err._call = err._call .. ("P %d %d\n"):format(begin + place - 1, begin + place + #marked - 2) end
      return err
    end
  end
end

return {error = foreign, with_dots = with_dots}
