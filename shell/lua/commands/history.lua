-- Commands about entries: %hist, %save, %rerun, %log.
local columns = require "shell.columns"
local commands = require "shell.commands"
local native = require "shell.native"
local T = require("torch.language").text

-- ---- %hist -----------------------------------------------------------------------------------

local function one_line(text)
  local first, rest = text:match("^([^\n]*)\n(.*)$")
  if not first then return columns.plain(text) end
  local _, more = rest:gsub("\n", "")
  return ("%s  (+%d lines)"):format(columns.plain(first), more + 1)
end

local function when(time)
  if time == 0 then return "" end
  local today = os.date("%Y-%m-%d") == os.date("%Y-%m-%d", time)
  return os.date(today and "%H:%M" or "%b %d %H:%M", time)
end

local function near_home(path)
  local home = os.getenv("HOME")
  if home and home ~= "" and path:sub(1, #home) == home then return "~" .. path:sub(#home + 1) end
  return path
end

local function hist(args, session)
  local most, part = 20, args
  if args:find("^%d+$") and #args < 6 then most, part = math.max(1, tonumber(args)), "" end
  local found = native.history(part, part == "" and most + 1 or 100)
  local newest = found[#found]
  if newest and newest.text == session.entries[session.number].text then found[#found] = nil end  -- this one
  if #found == 0 then  -- not at a terminal nothing is written; this session's entries are known
    for n = math.max(1, session.number - 1000), session.number - 1 do
      local record = session.entries[n]
      if record and not record.private and record.text:find(part, 1, true) then
        found[#found + 1] = {text = record.text, time = record.time, directory = "", ok = record.ok, number = n}
      end
    end
    for i = #found - most, 1, -1 do table.remove(found, i) end
  end
  if #found == 0 then return session.say(part == "" and T"no entries yet" or T("no entry holds %q"):format(part)) end
  local here, rows, numbers = native.directory(), {}, {}
  for n = math.max(1, session.number - 1000), session.number - 1 do
    local record = session.entries[n]
    if record and record.stamp then numbers[record.stamp] = n end
  end
  for i, record in ipairs(found) do
    local elsewhere = record.directory ~= "" and record.directory ~= here
    local number = record.number or numbers[record.stamp]
    rows[i] = {number and ("[%d]"):format(number) or "", when(record.time), elsewhere and columns.plain(near_home(record.directory)) or "", (record.ok and "" or "failed: ") .. one_line(record.text)}
  end
  session.say(columns.table({{title = "entry", right = true, drop = 2}, {title = "time", drop = 2}, {title = "directory", drop = 3}, {title = "text", drop = 1, cut = true}}, rows))
end

-- ---- ranges of entries -----------------------------------------------------------------------

-- "3-12 5 20-" as a list of numbers of entries that exist; nil and what is wrong.
local function ranges(text, session)
  local list, seen = {}, {}
  for word in text:gmatch("[^%s,]+") do
    word = word:gsub("^%[(%d+)%]$", "%1")
    local first, last = word:match("^(%d+)%-(%d*)$")
    if not first then first, last = word:match("^(%d+)$"), word end
    if not first then return nil, T("%q is no entry: write 5, or 3-12, or 20-"):format(word) end
    first = math.tointeger(tonumber(first))
    last = last == "" and session.number - 1 or math.tointeger(tonumber(last))
    if not first or not last or first > last then return nil, T("%q goes backwards"):format(word) end
    local any = false
    for n = math.max(1, first), math.min(last, session.number - 1) do
      if session.entries[n] then
        any = true
        if not seen[n] then list[#list + 1] = n end
        seen[n] = true
      end
    end
    if not any then return nil, T("there is no entry [%s]"):format(word) end
  end
  return list
end

local function is_lua(text) return not text:find("^%s*[%%!?]") and not text:find("^%s*[%w_.:]+%?%s*$") end

-- ---- %rerun ----------------------------------------------------------------------------------

local function rerun(args, session)
  local list, wrong
  if args == "" then
    for n = session.number - 1, 1, -1 do
      if session.entries[n] and is_lua(session.entries[n].text) then
        list = {n}
        break
      end
    end
    if not list then return T"there is nothing to run again yet" end
  else
    list, wrong = ranges(args, session)
    if not list then return wrong end
  end
  local texts = {}
  for _, n in ipairs(list) do
    if not session.entries[n].text:find("^%s*%%rerun") then texts[#texts + 1] = session.entries[n].text end
  end
  return commands.run_entries(session, texts, true)
end

-- ---- %save -----------------------------------------------------------------------------------

local shortcuts = {
  {"nn", "torch.nn"}, {"F", "torch.nn.functional"}, {"optim", "torch.optim"}, {"data", "torch.utils.data"},
  {"dist", "torch.distributed"}, {"plot", "torch.plot"}, {"hist", "torch.hist"},
}

-- The entry whose value `_`, `__` or `_7` meant in entry n; nil when there is none.
local function meant(name, n, session)
  if name ~= "_" and name ~= "__" then return tonumber(name:match("^_(%d+)$")) end
  local skip = name == "__" and 1 or 0
  for k = n - 1, math.max(1, n - 1000), -1 do
    local record = session.entries[k]
    if record and record.valued then
      if skip == 0 then return k end
      skip = skip - 1
    end
  end
end

-- Entry n as Lua that the prompt would compile, without what only the prompt knows: kept locals are
-- globals, `_` and the like name the entry that they meant (added to `wanted`).
local function plain_code(n, session, wanted)
  local entry = require "shell.entry"
  local text = session.entries[n].text
  if text:find("^%s*:[%a_]") or text:find("^%s*%.[%a_]") then text = "_" .. text:gsub("^%s*", "") end
  local code, tokens = entry.read(text)
  if not code then return nil end
  code = entry.keep_locals(code) or code
  local quiet = entry.is_quiet(tokens)
  tokens = entry.tokens(code)
  local out, from = {}, 1
  for i, token in ipairs(tokens) do
    local before, after = tokens[i - 1] and tokens[i - 1].text, tokens[i + 1] and tokens[i + 1].text
    local field = before == "." or before == ":" or after == "=" and token.bracket > 0
    if token.kind == "name" and token.text:find("^_") and not field and rawget(_G, token.text) == nil then
      local k = meant(token.text, n, session)
      if k and after ~= "=" and after ~= "," and before ~= "for" and before ~= "," then
        wanted[k] = true
        out[#out + 1] = code:sub(from, token.first - 1) .. "_" .. k
        from = token.last + 1
      end
    end
  end
  out[#out + 1] = code:sub(from)
  return (table.concat(out):gsub("^([%a_][%w_]*)  +=", "%1 =")), quiet
end

-- Entry n as statements: its last expression is shown as the prompt showed it, and kept when another
-- entry asks for it.
local function as_statements(code, quiet, n, wanted, uses)
  local tokens = require("shell.entry").tokens(code)
  for i, token in ipairs(tokens) do
    local before = tokens[i - 1] and tokens[i - 1].text
    if token.kind == "name" and before ~= "." and before ~= ":" then uses[token.text] = true end
  end
  for i = #tokens, 1, -1 do
    local token = tokens[i]
    if token.text == "return" and token.kind == "keyword" and token.block == 0 and token.bracket == 0 then
      local last = tokens[#tokens]
      local value = code:sub(token.last + 1, last.text == ";" and last.first - 1 or nil):match("^%s*(.-)%s*$")
      local lead = code:sub(1, token.first - 1)
      if value == "" then return (lead:gsub("%s+$", "")) end
      -- A trailing comment would swallow the bracket.
      local close = value:find("%-%-[^\n]*$") and "\n)" or ")"
      uses.show = uses.show or not quiet
      value = quiet and value or "show(" .. value .. close
      if wanted[n] then return lead .. ("_%d = %s"):format(n, value) end
      return quiet and not load(value, "=") and lead .. "local _ = " .. value or lead .. value
    end
  end
  return (code:gsub("%s+$", ""))
end

local show_code = [[
local function show(...)  -- what the prompt showed
  if select("#", ...) > 0 then print(...) end
  return ...
end]]

local function save(args, session)
  local force, rest = args:match("^(%-f)%s+(.*)$")
  rest = rest or args
  local path, which = rest:match('^"([^"]+)"%s*(.*)$')
  if not path then path, which = rest:match("^(%S+)%s*(.*)$") end
  if not path then return T"a file is wanted, then entries" end
  if path:find("^%d+%-?%d*$") then return T"the file comes first, then entries" end
  local home = os.getenv("HOME")
  if home and path:sub(1, 2) == "~/" then path = home .. path:sub(2) end
  local list, wrong
  if which == "" then
    list = {}
    for n = math.max(1, session.number - 1000), session.number - 1 do
      if session.entries[n] and not session.entries[n].private then list[#list + 1] = n end
    end
    if #list == 0 then return T"there is no entry yet that is not a lesson's" end
  else
    list, wrong = ranges(which, session)
    if not list then return wrong end
  end
  if not force then
    local there = io.open(path, "r")
    if there then
      there:close()
      error(T("%%save: %s is there already; %%save -f %s writes over it"):format(columns.plain(path), columns.plain(rest)), 0)
    end
  end
  local failed, commented, count = 0, 0, 0
  local body, uses, wanted, saved, codes = {}, {}, {}, {}, {}
  for _, n in ipairs(list) do
    local record = session.entries[n]
    if record.ok and is_lua(record.text) then codes[n] = {plain_code(n, session, wanted)} end
  end
  for _, n in ipairs(list) do
    local record = session.entries[n]
    local code = codes[n] and codes[n][1] and as_statements(codes[n][1], codes[n][2], n, wanted, uses)
    if not is_lua(record.text) then
      commented = commented + 1
      body[#body + 1] = "-- " .. record.text:gsub("\n", "\n-- ")
    elseif code and code:find("%S") then
      count, saved[n] = count + 1, true
      body[#body + 1] = ("-- [%d]\n%s"):format(n, (code:gsub("^[^%S\n]+", "")))
    elseif not record.ok then
      failed = failed + 1
    end
  end
  if count == 0 then return T"none of these entries is Lua that ran" end
  local head = {
    ("-- Entries %s of a session of %s."):format(which == "" and ("%d-%d"):format(list[1], list[#list]) or which, os.date("%Y-%m-%d %H:%M")),
    ("-- tycho %s, %s, %d thread%s."):format(native.version, _VERSION, torch.get_num_threads(), torch.get_num_threads() == 1 and "" or "s"),
  }
  head[#head + 1] = ("torch.manual_seed(%d)  -- the seed of the session"):format(torch.initial_seed())
  for _, pair in ipairs(shortcuts) do
    if uses[pair[1]] and rawget(_G, pair[1]) == nil then head[#head + 1] = ("local %s = %s"):format(pair[1], pair[2]) end
  end
  if uses.show then head[#head + 1] = show_code end
  local text = table.concat(head, "\n") .. "\n\n" .. table.concat(body, "\n") .. "\n"
  local file, why = io.open(path, "w")
  if not file then error(why, 0) end
  file:write(text)
  local ok, reason = file:close()
  if not ok then error(reason, 0) end
  local notes = {}
  if failed > 0 then notes[#notes + 1] = T("left out %d that failed"):format(failed) end
  if commented > 0 then notes[#notes + 1] = T("%d as comments"):format(commented) end
  for n in pairs(wanted) do
    if not saved[n] then notes[#notes + 1] = T("it needs the value of [%d] too"):format(n) end
  end
  local fine, message = load(text, "=" .. path)
  if not fine then notes[#notes + 1] = T("it does not compile: %s"):format(message) end
  session.say((count == 1 and T"wrote %d entry to %s%s" or T"wrote %d entries to %s%s"):format(count, columns.plain(path), #notes > 0 and "; " .. table.concat(notes, ", ") or ""))
end

-- ---- %log ------------------------------------------------------------------------------------

local log = {file = nil, path = nil}

-- Without colours.
local function write_log(...)
  if log.file then log.file:write((table.concat({...}):gsub("\27%[[%d;]*m", ""))) end
end

local sink = {said = write_log}
function sink.entered(text, number) write_log(("[%d]> "):format(number), (text:gsub("\n", "\n...> ")), "\n") end
function sink.ended()
  if log.file then log.file:flush() end
end

local function stop_log(session)
  require("shell.tap").close(session, sink)
  log.file:close()
  log.file = nil
end

local function log_command(args, session)
  if args == "" then
    return session.say(log.file and T("entries and what they print go to %s"):format(columns.plain(log.path)) or T"there is no log")
  end
  if args == "off" then
    if not log.file then return session.say(T"there was no log") end
    stop_log(session)
    return session.say(T("%s is closed"):format(columns.plain(log.path)))
  end
  local path = args:match("^on%s+(.+)$")
  if not path then return T"it is on FILE, or off" end
  if log.file then stop_log(session) end
  local file, why = io.open(path, "a")
  if not file then error(why, 0) end
  log.file, log.path = file, path
  file:setvbuf("line")
  file:write(("-- log of %s\n"):format(os.date("%Y-%m-%d %H:%M")))
  session.say(T("entries and what they print go to %s too"):format(columns.plain(path)))
  require("shell.tap").open(session, sink)
end

return {
  {
    name = "hist", usage = "%hist [TEXT|NUMBER]", example = "%hist matmul",
    doc = "Earlier entries, of all sessions: the last ones, or those that hold a text.",
    run = hist,
  },
  {
    name = "save", usage = "%save [-f] FILE [ENTRIES]", example = "%save run.lua 3-12 15",
    doc = "Write entries as a script that runs without the prompt.",
    run = save,
  },
  {
    name = "rerun", usage = "%rerun [ENTRIES]", example = "%rerun 5-8",
    doc = "Run earlier entries again, the last one without numbers.",
    run = rerun,
  },
  {
    name = "log", usage = "%log on FILE, %log off", example = "%log on today.txt",
    doc = "Write entries and what they print to a file as well.",
    run = log_command,
  },
}
