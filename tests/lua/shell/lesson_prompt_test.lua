-- Lessons at the prompt, driven through standard input: answers, tasks, the lesson's own commands,
-- leaving and coming back, and what a damaged progress file does.
local count = 0

-- A directory for progress of its own, unless one is given.
local function state()
  count = count + 1
  local path = check.temp("state" .. count)
  os.execute("mkdir -p " .. check.quote(path))
  return path
end

local function learn(lesson, entries, where)
  local r = check.tycho({"learn", lesson}, {
    stdin = table.concat(entries, "\n") .. "\n",
    env = {XDG_STATE_HOME = where or state(), COLUMNS = "80", HOME = check.temp("")},
  })
  check.equal(r.status, 0, r.err .. r.out)
  return r.out, r.err
end

local LESSON = [[
--# lesson  7
--# title   A small one
--# say     First.
a = torch.arange(3):view(3, 1)
b = torch.arange(4)
--# predict (a + b).shape --> [3, 4]
--# wrong   4 3: The other way.
--# hint    Hint one.
--# hint    Hint two.
--# why     So it is.
print("afterwards")
--# say     Second.
--# task    Write table_of(n).
--# spec    table_of(n)
--#         local out = torch.zeros(n, n, {dtype = "int64"})
--#         for i = 1, n do for j = 1, n do out[{i, j}] = i * j end end
--#         return out
--# try     n in 1..8
--# allow   arange view + *
--# hint    A column and a row.
--# answer
function table_of(n) return (torch.arange(n) + 1):view(n, 1) * (torch.arange(n) + 1) end
--# say     Third.
--# play    Try what you like.
--# say     Fourth.
image = torch.zeros(2, 2)
--# task    Make the first row of `image` 5.
--# spec    image = torch.tensor{{5.0, 5.0}, {0.0, 0.0}}
--# hint    Assign a row.
--# answer  image[1] = 5
]]

local function small()
  local path = check.temp("small.lua")
  local file = assert(io.open(path, "wb"))
  file:write(LESSON)
  file:close()
  return path
end

test("a prediction is asked, graded and explained", function()
  local out = learn(small(), {"4 3", "9", "%hint", "%hint", "%hint", "%hint", "3 4"})
  check.contains(out, "what shape is `a + b`?")
  check.lacks(out:match("^(.-)yes%."), "%[3, 4%]")
  check.contains(out, "not yet. The other way.")
  check.contains(out, "Hint one. (there is another)")
  check.contains(out, "\nHint two.\n  a  3  1\n  b  .  4\n")
  check.contains(out, "yes.   a  3  1\n       b  .  4\n       =  3  4\nSo it is.\n")
  check.contains(out, 'print("afterwards")\nafterwards')
  check.contains(out, "Write table_of(n).")
end)

test("everything else of the prompt works inside, and does not count as an answer", function()
  local out = learn(small(), {"a:sum()", "z = 5", "%who", "print(z * 2)", "[3, 4]"})
  check.contains(out, "i64 []  3")
  check.contains(out, "\n10\n")
  check.contains(out, "z: 5")
  check.contains(out, "yes.")
  check.lacks(out, "not yet")
end)

test("a task is tried, and a near miss is told", function()
  local out = learn(small(), {"3 4",
    "function table_of(n) return (torch.arange(n) + 1) * (torch.arange(n) + 1) end",
    "function table_of(n) local t = (torch.arange(n) + 1):view(n, 1) for i = 1, 2 do end return t * t:view(n) end",
    "table_of = 3",
    "function tabel_of(n) end",
    "function table_of(n) error('oh') end",
    "function table_of(n) return (torch.arange(n) + 1):view(n, 1) * (torch.arange(n) + 1) end"})
  check.contains(out, "4 lines up with 4, so nothing\nstretched.")
  check.contains(out, "this time without loops (for)")
  check.contains(out, "asks for `table_of`; that is `tabel_of`")
  check.contains(out, "`table_of` should be a function")
  check.contains(out, "table_of(4) stops: oh")
  check.contains(out, "right, for n = 1 to 8.\n\n3/4\nThird.")
end)

test("a variable that a wrong try has changed is put back", function()
  local out = learn(small(), {"%skip", "%skip", "", "image[{{}, 1}] = 5", "print(image:sum():item())", "image[1] = 5"})
  check.contains(out, "that is the transpose")
  check.contains(out, "(`image` is again as it was.)\n")
  check.contains(out, "\n0.0\n")
  check.contains(out, "right.\n\nThat was A small one.")
end)

