-- What the unfinished text before the cursor stands for, found without running anything: values by raw
-- access, kinds of results from the op table. Completion and argument hints are made of it.
--
-- A type is {value=v} for a value that exists, {tensor=true} for a tensor that a call would make,
-- {class=c} for an object that a class of nn, optim or data would make; nil when nothing is known.
local torch = torch
local rawget, type, getmetatable = rawget, type, debug.getmetatable
local is_tensor, brief = torch.is_tensor, torch._brief
local live = {}

---@param text string
---@return {text: string, tokens: table[]}
function live.read(text)
  local tokens = torch._lex(text)
  for _, t in ipairs(tokens) do t.text = text:sub(t.first, t.last) end
  return {text = text, tokens = tokens}
end

-- --- values ---

local function session() return package.loaded["shell.session"] end

---A variable of the prompt by raw access: globals, constants, shortcuts such as nn, and results.
---@param name string
function live.variable(name)
  local value = rawget(_G, name)
  if value ~= nil then return value end
  local s = session()
  if type(s) ~= "table" then return nil end
  local names = rawget(s, "names")
  if names then
    local constant = names.constants and names.constants[name]
    if constant then return constant[1] end
    if names.shortcuts and names.shortcuts[name] then return names.shortcuts[name]() end
  end
  if name:find "^_%d*_?$" and rawget(s, "results") then
    local is_result, value_of = s.results.read(name)
    if is_result then return value_of end
  end
  return nil
end

---The table in which Lua looks next for a field, without running code: what __index names, or the class of an
---object whose class has a function there (nn.Sequential); nil at the end.
function live.behind(value)
  local meta = getmetatable(value)
  if type(meta) ~= "table" then return nil end
  local index = rawget(meta, "__index")
  if type(index) == "table" then return index end
  if type(index) == "function" and (type(rawget(meta, "_name")) == "string" or type(value) == "userdata") then return meta end
end

---A field by raw access, through the tables that __index names; parts of torch are loaded for it.
function live.field(value, key)
  if value == torch and rawget(torch, key) == nil and type(key) == "string" then return torch[key] end
  if value == rawget(torch, "nn") and rawget(value, key) == nil then local _ = value.Module end
  if type(value) == "userdata" then value = live.behind(value) end
  for _ = 1, 20 do
    if type(value) ~= "table" then return nil end
    local found = rawget(value, key)
    if found ~= nil then return found end
    value = live.behind(value)
  end
end

---The class of an object of nn, optim or data; nil for other tables.
function live.class_of(value)
  local meta = type(value) == "table" and getmetatable(value)
  return type(meta) == "table" and type(rawget(meta, "_name")) == "string" and meta or nil
end

local function is_class(value)
  local meta = type(value) == "table" and type(rawget(value, "_name")) == "string" and getmetatable(value)
  return type(meta) == "table" and type(rawget(meta, "__call")) == "function"
end

local function is_tensor_type(t) return t and (t.tensor or is_tensor(t.value)) end
live.is_tensor_type, live.is_class = is_tensor_type, is_class

-- --- where a function or class is described ---

-- The tables whose functions the op table and the help pages describe, as far as they are loaded:
-- this runs while somebody types.
local function tables()
  local nn, utils = rawget(torch, "nn") or {}, rawget(torch, "utils") or {}
  local transforms = rawget(utils, "data") and rawget(utils.data, "transforms")
  return {torch = torch, Tensor = torch._tensor_methods(), F = rawget(nn, "functional"), nn = nn, optim = rawget(torch, "optim"),
    data = rawget(utils, "data"), ["data.transforms"] = transforms, ["torch.linalg"] = rawget(torch, "linalg"), ["torch.autograd"] = rawget(torch, "autograd"),
    ["torch.cuda"] = rawget(torch, "cuda"), ["torch.io"] = rawget(torch, "io"), ["nn.init"] = rawget(nn, "init")}
end

local of_ops, of_rows, rows_seen

