-- The session behind the prompt: takes entries, runs them so that nothing in them can end it, prints
-- their values, and remembers what was entered. The parts: entry (what was typed), names (variables),
-- results (`_`), report (errors), commands (%name), and whatever joins through hooks.
local native = require "shell.native"
local entry = require "shell.entry"
local names = require "shell.names"
local results = require "shell.results"
local undo = require "shell.undo"
local T = require("torch.language").text

local most_entries = 1000  -- whose text is remembered

---@class Session
local session = {
  number = 1,        -- of the next entry
  entries = {},      -- number -> {text=, ok=, seconds=, time=}
  results = results,
  names = names,
  hooks = {before = {}, after = {}, wrong = {}},
  mode = nil,        -- a lesson: {prompt="lesson> ", handle=function(text) return consumed, well end}
  last_error = nil,  -- {error=, text=, traceback=, frames=, number=}
  options = {locals = true, time = false, print = true, debug = false},
  file = nil,        -- the file that -i ran
  private = nil,     -- entries stay out of the history: those of a lesson
  first = nil,       -- an entry that runs as soon as the prompt opens
}
package.loaded["shell.session"] = session

---@param text string
function session.say(text) io.stdout:write(text, "\n") end

-- What is wrong, on standard error.
---@param text string
function session.complain(text)
  native.start_of_line()
  io.stderr:write(text, "\n")
end

-- A module of the prompt, or nil when the program has none of this name.
local search = package.searchers[2]
local function optional(name)
  if package.loaded[name] then return package.loaded[name] end
  if type(search(name)) == "function" then return require(name) end
end
session.optional = optional

---@return integer|nil number of the entry that last set the global
function session.origin(name)
  if rawget(_G, name) == nil and not names.constants[name] then return nil end
  return names.origins[name]
end

function session.prompt()
  if session.mode then return ("[%d] %s"):format(session.number, session.mode.prompt or "> ") end
  return ("[%d]> "):format(session.number)
end

-- Functions that want to hear of entries must not stop them.
local function call_hooks(list, ...)
  for _, hook in ipairs(list) do
    local ok, message, trace = native.guarded(hook, ...)
    if not ok then session.report(message, trace) end
  end
end

-- A code with `local` kept when that is wanted; nil and what is wrong.
local function prepare(text)
  local code, tokens = entry.read(text)
  if not code then return nil, tokens end
  local kept, constants = {}, {}
  if session.options.locals then
    local rewritten, list, fixed = entry.keep_locals(code)
    if not rewritten then return nil, list end
    if #list > 0 and load(rewritten .. "\n", "=", "t") then code, kept, constants = rewritten, list, fixed end
  end
  return {code = code, tokens = tokens, kept = kept, constants = constants}
end

-- What a person means who types a line that begins with `:` or `.`.
local function continued(text)
  if text:find("^%s*:[%a_]") or text:find("^%s*%.[%a_]") then return "_" .. text:gsub("^%s*", "") end
  return text
end

local function forget(number)
  session.entries[number] = nil
  torch._chunks[("[%d]"):format(number)] = nil
end

-- Compiles a text as an entry; the function, or nil and {kind="incomplete"|"wrong", message=, line=,
-- column=, width=}.
---@param text string
function session.compile(text)
  local original = text
  text = continued(text)
  local ready, wrong = prepare(text)
  if not ready then
    wrong.text = text
    if wrong.at then wrong.at = wrong.at + #original - #text end
    if wrong.kind == "wrong" then
      require("torch.syntax").hint(text, wrong, {global = true, whole = true})
      for _, hook in ipairs(session.hooks.wrong) do pcall(hook, text, wrong) end
    end
    return nil, wrong
  end
  local chunk = ("[%d]"):format(session.number)
  -- Where something is to be closed, `return f()` is no tail call: messages can name f and its caller.
  local f, message = load("local _tycho_ <close> = nil " .. ready.code .. "\n", "=" .. chunk, "t")
  if not f then return nil, entry.wrong(text, 1, 1, message) end
  torch._chunks[chunk] = text
  if text:find("[[", 1, true) or text:find "=.*%.shape" or text:find "=.*:size%(%)" then require("torch.foreign").lists(text, chunk) end
  return f, ready, text
end

-- Runs a text as an entry, without a number, printing or `_`: ok and the packed results, or false,
-- the error and its trace.
---@param text string
function session.eval(text)
  local f, ready = session.compile(text)
  if not f then return false, ready.message end
  local packed = table.pack(native.guarded(f))
  if not packed[1] then return false, packed[2], packed[3] end
  names.after(session.number, entry.assigned(ready.tokens), ready.constants)
  table.remove(packed, 1)
  packed.n = packed.n - 1
  return true, packed
