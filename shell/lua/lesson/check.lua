-- `tycho --check FILE|DIRECTORY...`: lessons as tests. Every stated answer is right, every task fails
-- with its starter and passes with its answer, the file runs from top to bottom, and only names that
-- were taught before are used. Prints file:line of what is wrong and `N passed, N failed`.
local allow = require "shell.lesson.allow"
local course = require "shell.lesson.course"
local find = require "shell.lesson.find"
local grade = require "shell.lesson.grade"
local guard = require "shell.lesson.guard"
local parse = require "shell.lesson.parse"
local task = require "shell.lesson.task"

local check = {}

local SECONDS = 60  -- one piece of a lesson may take

local function new_env(out)
  local env = setmetatable({}, {__index = _G})
  env._G = env
  env.print = function() out.printed = true end
  return env
end

-- Runs code of the lesson; nil, or a message.
local function run(code, line, path, env)
  local f, message = parse.load(code, line, path, env)
  if not f then return message end
  local ok, err = guard.call(f, SECONDS)
  if not ok then return guard.message(err) end
end

local function value_of(expression, line, path, env)
  local f, message = parse.load("return " .. expression, line, path, env)
  if not f then return {ok = false, value = message} end
  local ok, value = guard.call(f, SECONDS)
  return {ok = ok, value = value}
end

-- A tensor that has every field, and a computed one, which alone has a grad_fn.
local leaf = torch.zeros(1, {requires_grad = true})
leaf.grad = torch.zeros(1)
local computed = leaf * 1

local function field(name)
  local ok, value = pcall(function() return leaf[name] end)
  if ok and value ~= nil then return value end
  ok, value = pcall(function() return computed[name] end)
  return ok and value or nil
end

-- Whether a name is one of torch's: what a lesson has to teach before it is used.
function check.is_taught(use)
  if use.kind ~= "method" and use.kind ~= "field" then return false end
  if use.of and (_G[use.of] ~= nil and use.of ~= "torch") then return false end
  if use.of == "torch" and rawget(torch, use.name) ~= nil then return true end
  return field(use.name) ~= nil
end

local function exists(name)
  local ok, value = pcall(function() return torch[name] end)
  if ok and value ~= nil then return true end
  return field(name) ~= nil
end

local function check_predict(question, path, env, problem)
  local wanted = value_of(question.expression, question.line, path, env)
  local function lookup(name) return env[name] end
  local stated = grade.read(question.answer)
  if not stated then
    problem(question.line, "the stated answer %q cannot be read; answers are numbers, a shape, a dtype, true, false or error", question.answer)
  elseif not grade.grade(stated, wanted, question.expression, lookup) then
    local is = wanted.ok and tostring(wanted.value):gsub("\n", " ") or "error: " .. guard.message(wanted.value)
    problem(question.line, "predict: %s is not %s but %s; mend the answer, or the code before it", question.expression, question.answer, is)
  end
  for _, w in ipairs(question.wrong) do
    local answer = grade.read(w.answer)
    if not answer then
      problem(w.line, "wrong: the answer %q cannot be read; answers are numbers, a shape, a dtype, true, false or error", w.answer)
    elseif grade.grade(answer, wanted, question.expression, lookup) then
      problem(w.line, "wrong: %s is right; take the line out", w.answer)
    end
  end
end

-- No near miss may be taken: each `wrong` of a task is tried among variables of its own, and what it did to the
-- task's variable is taken back.
local function check_wrong(question, path, env, problem, wanted)
  local name = question.spec.name
  local held = rawget(env, name)
  local is_tensor = torch.is_tensor(held)
  local was = is_tensor and task.copy(held)
  for _, w in ipairs(question.wrong) do
    local own = setmetatable({}, {__index = env})
    own._G = own
    local code = parse.load(w.answer, w.line, path) and w.answer or "return " .. w.answer
    if not run(code, w.line, path, own) and
       not allow.complaint(code, question, function(global) return env[global] ~= nil end) then
      local right
      if question.spec.parameters then
        right = type(own[name]) == "function" and task.check_function(question, path, own, own[name])
      else
        right = task.check_value(question, wanted, own[name])
      end
      if right then problem(w.line, "wrong: %s solves the task; take the line out, or ask for more", w.answer) end
    end
    if is_tensor then torch.no_grad(function() held:copy_(was) end) end
  end
