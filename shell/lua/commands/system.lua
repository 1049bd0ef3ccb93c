-- Commands about files, directories and programs: %cd, %ls, %edit, %run, %reload and the like, and
-- !command.
local columns = require "shell.columns"
local commands = require "shell.commands"
local native = require "shell.native"
local language = require "torch.language"
local T, N = language.text, language.noted

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- ~ and ~/x as shells read them, and quotes around a whole path.
local function path_of(text)
  local inner = text:match('^"(.*)"$') or text:match("^'(.*)'$")
  if inner then return inner end
  local home = os.getenv("HOME")
  if home and (text == "~" or text:sub(1, 2) == "~/") then return home .. text:sub(2) end
  return text
end

local signals = {[1] = N"hangup", [2] = "Ctrl-C", [3] = N"quit", [6] = N"abort", [9] = N"kill", [11] = N"a crash", [15] = N"a request to end"}

-- !command: the program has the terminal; its status is told when it is not 0.
local function program(command, session)
  if not command:find("%S") then error(T"!: a command is wanted\n   for example  !ls -l", 0) end
  io.stdout:flush()
  local status, signal = native.system(command)
  if signal then
    if signal == 2 and native.is_terminal(0) then session.say("") end  -- after its ^C
    session.say(T("ended by %s"):format(signals[signal] and T(signals[signal]) or T("signal %d"):format(signal)))
  elseif status ~= 0 then
    session.say(T("status %d"):format(status))
  end
  return status
end

local previous
local function cd(args, session)
  local to = args == "" and "~" or args
  if to == "-" then
    if not previous then return T"there is no directory to go back to" end
    to = previous
  end
  local from = native.directory()
  local ok, why = native.chdir(path_of(to))
  if not ok then error(T("%%cd %s: %s"):format(columns.plain(to), why:lower()), 0) end
  previous = from
  session.say(columns.plain(native.directory()))
end

local function ls(args, session)
  local flags = native.is_terminal(1) and "-C " or ""
  program("ls " .. flags .. args, session)
end

local function pwd(args, session)
  if args ~= "" then return T"it takes nothing" end
  session.say(columns.plain(native.directory()))
end

local function env(args, session)
  if args == "" then
    local list = native.environment()
    table.sort(list)
    for _, each in ipairs(list) do session.say(columns.clip(columns.plain(each), columns.window())) end
    return
  end
  local name, value = args:match("^([%a_][%w_]*)%s*=%s*(.*)$")
  if name then
    native.setenv(name, path_of(value))
    return session.say(("%s=%s"):format(name, columns.plain(os.getenv(name) or "")))
  end
  name = args:match("^[%a_][%w_]*$")
  if not name then return T"a name, or NAME=VALUE, is wanted" end
  session.say(os.getenv(name) and columns.plain(os.getenv(name)) or T("%s is not set"):format(name))
end

local function read_file(path)
  local file, why = io.open(path, "r")
  if not file then error(why, 0) end
  local text = file:read("a")
  file:close()
  if not text then error(T("%s: cannot be read; is it a directory?"):format(path), 0) end
  return text
end

local function editor()
  for _, name in ipairs {"VISUAL", "EDITOR"} do
    local value = os.getenv(name)
    if value and value:find("%S") then return value end
  end
  return "vi"
end

local function edit_file(path, line)
  local command = editor()
  local at = line and command:find("%f[%w]n?vim?%f[%W]") and ("+%d "):format(line) or line and command:find("%f[%w]nano%f[%W]") and ("+%d "):format(line)
    or line and command:find("%f[%w]emacs%f[%W]") and ("+%d "):format(line) or ""
  local status = native.system(("%s %s%s"):format(command, at, quote(path)))
  if status ~= 0 then error(T("%s ended with status %d; set $VISUAL or $EDITOR to choose another"):format(command, status), 0) end
end

-- What to edit: an entry by number, the entry or file of a function, the last entry.
local function to_edit(args, session)
  local n = tonumber(args) or tonumber(args:match("^%[(%d+)%]$"))
  if n then
    local record = session.entries[n]
    if not record then error(T("%%edit: there is no entry [%s]"):format(args), 0) end
    return record.text
  end
  if args == "" then return "" end
  local value = _G
  for part in args:gmatch("[^.:]+") do
    value = type(value) == "table" and rawget(value, part) or nil
  end
  if type(value) == "function" then
    local info = debug.getinfo(value, "S")
    local number = info.source:match("^=%[(%d+)%]$")
    if number and session.entries[tonumber(number)] then return session.entries[tonumber(number)].text end
    if info.source:sub(1, 1) == "@" then return nil, info.source:sub(2), info.linedefined end
    error(T("%%edit: the source of %s is not at hand"):format(args), 0)
  end
  local from = session.origin and session.origin(args)
  if from and session.entries[from] then return session.entries[from].text end
  if args:find("[./]") then return nil, path_of(args) end
  error(T('%%edit: no variable, entry or file "%s"'):format(args), 0)