local function add_ops()
  of_ops = setmetatable({}, {__mode = "k"})
  local places = tables()
  for _, record in ipairs(torch._ops()) do
    for _, group in ipairs {{record.places, ""}, {record.inplace, "_"}} do
      for _, place in ipairs(group[1]) do
        local name = record.name .. group[2]
        local f = places[place] and rawget(places[place], name)
        if f ~= nil then of_ops[f] = {kind = "op", record = record, path = place .. "." .. name, name = name} end
      end
    end
  end
end

-- Parts that are loaded later bring values that were not there before.
local function add_rows(places)
  of_rows = setmetatable({}, {__mode = "k"})
  rows_seen = {places.optim, places.data, rawget(places.nn, "Module"), places["data.transforms"]}
  -- Layers are not loaded for a note.
  for _, row in ipairs(require(rows_seen[3] and "torch.help_pages.all" or "torch.help_pages")) do
    local prefix, name = row[1]:match "^(.*)%.([^.]*)$"
    local value = places[prefix] and rawget(places[prefix], name)
    local kind = type(value)
    if kind == "function" or kind == "table" then of_rows[value] = {kind = "row", row = row, path = row[1], name = name} end
  end
end

-- An operation that has this name in one of its places, or in place.
local function named_op(value, name)
  local records, places = torch._ops(), tables()
  for _, group in ipairs {"places", "inplace"} do
    local record = records[group == "places" and name or name:match "^(.*)_$"]
    for _, place in ipairs(record and record[group] or {}) do
      if places[place] and rawget(places[place], name) == value then return {kind = "op", record = record, path = place .. "." .. name, name = name} end
    end
  end
end

---What describes a function or class: {kind="op", record=} or {kind="row", row=}, with path and name; nil for
---others. With the name that it may have, an operation is found without looking through all.
---@param value any
---@param name string|nil
function live.entry_of(value, name)
  local kind = type(value)
  if kind ~= "function" and kind ~= "table" then return nil end
  local found = of_ops and of_ops[value] or kind == "function" and name and named_op(value, name)
  if found then return found end
  local places = tables()
  if not of_rows or rows_seen[1] ~= places.optim or rows_seen[2] ~= places.data or rows_seen[3] ~= rawget(places.nn, "Module")
    or rows_seen[4] ~= places["data.transforms"] then
    add_rows(places)
  end
  if of_rows[value] or of_ops or kind == "table" or debug.getinfo(value, "S").what ~= "C" then return of_rows[value] end
  add_ops()
  return of_ops[value]
end

---The same for a method or field of tensors by its name.
function live.tensor_entry(name)
  local value = rawget(torch._tensor_methods(), name)
  return type(value) == "function" and live.entry_of(value, name) or nil
end

-- Values that stand for what functions of Lua and torch give.
local samples
local function sample_of(f)
  if not samples then
    local text = {value = ""}
    samples = {[io.open] = {value = io.stdout}, [io.popen] = {value = io.stdout}, [io.tmpfile] = {value = io.stdout},
      [tostring] = text, [table.concat] = text, [os.date] = text, [os.tmpname] = text, [torch.device] = {value = torch.device "cpu"}}
    for _, name in ipairs {"format", "gsub", "lower", "rep", "reverse", "sub", "upper"} do samples[string[name]] = text end
    local size = torch._tensor_methods().size
    if size then samples[size] = {value = torch.zeros(1).shape} end
  end
  return samples[f]
end

-- Methods of networks by what they give: the network itself, or a list of tensors.
local of_module = {parameters = {list = {tensor = true}}, buffers = {list = {tensor = true}}}
for name in ("to eval train cuda cpu float double half bfloat16 requires_grad_ zero_grad apply"):gmatch "%S+" do of_module[name] = "itself" end

-- What a call of this callee gives.
local function result_of(callee)
  if not callee then return nil end
  local value = callee.value
  if is_class(value) then return {class = value} end
  local class = live.class_of(value)
  if class or callee.class then return {tensor = true} end  -- net(x)
  if value == torch.Generator then return {value = torch.default_generator or value()} end
  if type(value) == "function" and sample_of(value) then
    return not (callee.size_at and value == torch._tensor_methods().size) and sample_of(value) or nil
  end
  local owner = callee.owner
  if owner and (owner.class or live.class_of(owner.value)) and type(value) == "function" then
    local given = of_module[callee.key]
    return given == "itself" and owner or given
  end
  local entry = live.entry_of(value)
  if not entry then return nil end
  if entry.kind == "op" then return not entry.record.signatures[1].number and {tensor = true} or nil end
  if entry.path == "torch.tensor" or entry.path == "nn.Parameter" then return {tensor = true} end
  local name = entry.path:match "^Tensor%.([%w_]*)$"
  if name and (getmetatable("").__index[name] == nil) and entry.kind == "row"
    and entry.row[3]:find "^The tensor " then return {tensor = true} end
  return nil
