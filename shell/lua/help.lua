-- Help at the prompt: `?name`, `name?`, `?x:view`, `?x` on a value, `??name`, `?/text`, `?err`, `?%who`, `?`.
-- What is asked is read as text; values are reached by raw access only.
local language = require "torch.language"
local T, N = language.text, language.noted
local torch = torch
local help = {}

local function pages() return require "shell.help.pages" end
local function catalog() return require "shell.help.catalog" end

local function optional(name)
  local ok, module = pcall(require, name)
  return ok and module or nil
end

-- --- resolving a name as a person types it ---

local function global(name, session)
  local value = rawget(_G, name)
  if value ~= nil then return value end
  local names = session and session.names
  if names then
    local constant = names.constants and names.constants[name]
    if constant then return constant[1] end
    if names.shortcuts and names.shortcuts[name] then return names.shortcuts[name]() end
  end
  if session and session.results and session.results.read then
    local is_result, result = session.results.read(name)
    if is_result then return result end
  end
  return nil
end

-- The value of a field by raw access, through the tables that a metatable's __index names.
local function raw_field(value, key)
  for _ = 1, 20 do
    if type(value) ~= "table" then return nil end
    local found = rawget(value, key)
    if found ~= nil then return found end
    local meta = debug.getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
  end
end
help.raw_field = raw_field

-- "net.layers[2]:forward" -> value, its owner, the last key; nil where raw access does not lead.
local function resolve(path, session)
  local name, rest = path:match "^([%a_][%w_]*)(.*)$"
  if not name then return nil end
  local value = global(name, session)
  local owner, key
  while rest ~= "" do
    local field, after = rest:match "^[.:]([%a_][%w_]*)(.*)$"
    if not field then
      local index, behind = rest:match "^%[(%-?%d+)%](.*)$"
      field, after = tonumber(index), behind
      if not field then
        index, behind = rest:match "^%[[\"']([^\"']*)[\"']%](.*)$"
        field, after = index, behind
      end
    end
    if not field then return nil end
    owner, key, rest = value, field, after
    if torch.is_tensor(owner) then
      value = rawget(torch._tensor_methods(), field)
      if type(value) ~= "function" then value = nil end
    else
      value = raw_field(owner, field)
    end
    if value == nil then return nil, owner, key end
  end
  return value, owner, key
end
help.resolve = resolve

-- --- unknown names ---

