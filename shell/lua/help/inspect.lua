-- What `?x` says of a value, and `??x` of where it comes from. Fields are read raw: nothing of the user's
-- runs here.
local T = require("torch.language").text
local torch = torch
local pages = require "shell.help.pages"
local comments = require "shell.help.comments"
local catalog = require "shell.help.catalog"
local inspect = {}
local colour = pages.colour

local function bytes_text(n)
  if n < 10000 then return ("%d B"):format(n) end
  if n < 1e6 then return ("%.0f kB"):format(n / 1e3) end
  if n < 1e9 then return ("%.1f MB"):format(n / 1e6) end
  return ("%.2f GB"):format(n / 1e9)
end

-- ", from [4]: x + ones{4, 1}"
local function origin_text(name, session)
  if not session or not name:find "^[%a_][%w_]*$" then return "" end
  local number
  if name == "_" then
    local list = session.results and session.results.list and session.results.list() or {}
    number = list[#list] and list[#list].number
  else
    number = tonumber(name:match "^_(%d+)$") or session.origin(name)
  end
  local entry = number and session.entries[number]
  if not entry then return "" end
  local text = entry.text:gsub("%s+", " "):gsub("^ ", ""):gsub("[; ]+$", "")
  if #text > 60 then text = text:sub(1, 58) .. ".." end
  return (", from [%d]: %s"):format(number, text)
end

---A tensor in one line: "f32 [4, 3] cpu contiguous 48 B".
function inspect.tensor(x)
  local text = torch._brief(x)
  if tostring(x.device) == "cpu" then text = text .. " cpu" end
  text = text .. (x:is_contiguous() and " contiguous " or " strides " .. tostring(x:stride()) .. " ") .. bytes_text(x:numel() * x:element_size())
  local look = torch._inspect and torch._inspect(x)
  if look then
    if look.base and look.base ~= 0 then text = text .. ", a view" end
    if look.node then
      text = text .. T(", computed by %s"):format(look.node.name)
    elseif look.requires_grad then
      text = text .. T", a leaf that requires grad"
    end
    if look.grad and look.grad ~= 0 then text = text .. T", has a gradient" end
  end
  return text
end

local function table_text(t)
  local list, fields = rawlen(t), {}
  local count = 0
  for k, v in next, t do
    count = count + 1
    if count > 100000 then break end
    if type(k) == "string" and #fields < 200 then
      fields[#fields + 1] = k .. (type(v) == "function" and "()" or "")
    end
  end
  table.sort(fields)
  local text = list > 0 and T("table, %d in its list"):format(list) or "table"
  if #fields > 0 then
    local shown = table.concat(fields, "  ", 1, math.min(#fields, 24)) .. (#fields > 24 and (" .. %d more"):format(#fields - 24) or "")
    text = text .. ", fields\n" .. pages.wrap(shown, "  ")
  elseif count == 0 then
    text = T"table, empty"
  end
  return text
end

local function class_name(t)
  local meta = debug.getmetatable(t)
  if type(meta) ~= "table" then return nil end
  local name = rawget(meta, "_name") or rawget(meta, "__name")
  return type(name) == "string" and name or nil
end

-- Where help tells more of one of torch's classes.
local function class_page(class)
  for _, space in ipairs {"nn.", "optim.", "data.", "data.transforms.", "data.text."} do
    local page = catalog.at(space .. class)
    if page then return "\n  " .. T("?%s tells more of the class"):format(page.path) end
  end
  return ""
end

---What a value is, in a few lines.
---@param value any
---@param name string how it was asked for
---@param session table|nil
---@return string
function inspect.value(value, name, session)
  local origin = origin_text(name, session)
  if torch.is_tensor(value) then return inspect.tensor(value) .. origin end
  local kind = type(value)
  if kind == "function" then
    local info = debug.getinfo(value, "S")
    if info.what == "C" then return T"function, built in" end
    local found = comments.of(value)
    return pages.lua({path = name:gsub(":", "."), f = value, found = found}) .. (origin ~= "" and "\n  " .. origin:sub(3) or "")
  elseif kind == "table" then
    local class = class_name(value)
    if class then
      local count, elements = 0, 0
      local Module = rawget(torch.nn.Module, "_base")
      local parameters = Module and rawget(value, "_order") and Module.parameters(value) or {}
      for _, p in ipairs(parameters) do count, elements = count + 1, elements + p:numel() end
      local text = class
      if count > 0 then text = text .. T(", %d parameters in %d tensors"):format(elements, count) end
      return text .. origin .. class_page(class)
    end
    if rawget(value, "__index") == value and type(rawget(value, "_name")) == "string" then
      return "class " .. value._name .. origin .. class_page(value._name)
    end
    return table_text(value) .. origin
  elseif kind == "string" then
    return T("string of %d bytes"):format(#value) .. origin
  elseif kind == "number" then
    return (math.type(value) == "integer" and "integer " or "number ") .. tostring(value) .. origin
  elseif kind == "userdata" then
    local meta = debug.getmetatable(value)
    local what = type(meta) == "table" and type(rawget(meta, "__name")) == "string" and rawget(meta, "__name") or "userdata"
    return what .. origin
  end
  return kind .. (kind == "boolean" and " " .. tostring(value) or "") .. origin
end

---Where a thing is defined: an operation's place in the op table, or the Lua source of a function.
---@param entry table|nil of the catalog
---@param value any
---@param name string
---@return string
function inspect.source(entry, value, name, session)
  if entry and entry.kind == "op" then
    local lines = {}
    for _, s in ipairs(entry.record.signatures) do
      lines[#lines + 1] = T("operation %d \"%s\"%s, %s"):format(s.index, s.id, s.row and ", a row" or "", s.file)
    end
    return table.concat(lines, "\n")
  end
  local f = entry and entry.f or value
  if type(f) == "table" then
    -- A class: its init and forward.
    local parts = {}
    for _, key in ipairs {"init", "forward"} do
      local own = rawget(f, key)
      if type(own) == "function" then parts[#parts + 1] = inspect.source(nil, own, name) end
    end
    if #parts > 0 then return table.concat(parts, "\n") end
    local meta = debug.getmetatable(f)
    if type(meta) == "table" and class_name(f) and meta ~= f then return inspect.source(nil, meta, name) end
    return inspect.value(f, name, session)
  end
  if type(f) == "function" then
    local info = debug.getinfo(f, "S")
    if info.what == "C" then return T"built in, written in C++" end
    local text = comments.source(f)
    local head = colour(("-- %s:%d"):format(comments.place(info.source), info.linedefined), "comment")
    return text and head .. "\n" .. text or head .. "\n" .. T"(its source is not at hand)"
  end
  if entry and entry.kind ~= "row" then return pages.page(entry) end
  if value ~= nil then return inspect.value(value, name, session) end
  return T"built in, written in C++"
end

return inspect
