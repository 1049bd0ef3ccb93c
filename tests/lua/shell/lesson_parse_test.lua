-- The reader of lessons: what a file becomes, and that every mistake in one is found with its line.
local parse = require "shell.lesson.parse"

local GOOD = [[
--# lesson  9
--# title   Rows
--# see     sum zeros

--# say     First line
--#         second line.
--#
--#         A paragraph.
--#           a drawing
--# new     zeros sum
a = 1
b = 2
--# predict a + b --> 3
--# wrong   12: Added,
--#         not joined.
--# hint    One and two.
--# why     Because.
print(a + b)

-- A comment of the file's own.
--# say     Next.
--# task    Write f(x).
--# spec    f(x) return x + 1
--# try     x in 1..3
--# forbid  for while
--# hint    One more.
--# answer
function f(x)

  return x + 1
end
]]

local function problems_of(text)
  local _, problems = parse.lesson(text, "t.lua")
  return problems
end

test("a lesson becomes entries of text, code and a question", function()
  local lesson, problems = parse.lesson(GOOD, "dir/rows.lua")
  check.equal(problems, {})
  check.equal(lesson.name, "rows")
  check.equal(lesson.number, 9)
  check.equal(lesson.title, "Rows")
  check.equal(lesson.see, {"sum", "zeros"})
  check.equal(#lesson.steps, 2)
  local one, two = lesson.steps[1], lesson.steps[2]
  check.equal(one.line, 5)
  check.equal(one.say, {{text = "First line second line."}, {text = "A paragraph."}, {text = "  a drawing", verbatim = true}})
  check.equal(one.new, {"zeros", "sum"})
  check.equal(one.code, {text = "a = 1\nb = 2", line = 11})
  check.equal(one.question.expression, "a + b")
  check.equal(one.question.answer, "3")
  check.equal(one.question.wrong, {{answer = "12", remark = "Added, not joined.", line = 14}})
  check.equal(one.question.hints, {"One and two."})
  check.equal(one.after, {text = "print(a + b)", line = 18})
  check.equal(two.question.kind, "task")
  check.equal(two.question.spec.parameters, {"x"})
  check.equal(two.question.tries, {{name = "x", low = 1, high = 3, line = 24}})
  check.equal(two.question.answer.line, 28)
  check.contains(two.question.answer.text, "function f(x)\n\n  return x + 1\nend")
end)

test("a file with the line ends of Windows is read alike", function()
  local lesson, problems = parse.lesson(GOOD:gsub("\n", "\r\n"), "rows.lua")
  check.equal(problems, {})
  check.equal(#lesson.steps, 2)
end)

-- The good file with one text replaced, the line and a part of the message.
local MISTAKES = {
  {"--# title   Rows", "-- nothing", 1, "title is missing"},
  {"--# lesson  9", "--# lesson  nine", 1, "wants a number"},
  {"--# see     sum zeros", "--# seee    sum", 3, 'no tag "seee"'},
  {"--# predict a + b --> 3", "--# predict a + b", 13, "EXPRESSION --> ANSWER"},
  {"--# predict a + b --> 3", "--# predict a + --> 3", 13, "predict"},
  {"--# wrong   12: Added,", "--# wrong   12 Added,", 14, "ANSWER: REMARK"},
  {"--# why     Because.", "--# why", 17, "its text is missing"},
  {"--# why     Because.", "--# why     Because.\n--# why     Again.", 18, "twice"},
  {"a = 1\nb = 2", "a = = 1", 11, "unexpected symbol"},
  {"--# spec    f(x) return x + 1", "--# spec    f: x + 1", 23, "spec wants"},
  {"--# spec    f(x) return x + 1", "--# spec    f(x) return x +", 23, "spec"},
  {"--# spec    f(x) return x + 1\n", "", 22, "no spec"},
  {"--# try     x in 1..3", "--# try     x from 1 to 3", 24, "try wants"},
  {"--# try     x in 1..3", "--# try     x in 3..1", 24, "is empty"},
  {"--# try     x in 1..3\n", "", 22, "no try"},
  {"--# hint    One more.\n", "", 22, "no hint"},
  {"--# answer\nfunction f(x)\n\n  return x + 1\nend\n", "", 22, "no answer"},
  {"--# answer\nfunction f(x)\n\n  return x + 1\nend\n", "--# answer\n", 22, "its code is missing"},
  {"--# say     Next.", "--# say", 21, "text is missing"},
  {"--# say     Next.", "--# ask     What?", 21, "behind the entry's last code"},
  {"--# hint    One more.", "--# ask     What?", 26, "ask belongs to a predict"},
  {"--# say     Next.", "--# try     x in 1..2", 21, "try belongs to a task"},
  {"--# say     Next.", "--# title   Late", 21, "top of the file"},
}

test("every mistake in a lesson is found with its line", function()
  check.equal(problems_of(GOOD), {})
  for _, m in ipairs(MISTAKES) do
    local at, last = GOOD:find(m[1], 1, true)
    check.yes(at, m[1])
    local problems = problems_of(GOOD:sub(1, at - 1) .. m[2] .. GOOD:sub(last + 1))
    local found = false
    for _, p in ipairs(problems) do found = found or p.line == m[3] and p.message:find(m[4], 1, true) ~= nil end
    check.yes(found, m[2] .. " gave " .. check.show(problems))
  end
end)

test("an empty file, and one without entries, are no lessons", function()
  check.equal(parse.lesson("", "t.lua"), nil)
  check.equal(parse.lesson("--# title A\n--# lesson 1\n", "t.lua"), nil)
  check.yes(#problems_of("") > 0)
end)

test("any bytes at all are answered by problems, not by an error", function()
  for seed = 1, 200 do
    torch.manual_seed(seed)
    local bytes = {}
    local pieces = {"--# ", "say", "predict", " a --> b", "\n", "\0", "spec", "f(", ")", "try x in ", "1..", "answer", "\255", "--#", "   ", "task", "local", "x = 1"}
    for i = 1, 40 do bytes[i] = pieces[torch.randint(1, #pieces + 1, {}):item()] end
    local ok, message = pcall(parse.lesson, table.concat(bytes), "t.lua")
    check.yes(ok, message)
  end
end)
