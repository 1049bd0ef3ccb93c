-- How values look at the prompt: `show.value(v)` for one value, `show.values(packed)` for the results
-- of an entry. Everything is bounded in depth and lines, runs no code of the user's but __tostring,
-- and changes nothing.
local torch = torch
local colour = require "shell.colour"
local text = require "shell.text"
local show = {}

local bounds = {depth = 5, items = 24, nodes = 600, string = 1500, lines = 48}
local unbounded = {depth = 60, items = math.huge, nodes = 2000000, string = math.huge, lines = math.huge}

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch "%a+" do
  keywords[word] = true
end

-- --- functions ---

-- Where known functions live, by identity: "torch.add", "string.rep".
local homes
local function home_of(f)
  if not homes then
    homes = setmetatable({}, {__mode = "k"})
    local F = rawget(rawget(torch, "nn") or {}, "functional")
    local places = {{"", _G}, {"torch.", torch}, {"torch.nn.functional.", F}, {"torch.linalg.", rawget(torch, "linalg")},
      {"torch.cuda.", rawget(torch, "cuda")}, {"torch.nn.", rawget(torch, "nn")}}
    for _, name in ipairs {"string", "table", "math", "io", "os", "coroutine", "utf8", "debug"} do
      places[#places + 1] = {name .. ".", package.loaded[name]}
    end
    for _, place in ipairs(places) do
      for k, v in next, place[2] or {} do
        if type(v) == "function" and type(k) == "string" and not homes[v]
          and (place[1] ~= "" or debug.getinfo(v, "S").what == "C") then
          homes[v] = place[1] .. k
        end
      end
    end
  end
  return homes[f]
end

---A function's parameters as text: "x, y, ...".
function show.parameters(f)
  local info = debug.getinfo(f, "u")
  local names = {}
  for i = 1, info.nparams do names[i] = debug.getlocal(f, i) or "?" end
  if info.isvararg then names[#names + 1] = "..." end
  return table.concat(names, ", ")
end

---Where a function is defined: "[3]", "train.lua:12", or nil for built-in ones.
function show.place(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return nil end
  local source = info.short_src
  if source:match "^%[%d+%]$" then return source end
  return ("%s:%d"):format(source, info.linedefined)
end

local function show_function(f, state)
  local name, place = home_of(f), show.place(f)
  if not place then
    return colour("function", "type") .. (name and " " .. name or "") .. (state.inside and "" or colour("  built in", "faint"))
  end
  local own = place:match "^torch/" or place:match "^shell/"
  return ("%s%s(%s)%s"):format(colour("function", "type"), name and " " .. name or "", show.parameters(f),
    colour(own and "  built in" or place:match "^%[" and "  from " .. place or "  " .. place, "faint"))
end

local function show_thread(co)
  local status = coroutine.status(co)
  local where = ""
  if status ~= "dead" then
    for level = 0, 20 do
      local info = debug.getinfo(co, level, "Sl")
      if not info then break end
      if info.currentline > 0 then
        local source = info.short_src
        where = (source:match "^%[%d+%]$" and "  in %s, line %d" or "  at %s:%d"):format(source, info.currentline)
        break
      end
    end
    if where == "" then
      local f = debug.getinfo(co, 1, "f") or debug.getinfo(co, 0, "f")
      local place = f and show.place(f.func)
      if place then where = "  of the function " .. (place:match "^%[" and "from " or "at ") .. place end
    end
  end
  return colour("coroutine", "type") .. " (" .. status .. ")" .. colour(where, "faint")
end

-- --- other userdata ---

local function type_name(v)
  local meta = debug.getmetatable(v)
  return type(meta) == "table" and type(rawget(meta, "__name")) == "string" and rawget(meta, "__name") or nil
end

-- tostring without its failures: an error in a user's __tostring is said, never raised.
local function safe_string(v)
  local ok, s = pcall(tostring, v)
  if ok then return s end
  return ("<error in __tostring: %s>"):format(text.cut(text.visible(type(s) == "string" and s or type(s)), 80))
end

local function show_userdata(v)
  local name = type_name(v)
  if name == "FILE*" then
    return colour("file", "type") .. (io.type(v) == "closed file" and " (closed)" or " (open)")
  end
  if name == "device" or name == "tycho.device" then return colour("device", "type") .. " " .. safe_string(v) end
  if v == torch.none then return "torch.none" end
  return text.visible(safe_string(v))
end

-- --- values in general: a tree of nodes, then its lines ---
-- A node is {text = one line} or {open =, close =, items = {{key =, node =}, ..}, more = "text"}, with
-- the columns that it would take on one line in `wide` (math.huge for what has several lines).

local function string_node(s, state)
  local cut = ""
  if #s > state.bounds.string then
    cut = ("  .. %s bytes in all"):format(text.thousands(#s))
    s = s:sub(1, (utf8.offset(s, 0, state.bounds.string + 1) or state.bounds.string + 1) - 1)
  end
  return colour(text.quoted(s), "string") .. colour(cut, "faint")
end

local function plain_text(v, state)
  local kind = type(v)
  if kind == "number" and v ~= v then return colour("nan", "number") end  -- Lua says -nan of most
  if kind == "number" or kind == "boolean" or kind == "nil" then return colour(tostring(v), "number") end
  if kind == "string" then return string_node(v, state) end
  if kind == "function" then return show_function(v, state) end
  if kind == "thread" then return show_thread(v) end
  if kind == "userdata" then return show_userdata(v) end
end

local order = {number = 1, string = 2, boolean = 3, userdata = 4, table = 5, ["function"] = 6, thread = 7}
local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return order[ta] < order[tb] end
  if ta == "number" or ta == "string" then return a < b end
  if ta == "boolean" then return a and not b end
  return false
end

local function key_text(k, state)
  if type(k) == "string" then
    if k:match "^[%a_][%w_]*$" and not keywords[k] then return k end
    return "[" .. text.quoted(#k > 80 and k:sub(1, 80) .. ".." or k) .. "]"
  end
  if torch.is_tensor(k) then return "[" .. torch._show(k, {line = true, width = 40, values = false}) .. "]" end
  if type(k) == "table" then return "[" .. (type_name(k) or "table") .. "]" end
  return "[" .. colour.plain(plain_text(k, state)) .. "]"
end

local build

local function table_node(t, depth, state)
  if state.above[t] then return {text = colour("<the table around it>", "faint")} end
  local name = type_name(t)
  local head = name and colour(name, "type") .. " " or ""
  if next(t) == nil then return {text = head .. "{}"} end
  if depth > state.bounds.depth or state.nodes <= 0 then
    local n = 0
    for _ in next, t do n = n + 1 end
    return {text = head .. ("{..}" .. colour(("  %s %s"):format(text.thousands(n), n == 1 and "item" or "items"), "faint"))}
  end
  state.above[t], state.inside = true, true
  local node = {open = head .. "{", close = "}", items = {}}
  local most, length = state.bounds.items, rawlen(t)
  for i = 1, math.min(length, most) do
    node.items[i] = {node = build(rawget(t, i), depth + 1, state)}
  end
  if length > most then
    local rest = ("%s more, to [%d]"):format(text.thousands(length - most), length)
    node.items[#node.items + 1] = {node = {text = colour(".. " .. rest, "faint"), wide = #rest + 3}}
  end
  local keys = {}
  for k in next, t do
    if not (math.type(k) == "integer" and k >= 1 and k <= length) then keys[#keys + 1] = k end
  end
  table.sort(keys, before)
  for i = 1, math.min(#keys, most) do
    local k = keys[i]
    node.items[#node.items + 1] = {key = key_text(k, state), node = build(rawget(t, k), depth + 1, state)}
  end
  if #keys > most then
    local rest = (".. %s more keys"):format(text.thousands(#keys - most))
    node.items[#node.items + 1] = {node = {text = colour(rest, "faint"), wide = #rest}}
  end
  state.above[t] = nil
  return node
end

-- The module of tensors and its parts: help lists what is in them.
local function library_text(v)
  local path = rawequal(v, torch) and "torch"  -- an empty shape equals any table without elements
  for name, part in next, torch do
    if path then break end
    if type(part) == "table" and type(name) == "string" and not name:find "^_" then
      if rawequal(part, v) then path = "torch." .. name end
      for _, inner in ipairs {"functional", "init", "utils", "data", "lr_scheduler"} do
        if rawequal(rawget(part, inner), v) then path = "torch." .. name .. "." .. inner end
      end
    end
  end
  local data = package.loaded["torch.utils.data"]
  if not path and data and rawequal(rawget(data, "text"), v) then path = "torch.utils.data.text" end
  return path and colour("library", "type") .. " " .. path .. colour("  ?" .. path .. " lists what is in it", "faint")
end

-- Texts of known objects; nil for other values.
local function object_text(v, state)
  if torch.is_tensor(v) then return torch._show(v, {line = true, width = math.max(20, state.width - 8), marks = state.marks}) end
  if type(v) ~= "table" then return nil end
  local library = state.bounds == bounds and library_text(v)
  if library then return library end
  local meta = debug.getmetatable(v)
  if type(meta) ~= "table" then return nil end
  local text_of = require("shell.show.objects").short(v, meta)
  if text_of then return text_of end
  if rawget(meta, "__tostring") or type(meta.__tostring) == "function" then return text.visible(safe_string(v)) end
end

function build(v, depth, state)
  state.nodes = state.nodes - 1
  local one = plain_text(v, state)
  if torch.is_tensor(v) or (not one and type(v) == "table") then one = object_text(v, state) end
  local node = one and {text = one} or table_node(v, depth, state)
  if node.text then
    node.wide = text.width(node.text)
  else
    node.wide = text.width(node.open) + 1
    for _, item in ipairs(node.items) do
      node.wide = node.wide + item.node.wide + (item.key and text.width(item.key) + 3 or 0) + 2
    end
  end
  return node
end

local function inline(node)
  if node.text then return node.text end
  local parts = {}
  for i, item in ipairs(node.items) do
    parts[i] = (item.key and item.key .. " = " or "") .. inline(item.node)
  end
  return node.open .. table.concat(parts, ", ") .. node.close
end

-- Lines of a node into `out`. Short items of a list share lines.
local function layout(node, indent, prefix, suffix, width, out)
  local room = width - #indent - text.width(prefix) - #suffix
  if node.text or node.wide <= room then
    out[#out + 1] = indent .. prefix .. inline(node) .. suffix
    return
  end
  out[#out + 1] = indent .. prefix .. node.open
  local inner = indent .. "  "
  local line, used = nil, 0
  local function flush()
    if line then out[#out + 1] = inner .. line end
    line, used = nil, 0
  end
  for i, item in ipairs(node.items) do
    local comma = i < #node.items and "," or ""
    if not item.key and item.node.wide <= 16 then
      local piece = inline(item.node) .. comma
      local columns = item.node.wide + #comma
      if line and #inner + used + 1 + columns > width then flush() end
      line = line and line .. " " .. piece or piece
      used = used == 0 and columns or used + 1 + columns
    else
      flush()
      layout(item.node, inner, item.key and item.key .. " = " or "", comma, width, out)
    end
  end
  flush()
  out[#out + 1] = indent .. node.close .. suffix
end

-- Keeps the first and last lines of what is too long.
local function bounded(lines, most)
  if #lines <= most then return lines end
  local head = most - 8
  local out = table.move(lines, 1, head, 1, {})
  out[#out + 1] = colour(("  .. %s more lines"):format(text.thousands(#lines - head - 6)), "faint")
  return table.move(lines, #lines - 5, #lines, #out + 1, out)
end

---The columns that may be used: of the window, or 80.
---@return integer
function show.width()
  return math.max(20, torch._terminal().columns or 80)
end

-- Escape sequences for what stands out in a tensor.
local function marks_of(on)
  if on == false or not colour.enabled() then return nil end
  local marks = {}
  for _, name in ipairs {"nan", "inf", "label", "faint"} do
    marks[name] = {colour.pair(name)}
  end
  return marks
end

---The text for a value, as the prompt shows it.
---@param v any
---@param options? {width?: integer, lines?: integer, full?: boolean, name?: string, colour?: boolean}
---@return string
function show.value(v, options)
  options = options or {}
  local width = options.width or show.width()
  local was = colour.on
  if options.colour ~= nil then colour.on = options.colour end
  local ok, result = pcall(function()
    local marks = marks_of(options.colour)
    if torch.is_tensor(v) then
      return torch._show(v, {width = width, lines = options.lines, full = options.full, marks = marks, name = options.name or "_"})
    end
    local state = {bounds = options.full and unbounded or bounds, above = {}, width = width, marks = marks}
    state.nodes = state.bounds.nodes
    if type(v) == "table" then
      local library = not options.full and library_text(v)
      if library then return library end
      local meta = debug.getmetatable(v)
      if type(meta) == "table" then
        local whole = require("shell.show.objects").whole(v, meta, {width = width, full = options.full})
        if whole then return table.concat(bounded(text.lines(whole), state.bounds.lines), "\n") end
        if type(meta.__tostring) == "function" then
          local lines = text.lines(safe_string(v))
          for i, line in ipairs(lines) do lines[i] = text.visible(line) end
          return table.concat(bounded(lines, state.bounds.lines), "\n")
        end
      end
    end
    local out = {}
    layout(build(v, 1, state), "", "", "", width, out)
    return table.concat(bounded(out, state.bounds.lines), "\n")
  end)
  colour.on = was
  if not ok then error(result, 0) end
  return result
end

---The results of an entry, side by side when they fit: `show.values(table.pack(f()))`.
---@param results {n: integer}
---@param options? {width?: integer, full?: boolean, colour?: boolean}
---@return string
function show.values(results, options)
  options = options or {}
  local width = options.width or show.width()
  local blocks, total, plain, tall = {}, 0, true, 0
  for i = 1, results.n or #results do
    local v = results[i]
    local kind = type(v)
    plain = plain and (kind == "number" or kind == "boolean" or kind == "nil")
    local lines = text.lines(show.value(v, options))
    local wide = 0
    for _, line in ipairs(lines) do wide = math.max(wide, text.width(line)) end
    lines.wide = wide
    blocks[i], total, tall = lines, total + wide, math.max(tall, #lines)
  end
  if #blocks == 0 then return "" end
  local gap = plain and 2 or 6
  if total + gap * (#blocks - 1) > width or #blocks == 1 then
    for i, lines in ipairs(blocks) do blocks[i] = table.concat(lines, "\n") end
    return table.concat(blocks, "\n")
  end
  local out = {}
  for row = 1, tall do
    local line = ""
    for i, lines in ipairs(blocks) do
      line = line .. (i > 1 and (" "):rep(gap) or "") .. text.pad(lines[row] or "", lines.wide)
    end
    out[row] = line:gsub(" +$", "")
  end
  return table.concat(out, "\n")
end

return show
