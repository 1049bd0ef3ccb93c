-- `tycho --check`: the lessons of the program hold, and every kind of mistake in one is found.
local function run(...) return check.tycho({"--check", ...}) end

local LESSON = [[
--# lesson  77
--# title   A lesson
--# see     prod
--# say     Something.
--# new     ones prod item
a = torch.ones(3)
--# predict a:prod():item() --> 1
--# wrong   3: Three.
print(a:prod())
--# say     Something else.
--# task    Write twice(x).
--# spec    twice(x) return x + x
--# try     x in 1..9
--# starter function twice(x) return x end
--# hint    Double it.
--# answer
function twice(x) return x * 2 end
]]

local function written(text, name)
  local path = check.temp(name or "lesson.lua")
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

test("all lessons of the program hold", function()
  local r = run("tutorials/")
  check.equal(r.status, 0, r.out .. r.err)
  check.contains(r.out, "\n%d+ passed, 0 failed\n$")
  local lessons = select(2, r.out:gsub("\nok ", "")) + 1
  check.yes(lessons >= 5, r.out)
end)

test("every task of the course knows near misses, and refuses them", function()
  for _, lesson in ipairs(require("shell.lesson.find").all()) do
    for _, step in ipairs(lesson.steps) do
      local q = step.question
      if q and q.kind == "task" then check.yes(#q.wrong > 0, ("%s:%d has no wrong answer"):format(lesson.path, q.line)) end
    end
  end
end)

test("without a directory, the lessons beside are checked, else those in the program", function()
  if os.getenv "TYCHO_SANITIZED" then check.skip "the same lessons as above, which take minutes" end
  local r = run()
  check.equal(r.status, 0, r.out .. r.err)
  -- From a directory without lessons, the program named by its full path.
  local pipe = io.popen("realpath " .. check.quote(check.program))
  local program = pipe:read("l")
  pipe:close()
  pipe = io.popen(("cd %s && %s --check"):format(check.quote(check.temp("")), check.quote(program)))
  local out = pipe:read("a")
  check.yes(pipe:close(), out)
  check.contains(out, "ok tutorials/tensors/shapes.lua")
end)

test("a good lesson passes", function()
  local r = run(written(LESSON))
  check.equal(r.status, 0, r.out .. r.err)
  check.contains(r.out, "3 passed, 0 failed")
end)

test("a lesson needs no number: files sort by name, or as order.txt says", function()
  os.execute("mkdir -p " .. check.quote(check.temp("course/first")))
  local plain = LESSON:gsub("^[^\n]*\n", "")
  written(plain, "course/first/02_b.lua")
  written(plain, "course/first/01_c.lua")
  written(plain, "course/a.lua")
  local course = require("shell.lesson.course").read(check.temp("course"))
  check.equal(#course.chapters, 2)
  check.equal({course.lessons[1].name, course.lessons[2].name, course.lessons[3].name}, {"a", "c", "b"})
  written("# The first\nb\nnosuch\n", "course/first/order.txt")
  course = require("shell.lesson.course").read(check.temp("course"))
  check.equal({course.lessons[2].name, course.lessons[3].name, course.chapters[2].title}, {"b", "c", "The first"})
  local r = run(check.temp("course"))
  check.contains(r.out, "order.txt:3: there is no lesson and no folder \"nosuch\" here")
  check.equal(r.status, 1)
end)

-- A text of the lesson, what stands there instead, the line and a part of the message.
local MISTAKES = {
  {"--> 1", "--> 4", 7, "is not 4 but 1"},
  {"--> 1", "--> three", 7, "cannot be read"},
  {"--> 1", "--> error", 7, "is not error but 1"},
  {"wrong   3: Three", "wrong   1: One", 8, "1 is right"},
  {"a = torch.ones(3)", "a = torch.ones(3) .. nil", 6, "the code fails"},
  {"a = torch.ones(3)", "while true do a = nope.b end", 6, "the code fails"},
  {"print(a:prod())", "error 'x'", 9, "the code fails: x"},
  {"x * 2 end", "x * 3 end", 17, "the answer is not right"},
  {"x * 2 end", "x * (nil)() end", 17, "the answer is not right"},
  {"twice(x) return x end", "twice(x) return 2 * x end", 14, "already right with its starter"},
  {"twice(x) return x + x", "twice(x) return x + nope", 12, "the spec fails"},
  {"in 1..9", "= nope()", 12, "the spec fails"},
  {"hint    Double it.", "hint    Double it.\n--# wrong   function twice(x) return 2 * x end: No.", 16, "solves the task"},
  {"hint    Double it.", "hint    Double it.\n--# forbid  *", 18, "does not allow"},
  {"ones prod item", "ones item", 7, "prod is used here, and no lesson up to here has it as new"},
  {"ones prod item", "ones prod item prodm", 4, 'torch has no "prodm"'},
  {"see     prod", "explains NOSUCH-7", 3, 'no code "NOSUCH-7"'},
  {"see     prod", "see     nosuch", 3, 'torch has no "nosuch"'},
  {"--# hint ", "--# hnit ", 15, 'no tag "hnit"'},
}

test("every mistake is found with its line", function()
  for _, m in ipairs(MISTAKES) do
    local at, last = LESSON:find(m[1], 1, true)
    local path = written(LESSON:sub(1, at - 1) .. m[2] .. LESSON:sub(last + 1))
    local r = run(path)
    check.equal(r.status, 1, m[2])
    check.contains(r.out, ("FAIL %s:%d: "):format(path, m[3]), m[2])
    check.contains(r.out, m[4], m[2])
    check.contains(r.out, " failed\n")
  end
end)

test("two lessons of one number or one name, a missing file and an empty directory are mistakes", function()
  local a, b = written(LESSON, "a.lua"), written(LESSON, "b.lua")
  check.contains(run(a, b).out, "lesson 77 is " .. a)
  os.execute("mkdir -p " .. check.quote(check.temp("other")))
  check.contains(run(a, written(LESSON, "other/2_a.lua")).out, a .. ' has the same name, "a"')
  check.equal(run(check.temp("no.lua")).status, 1)
  os.execute("mkdir -p " .. check.quote(check.temp("none")))
  check.contains(run(check.temp("none")).out, "no lessons here")
end)