end

local function member(of, key)
  if not of then return nil end
  if is_tensor_type(of) then
    local method = rawget(torch._tensor_methods(), key)
    if type(method) == "function" then return {value = method, owner = of} end
    if key == "grad" or key == "T" or key == "mT" or key == "data" then return {tensor = true} end
    if key == "shape" then return {value = of.value and of.value.shape or torch.zeros(1).shape} end
    if key == "device" or key == "dtype" then return {value = (of.value or torch.zeros(1))[key]} end
    if key == "grad_fn" and of.value ~= nil then return {value = of.value.grad_fn} end
    return nil
  end
  local base = of.class or of.value
  if type(of.value) == "string" then base = string end
  local value = live.field(base, key)
  return value ~= nil and {value = value, owner = of, key = key} or nil
end

-- --- expressions, read from their end ---

local opening = {[")"] = "(", ["]"] = "[", ["}"] = "{"}

-- The index of the bracket that opens what token i closes.
local function matching(tokens, i)
  local depth = 0
  for k = i, 1, -1 do
    local w = tokens[k].kind == "op" and tokens[k].text
    if opening[w] then
      depth = depth + 1
    elseif w == "(" or w == "[" or w == "{" then
      depth = depth - 1
      if depth == 0 then return k end
    end
  end
end

-- Is some name between the tokens a, b a tensor?
local function holds_tensor(tokens, a, b)
  for k = a, b do
    if tokens[k].kind == "name" and is_tensor(live.variable(tokens[k].text)) then return true end
  end
  return false
end

---The type of the expression that ends with token i, and the token where it begins.
---@return table|nil type, integer first
function live.type_at(tokens, i, depth)
  depth = (depth or 0) + 1
  local t = tokens[i]
  if not t or depth > 50 then return nil, i end
  if t.kind == "name" then
    local before = tokens[i - 1]
    local mark = before and before.kind == "op" and before.text
    if mark == "." or mark == ":" then
      local of, first = live.type_at(tokens, i - 2, depth)
      return member(of, t.text), first
    end
    local value = live.variable(t.text)
    return value ~= nil and {value = value, name = t.text} or nil, i
  elseif t.kind == "string" then
    local before = tokens[i - 1]
    if before and (before.kind == "name" or before.text == ")") then
      local callee, first = live.type_at(tokens, i - 1, depth)
      return result_of(callee), first
    end
    return {value = ""}, i
  elseif t.text == ")" or t.text == "}" or t.text == "]" then
    local open = matching(tokens, i)
    if not open then return nil, i end
    local before = tokens[open - 1]
    local follows = before and (before.kind == "name" or before.kind == "string" or opening[before.text])
    if t.text == "]" then
      if not follows then return nil, open end
      local of, first = live.type_at(tokens, open - 1, depth)
      if is_tensor_type(of) then return {tensor = true}, first end
      if of and of.list then return of.list, first end
      local key = open + 2 == i and tokens[open + 1]
      if of and key and key.kind == "number" then
        return member(of, math.tointeger(tonumber(key.text)) or tonumber(key.text)), first
      elseif of and key and key.kind == "string" then
        return member(of, key.text:sub(2, -2)), first
      end
      return nil, first
    end
    if follows and before.kind ~= "keyword" then
      local callee, first = live.type_at(tokens, open - 1, depth)
      if callee then callee.size_at = open + 1 < i end
      return result_of(callee), first
    end
    if t.text == ")" then
      if open + 2 == i then return (live.type_at(tokens, open + 1, depth)), open end
      return holds_tensor(tokens, open + 1, i - 1) and {tensor = true} or nil, open
    end
    return nil, open
  end
  return nil, i
