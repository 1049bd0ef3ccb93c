-- The `---` comments above a Lua function, LuaLS annotations included, wherever the function comes from:
-- an embedded file, an entry of the prompt or a file on disk.
local torch = torch
local comments = {}

local lines_of = {}  -- source -> lines; of embedded files only, which do not change

local function split(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

---The lines of a function's source, or nil when it is not at hand.
---@param source string as debug.getinfo gives it
---@return string[]|nil
function comments.lines(source)
  local first, name = source:sub(1, 1), source:sub(2)
  if first == "=" then
    if lines_of[name] then return lines_of[name] end
    local text = torch._embedded(name)
    if text then
      lines_of[name] = split(text)
      return lines_of[name]
    end
    return torch._chunks[name] and split(torch._chunks[name])
  elseif first == "@" then
    local file = io.open(name, "rb")
    if not file then return nil end
    local text = file:read(2000000)  -- more is no source that a person reads
    file:close()
    return text and split(text)
  end
  return split(source)
end

---The name of an embedded source's file in the tree, else the source's own name.
function comments.place(source)
  local name = source:sub(2)
  if source:sub(1, 1) == "=" and torch._embedded(name) then
    return name:find "^shell/" and name:gsub("^shell/", "shell/lua/") or "bindings/" .. name
  end
  return source:sub(1, 1) == "@" and name or source:match "^=(.*)" or "[string]"
end

-- "dim? integer the dimension" -> name, optional, type, text
local function read_param(text)
  local name, optional, rest = text:match "^([%w_.]+)(%??)%s*(.*)$"
  if not name then return nil end
  -- A type may hold spaces inside brackets.
  local depth, i = 0, 1
  while i <= #rest do
    local c = rest:sub(i, i)
    if c:find "[%[{(<]" then depth = depth + 1 elseif c:find "[%]})>]" then depth = depth - 1 end
    if c == " " and depth == 0 and not rest:sub(1, i - 1):find "[|:,]$" and not rest:sub(i + 1):find "^|" then break end
    i = i + 1
  end
  return {name = name, optional = optional == "?", type = rest:sub(1, i - 1), doc = rest:sub(i + 1)}
end

---@param f function
---@return {doc: string, params: table[], returns: string[], names: string[], place: string, line: integer}
function comments.of(f)
  local info = debug.getinfo(f, "Su")
  local found = {doc = "", params = {}, returns = {}, names = {}, place = comments.place(info.source), line = info.linedefined}
  for i = 1, info.nparams do found.names[i] = debug.getlocal(f, i) end
  if info.isvararg then found.names[#found.names + 1] = "..." end
  local lines = info.what ~= "C" and comments.lines(info.source)
  if not lines then return found end
  local first = info.linedefined
  while first > 1 and (lines[first - 1] or ""):find "^%s*%-%-%-" do first = first - 1 end
  local text = {}
  for i = first, info.linedefined - 1 do
    local line = lines[i]:gsub("^%s*%-%-%-%s?", "")
    local tag, rest = line:match "^@(%a+)%s*(.*)$"
    if tag == "param" then
      found.params[#found.params + 1] = read_param(rest)
    elseif tag == "return" then
      found.returns[#found.returns + 1] = rest
    elseif not tag then
      text[#text + 1] = line
    end
  end
  found.doc = table.concat(text, " "):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
  return found
end

---The text of a function, or nil.
---@param f function
---@return string|nil
function comments.source(f)
  local info = debug.getinfo(f, "S")
  local lines = info.what ~= "C" and comments.lines(info.source)
  if not lines or not lines[info.linedefined] then return nil end
  local first = info.linedefined
  while first > 1 and (lines[first - 1] or ""):find "^%s*%-%-%-" do first = first - 1 end
  return table.concat(lines, "\n", first, math.min(info.lastlinedefined, #lines))
end

return comments