local ROOM = [[
--# lesson  8
--# title   Rooms
--# say     First.
image = torch.zeros(2, 3)
--# task    Make the first row of `image` 5.
--# spec    image = torch.tensor{{5.0, 5.0, 5.0}, {0.0, 0.0, 0.0}}
--# wrong   image[2] = 5: That is the second one.
--# hint    Take the row.
--# answer
row = image[1]
row:fill_(5)
--# why     Because.
print("the row adds up to", row:sum():item())
--# say     Second.
x = torch.tensor{1.0, 2.0, 6.0}
w = torch.tensor{2.0, 0.5, 1.0}
--# task    Set `total` to the weighted sum of x.
--# spec    total = torch.tensor(9.0)
--# hint    Multiply, then add up.
--# answer  total = (x * w):sum()
]]

local function room()
  local path = check.temp("room.lua")
  local file = assert(io.open(path, "wb"))
  file:write(ROOM)
  file:close()
  return path
end

local function prompt(entries)
  local r = check.tycho({"-i"}, {stdin = table.concat(entries, "\n") .. "\n", env = {XDG_STATE_HOME = state(), COLUMNS = "80", HOME = check.temp("")}})
  check.equal(r.status, 0, r.err .. r.out)
  return r.out
end

test("a lesson has variables of its own, and leaves the user's as they were", function()
  local out = prompt{"x = 42", "torch.manual_seed(3) mine = torch.ones(2)", "local c <const> = 7", "6 * 7", "%learn " .. room(),
    "print(rawget(_G, 'x'), rawget(_G, 'mine'), pcall(load 'return c'))", "x = 1; image = nil; mine = 'gone' torch.manual_seed(9)", "%quit",
    "print(x, mine:sum():item(), c, rawget(_G, 'image'), _)", "torch.initial_seed()"}
  check.contains(out, "nil\tnil")
  check.contains(out, "42\t2.0\t7\tnil\t42\n")
  check.contains(out, "\n3\n")
end)

test("a first step is told from a wrong one, and work on a copy from work on the variable", function()
  local out = learn(room(), {"row = image[1]", "row = row + 5", "c = image:clone()", "c[1] = 5", "image[2] = 5", "image[1] = 5", "x * w", "total = x * w"})
  check.contains(out, "row: f32 [3]\nso far so good\n")
  check.contains(out, "`row` is the name of a new tensor now; the cells of `image` are as they were.")
  check.contains(out, "`c` has changed, but it has cells of its own")
  check.contains(out, "That is the second one.")
  check.contains(out, "Because.\n  print(\"the row adds up to\", row:sum():item())\nthe row adds up to\t15.0\n")
  local _, times = out:gsub("so far so good", "")
  check.equal(times, 3)
end)

test("code behind a task runs whatever way it was solved", function()
  check.contains(learn(room(), {"image[1] = 5"}), "the row adds up to\t15.0\n")
end)

test("what is wanted is shown to those who asked for a hint", function()
  local out = learn(room(), {"%skip", "total = torch.tensor(12.0)", "%hint", "total = torch.tensor(11.0)"})
  check.contains(out, "not yet: total is 12\n")
  check.contains(out, "not yet: total is 11, wanted 9")
  out = learn(room(), {"image[1] = 4", "%hint", "image[1] = 4"})
  check.contains(out, "differ; the first at [{1, 1}].")
  check.contains(out, "wanted  5 5 5")
end)

test("a lesson begins again with reset, and next leads on, with or without the %", function()
  local out = learn(room(), {"%skip", "kept = 1", "reset", "print(rawget(_G, 'kept'), rawget(_G, 'total'))", "next", "quit", "6 * 7"})
  check.contains(out, "1/2\nFirst.\n.*2/2\nSecond.*1/2\nFirst.")
  check.contains(out, "nil\tnil")
  check.contains(out, "This is the last lesson.")
  check.contains(out, "Left at 1/2")
  check.contains(out, "\n42\n")
  out = prompt{"%next", "%quit"}
  check.contains(out, "1/16")
  out = learn("shapes", {"next", "%quit"})
  check.yes(out:find(require("shell.lesson.find").all()[2].title, 1, true), out)
end)

