-- Reads a lesson: a plain Lua file whose `--# tag` comments are the text, the questions and the tasks.
-- tutorials/README.md describes the format. What is wrong in a file is reported with its line.
local parse = {}

-- Where a tag may stand (file: once, at the top; step: in an entry; predict, task: after that question),
-- whether it may come again, and whether it may be without text.
local TAGS = {
  lesson = {place = "file"},
  title = {place = "file"},
  see = {place = "file"},
  explains = {place = "file"},
  say = {place = "step", again = true},
  new = {place = "step", again = true},
  predict = {place = "question"},
  task = {place = "question"},
  play = {place = "question"},
  ask = {place = "predict"},
  wrong = {place = "hinted", again = true},
  why = {place = "after"},
  spec = {place = "task"},
  try = {place = "task", again = true},
  allow = {place = "task"},
  forbid = {place = "task"},
  hint = {place = "hinted", again = true},
  starter = {place = "task", code = true},
  answer = {place = "task", code = true},
}

-- What to write for a tag that there is not.
local function suggestion(tag)
  local names = {}
  for name in pairs(TAGS) do names[#names + 1] = name end
  table.sort(names)
  local i = 0
  local near = require("shell.names").nearest(tag, function()
    i = i + 1
    return names[i]
  end)
  if near then return ("did you mean %s?"):format(near) end
  return "there are " .. table.concat(names, " ")
end

local QUESTIONS = {predict = true, task = true, play = true}

-- Words of a list, separated by blanks or commas.
local function words(text)
  local list = {}
  for word in text:gmatch("[^%s,]+") do list[#list + 1] = word end
  return list
end

local function trim(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end

-- Text of several lines as paragraphs: lines join until an empty one; a line that is indented further
-- than its tag's text stands as it is.
local function paragraphs(lines, indent)
  local list, open = {}, false
  for i, line in ipairs(lines) do
    local body = i == 1 and line or line:sub(indent + 1)
    if i > 1 and line:sub(1, indent):find("%S") then body = trim(line) end
    if not body:find("%S") then
      open = false
    elseif i > 1 and body:find("^%s%s") then
      list[#list + 1] = {text = body:gsub("%s+$", ""), verbatim = true}
      open = false
    elseif open then
      list[#list].text = list[#list].text .. " " .. trim(body)
    else
      list[#list + 1] = {text = trim(body)}
      open = true
    end
  end
  return list
end

-- Code behind a tag: what its lines after the first have in common as an indent is the comment's, not theirs.
local function code_text(lines)
  local least = math.huge
  for i = 2, #lines do least = math.min(least, lines[i]:match "^%s*()%S" or math.huge) end
  local out = {lines[1]}
  for i = 2, #lines do out[i] = lines[i]:sub(least == math.huge and 1 or least) end
  return trim(table.concat(out, "\n"))
end

--- The text as one paragraph.
local function joined(lines)
  local parts = {}
  for i, line in ipairs(lines) do parts[i] = trim(line) end
  return trim(table.concat(parts, " "))
end

-- The file as a list of items: {tag=, lines=, indent=, line=} and {code=, line=}.
local function items_of(text, problem)
  local items, item = {}, nil
  local number = 0
  for line in (text:gsub("\r\n", "\n") .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local tag, gap, rest = line:match("^%-%-# ?(%a[%w_]*)(%s*)(.*)$")
    if tag and not line:find("^%-%-#  ") then
      item = {tag = tag, lines = {rest}, indent = #tag + 1 + #gap, line = number}
      items[#items + 1] = item
    elseif line:find("^%-%-#") then
      if item and item.tag then
        item.lines[#item.lines + 1] = line:sub(4)
      else
        problem(number, "this line continues no tag; a tag is one blank after --#")
      end
    elseif line:find("^%s*%-%-") and not (item and item.code and item.open) then
      -- A comment of the file's own: neither shown nor run.
      if item and item.tag then item = nil end
    elseif line:find("%S") then
      if not (item and item.code) then
        item = {code = {}, line = number}
        items[#items + 1] = item
      end
      item.code[#item.code + 1] = line
      item.open = true
    elseif item and item.code then
      item.code[#item.code + 1] = line
    else
      item = nil
    end
  end
  for _, it in ipairs(items) do
    if it.code then
      -- What follows the last line of code is a comment of the file's own.
      while not it.code[#it.code]:find("%S") or it.code[#it.code]:find("^%s*%-%-") do table.remove(it.code) end
      it.code = table.concat(it.code, "\n")
    end
  end
  return items
end

-- `spec NAME(PARAMETERS) BODY` or `spec NAME = EXPRESSION`.
local function parse_spec(item, path)
  local text = table.concat(item.lines, "\n")
  local name, parameters, body = text:match("^%s*([%a_][%w_]*)%s*(%b())(.*)$")
  if name then
    local list = words(parameters:sub(2, -2))
    return {name = name, parameters = list, line = item.line,
            code = ("return function(%s) %s\nend"):format(table.concat(list, ", "), body)}
  end
  name, body = text:match("^%s*([%a_][%w_]*)%s*=%s*(.+)$")
  if name then return {name = name, line = item.line, code = "return " .. body} end
  return nil, "spec wants NAME(PARAMETERS) BODY, or NAME = EXPRESSION, such as twice(x) return x + x"
end

-- `try NAME in A..B` or `try NAME = EXPRESSION`.
local function parse_try(item)
  local text = joined(item.lines)
  local name, low, high = text:match("^([%a_][%w_]*)%s+in%s+(%-?%d+)%s*%.%.%s*(%-?%d+)$")
  if name then
    low, high = math.tointeger(low), math.tointeger(high)
    if low > high then return nil, ("the range %d..%d is empty; the smaller number comes first"):format(low, high) end
    return {name = name, low = low, high = high, line = item.line}
  end
  local expression
  name, expression = text:match("^([%a_][%w_]*)%s*=%s*(.+)$")
  if name then return {name = name, code = "return " .. expression, line = item.line} end
  return nil, "try wants NAME in FIRST..LAST, or NAME = EXPRESSION, such as n in 2..5"
end

--- A chunk of the lesson under the file's own line numbers.
---@return function|nil, string|nil
function parse.load(code, line, path, env)
  return load(("\n"):rep(line - 1) .. code, "@" .. path, "t", env or _ENV)
end

-- One reader per tag that needs more than its text.
local READ = {}
function READ.predict(item, question)
  question.wrong = {}
  local text = joined(item.lines)
  local expression, answer = text:match("^(.-)%s*%-%->%s*(.+)$")
  if not expression or expression == "" then return "predict wants EXPRESSION --> ANSWER, such as x.shape --> [2, 3]" end
  question.expression, question.answer = expression, answer
end
function READ.task(item, question) question.tries, question.hints, question.wrong = {}, {}, {} end
function READ.play() end
function READ.wrong(item, question)
  local answer, remark = joined(item.lines):match("^(.-)%s*:%s+(.+)$")
  if not answer then return "wrong wants ANSWER: REMARK, such as 4 3: Rows come first." end
  table.insert(question.wrong, {answer = answer, remark = remark, line = item.line})
end
function READ.spec(item, question, path)
  local spec, message = parse_spec(item, path)
  question.spec = spec
  return message
end
function READ.try(item, question)
  local case, message = parse_try(item)
  table.insert(question.tries, case)
  return message
end
function READ.hint(item, question)
  question.hints = question.hints or {}
  table.insert(question.hints, joined(item.lines))
end
function READ.allow(item, question) question.allow = words(joined(item.lines)) end
function READ.forbid(item, question) question.forbid = words(joined(item.lines)) end
function READ.why(item, question) question.why = paragraphs(item.lines, item.indent) end
function READ.ask(item, question) question.ask = joined(item.lines) end

local PLACES = {
  predict = {predict = true}, task = {task = true}, hinted = {predict = true, task = true},
  after = {predict = true, task = true, play = true},
}

--- A lesson's name: that of its file, without digits that only sort it.
local function name_of(path)
  local name = path:match "([^/]+)%.lua$" or path:match "([^/]+)$" or path
  return (name:gsub("^%d+[_%-%.]+(.)", "%1"))
end

-- What the top of a file says, into the lesson; a message when it makes no sense.
local function read_top(lesson, tag, value, line)
  if tag == "lesson" then
    lesson.number = math.tointeger(tonumber(value))
    if not lesson.number then return "lesson wants a number, or leave it out: files sort by name" end
  elseif tag == "title" then
    lesson.title = value
  elseif tag == "explains" then
    lesson.explains, lesson.explains_line = words(value), line
  else
    lesson.see, lesson.see_line = words(value), line
  end
end

--- The top of a lesson alone, without its entries.
---@param text string
---@param path string
---@return table lesson {name=, path=, title=, number=, see=, explains=}
function parse.head(text, path)
  local lesson = {path = path, name = name_of(path), see = {}, explains = {}}
  local top = text:sub(1, (("\n" .. text):find("\n%-%-# ?say") or #text + 1) - 1)
  for _, item in ipairs(items_of(top, function() end)) do
    if item.tag and TAGS[item.tag] and TAGS[item.tag].place == "file" then
      read_top(lesson, item.tag, joined(item.lines), item.line)
    end
  end
  lesson.title = lesson.title or lesson.name
  return lesson
end

--- Reads the text of a lesson.
---@param text string
---@param path string what messages and chunks call the file
---@return table|nil lesson nil when the file cannot be used at all
---@return table problems a list of {line=, message=}
function parse.lesson(text, path)
  local problems = {}
  local function problem(line, message, ...)
    problems[#problems + 1] = {line = line, message = select("#", ...) > 0 and message:format(...) or message}
  end
  local lesson = {path = path, name = name_of(path), steps = {}, see = {}, explains = {}}
  local step, question, code_of
  local function new_step(line)
    step = {line = line, say = {}, new = {}, number = #lesson.steps + 1}
    lesson.steps[#lesson.steps + 1] = step
    question, code_of = nil, nil
  end
  local function take_code(code, line)
    local ok, message = parse.load(code, line, path)
    if not ok then
      local at, what = message:match(":(%d+): (.*)$")
      problem(math.tointeger(at) or line, what or message)
    end
    if code_of then
      if question[code_of] then problem(line, "%s: this is its second piece of code", code_of) end
      question[code_of] = {text = code, line = line}
      if code_of == "starter" then problem(line, "a starter is commented: --# starter CODE") end
      code_of = nil
    elseif question and question.kind ~= "play" then
      if step.after then problem(line, "one piece of code may follow a question; begin an entry with --# say") end
      step.after = {text = code, line = line}
    else
      if not step or question then new_step(line) end
      if step.code then
        problem(line, "an entry has one piece of code; begin another with --# say")
      else
        step.code = {text = code, line = line}
      end
    end
  end

  for _, item in ipairs(items_of(text, problem)) do
    local tag, line = item.tag, item.line
    local known = tag and TAGS[tag]
    if item.code then
      take_code(item.code, line)
    elseif not known then
      problem(line, "no tag %q; %s", tag, suggestion(tag))
    elseif known.place == "file" then
      if step then problem(line, "%s stands at the top of the file; move it above the first say", tag) end
      local message = read_top(lesson, tag, joined(item.lines), line)
      if message then problem(line, message) end
    else
      if code_of then problem(line, "%s: its code is missing; write it on the lines below the tag", code_of) end
      code_of = nil
      local empty = not joined(item.lines):find("%S")
      if empty and not known.code then
        problem(line, "%s: its text is missing; write it behind the tag", tag)
      elseif tag == "say" then
        new_step(line)
        step.say = paragraphs(item.lines, item.indent)
      elseif tag == "new" then
        if not step or question then
          problem(line, "new stands in an entry, before its question; move it behind say")
        else
          for _, word in ipairs(words(joined(item.lines))) do step.new[#step.new + 1] = word end
        end
      elseif QUESTIONS[tag] then
        if not step or question then new_step(line) end
        question = {kind = tag, line = line, text = paragraphs(item.lines, item.indent)}
        step.question = question
        local message = READ[tag](item, question)
        if message then problem(line, message) end
      elseif not (question and (PLACES[known.place] or {})[question.kind]) then
        problem(line, "%s belongs to a %s", tag, known.place == "hinted" and "predict or a task" or
          known.place == "after" and "question" or known.place)
      elseif step.after then
        problem(line, "%s stands behind the entry's last code; its place is with the question", tag)
      elseif question[tag] and not known.again and tag ~= "hint" then
        problem(line, "%s stands here twice; make one of the two", tag)
      elseif known.code then
        if empty then
          code_of = tag
        else
          question[tag] = {text = code_text(item.lines), line = line}
          local ok, message = parse.load(question[tag].text, line, path)
          if not ok then problem(line, "%s: %s", tag, message:match(":%d+: (.*)$") or message) end
        end
      else
        local message = READ[tag](item, question, path)
        if message then problem(line, message) end
      end
    end
  end
  if code_of then problem(question.line, "%s: its code is missing; write it on the lines below the tag", code_of) end
  parse.complete(lesson, problem)
  table.sort(problems, function(a, b) return a.line < b.line end)
  if #lesson.steps == 0 then return nil, problems end
  return lesson, problems
end

-- What must be there, and what must compile.
function parse.complete(lesson, problem)
  local function compiles(code, line, what)
    local ok, message = parse.load(code, line, lesson.path)
    if not ok then problem(line, "%s: %s", what, message:match(":%d+: (.*)$") or message) end
  end
  if not lesson.title then problem(1, "the title is missing: --# title TEXT") end
  if #lesson.steps == 0 then problem(1, "there are no entries; each begins with --# say") end
  for _, step in ipairs(lesson.steps) do
    local q = step.question
    if q and q.kind == "predict" and q.expression then
      compiles("return " .. q.expression, q.line, "predict")
    elseif q and q.kind == "task" then
      if not q.spec then problem(q.line, "the task has no spec; --# spec NAME(x) return .. says what is right") else compiles(q.spec.code, q.spec.line, "spec") end
      if not q.answer then problem(q.line, "the task has no answer; write --# answer, and its code below") end
      if #q.hints == 0 then problem(q.line, "the task has no hint; write --# hint TEXT") end
      if q.spec and q.spec.parameters then
        if #q.tries == 0 then problem(q.line, "the task has no try, and its spec takes arguments; write --# try %s in 1..8, or --# try %s = EXPRESSION", q.spec.parameters[1] or "x", q.spec.parameters[1] or "x") end
      elseif #q.tries > 0 then
        problem(q.tries[1].line, "try belongs to a spec with arguments; take it out, or write the spec as NAME(x) ..")
      end
      for _, w in ipairs(q.wrong) do
        if not parse.load("return " .. w.answer, w.line, lesson.path) then compiles(w.answer, w.line, "wrong") end
      end
      for _, case in ipairs(q.tries) do
        if case.code then compiles(case.code, case.line, "try") end
      end
    end
  end
end

return parse