local function nearest(path)
  local names = optional "shell.names"
  local seen, list = {}, {}
  local wanted = path:match "[%a_][%w_]*$" or path
  local all = {}
  for _, entry in ipairs(catalog().entries()) do all[#all + 1] = entry end
  for _ = 1, 5 do
    local i = 0
    local near = names and names.nearest and names.nearest(wanted, function()
      i = i + 1
      while all[i] and seen[all[i].name] do i = i + 1 end
      return all[i] and all[i].name
    end)
    if not near then break end
    seen[near] = true
    list[#list + 1] = near
  end
  return list
end

-- Entries whose texts hold all words, or else any of them; names first.
local search
function search(text, any)
  local words = {}
  for word in text:lower():gmatch "%S+" do words[#words + 1] = word end
  if #words == 0 then return {} end
  local hits = {}
  local function consider(entry, name, doc, more)
    local where, score = (name .. " " .. doc .. " " .. more):lower(), 0
    local low_name, low_doc = name:lower(), doc:lower()
    for _, word in ipairs(words) do
      if not where:find(word, 1, true) then
        if not any then return end
        goto next_word
      end
      score = score + (low_name == word and 8 or low_name:find(word, 1, true) and 4 or low_doc:find(word, 1, true) and 2 or 1)
      ::next_word::
    end
    if score == 0 then return end
    if where:find(text:lower(), 1, true) then score = score + 3 end
    hits[#hits + 1] = {entry = entry, score = score}
  end
  for _, entry in ipairs(catalog().entries()) do
    local more = type(entry.text) == "string" and entry.text or ""
    if entry.record then
      for _, s in ipairs(entry.record.signatures) do more = more .. " " .. s.doc .. " " .. s.rule .. " " .. s.id end
      more = more .. " " .. table.concat(entry.record.aliases, " ")
    end
    consider(entry, entry.path, entry.doc, T(entry.doc) .. " " .. more)
  end
  for _, row in ipairs(require "shell.help.aliases") do
    consider({path = row[1], doc = ("%s: here %s"):format(row[2], row[3])}, row[1], row[3], row[2])
  end
  table.sort(hits, function(a, b)
    if a.score ~= b.score then return a.score > b.score end
    return a.entry.path < b.entry.path
  end)
  local out, seen = {}, {}
  for _, hit in ipairs(hits) do
    if not seen[hit.entry.path] then
      seen[hit.entry.path] = true
      out[#out + 1] = hit.entry
    end
  end
  if #out == 0 and not any and #words > 1 then return search(text, true) end
  return out
end
help.search = search

local function search_page(text, most)
  local hits = search(text)
  if #hits == 0 then return nil end
  local P, width, lines = pages(), pages().width(), {}
  local wide = 0
  for i = 1, math.min(#hits, most) do wide = math.max(wide, math.min(#hits[i].path, 24)) end
  for i = 1, math.min(#hits, most) do
    local entry = hits[i]
    local doc = T(entry.doc):match "^[^\n]*"
    local room = width - math.max(wide, #entry.path) - 2
    if width < 60 or room < 30 then
      lines[#lines + 1] = P.colour(entry.path, "name") .. "\n" .. P.wrap(doc, "  ", width)
      goto continue
    end
    doc = require("shell.columns").clip(doc, room)
    lines[#lines + 1] = P.colour(entry.path, "name") .. (" "):rep(math.max(2, wide - #entry.path + 2)) .. doc
    ::continue::
  end
  local count = #hits == 1 and T"1 hit" or T("%d hits"):format(#hits)
  if #hits > most then count = count .. T(", the best %d shown"):format(most) end
  lines[#lines + 1] = P.colour(("(%s)"):format(count), "faint")
  return table.concat(lines, "\n")
end

local function unknown_page(topic)
  local near = nearest(topic)
  local lines = {T("no help for \"%s\", and no variable of that name."):format(topic)}
  if #near > 0 then lines[1] = lines[1] .. T(" Did you mean %s?"):format(table.concat(near, ", ")) end
  local words = topic:gsub("[_.:]", " ")
  local found = #words >= 3 and search_page(words, 8)  -- short words are found everywhere
  if found then lines[#lines + 1] = found end
  if not found and #near == 0 then lines[#lines + 1] = T"?/text searches everything; ? alone shows how to ask." end
  return table.concat(lines, "\n")
end

-- --- pages ---

local front = N[[
?topk  topk?  ?x:view       an operation, function, class or method
?x                          what a variable holds and where it comes from
??name                      where something is defined, with its Lua source
?/running average           search in all texts
?err                        more of the last error
?%who  %                    one command of the prompt, all of them
?tutorial ?lesson ?cheatsheet              where to begin
?indexing ?broadcasting ?calls ?operators ?dtypes ?random ?autograd ?gradient
?scopes ?modules ?training ?accuracy ?devices ?errors   the language of tensors
?for ?local ?string.format               Lua
Names of NumPy, Torch7 and Python are found too: ?np.expand_dims, ?cmul, ?len
Tab completes, %learn opens the lessons, Ctrl-D leaves.]]

local function alias_page(topic)
  local name = topic:match "[%a_][%w_.]*$" or topic
  local bare = name:match "[^.:]*$"
  local foreign = topic:match "^np%." or topic:match "^numpy%."
  for _, row in ipairs(require "shell.help.aliases") do
    if row[1] == bare or row[1] == name or "numpy." .. row[1] == catalog().normal(topic) then
      if not foreign or row[2] == "NumPy" then
        local entries = catalog().find(row[4])
        local text = T("%s (%s): here %s"):format(row[1], row[2], row[3])
        return text .. (entries[1] and "\n" .. pages().page(entries[1], row[4]) or "")
      end
    end
  end
  if foreign then  -- a NumPy name that is ours too
    local entries = catalog().find(bare)
    if entries[1] then return pages().page(entries[1], bare) end
  end
end

local function error_page(session)
  local last = session and session.last_error
  if not last then return T"there was no error yet" end
  local lines = {}
  local explain = optional "torch.explain"
  local object = explain and explain.object and explain.object(last.error)
  local long = object and explain.long(object, {colour = pages().colour})
  lines[1] = long or tostring(last.text)
  if last.number and not lines[1]:find(("[%d]"):format(last.number), 1, true) then
    lines[1] = ("in [%d]: "):format(last.number) .. lines[1]
  end
  if last.traceback and last.traceback ~= "" then lines[#lines + 1] = last.traceback end
  local inner = type(last.error) == "table" and rawget(last.error, "worker") and rawget(last.error, "traceback")
  if inner then lines[#lines + 1] = inner end
  local op = type(last.error) == "table" and last.error.op
  local entry = type(op) == "string" and catalog().find(op:gsub("_$", ""))[1]
  if entry then lines[#lines + 1] = ("  ?%s: %s"):format(entry.name, entry.doc) end
  lines[#lines + 1] = pages().colour(T"  %debug shows the frames and their locals", "faint")
  return table.concat(lines, "\n")
end

local function command_page(topic)
  local commands = optional "shell.commands"
  if not commands then return unknown_page(topic) end
  local name = topic:match "^%%([%w_]*)"
  if name == "" then return T"%name runs a command of the prompt; % alone lists all of them" end
  local row = commands.find(name)
  if not row then
    local list = commands.names and commands.names() or {}
    return T("no command %s; there are %s"):format(topic, table.concat(list, " "))
  end
  return commands.describe and commands.describe(name) or row.usage .. "\n  " .. row.doc
end

-- A name that stands for a value of the user's, rather than for something that help describes.
local function is_users(path, value, session)
  if value == nil then return false end
  local name = path:match "^[%a_][%w_]*"
  if torch.is_tensor(value) then return true end
  if session and (session.origin(name) or name:find "^_%d*$") then return true end
  if rawget(_G, name) == nil then return false end
  return package.loaded[name] == nil and name ~= "_G" and not (session and session.names and session.names.shortcuts and session.names.shortcuts[name])
    and #catalog().find(path) == 0
end

-- A part of torch, or what is in it, under the user's own name ("T.Compose" after T = data.transforms, or plainly
-- nn = torch.nn): its entry.
local function known_part(topic)
  local name, rest = topic:match "^([%a_][%w_]*)(.*)$"
  local value = name and rawget(_G, name)
  if type(value) ~= "table" or package.loaded[name] == value then return nil end
  for _, space in ipairs(catalog().spaces()) do
    local entry = space[2] == value and catalog().at(space[1] .. rest)
    if entry then return entry, space[1] .. rest end
  end
end

-- "?广播": the pages that a Chinese word leads to; the first is shown.
local function chinese_page(topic)
  local list, entries = require "shell.help.aliases_zh"(topic), {}
  for _, path in ipairs(list) do entries[#entries + 1] = catalog().find(path)[1] end
  if not entries[1] then return nil end
  local text = pages().page(entries[1], entries[1].path)
  local others = {}
  for i = 2, math.min(#entries, 6) do others[#others + 1] = "?" .. entries[i].path end
  return #others == 0 and text or text .. "\n  " .. pages().colour(T"also" .. " " .. table.concat(others, "  "), "faint")
end

local function topic_page(topic, session)
  local P = pages()
  local part, path = known_part(topic)
  if part then return P.page(part, path) end
  local value, owner, key = resolve(topic, session)
  -- A method or field of a tensor, an operation.
  if owner ~= nil and torch.is_tensor(owner) then
    local entry = catalog().at("Tensor." .. tostring(key))
    if entry then return P.page(entry, "Tensor." .. key) end
    return unknown_page(tostring(key))
  end
  if is_users(topic, value, session) then
    local text = require("shell.help.inspect").value(value, topic, session)
    local entry = catalog().find(topic)[1]
    if entry then text = text .. "\n  " .. T("(%s is also %s: ?%s)"):format(topic, T(entry.doc):gsub("%.$", ""):gsub("^%u", string.lower), entry.path) end
    return text
  end
  local alias = (topic:find "^np%." or topic:find "^numpy%.") and alias_page(topic)
  if alias then return alias end
  local entries = catalog().find(topic)
  -- x:view where x is not a tensor, or nothing at all.
  if #entries == 0 and topic:find "[:.]" and value == nil then
    local last = topic:match "[:.]([%a_][%w_]*)$"
    local space = topic:match "^([%a_][%w_.]*)[:.]"
    local known = space == "x" or space == "self" or (global(topic:match "^[%a_][%w_]*" or "", session) == nil)
    if last and known then
      local method = catalog().at("Tensor." .. last) or catalog().at("nn.Module." .. last)
      if method and topic:find ":" then entries = {method} end
      if #entries == 0 then entries = catalog().find(last) end
    end
  end
  if entries[1] then
    local text = P.page(entries[1], topic)
    if #entries > 1 then
      local others = {}
      for i = 2, math.min(#entries, 6) do others[#others + 1] = "?" .. entries[i].path end
      text = text .. "\n  " .. P.colour(T"also" .. " " .. table.concat(others, "  "), "faint")
    end
    return text
  end
  if value ~= nil then return require("shell.help.inspect").value(value, topic, session) end
  return alias_page(topic) or topic:find "[\227-\244]" and chinese_page(topic) or unknown_page(topic)
end

local function source_page(topic, session)
  local value = resolve(topic, session)
  local entry
  if not is_users(topic, value, session) then
    entry = catalog().find(topic)[1]
    if not entry and topic:find ":" then entry = catalog().at("Tensor." .. topic:match "[^:]*$") end
  end
  if not entry and value == nil then return unknown_page(topic) end
  if entry and entry.kind == "row" and value == nil then value = pages().value_at(entry.path) end
  return require("shell.help.inspect").source(entry, value, topic, session)
end

local operators = {}  -- ?// is no search for a stroke
for word in ("+ - * / // % ^ # .. == ~= < > <= >= & | ~ << >> @ **"):gmatch "%S+" do operators[word] = true end

---The page of a topic: what stands behind `?`, with a second `?` in front for sources.
---@param topic string
---@param session? table
---@return string
function help.page(topic, session)
  session = session or package.loaded["shell.session"]
  topic = topic:match "^%s*(.-)%s*$"
  if topic == "" then return T(front) end
  if operators[topic] then return topic_page("operators", session) end
  if topic:sub(1, 1) == "?" then
    local name = topic:match "^%?+%s*(.-)%s*$"
    if name == "" then return T(front) end
    return source_page(name, session)
  end
  if topic:sub(1, 1) == "/" then
    local text = topic:match "^/%s*(.*)$"
    if text == "" then return T"?/text searches: write a word or two behind the /" end
    return search_page(text, 20) or text:find "[\227-\244]" and chinese_page(text) or T("nothing holds \"%s\""):format(text)
  end
  if topic:sub(1, 1) == "%" then return command_page(topic) end
  if topic == "err" or topic == "error" and session and session.last_error then return error_page(session) end
  topic = topic:gsub("%s*%(%s*%)$", "")
  return topic_page(topic, session)
end

---Shows the page that an entry asks for: "?view", "view?", "??f", "f??".
---@param entry string
function help.show(entry)
  local text = entry:match "^%s*(.-)%s*$"
  if text:sub(1, 1) == "?" then
    text = text:sub(2)
  else
    local name, marks = text:match "^(.-)%s*(%?+)$"
    text = (#marks > 1 and "?" or "") .. name
  end
  local session = package.loaded["shell.session"]
  local page = pages().fit(help.page(text, session))
  if session and session.say then session.say(page) else print(page) end
end

return help
