-- The code of a lesson among the lesson's variables: shown and run, or run without a sound.
local colour = require "shell.colour"
local guard = require "shell.lesson.guard"
local task = require "shell.lesson.task"
local text = require "shell.lesson.text"
local values = require "shell.lesson.values"

local perform = {}

local INDENT = "  "

-- Evaluates code of the lesson on the session; false and a message when that fails.
local function evaluate(session, code)
  local ok, result = session.eval(code.text)
  if not ok then return false, guard.message(result) end
  return true
end

-- The value of an expression of the lesson, without a trace in the session.
function perform.value(expression)
  local f, message = load("return " .. expression, "=lesson", "t")
  if not f then return {ok = false, value = message} end
  local ok, value = guard.call(f, task.seconds * 4)
  return {ok = ok, value = value}
end

-- Names that code assigns, but not those that it prints itself.
local function echoed(code)
  local entry = require "shell.entry"
  local list, seen = {}, {}
  for _, name in ipairs(entry.assigned(entry.tokens(code))) do
    if not seen[name] and not code:find("print%(" .. name .. "[%),]") then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  return list
end

-- The one-line echo of what code made, unless that is what the lesson asks for.
local function echo(session, code, question)
  local names = echoed(code)
  local asked = question and question.expression
  for _, name in ipairs(names) do
    local v = rawget(_G, name)
    local spoils = asked and #names == 1 and asked:find("%f[%w_]" .. name .. "%f[^%w_]")
    if values.is_tensor(v) and not spoils then
      session.say(colour(INDENT .. name .. ": " .. require("shell.columns").describe(v), "faint"))
    end
  end
end

-- Shows a piece of the lesson's code and runs it.
function perform.shown(session, code, question)
  session.say(text.code(code.text, INDENT))
  local ok, message = evaluate(session, code)
  if not ok then session.say(colour("this did not work: " .. message, "error")) end
  if ok then echo(session, code.text, question) end
end

-- The same without a sound, for entries that lie behind; true when it worked.
function perform.quietly(session, code)
  local print, write = _G.print, io.write
  rawset(_G, "print", function() end)
  io.write = function() end
  local _ <close> = setmetatable({}, {__close = function()
    rawset(_G, "print", print)
    io.write = write
  end})
  return evaluate(session, code)
end

-- A task may be solved without some names that the lesson's answer has, and that the code behind it reads.
function perform.complete(step)
  local q = step.question
  if q.kind ~= "task" then return end
  local missing = {}
  for _, use in ipairs(require("shell.lesson.allow").uses(step.after.text)) do
    if use.kind == "global" and rawget(_G, use.name) == nil then missing[use.name] = true end
  end
  if next(missing) == nil then return end
  local own = setmetatable({}, {__index = function(t, name)
    local value = rawget(_G, name)
    if values.is_tensor(value) then value = task.copy(value) end
    rawset(t, name, value)
    return value
  end})
  local f = load(q.answer.text, "=lesson", "t", own)
  if not f or not pcall(f) then return end
  for name in next, missing do
    if rawget(own, name) ~= nil then rawset(_G, name, rawget(own, name)) end
  end
end

return perform