end

-- Prints values; one that cannot be shown is an error like any other. `name` is the variable that the
-- entry consists of, if it does.
function session.print(values, name)
  local written = rawequal(values[1], io.stdout) or rawequal(values[1], io.stderr)  -- of io.write
  if values.n == 0 or values.n == 1 and written then return true end
  local ok, text, trace = native.guarded(require("shell.show").values, values, {name = name})
  if not ok then
    session.report(text, trace)
    return false
  end
  if text and text ~= "" then
    native.start_of_line()
    session.say(text)
  end
  return true
end

-- A part of a report; where the user has broken what it is made with (string.rep = 13), a plain line.
local function reported(make, what, ...)
  local ok, out = pcall(make, what, ...)
  if ok then return out end
  local plain = type(what) == "table" and (rawget(what, "message") or rawget(what, "text")) or what
  return nil, "error: " .. (type(plain) == "string" and plain or T"its report cannot be made")
end

-- Says what an error was, and keeps its text and shapes (never values). A command that failed by itself, outside
-- of all code of the user's, leaves the error that was looked at before.
function session.report(err, trace, of_command)
  local report = require "shell.report"
  local remembered, plain = reported(report.remember, err, trace)
  if not remembered then return session.complain(plain) end
  remembered.number = session.number
  local misuse = type(err) == "table" and rawget(err, "misuse")  -- of a command: no error of the user's code
  local own = of_command and not remembered.interrupted and #remembered.frames == 0 and session.last_error
  if not misuse and not own then session.last_error = remembered end
  session.last_report, plain = reported(report.text, remembered)
  session.complain(session.last_report or plain)
end

local said_kept = false
local function say_kept(kept)
  if said_kept or #kept == 0 or not session.options.print then return end
  said_kept = true
  session.say(T('kept "%s" for the session (%%locals off for plain Lua)'):format(table.concat(kept, '", "')))
end

-- An entry begins: its number is taken, its text remembered.
local function begin(text)
  local record = {text = text, ok = true, seconds = 0, time = os.time()}
  session.entries[session.number] = record
  forget(session.number - most_entries)
  names.current = session.number
  if session.at_keyboard then record.position, record.stamp = native.remember(text, session.private) end
  record.private = session.private
  pcall(undo.begin, session)
  return record
end

local function finish(record, values)
  if not record.ok and record.position then native.failed(record.position) end
  call_hooks(session.hooks.after, record, record.ok, values)
  if not record.text:find "^%s*%%undo" then pcall(undo.finish, session, record) end
  session.number = session.number + 1
  names.current = nil
end

local function say_time(seconds)
  if not session.options.print or seconds < 0.5 and not session.options.time then return end
  local text = seconds < 0.001 and ("%.3g us"):format(seconds * 1e6) or seconds < 1 and ("%.3g ms"):format(seconds * 1e3)
    or seconds < 600 and ("%.3g s"):format(seconds) or ("%.1f min"):format(seconds / 60)
  session.say(require("shell.colour")(text, "faint"))
end

-- The notes about entries (lints) join with the first one.
local function load_lints()
  load_lints = function() end
  local lints = optional "shell.lints"
  if lints then lints.install(session) end
end

local function evaluate(f, ready, text)
  load_lints()
  local record = begin(text)
  names.forget_constants(ready.kept)
  say_kept(ready.kept)
  local note = results.note(text)
  if note then
    session.say("note: " .. note)
    finish(record)
    return true
  end
  call_hooks(session.hooks.before, record)
  local began = torch.perf_counter()
  local values = table.pack(native.contained(f))
  -- What the entry asked for is computed by then, and may fail.
  local ended = table.pack(native.guarded(torch.perf_counter))
  if values[1] and not ended[1] then values = ended end
  record.seconds = ended[1] and ended[2] - began or 0
  record.ok = values[1]
  torch.is_grad_enabled()  -- a scope that the entry left open ends with it
  local modules = record.ok and package.loaded["torch.nn.module"]
  if modules then  -- a plain tensor over a parameter is the entry's error
    local found = table.pack(native.contained(modules.look_at_parameters))
    if not found[1] then values, record.ok = found, false end
  end
  names.after(session.number, entry.assigned(ready.tokens), ready.constants)
  if record.ok then
    table.remove(values, 1)
    values.n = values.n - 1
    results.keep(session.number, values)
    record.valued = values[1] ~= nil
    if session.options.print and not entry.is_quiet(ready.tokens) then record.ok = session.print(values, text:match "^%s*([%a_][%w_]*)%s*$") end
    say_time(record.seconds)
  else
    local trace = values[3]
    if type(trace) == "table" then trace.seconds = record.seconds end
    session.report(values[2], trace)
    values = {n = 0}
  end
  finish(record, values)
  return record.ok