end

local function check_task(question, path, env, problem)
  local name = question.spec.name
  local before = rawget(env, name)
  local is_function = question.spec.parameters ~= nil
  local ok, message = pcall(function()
    local function right(what)
      if is_function then
        if type(env[name]) ~= "function" then return false, {name .. " is no function"} end
        return task.check_function(question, path, env, env[name])
      end
      return task.check_value(question, what, env[name])
    end
    local wanted
    if not is_function then wanted = task.wanted(question, path, env) end
    if question.starter then
      local failed = run(question.starter.text, question.starter.line, path, env)
      if not failed and right(wanted) then problem(question.starter.line, "the task is already right with its starter; leave something to do") end
    elseif not is_function and right(wanted) then
      problem(question.line, "the task is already right with nothing done; ask for something else than what is there")
    end
    check_wrong(question, path, env, problem, wanted)
    env[name] = before
    local failed = run(question.answer.text, question.answer.line, path, env)
    if failed then return problem(question.answer.line, "the answer fails: %s", failed) end
    local good, lines = right(wanted)
    if not good then problem(question.answer.line, "the answer is not right: %s; mend the answer, or the spec at line %d", lines[1], question.spec.line) end
    local complaint = allow.complaint(question.answer.text, question, function(global) return env[global] ~= nil end)
    if complaint then problem(question.answer.line, "the answer uses what the task does not allow: %s; change the answer, or allow and forbid", complaint) end
  end)
  if not ok then problem(question.spec.line, "the spec fails: %s", guard.message(message)) end
end