test("entries of a lesson are not saved as the session's own", function()
  local path = check.temp("saved.lua")
  os.remove(path)
  prompt{"before = 1", "%learn " .. room(), "inside = 2", "%quit", "after = 3", "%save " .. path}
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  check.contains(text, "before = 1")
  check.contains(text, "after = 3")
  check.lacks(text, "inside")
end)

test("a lesson can be skipped through, gone back in, put aside and left", function()
  local out = learn(small(), {"%back", "%skip", "%back", "%skip", "%skip", "%play", "1 + 1", "", "", "%quit", "6 * 7"})
  check.contains(out, "This is the first entry.")
  check.contains(out, "1/4\nFirst.")
  check.contains(out, "2/4\nSecond.")
  check.contains(out, "The lesson waits")
  check.contains(out, "Left at 4/4; %learn small goes on from here.")
  check.contains(out, "\n42\n")
end)

test("who leaves and returns finds the entry again, and the variables", function()
  local where, path = state(), small()
  local out = learn(path, {"3 4", "%skip", "%quit"}, where)
  check.contains(out, "Left at 3/4")
  out = learn(path, {"print(#b, table_of(3)[{3, 3}]:item(), rawget(_G, 'image') == nil)"}, where)
  check.contains(out, "You were at 3/4")
  check.contains(out, "3/4\nThird.")
  check.contains(out, "4\t9\ttrue")
  check.lacks(out, "afterwards")
end)

test("who returns finds the own answers, not the lesson's", function()
  local where, path = state(), small()
  learn(path, {"3 4", "function table_of(n) local t = (torch.arange(n) + 1):view(n, 1) return t * t:view(n), 'mine\\n' end",
    "", "%quit"}, where)
  local out = learn(path, {"print(select('#', table_of(2)), (select(2, table_of(2))) == 'mine\\n')"}, where)
  check.contains(out, "You were at 4/4")
  check.contains(out, "2\ttrue")
  local file = assert(io.open(where .. "/tycho/lessons"))
  local text = file:read "a"
  file:close()
  file = assert(io.open(where .. "/tycho/lessons", "w"))
  file:write((text:gsub("small 2: [^\n]*", "small 2: function table_of(n) return gone.x() end gone.x()")))
  file:close()
  out = learn(path, {"print(select('#', table_of(2)))"}, where)
  check.contains(out, "4/4.*\n1\n")
end)

test("a finished lesson is listed as done, and begins again from the start", function()
  local where, path = state(), small()
  local out = learn(path, {"%skip", "%skip", "%skip", "%skip"}, where)
  check.contains(out, "That was A small one.")
  out = learn(path, {"%quit"}, where)
  check.contains(out, "1/4\nFirst.")
  out = check.tycho({"-i"}, {stdin = "%learn shapes 4\n%quit\n%learn\n", env = {XDG_STATE_HOME = where}}).out
  check.contains(out, "shapes%s+Shapes, and counting from 1%s+4/16")
  check.contains(out, "reductions")
end)

test("only the owner may read the progress", function()
  local where = state()
  learn(small(), {"%quit"}, where)
  local pipe = io.popen("stat -c %a " .. check.quote(where .. "/tycho/lessons"))
  check.equal(pipe:read("l"), "600")
  pipe:close()
end)

local function write(path, text)
  os.execute("mkdir -p " .. check.quote(path:match("^(.*)/")))
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

test("a damaged or truncated progress file is passed over, line by line", function()
  for _, text in ipairs {"", "tycho lessons 1", "\0\255\1", "small 99999999999999999999 4\n", "small 3", "small -1 4\n",
                         "small 3 4 maybe\n", "small 0 4\n", "small 900 4\nx", ("small 2 "):rep(30000)} do
    local where = state()
    write(where .. "/tycho/lessons", text)
    check.contains(learn(small(), {"%quit"}, where), "[14]/4\n")
  end
  local where = state()
  write(where .. "/tycho/lessons", "broken line\nother 2 9\nsmall 2 4\nhalf 3")
  local out = learn(small(), {"%skip", "%quit"}, where)
  check.contains(out, "2/4\nSecond.")
  local file = io.open(where .. "/tycho/lessons")
  check.equal(file:read("a"), "tycho lessons 1\nother 2 9\nsmall 3 4\nsmall 2 tries 0 hints 0 skipped\n")
  file:close()
end)