end

-- --- the call that the cursor stands in ---

-- The bracket that is open at the end of the tokens, or before token `last`.
local function open_bracket(tokens, last)
  local depth = 0
  for k = last, 1, -1 do
    local w = tokens[k].kind == "op" and tokens[k].text
    if opening[w] then
      depth = depth + 1
    elseif w == "(" or w == "[" or w == "{" then
      if depth == 0 then return k end
      depth = depth - 1
    end
  end
end

-- The arguments behind the bracket at `open`: a list of {first=, last=, name=}.
local function arguments(tokens, open)
  local list, depth = {}, 0
  local current = {first = open + 1}
  for k = open + 1, #tokens do
    local t = tokens[k]
    local w = t.kind == "op" and t.text
    if w == "(" or w == "[" or w == "{" then depth = depth + 1
    elseif opening[w] then depth = depth - 1
    elseif t.kind == "keyword" and t.text == "function" then depth = depth + 1
    elseif t.kind == "keyword" and t.text == "end" and depth > 0 then depth = depth - 1
    elseif w == "," and depth == 0 then
      current.last = k - 1
      list[#list + 1] = current
      current = {first = k + 1}
    elseif w == "=" and depth == 0 and k == current.first + 1 and tokens[k - 1].kind ~= "op" then
      current.name = tokens[k - 1].text
    end
  end
  current.last = #tokens
  list[#list + 1] = current
  return list
end

---The call around the end of the text, or nil: {callee=type, entry=, open="("|"{", arguments=, owner=,
---positional=arguments before a table of names, named=true inside such a table, first=token}.
---@param tokens table[]
function live.call_at(tokens)
  local last = #tokens
  for _ = 1, 20 do
    local open = open_bracket(tokens, last)
    if not open then return nil end
    local w, before = tokens[open].text, tokens[open - 1]
    local callable = before and (before.kind == "name" or before.text == ")" or before.text == "]")
      and not (before.text == "]" and w == "[")
    if w ~= "[" and callable then
      local callee, first = live.type_at(tokens, open - 1)
      -- function f(...: a definition, not a call.
      local head = tokens[first - 1]
      if head and head.kind == "keyword" and head.text == "function" then return nil end
      return {callee = callee, entry = callee and live.entry_of(callee.value), open = w, arguments = arguments(tokens, open),
        named = w == "{", first = first, name = tokens[open - 1].text, at = open}
    elseif w == "{" and before and (before.text == "," or before.text == "(") then
      -- f(a, b, { names
      local outer = open_bracket(tokens, open - 1)
      local word = outer and tokens[outer].text == "(" and tokens[outer - 1]
      if word and (word.kind == "name" or word.text == ")" or word.text == "]") then
        local callee, first = live.type_at(tokens, outer - 1)
        local positional = 0
        local cut = {}
        for k = 1, open - 1 do cut[k] = tokens[k] end
        for _, a in ipairs(arguments(cut, outer)) do
          if a.last >= a.first then positional = positional + 1 end
        end
        return {callee = callee, entry = callee and live.entry_of(callee.value), open = "{", arguments = arguments(tokens, open),
          named = true, positional = positional, first = first, name = tokens[outer - 1].text, at = outer}
      end
      return nil
    end
    last = open - 1  -- an index or a plain bracket: the call may be further out
  end
end

---A value in a few words, for notes: "f32 [2, 3]", "function", "table".
function live.note(value)
  local text = brief(value)
  if text then return text end
  local kind = type(value)
  if kind == "number" then return tostring(value) end
  if kind == "boolean" then return tostring(value) end
  if kind == "string" then return #value <= 20 and not value:find "[%c\128-\255]" and '"' .. value .. '"' or "string" end
  local class = live.class_of(value)
  if class then return rawget(class, "_name") end
  if kind == "function" then
    local info = debug.getinfo(value, "Su")
    if info.what == "C" then return "function" end
    local names = {}
    for i = 1, info.nparams do names[i] = debug.getlocal(value, i) end
    if info.isvararg then names[#names + 1] = "..." end
    return "(" .. table.concat(names, ", ") .. ")"
  end
  return kind
end

return live
