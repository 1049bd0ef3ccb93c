-- A lesson at the prompt. It shows an entry, runs its code among variables of its own, asks, and
-- listens: answers to predictions are graded here, every other entry is evaluated as always and
-- looked at afterwards, when a task is open. What is not for the lesson is left to the prompt.
local allow = require "shell.lesson.allow"
local card = require "shell.lesson.card"
local colour = require "shell.colour"
local find = require "shell.lesson.find"
local grade = require "shell.lesson.grade"
local operands = require "shell.lesson.operands"
local perform = require "shell.lesson.perform"
local native = require "shell.native"
local progress = require "shell.lesson.progress"
local room = require "shell.lesson.room"
local steps = require "shell.lesson.steps"
local task = require "shell.lesson.task"
local text = require "shell.lesson.text"
local values = require "shell.lesson.values"
local language = require "torch.language"
local T, sentence = language.text, language.sentence

local screen = require "shell.text"
local speak = require "shell.lesson.speak"

local run = {}

local INDENT = "  "
local PROMPT = "lesson> "
local mode = {prompt = PROMPT}  -- the session's, while a lesson runs
local lesson  -- the one that is running: {lesson=, at=, session=, ...}

local function say(line) lesson.session.say(line or "") end
local function say_text(paragraphs) say(text.paint(text.lines(paragraphs, text.width()))) end
local function say_line(line, style)
  local out = text.paint(text.wrap(line, text.width()))
  say(style and colour(out, style) or out)
end
local function step() return lesson.lesson.steps[lesson.at] end