end

local function run_file(path, arguments, session)
  local text = read_file(path)
  if text:sub(1, 1) == "#" then text = "--" .. text end  -- keeps the lines' numbers
  local f, why = load(text, "@" .. path, "t")
  if not f then error(why, 0) end
  local args = {[0] = path}
  for i, a in ipairs(arguments) do args[i] = a end
  rawset(_G, "arg", args)
  -- A script that ends itself ends, not the session.
  local ended = {}
  local exit = os.exit
  local restore <close> = setmetatable({}, {__close = function() os.exit = exit end})
  os.exit = function(status)
    ended.status = status == nil and 0 or status == true and 0 or status == false and 1 or status
    error(ended, 0)
  end
  local results = table.pack(native.contained(f, table.unpack(arguments)))
  if results[1] then return end
  if rawequal(results[2], ended) or ended.status then
    return session.say(T("%s ended with status %s"):format(columns.plain(path), ended.status))
  end
  session.report(results[2], results[3])
  return false
end

local function edit(args, session)
  local text, path, line = to_edit(args, session)
  if path then
    edit_file(path, line)
    return run_file(path, {}, session)
  end
  local file = native.temporary()
  local remove <close> = setmetatable({}, {__close = function() os.remove(file) end})
  local out = assert(io.open(file, "w"))
  out:write(text, text ~= "" and "\n" or "")
  out:close()
  edit_file(file)
  local new = read_file(file):gsub("%s+$", "")
  if not new:find("%S") then return session.say(T"nothing was written, so nothing runs") end
  return commands.run_entries(session, {new}, true)
end

