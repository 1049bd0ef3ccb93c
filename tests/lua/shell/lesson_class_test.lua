-- For teachers: a class's own lessons in their own order, the report of what was solved, and lessons on paper.
local function written(name, text)
  local path = check.temp(name)
  os.execute("mkdir -p " .. check.quote(path:match "^(.*)/"))
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

local function text_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local FIRST = [[
--# title   Rows & columns
--# say     A row, `a < b`.
x = torch.tensor{1, 2, 3}
--# predict x.shape --> [3]
--# hint    Count.
--# why     Three numbers.
print(x)
--# say     Now you.
--# task    Write twice(x).
--# spec    twice(x) return x + x
--# try     x in 1..3
--# wrong   function twice(x) return x end: That is once.
--# hint    Double it.
--# answer
function twice(x)
  return x * 2
end
]]

written("course/02_views.lua", FIRST)
written("course/01_rows.lua", FIRST:gsub("Rows & columns", "Begin here"))
local class = check.temp "course"
local home = check.temp "home"
os.execute("mkdir -p " .. check.quote(home))
local env = {XDG_STATE_HOME = home, COLUMNS = "80", HOME = home, USER = "ann"}

local function learn(arguments, entries)
  return check.tycho({"learn", table.unpack(arguments)}, {stdin = table.concat(entries or {}, "\n") .. "\n", env = env})
end

test("a class has its own lessons, in its own order, and keeps its own progress", function()
  local out = learn({"--class", class}).out
  check.contains(out, "Course +0 of 2 done\n +1  rows   Begin here\n +2  views  Rows & columns\n%%learn rows comes next")
  out = learn({"--class", class, "views"}, {"4", "%hint", "3", "function twice(x) return x end", "%quit", "%learn", "%learn shapes", "%quit"}).out
  check.contains(out, "Rows & columns")
  check.contains(out, "That is once.")
  check.contains(out, "views  Rows & columns .*2/2")
  check.contains(out, "Shapes, and counting from 1")  -- the program's own lessons are still found
  check.lacks(learn({"chapter_that_is_not"}).out, "Course")
  check.lacks(learn({"tensors"}).out, "views .* 2/2")  -- the course's own lesson of that name was not begun
end)

test("a report says who solved what, with tries and hints, and keeps the rows of others", function()
  local csv, json = check.temp "report.csv", check.temp "report.json"
  local r = learn({"--class", class, "--report", csv})
  check.equal(r.status, 0, r.err)
  check.equal(text_of(csv), "who,course,lesson,entry,kind,state,tries,hints,answer\n" ..
    "ann,course,views,1,predict,solved,2,1,\nann,course,views,2,task,open,1,0,\n")
  learn({"--class", class, "views", "2"}, {"function twice(x) return x, 1 end", 'function twice(x) local _ = "a,b" return x * 2 end'})
  learn({"--class", class, "--report", csv})
  check.contains(text_of(csv), 'ann,course,views,2,task,solved,2,0,"function twice(x) local _ = ""a,b"" return x * 2 end"\n')
  env.USER = "bob"
  check.contains(learn({"--class", class, "--report", csv}).out, "2 questions, and 2 of others")
  check.contains(learn({"--class", class, "--report", csv}).out, "2 questions, and 2 of others")
  check.equal(select(2, text_of(csv):gsub("\n", "")), 5)
  learn({"--class", class, "--report", json})
  env.USER = "ann"
  learn({"--class", class, "--report", json})
  local text = text_of(json)
  check.contains(text, '{"who": "ann", "course": "course", "lesson": "views", "entry": 2, "kind": "task", "state": "solved", "tries": 2, ' ..
    '"hints": 0, "answer": "function twice(x) local _ = \\"a,b\\" return x * 2 end"}')
  check.equal(select(2, text:gsub('"bob"', "")), 2)
end)

test("a report never writes over what is no report, and says what it wants", function()
  local path = written("other.csv", "name,age\nann,30\n")
  local r = learn({"--class", class, "--report", path})
  check.equal(r.status, 1)
  check.contains(r.err, "is no report")
  check.equal(text_of(path), "name,age\nann,30\n")
  for _, bad in ipairs {"", "[1, 2]", '"', "\0", "[\n  {\"who\": \"x\n]\n"} do
    for _, ending in ipairs {"csv", "json"} do
      local name = written("bad." .. ending, bad)
      r = learn({"--report", name})
      check.equal(r.status, bad == "" and 0 or 1, bad)
    end
  end
  check.contains(learn({"--report", "x.txt"}).err, ".csv or .json")
  check.contains(learn({"--report"}).err, ".csv or .json")
  check.contains(learn({"--class"}).err, "--class wants the folder")
  check.contains(learn({"--class", check.temp "nowhere"}).err, "there is no folder")
  check.contains(learn({"--nonsense"}).err, 'no option "--nonsense"')
end)

test("a lesson on paper: a page with room for answers, and one with them", function()
  local path = check.temp "views.html"
  local r = learn({"--class", class, "--sheet", "views", path})
  check.equal(r.status, 0, r.err)
  local open, answered = text_of(path), text_of((path:gsub("%.html$", "-answers.html")))
  for _, text in ipairs {open, answered} do
    check.contains(text, "<!DOCTYPE html>")
    check.contains(text, "Rows &amp; columns")
    check.contains(text, "<code>a &lt; b</code>")
    check.contains(text, "What shape is <code>x</code>?")
  end
  check.lacks(open, "Three numbers")
  check.lacks(open, "x * 2")
  check.lacks(open, "print%(")
  check.equal(select(2, open:gsub('class="line"', "")), 1 + 4)
  check.contains(answered, "Three numbers")
  check.contains(answered, "twice(x)\n  <span")
  check.lacks(answered, 'class="line"')
  for _, lesson in ipairs(require("shell.lesson.find").all()) do
    check.yes(#require("shell.lesson.sheet").html(lesson, true) > #require("shell.lesson.sheet").html(lesson, false) - 4000)
  end
  check.equal(learn({"--sheet", "views", "x.pdf"}).status, 1)
  check.contains(learn({"--sheet", "nosuch"}).err, "no lesson")
  check.contains(learn({"--sheet"}).err, "wants the name of a lesson")
end)

test("a lesson of a class that has mistakes is not begun, but told with its line", function()
  written("broken/one.lua", (FIRST:gsub("%-%-# hint    Double it%.\n", "")))
  local r = learn({"--class", check.temp "broken", "one"})
  check.equal(r.status, 1)
  check.contains(r.err, "one.lua:9: the task has no hint")
  check.contains(r.err, "tycho --check")
end)