test("where nothing can be written, the lesson says so once and goes on", function()
  local where = state()
  write(where .. "/tycho", "a file in the way")
  local out = learn(small(), {"3 4", "%skip", "%quit"}, where)
  check.contains(out, "your progress cannot be kept")
  check.equal(select(2, out:gsub("cannot be kept", "")), 1)
  check.contains(out, "3/4\nThird.")
end)

test("unknown lessons, and commands of lessons outside one, are errors that help", function()
  local r = check.tycho({"-i"}, {stdin = "%learn nosuch\n", env = {XDG_STATE_HOME = state()}})
  check.contains(r.err .. r.out, 'no lesson "nosuch"; there are the chapters tensors')
  r = check.tycho({"-i"}, {stdin = "%hint\n", env = {XDG_STATE_HOME = state()}})
  check.contains(r.err .. r.out, "%hint belongs to a lesson; %learn lists them")
  r = check.tycho({"-i"}, {stdin = "%learn /dev/null/x.lua\n", env = {XDG_STATE_HOME = state()}})
  check.equal(r.status, 1)
end)

test("%explain names the lesson that teaches a rule, for every rule", function()
  local r = check.tycho({"-i"}, {stdin = "%explain SHAPE-2\n%explain INDEX-1\n", env = {XDG_STATE_HOME = state()}})
  check.contains(r.out, "\n%learn broadcasting teaches it\n")
  check.contains(r.out, "\n%learn indexing teaches it\n")
  local untaught = {}
  for _, rules in ipairs {require("torch.messages").codes, require("torch.notes.texts").catalogue} do
    for code in pairs(rules) do
      if not require("shell.lesson.find").explaining(code) then untaught[#untaught + 1] = code end
    end
  end
  table.sort(untaught)
  check.equal(untaught, {})
end)

test("the beginning of a name, or a number, finds a lesson", function()
  check.contains(learn("bro", {"%quit"}), "Broadcasting")
  local third = require("shell.lesson.find").all()[3]
  check.contains(learn("3", {"%quit"}), third.title)
end)

test("the list shows the chapters, the lessons of the one that comes next, and how far they were followed", function()
  local where = state()
  local first = require("shell.lesson.find").all()[1]
  local function listed(...)
    return check.tycho({"-i"}, {stdin = table.concat({...}, "\n") .. "\n", env = {XDG_STATE_HOME = where, COLUMNS = "80", HOME = check.temp("")}}).out
  end
  local out = listed "%learn"
  check.contains(out, "Tensors +0 of %d+ done\n +1  " .. first.name)
  check.contains(out, "%%learn " .. first.name .. " comes next")
  learn(first.name, {"%skip", "%quit"}, where)
  out = listed "%learn"
  check.contains(out, first.name .. " .* 2/" .. #first.steps)
  check.contains(out, "%%learn " .. first.name .. " goes on")
  out = listed "%learn tensors"
  check.contains(out, "broadcasting +Broadcasting: how shapes line up")
  out = listed "%learn all"
  check.contains(out, "broadcasting +Broadcasting: how shapes line up")
  check.yes(#check.tycho({"learn", "tensors"}, {stdin = "", env = {XDG_STATE_HOME = where}}).out > 100)
end)

test("a lesson leaves the prompt as it found it", function()
  local out = learn(small(), {"%quit", "q = torch.ones(2)", "print(io.write == require('io').write, q:sum():item())"})
  check.lacks(out, "q: ")
  check.contains(out, "true\t2.0")
end)

test("in a lesson torch.empty holds nan, afterwards what it always does", function()
  local out = learn(small(), {"e = torch.empty(2, 3)", "print(e:isnan():all():item(), torch.empty({2}, {dtype = 'int32'}).dtype)", "%quit",
    "print(debug.getinfo(torch.empty, 'S').what)"})
  check.contains(out, "true\ttorch.int32")
  check.contains(out, "\nC\n")
end)

test("every lesson can be followed to its end", function()
  for _, lesson in ipairs(require("shell.lesson.find").all()) do
    local entries = {}
    for i = 1, #lesson.steps do entries[i] = "%skip" end
    local out = learn(lesson.name, entries)
    check.lacks(out, "did not work")
    check.contains(out, "That was")
  end
end)