-- Words as shells split them, quotes respected.
local function words(text)
  local out, word, i, quoted = {}, nil, 1, nil
  while i <= #text do
    local c = text:sub(i, i)
    if quoted then
      if c == quoted then quoted = nil else word = word .. c end
    elseif c == "'" or c == '"' then
      quoted, word = c, word or ""
    elseif c == "\\" and i < #text then
      i = i + 1
      word = (word or "") .. text:sub(i, i)
    elseif c:find("%s") then
      if word then out[#out + 1] = word end
      word = nil
    else
      word = (word or "") .. c
    end
    i = i + 1
  end
  if quoted then error(T"a quote is not closed", 0) end
  if word then out[#out + 1] = word end
  return out
end

local function run(args, session)
  local all = words(args)
  local path = table.remove(all, 1)
  if not path then return T"a file is wanted" end
  path = path_of(path)
  local file = io.open(path, "r")
  if not file and not path:find("%.lua$") then
    file = io.open(path .. ".lua", "r")
    if file then path = path .. ".lua" end
  end
  if file then file:close() end
  return run_file(path, all, session)
end

-- ---- %reload ---------------------------------------------------------------------------------

local function same(a, b)
  if type(a) ~= type(b) then return false end
  if type(a) == "function" then
    local ok1, one = pcall(string.dump, a, true)
    local ok2, two = pcall(string.dump, b, true)
    return ok1 and ok2 and one == two
  end
  if type(a) == "table" then return true end  -- told by its fields
  if torch.is_tensor(a) then return rawequal(a, b) end
  return a == b
end

-- Puts what is new into the tables that are there, so that everybody who holds one, and objects of
-- old classes, see the new code. `map` says which new table became which old one.
local function renew(old, new, name, map, said)
  if map[new] then return end
  map[new] = old
  local function note(list, key)
    if type(key) == "string" and not key:find("^__") then table.insert(said[list], name .. key) end
  end
  for key, value in next, new do
    local before = rawget(old, key)
    if before == nil then
      note("added", key)
    elseif not same(before, value) then
      note("changed", key)
    else
      said.same = said.same + (type(value) == "function" and 1 or 0)
    end
    if type(value) == "table" and type(before) == "table" and before ~= value then
      renew(before, value, name .. tostring(key) .. ".", map, said)
    end
  end
  local gone = {}
  for key in next, old do
    if rawget(new, key) == nil then gone[#gone + 1] = key end
  end
  for _, key in ipairs(gone) do
    note("gone", key)
    rawset(old, key, nil)
  end
  for key, value in next, new do rawset(old, key, map[value] or value) end
  local meta = getmetatable(new)
  if meta == nil or type(meta) == "table" then debug.setmetatable(old, map[meta] or meta) end
end

-- New functions see the kept tables where they would see the new ones.
local function rewire(value, map, seen)
  if seen[value] then return end
  seen[value] = true
  if type(value) == "function" then
    for i = 1, 255 do
      local name, up = debug.getupvalue(value, i)
      if not name then break end
      if map[up] then debug.setupvalue(value, i, map[up]) end
      if name ~= "_ENV" and (type(up) == "function" or type(up) == "table" and map[up]) then rewire(map[up] or up, map, seen) end
    end
  elseif type(value) == "table" then
    for key, v in next, value do
      if map[v] then rawset(value, key, map[v]) end
      if type(v) == "function" or type(v) == "table" and (map[v] or seen[v] == nil and getmetatable(v) == nil) then rewire(map[v] or v, map, seen) end
    end
    local meta = debug.getmetatable(value)
    if type(meta) == "table" and map[meta] then debug.setmetatable(value, map[meta]) end
  end
end

local function reload(args, session)
  if args == "" or args:find("%s") then return T"the name of one module is wanted, as require takes it" end
  local name = args:match('^["\'](.*)["\']$') or args
  if name == "torch" or name:find("^torch%.") or name:find("^shell%.") or name == "_G" then
    return T("%s is a part of this program"):format(name)
  end
  local old = package.loaded[name]
  package.loaded[name] = nil
  local results = table.pack(native.contained(require, name))
  if not results[1] then
    package.loaded[name] = old
    local message = results[2]
    if type(message) == "string" and message:find("^module '[^\n]*' not found") then
      error(T('%%reload: there is no module "%s"'):format(columns.plain(name)), 0)
    end
    session.report(message, results[3])
    session.say(old ~= nil and T"the module is as it was" or T"the module is not loaded")
    return false
  end
  local new, file = results[2], results[3]
  local place = type(file) == "string" and T(" from %s"):format(file) or ""
  if old == nil then return session.say(T("loaded %s%s"):format(name, place)) end
  if type(old) ~= "table" or type(new) ~= "table" then
    return session.say(T("loaded %s%s anew; what was required before is the old one"):format(name, place))
  end
  local map, said = {}, {added = {}, changed = {}, gone = {}, same = 0}
  renew(old, new, "", map, said)
  local seen = {}
  rewire(old, map, seen)
  for _, kept in pairs(map) do rewire(kept, map, seen) end
  package.loaded[name] = old
  local parts = {}
  for _, list in ipairs {"changed", "added", "gone"} do
    table.sort(said[list])
    if #said[list] > 8 then
      said[list][8] = T("and %d more"):format(#said[list] - 7)
      for i = #said[list], 9, -1 do said[list][i] = nil end
    end
    if #said[list] > 0 then parts[#parts + 1] = list .. " " .. table.concat(said[list], " ") end
  end
  local what = #parts > 0 and table.concat(parts, "; ") or T"nothing changed"
  session.say(table.concat(columns.wrap(T("reloaded %s%s: %s"):format(name, place, what), columns.window()), "\n"))
end

local function restart(args, session)
  if args ~= "" then return T"it takes nothing" end
  if not native.is_terminal(0) then return T"entries that come from a file or a pipe cannot begin anew" end
  session.say(T"beginning anew")
  native.restart()
end

local rows = {
  {name = "cd", usage = "%cd [DIRECTORY]", example = "%cd ~/data", doc = "Go to a directory (home without one, - goes back).", run = cd},
  {name = "ls", usage = "%ls [FILES]", example = "%ls *.lua", doc = "List files.", run = ls},
  {name = "pwd", usage = "%pwd", example = "%pwd", doc = "Tell the directory.", run = pwd},
  {
    name = "env", usage = "%env [NAME[=VALUE]]", example = "%env OMP_NUM_THREADS=1",
    doc = "Show or set variables of the environment, for programs started from here.", run = env,
  },
  {
    name = "edit", usage = "%edit [NAME|NUMBER]", example = "%edit 12",
    doc = "Write an entry in $VISUAL or $EDITOR, or change an old one or a function's; what was written runs.", run = edit,
  },
  {
    name = "run", usage = "%run FILE.lua [ARGUMENTS]", example = "%run train.lua --lr 0.1",
    doc = "Run a script in this session: its globals stay.", run = run,
  },
  {
    name = "reload", usage = "%reload MODULE", example = "%reload mymodel",
    doc = "Load a module again after its file changed; objects and names that were there get the new code.", run = reload,
  },
}
rows[#rows + 1] = {
  name = "restart", usage = "%restart", example = "%restart",
  doc = "Begin anew: a new session without variables, in the same place.", run = restart,
}
rows.program = program
return rows