-- How the open question went, for the teacher's report.
local function count(state)
  local q = lesson.lesson.steps[lesson.at].question
  if not q or q.kind == "play" or state == "open" and lesson.tries == 0 and lesson.hints == 0 then return end
  lesson.counts[lesson.at] = {tries = lesson.tries + (state == "solved" and 1 or 0), hints = math.min(lesson.hints, #(q.hints or {})), state = state}
end

local function save(done)
  local l = lesson.lesson
  local ok, message = progress.write(l.key or l.name, math.min(lesson.at, #l.steps), #l.steps, done, lesson.solved, lesson.counts)
  if not ok and not lesson.warned then
    lesson.warned = true
    say_line(T("(your progress cannot be kept: %s)"):format(tostring(message)), "faint")
  end
end

-- Asks the open question.
local function ask()
  local q = step().question
  if not q then
    say(colour(T"(Enter goes on)", "faint"))
  elseif q.kind == "predict" then
    say_line(q.ask or T("Before running: %s"):format(grade.question(q.expression)))
  else
    say_text(q.text)
    if q.starter then say(text.code(q.starter.text, INDENT)) end
  end
end

-- The variable that a task is about, as it was: wrong tries are taken back.
local function open_task(q)
  local name = q.spec.name
  lesson.seen = rawget(_G, name)
  lesson.before, lesson.wanted, lesson.last = nil, nil, nil
  lesson.between, lesson.derived = nil, {}
  if not q.spec.parameters then
    local ok, wanted = pcall(task.wanted, q, lesson.lesson.path, _G)
    if ok then
      lesson.wanted = wanted
      lesson.between = steps.between(q, wanted)
    end
    if values.is_tensor(lesson.seen) then lesson.before = task.copy(lesson.seen) end
    lesson.last = lesson.before
  end
end

local function show_step()
  local s = step()
  lesson.tries, lesson.hints = 0, 0
  lesson.playing, mode.prompt = false, PROMPT
  say("")
  say(colour(("%d/%d"):format(lesson.at, #lesson.lesson.steps), "faint"))
  if #s.say > 0 then say_text(s.say) end
  if s.code then perform.shown(lesson.session, s.code, s.question) end
  if #s.new > 0 then say_line(T("new: %s"):format(table.concat(s.new, " ")), "faint") end
  if s.question and s.question.kind == "task" then open_task(s.question) end
  ask()
end

local function finish()
  local l, session = lesson.lesson, lesson.session
  lesson.at = #l.steps
  save(true)
  say("")
  say_line(T("That was %s."):format(l.title), "heading")
  if #l.see > 0 then say_line(T"Look up: ?" .. table.concat(l.see, "  ?")) end
  local after = find.next(l)
  if after then say_line(T("%%next begins the next one, %s: %s."):format(after.name, T(after.title))) end
  run.finished = l
  run.leave(session)
end

local function advance()
  lesson.at = lesson.at + 1
  if lesson.at > #lesson.lesson.steps then return finish() end
  save()
  show_step()
end

-- The question is answered: what remains of the entry, then the next.
local function complete(state)
  local s = step()
  count(state or "solved")
  if s.question.why then say_text(s.question.why) end
  if s.after then
    perform.complete(s)
    perform.shown(lesson.session, s.after, {expression = s.question.expression})
  end
  advance()
end

local function say_beside(first, lines)
  for i, line in ipairs(lines) do say((i == 1 and first or (" "):rep(screen.width(first))) .. line) end
end

local function answer_predict(q, answer)
  local wanted = perform.value(q.expression)
  local right, remark = grade.grade(answer, wanted, q.expression, function(name) return rawget(_G, name) end)
  if right then
    local names, shapes = operands.sides(q.expression)
    if names then
      say_beside(colour(T"yes.", "good") .. "   ", card.rows(names, shapes))
    else
      say(colour(T"yes.", "good"))
    end
    return complete()
  end
  for _, w in ipairs(q.wrong) do
    local slip = grade.read(w.answer)
    if slip and grade.same_answer(slip, answer) then remark = w.remark end
  end
  lesson.tries = lesson.tries + 1
  local mark = colour(T"not yet.", "bad")
  say_line(remark and language.beside(mark, sentence(remark)) or mark)
  if lesson.tries == 2 then say_line(T"(%hint helps)", "faint") end
  if lesson.tries >= 4 then say_line(T"(%skip shows the answer)", "faint") end
end

-- What the lesson has to say to just this entry, or nil.
local function own_remark(q, entry)
  for _, w in ipairs(q.wrong) do
    if allow.same_code(entry, w.answer) then return w.remark end
  end
end

-- What an entry is told that neither solves the task nor is wrong: a first step, or work on a copy.
local function remark_on(q, entry, results)
  local own = own_remark(q, entry)
  if own then return say_line(own) end
  local slip = steps.slip(lesson.looked, q.spec.name)
  if slip then return say_line(slip) end
  if lesson.between and steps.reached(lesson.between, entry, results) then say(colour(T"so far so good", "good")) end
end

-- What the user's entry did to the open task.
local function look_at_task(q, entry, results)
  local name, l = q.spec.name, lesson.lesson
  steps.derive(lesson.looked, name, entry, lesson.derived)
  local now = rawget(_G, name)
  local mentioned = entry:find("%f[%w_]" .. name .. "%f[^%w_]") ~= nil
  local is_value = q.spec.parameters == nil and values.is_tensor(now)
  local changed = not rawequal(now, lesson.seen) or is_value and not values.same(now, lesson.last)
  lesson.seen, lesson.last = now, is_value and task.copy(now) or nil
  local right, lines, answered
  if q.spec.parameters then
    if type(now) ~= "function" then
      local other = entry:match("function%s+([%a_][%w_]*)%s*%(")
      if other and other ~= name then
        say_line(T("The task asks for `%s`; that is `%s`."):format(name, other))
      elseif mentioned and now ~= nil then
        say_line(T("`%s` should be a function: function %s(%s) return .. end"):format(
          name, name, table.concat(q.spec.parameters, ", ")))
      else
        remark_on(q, entry, results)
      end
      return
    end
    if not changed then return remark_on(q, entry, results) end
  else
    local as_value = results and results.n > 0 and values.same(results[1], lesson.wanted)
    if as_value and not values.same(now, lesson.wanted) then
      if lesson.before then
        say_line(T("Those are the right values, but in a new tensor: `%s` itself is unchanged."):format(name))
        return
      end
      rawset(_G, name, results[1])
      now, answered = results[1], true
      say(colour(T("kept as %s"):format(name), "faint"))
    elseif not changed then
      return remark_on(q, entry, results)
    elseif not lesson.before and lesson.between and steps.reached(lesson.between, entry) then
      return say(colour(T"so far so good", "good"))
    end
  end
  local complaint = allow.complaint(entry, q, function(global) return rawget(_G, global) ~= nil end)
  if complaint then
    lesson.tries = lesson.tries + 1
    return say_line(complaint)
  end
  if q.spec.parameters then
    right, lines = task.check_function(q, l.path, _G, now)
  else
    right, lines = task.check_value(q, lesson.wanted, now, _G, lesson.hints > 0)
  end
  if right then
    local code = answered and name .. " = " .. entry or entry
    if load(code) then lesson.solved[lesson.at] = code end
    say(colour(lines[1], "good"))
    return complete()
  end
  lesson.tries = lesson.tries + 1
  local mark = T"not yet:"
  say_line(lines[1]:sub(1, #mark) == mark and colour(mark, "bad") .. lines[1]:sub(#mark + 1) or lines[1])
  local own = own_remark(q, entry)
  if own then say_line(own) end
  for i = 2, #lines do say(screen.cut(lines[i], require("shell.columns").window() - 1)) end
  if lesson.before and not values.same(now, lesson.before) then
    if values.is_tensor(lesson.seen) and values.same_sizes(now.shape, lesson.before.shape) and
       now.dtype == lesson.before.dtype then
      torch.no_grad(function() now:copy_(lesson.before) end)
    else
      rawset(_G, name, task.copy(lesson.before))
    end
    lesson.seen, lesson.last = rawget(_G, name), lesson.before
    say_line(T("(`%s` is again as it was.)"):format(name), "faint")
  end
  if lesson.tries == 2 then say_line(T"(%hint helps)", "faint") end
end

local commands = require "shell.lesson.own" {
  say = say, say_line = say_line, step = step, ask = ask, save = save, show_step = show_step, complete = complete,
  advance = advance, mode = mode, run = run, prompt = PROMPT, current = function() return lesson end,
  count = count,
}

-- An entry for the lesson itself: its commands, also without the %, and bare answers.
local function command_of(entry)
  local mark, name = entry:match("^%s*(%%?)(%a+)%s*$")
  if mark == "" and (lesson.playing or rawget(_G, name) ~= nil and name ~= "next") then return nil end
  return name and commands[name]
end

local function is_answer(entry)
  local q = step().question
  if lesson.playing or not q or q.kind ~= "predict" or entry:find("^%s*[%%!?]") then return nil end
  return grade.read(entry)
end


function mode.is_done(entry)
  if not lesson then return false end
  return not entry:find("%S") or command_of(entry) ~= nil or is_answer(entry) ~= nil
end

function mode.handle(entry)
  if not lesson then return false end
  local command = command_of(entry)
  if command then
    command()
    return true
  end
  if not entry:find("%S") then
    local q = step().question
    if lesson.playing then
      commands.play()
    elseif not q or q.kind == "play" then
      advance()
    else
      ask()
    end
    return true
  end
  local answer = is_answer(entry)
  if not answer then return false end
  answer_predict(step().question, answer)
  return true
end

function mode.cancel()
  if lesson.playing then return commands.play() end
  commands.quit()
end

-- The task that is open while an entry runs, or nil.
local function task_open()
  local q = lesson and not lesson.playing and step().question
  return q and q.kind == "task" and q or nil
end

local function before()
  local q = task_open()
  if q then lesson.looked = not q.spec.parameters and steps.look(q.spec.name, lesson.derived) or nil end
end

local function after(entry, ok, results)
  local q = ok and task_open()
  if q then look_at_task(q, entry.text, results) end
end

local hooked

--- Starts a lesson, or goes on with it.
---@param found table the parsed lesson
---@param session table
---@param from? integer the entry to begin with; nil takes up where it was left
function run.start(found, session, from)
  if lesson then run.leave(lesson.session) end
  found = speak(found)
  local kept = progress.read()[found.key or found.name]
  local at = from or kept and not (kept.done and kept.entry >= #found.steps) and kept.entry or 1
  at = math.max(1, math.min(at, #found.steps))
  lesson = {lesson = found, at = at, session = session, solved = {}, counts = {}, tries = 0, hints = 0, history = native.forget()}
  session.private = not run.keep_history
  room.enter(session)
  local echo_module = require "shell.echo"
  lesson.echo = echo_module.on
  echo_module.set(session, true)
  if not hooked then
    hooked = true
    table.insert(session.hooks.before, before)
    table.insert(session.hooks.after, after)
  end
  session.mode = mode
  local own = "%hint %skip %play %back %reset %quit"
  local wide = screen.width(found.title) + #own + 3 <= text.width()
  say(colour(found.title, "heading") .. (wide and "   " or "\n") .. colour(own, "faint"))
  if at > 1 then
    say_line(T("You were at %d/%d; what came before is done again quietly."):format(at, #found.steps), "faint")
    for i = 1, at - 1 do
      local s = found.steps[i]
      local q = s.question
      if s.code then perform.quietly(session, s.code) end
      if q and q.kind == "task" and not (q.spec.parameters and rawget(_G, q.spec.name) ~= nil) then
        -- The user's own answer; it may stand on variables that are gone.
        local own = kept and kept.answers[i]
        if not (own and perform.quietly(session, {text = own})) then perform.quietly(session, q.answer) end
      end
      if s.after then perform.quietly(session, s.after) end
    end
  end
  save()
  show_step()
end

--- Leaves the lesson; the prompt is as it was.
function run.leave(session)
  if not lesson then return end
  require("shell.echo").set(session, lesson.echo)
  if session.mode == mode then session.mode = nil end
  session.private = nil
  if lesson.history then native.forget(lesson.history) end
  room.leave(session)
  lesson = nil
end

--- Another language is spoken: so does the running lesson, from its open question on.
function run.speak()
  if not lesson then return end
  lesson.lesson = speak(lesson.lesson)
  ask()
end

--- The running lesson as progress names it, or nil.
function run.current() return lesson and (lesson.lesson.key or lesson.lesson.name) end

return run