end

-- Entries that are not Lua: %command, !program, ?help. They have numbers but no values.
local function dispatch(text, f, ...)
  local record = begin(text)
  local ok, message, trace = native.guarded(f, ...)
  record.ok = ok and message ~= false  -- a command that has told of its failure itself
  if not ok then session.report(message, trace, true) end
  finish(record)
  return record.ok
end
session.dispatch = dispatch

local function command(text)
  load_lints()  -- what a command runs may have notes, too
  local name, arguments = text:match("^(%%[%w_.]*)%s*(.-)%s*$")
  return require("shell.commands").run(name, arguments, session)
end

local function program(text) require("shell.commands.system").program(text, session) end

local function help(text)
  local page = optional "shell.help"
  if not page then error(T"there is no help in this program", 0) end
  page.show(text)
end

local function special(text)
  local first = text:match("^%s*(.)")
  if first == "%" then return command, text:match("^%s*(.-)%s*$") end
  if first == "!" then return program, text:match("^%s*!(.*)$") end
  if first == "?" then return help, text:match("^%s*(.-)%s*$") end
  if text:find("%?%s*$") and not text:find("\n") and not entry.read(text) then
    return help, text:match("^%s*(.-)%s*$")
  end
end

---@param text string
---@return boolean done the entry is complete, or wrong
function session.is_done(text)
  if session.mode and session.mode.is_done and session.mode.is_done(text) then return true end
  local pasted = entry.pasted(text)
  text = pasted[#pasted]
  local handler, rest = special(text)
  if handler == command then return not require("shell.commands").wants_more(rest) end
  if not text:find("%S") or handler then return true end
  local ready, wrong = prepare(continued(text))
  return ready ~= nil or wrong.kind == "wrong"
end

-- A whole entry as if typed: number, printing, `_`, hooks, errors reported. Returns whether it went
-- well, and for an entry that did not compile what is wrong with it.
---@param text string
---@return boolean ok, table|nil wrong
function session.run(text)
  if not text:find("%S") and not session.mode then return true end
  if session.mode and session.mode.handle then
    local private = session.private
    local ok, consumed, more = native.guarded(session.mode.handle, text)
    if not ok then
      session.report(consumed, more)
      return false
    end
    local left = private and not session.private  -- the lesson, and its entries with it
    if consumed and text:find("%S") and session.at_keyboard and not left then native.remember(text, private) end
    if consumed or not text:find("%S") then return more ~= false end
  end
  local pasted = entry.pasted(text)
  if #pasted > 1 then
    for _, each in ipairs(pasted) do
      local ok = session.run(each)
      if not ok then return false end
    end
    return true
  end
  local original = text
  text = pasted[1]
  local handler, rest = special(text)
  if handler then return dispatch(text, handler, rest) end
  local f, ready, code = session.compile(text)
  if not f then
    if ready.at and #text ~= #original then ready.at = original:find(text, 1, true) and ready.at + #original - #text end
    local shown, plain = reported(require("shell.report").wrong, ready)  -- the line and a caret
    session.complain(shown or plain)
    return false, ready
  end
  return evaluate(f, ready, code)
end

-- What the prompt read: run, and kept in the history.
function session.typed(text)
  session.at_keyboard = true
  local ok, wrong = session.run(text)
  session.at_keyboard = false
  return ok, wrong
end

-- Ctrl-C on an empty line: leaves an inner prompt (a lesson, %predict); false where there is none.
function session.cancel()
  if not (session.mode and session.mode.cancel) then return false end
  io.stdout:write("\n")
  local ok, message, trace = native.guarded(session.mode.cancel)
  if not ok then
    session.mode = nil
    session.report(message, trace)
  end
  return true
end

-- The prompt opens: `interactive` prints values, at a terminal there is a first line.
function session.start(interactive, terminal, clean)
  session.options.print = interactive
  local report = package.loaded["shell.report"]
  session.last_error = report and report.of_script  -- the file of -i failed
  local start = require "shell.start"
  if terminal then session.say(start.banner()) end
  if interactive and not clean then start.init(session) end
  if session.first then session.run(session.first) end
end

names.install()
return session