local function check_order(lesson, taught, problem)
  for _, step in ipairs(lesson.steps) do
    for _, name in ipairs(step.new) do
      if not exists(name) then problem(step.line, "new: torch has no %q; take it out, or spell it as ?%s finds it", name, name) end
      taught[name] = true
    end
    local q = step.question
    local pieces = {}
    local function add(piece) pieces[#pieces + 1] = piece end
    add(step.code)
    if q and q.expression then add {text = "return " .. q.expression, line = q.line} end
    if q and q.kind == "task" then
      add(q.starter)
      add(q.answer)
    end
    add(step.after)
    for _, piece in ipairs(pieces) do
      for _, use in ipairs(allow.uses(piece.text)) do
        if check.is_taught(use) and not taught[use.name] then
          taught[use.name] = true
          problem(piece.line + use.line, "%s is used here, and no lesson up to here has it as new; add --# new %s to the entry", use.name, use.name)
        end
      end
    end
  end
  for _, code in ipairs(lesson.explains) do
    if not require("torch.explain").rule(code, {}) then problem(lesson.explains_line, "explains: no code %q; %%explain lists the codes", code) end
  end
  for _, name in ipairs(lesson.see) do
    if not exists(name) then problem(lesson.see_line, "see: torch has no %q; take it out, or spell it as ?%s finds it", name, name) end
  end
end

--- Checks one lesson. `taught` holds the names that earlier lessons taught, and gets those of this one.
---@return integer checks how many things were looked at
---@return table[] problems {line=, message=}
function check.lesson(lesson, problems, taught)
  local path, checks = lesson.path, 1
  local function problem(line, message, ...)
    problems[#problems + 1] = {line = line, message = select("#", ...) > 0 and message:format(...) or message}
  end
  if #problems > 0 then return 1, problems end
  local out = {}
  local env = new_env(out)
  for _, step in ipairs(lesson.steps) do
    local q = step.question
    checks = checks + 1
    local failed = step.code and run(step.code.text, step.code.line, path, env)
    if failed then problem(step.code.line, "the code fails: %s", failed) end
    if q and q.kind == "predict" then check_predict(q, path, env, problem) end
    if q and q.kind == "task" then check_task(q, path, env, problem) end
    failed = step.after and run(step.after.text, step.after.line, path, env)
    if failed then problem(step.after.line, "the code fails: %s", failed) end
  end
  check_order(lesson, taught, problem)
  return checks, problems
end

-- What the program's own course teaches before `path`, or all of it where the file is none of its lessons.
local function taught_before(path)
  local taught = {}
  for _, lesson in ipairs(find.all()) do
    if ("/" .. path):sub(-#lesson.path - 1) == "/" .. lesson.path then break end
    for _, step in ipairs(lesson.steps) do
      for _, name in ipairs(step.new) do taught[name] = true end
    end
  end
  return taught
end

-- The lessons of a file or a folder, and what is wrong with their order.
local function lessons_of(path, fail)
  if path:find "%.lua$" then
    local record, message = course.record(path)
    if not record then
      fail(path, 1, message)
      return {}
    end
    return {record}
  end
  local ok, found = pcall(course.read, path)
  if not ok then
    fail(path, 1, guard.message(found))
    return {}
  end
  if #found.lessons == 0 then fail(path, 1, "there are no lessons here: files that end in .lua, or folders of such") end
  for _, m in ipairs(found.missing) do
    fail(m.path, m.line, ("there is no lesson and no folder %q here; take the line out"):format(m.name))
  end
  for _, chapter in ipairs(found.chapters) do
    for _, lesson in ipairs(found.lessons) do
      if lesson.name == chapter.name and chapter.path ~= found.path then
        fail(lesson.path, 1, ("the lesson has the name of a chapter, %q; give the file another one"):format(lesson.name))
      end
    end
  end
  return found.lessons
end

--- The command line's --check: prints what is wrong; the exit status.
---@param paths string[]
---@param say? fun(line: string)
---@return integer
function check.main(paths, say)
  say = say or print
  -- Lessons make mistakes on purpose; what notes say to them is for learners, and so are the plots.
  local shown = torch._display
  local notes <close> = setmetatable(torch.notes(), {__close = function(list)
    for code, switch in next, list do torch.notes(code, switch) end
    torch._display = shown
  end})
  torch.notes("all", "off")
  torch._display = function() return true end
  local lessons, passed, failed = {}, 0, 0
  local function fail(path, line, message)
    failed = failed + 1
    say(("FAIL %s:%d: %s"):format(path, line, message))
  end
  if #paths == 0 then
    local ok, beside = pcall(course.read, "tutorials")
    if ok and #beside.lessons > 0 then paths = {"tutorials"} else lessons = find.all() end
  end
  for _, path in ipairs(paths) do
    for _, lesson in ipairs(lessons_of(path, fail)) do lessons[#lessons + 1] = lesson end
  end
  local taught, named, numbered = nil, {}, {}
  for _, entry in ipairs(lessons) do
    taught = taught or taught_before(entry.path)
    if named[entry.name] then
      fail(entry.path, 1, ("%s has the same name, %q; give one of the files another one"):format(named[entry.name], entry.name))
    end
    named[entry.name] = entry.path
    local number = entry.number and (entry.path:match "^(.*)/" or "") .. ":" .. entry.number
    if number and numbered[number] then
      fail(entry.path, 1, ("lesson %d is %s; give another number, or none"):format(entry.number, numbered[number]))
    end
    if number then numbered[number] = entry.path end
    local checks, problems = 1, entry.problems
    if #entry.steps > 0 then
      checks, problems = check.lesson(entry, entry.problems, taught)
      local env = new_env({})
      local broken = run(entry.tree.text(entry.path), 1, entry.path, env)
      if broken and #problems == 0 then problems[#problems + 1] = {line = 1, message = "as a script: " .. broken} end
    end
    for _, p in ipairs(problems) do fail(entry.path, p.line, p.message) end
    passed = passed + math.max(0, checks - #problems)
    if #problems == 0 then say(("ok %s: %d entries"):format(entry.path, #entry.steps)) end
  end
  say(("%d passed, %d failed"):format(passed, failed))
  return failed == 0 and 0 or 1
end

return check
