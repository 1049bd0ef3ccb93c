-- The commands of the prompt: which file holds each, so that no file is loaded before its command
-- is used. A file in shell/commands returns rows {name=, usage=, doc=, example=, run=}; run gets the
-- text after the name and the session; it returns a sentence when that text makes no sense, and false
-- when it has told of a failure itself.
local T = require("torch.language").text
local commands = {}

local by_file = {
  {"time", "time bench prof shapes echo"},
  {"memory", "who mem free"},
  {"look", "bits layout"},
  {"history", "hist save rerun log"},
  {"record", "record"},
  {"system", "cd ls pwd env edit run reload restart"},
  {"frames", "debug bt"},
  {"graph", "graph"},
  {"grad", "check nan"},
  {"why", "why"},
  {"walk", "backstep sweep"},
  {"undo", "undo"},
  {"eval", "locals quit"},
  {"show", "full print"},
  {"notes", "ok"},
  {"errors", "explain"},
  {"help", "demo"},
  {"keys", "keys"},
  {"learn", "learn hint skip play back reset next"},
  {"solved", "solved"},
  {"predict", "predict align"},
  {"ranks", "ranks rank"},
  {"language", "lang"},
}

commands.files = {}  -- "%who" -> module
local order = {}
for _, pair in ipairs(by_file) do
  for name in pair[2]:gmatch("%S+") do
    commands.files["%" .. name] = "shell.commands." .. pair[1]
    order[#order + 1] = "%" .. name
  end
end

local function bare(name) return (name:gsub("^%%", "")) end

-- Is the module in this program? Its file is not loaded.
local function is_embedded(module)
  return package.loaded[module] ~= nil or type(package.searchers[2](module)) == "function"
end

---@param name string with or without its %
---@return table|nil row
function commands.find(name)
  local module = commands.files["%" .. bare(name)]
  if not module or not is_embedded(module) then return nil end
  for _, row in ipairs(require(module)) do
    if bare(row.name) == bare(name) then return row end
  end
end

---Names that begin with the text, with their %.
function commands.names(prefix)
  local out = {}
  for _, name in ipairs(order) do
    if name:sub(1, #(prefix or "")) == (prefix or "") and is_embedded(commands.files[name]) then out[#out + 1] = name end
  end
  table.sort(out)
  return out
end

---Usage, sentence and example of a command as text.
function commands.describe(name)
  local row = commands.find(name)
  if not row then return nil end
  local columns = require "shell.columns"
  local lines = {row.usage}
  for paragraph in (T(row.doc) .. "\n" .. T(row.more or "")):gmatch("[^\n]+") do
    lines[#lines + 1] = "  " .. table.concat(columns.wrap(paragraph, columns.window() - 2), "\n  ")
  end
  if row.example then lines[#lines + 1] = "  " .. T"for example" .. "  " .. row.example:gsub("\n", "\n               ") end
  return table.concat(lines, "\n")
end

-- Which commands belong together, and what they are about; the rest stands under "more".
local groups = {
  {"variables", "who mem free full print layout bits"}, {"gradients", "graph backstep sweep check nan why"},
  {"shapes", "predict align shapes explain"}, {"time", "time bench prof"}, {"errors", "debug bt ok"},
  {"entries", "undo hist rerun edit save log record locals"}, {"files", "run reload cd ls pwd env"},
  {"learning", "learn hint skip play back next reset solved demo keys"}, {"several", "ranks rank"}, {"session", "lang restart quit"},
}

commands.groups = groups

-- All commands in groups: a screen.
local function list(session)
  local columns, colour = require "shell.columns", require "shell.colour"
  local width, seen, rest = columns.window(), {}, {}
  local function group(title, names)
    local lines = columns.wrap("%" .. table.concat(names, "  %"), width - 11)
    session.say(colour(require("shell.text").pad(T(title), 11), "heading") .. table.concat(lines, "\n" .. (" "):rep(11)))
  end
  for _, each in ipairs(groups) do
    local names = {}
    for name in each[2]:gmatch "%S+" do
      if commands.find(name) then
        names[#names + 1] = name
        seen["%" .. name] = true
      end
    end
    if #names > 0 then group(each[1], names) end
  end
  for _, name in ipairs(order) do
    if not seen[name] and commands.find(name) and bare(name) ~= "echo" then rest[#rest + 1] = bare(name) end
  end
  if #rest > 0 then group("more", rest) end
  session.say(table.concat(columns.wrap(T"?%who tells what one does and shows an example; !command runs a program; % TEXT finds commands", width), "\n"))
end

-- Commands whose names or sentences hold a text, with what they do.
local function search(text, session)
  local columns = require "shell.columns"
  local found = false
  for _, name in ipairs(order) do
    local row = commands.find(name)
    if row and (row.usage .. " " .. row.doc .. " " .. T(row.doc)):lower():find(text:lower(), 1, true) then
      found = true
      session.say(row.usage:match "^[^\n]*" .. "\n  " .. table.concat(columns.wrap(T(row.doc), columns.window() - 2), "\n  "))
    end
  end
  if not found then session.say(T('no command has to do with "%s"; %% lists all'):format(text)) end
end

-- What people type who come from other prompts.
local elsewhere = {
  timeit = "bench", benchmark = "bench", prun = "prof", profile = "prof", whos = "who", vars = "who", history = "hist", memit = "mem",
  memory = "mem", exit = "quit", q = "quit", load = "run", pdb = "debug", tb = "bt", xmode = "bt", logstart = "log", magic = "",
  lsmagic = "", help = "", dir = "ls", recall = "rerun", rep = "rerun", set_env = "env", autoreload = "reload",
}

-- A command was used wrongly: said like an error, but the last error stays the one that is looked at.
local Misuse = {__name = "misuse", __tostring = function(e) return e.text end}
local function misuse(said, more)
  local columns = require "shell.columns"
  local lines = columns.wrap(said, columns.window() - #"error: ")
  error(setmetatable({text = table.concat(lines, "\n   ") .. (more or ""), misuse = true}, Misuse), 0)
end

local function unknown(name, session)
  local here = elsewhere[bare(name)]
  if here then misuse(T('no command "%s"; here it is %%%s'):format(name, here)) end
  local nearest = session.names and session.names.nearest or require("shell.names").nearest
  local i = 0
  local all = commands.names()
  local near = nearest(name, function()
    i = i + 1
    return all[i]
  end)
  misuse(T('no command "%s". %s'):format(name, near and T('Did you mean "%s"?'):format(near) or T"% lists all."))
end

---@param name string "%who"; "%" alone lists all
---@param args string the text after it
function commands.run(name, args, session)
  name = "%" .. bare(name)
  if name == "%" and (args == "" or args == "?") then return list(session) end
  if name == "%" and not commands.find(args:match("^%S+")) then return search(args, session) end
  if name == "%" then name, args = "%" .. args:match("^%S+"), args:match("^%S+%s*(.*)$") end
  local row = commands.find(name)
  if not row then unknown(name, session) end
  if args == "?" then return session.say(commands.describe(name)) end
  local wrong = row.run(args, session)
  if type(wrong) == "string" then
    local example = row.example and ("\n   " .. T"for example" .. "  " .. row.example:match("^[^\n]*")) or ""
    local columns = require "shell.columns"
    local usage = table.concat(columns.wrap(row.usage, columns.window() - 10), "\n          ")
    misuse(name .. ": " .. wrong, "\n   " .. T"usage" .. "  " .. usage .. example)
  end
  return wrong ~= false
end

---Compiles code given to a command as an entry of its own; a function to call once, and one to call
---afterwards with its packed values: they become `_`, and names know where they were set.
---@param code string
---@return function run, function done
function commands.compile(code, session)
  local f, ready = session.compile(code)
  if not f then error(ready.kind == "incomplete" and T"the code is not complete" or ready.message, 0) end
  return f, function(values)
    if session.names and ready.tokens then
      session.names.after(session.number, require("shell.entry").assigned(ready.tokens), ready.constants or {})
    end
    if values and session.results then session.results.keep(session.number, values) end
  end
end

local takes_code = {}
for name in ("time bench prof bits layout graph check nan"):gmatch("%S+") do takes_code["%" .. name] = true end

---Does the text of a command end inside of code that goes on in the next line?
---@param text string the whole entry
function commands.wants_more(text)
  local name, code = text:match("^(%%[%w_]+)%s+(.*)$")
  if not takes_code[name] then return false end
  local ready, wrong = require("shell.entry").read(code)
  return not ready and wrong.kind == "incomplete"
end

---Runs texts as entries of their own, from within a command (which has a number itself). Stops at
---the first that fails.
---@param announce boolean show each with its prompt
---@return boolean ok
function commands.run_entries(session, texts, announce)
  local ok = true
  session.number = session.number + 1
  for _, text in ipairs(texts) do
    if announce then
      local prompt = ("[%d]> "):format(session.number)
      session.say(prompt .. text:gsub("\n", "\n...> "))
    end
    ok = session.run(text)
    if not ok or session.ended then break end
  end
  session.number = session.number - 1  -- the command's own end counts it up
  return ok
end

return commands
