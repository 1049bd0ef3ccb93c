-- Tasks: right and wrong answers, answers that raise, run for ever or spoil their input, what an
-- answer may use; and that trying one leaves the user's random numbers alone.
local allow = require "shell.lesson.allow"
local guard = require "shell.lesson.guard"
local parse = require "shell.lesson.parse"
local task = require "shell.lesson.task"

local function question(lines)
  local text = "--# lesson 1\n--# title T\n--# say a\n--# task Do it.\n" .. lines ..
    "\n--# hint h\n--# answer local _ = 1\n"
  local lesson, problems = parse.lesson(text, "t.lua")
  check.equal(problems, {})
  return lesson.steps[1].question
end

local TABLE = "--# spec table_of(n)\n--#   local out = torch.zeros(n, n, {dtype = 'int64'})\n" ..
  "--#   for i = 1, n do for j = 1, n do out[{i, j}] = i * j end end\n--#   return out\n--# try n in 1..8"
local SUMS = "--# spec sums(x) return torch.stack{x[1]:sum(), x[2]:sum()}\n--# try m in 2..5\n--# try x = torch.randn(2, m)"

local function try(lines, f)
  local right, said = task.check_function(question(lines), "t.lua", _G, f)
  return right, table.concat(said, "\n")
end

test("a right function is right for the whole range", function()
  local right, said = try(TABLE, function(n) return (torch.arange(n) + 1):view(n, 1) * (torch.arange(n) + 1) end)
  check.yes(right, said)
  check.equal(said, "right, for n = 1 to 8.")
  right, said = try(SUMS, function(x) return x:sum(2) end)
  check.yes(right, said)
  check.contains(said, "random inputs")
end)

test("a wrong one is told how it misses, on a case that can be looked at", function()
  local right, said = try(TABLE, function(n) return (torch.arange(n) + 1) * (torch.arange(n) + 1) end)
  check.no(right)
  check.contains(said, "not yet: table_of(4) is [4], wanted [4, 4]. 4 lines up with 4, so nothing stretched.")
  check.contains(said, "1 4 9 16        is the diagonal of the result")
  right, said = try(SUMS, function(x) return x:sum(1) end)
  check.no(right)
  check.contains(said, "over dimension 1; it should be dimension 2")
  check.contains(said, "with x f32 [2, ")
end)

test("a slip is named on examples whose sizes exceed 1 and differ", function()
  local means = "--# spec means(x) return x:mean(2)\n--# try n in 1..4\n--# try m in 1..4\n--# try x = torch.randn(n, m)"
  local _, said = try(means, function(x) return x:sum(2) end)
  local n, m, times = said:match "with x f32 %[(%d), (%d)%]", select(2, said:match "with x f32 %[(%d), (%d)%]"), said:match "That is (%d) times"
  check.yes(n ~= m and tonumber(n) > 1 and tonumber(m) > 1, said)
  check.equal(times, m)
  check.contains(said, "a sum where a mean belongs?")
  _, said = try(means, function(x) return x:mean(2) / x:size(2) end)
  check.contains(said, "a mean where a sum belongs?")
  -- Right but where there is one row: no slip can be told from such examples.
  _, said = try(means, function(x) return x:size(1) == 1 and x:sum(2) or x:mean(2) end)
  check.lacks(said, "belongs")
  check.contains(said, "not the right values")
  -- A slip that examples do not agree on is none.
  local calls = 0
  _, said = try(means, function(x)
    calls = calls + 1
    return calls % 2 == 0 and x:sum(2) or -x:mean(2)
  end)
  check.lacks(said, "belongs")
  check.lacks(said, "sign is the other one")
end)

test("a function that raises, returns nothing, or the wrong kind of thing is answered", function()
  local right, said = try(TABLE, function() error("so not") end)
  check.no(right)
  check.contains(said, "stops: so not")
  right, said = try(TABLE, function() error{1} end)
  check.no(right)
  right, said = try(TABLE, function() error(setmetatable({}, {__tostring = function() error("no") end})) end)
  check.no(right)
  right, said = try(TABLE, function() end)
  check.no(right)
  check.contains(said, "wanted [4, 4]. There is no value; does it end in return?")
  for _, value in ipairs {"text", 3, true, {}, print, torch.float32, torch.zeros(0)} do check.no((try(TABLE, function() return value end))) end
  right, said = try(TABLE, function(n) return n + torch.zeros(n, n + 1) + torch.zeros(7, 7) end)
  check.no(right)
  check.contains(said, "stops: add")
end)

test("a function that never ends is stopped, also when it catches errors or sits in a coroutine", function()
  local seconds = task.seconds
  task.seconds = 0.2
  local _ <close> = setmetatable({}, {__close = function() task.seconds = seconds end})
  for _, f in ipairs {
    function() while true do end end,
    function() while true do pcall(function() while true do end end) end end,
    function() local co = coroutine.wrap(function() while true do end end) return co() end,
    function() return (function() while true do local a = torch.ones(3) + 1 end end)() end,
  } do
    local right, said = try(TABLE, f)
    check.no(right)
    check.contains(said, "did not come to an end in 0.2 s")
  end
  check.no((try(TABLE, coroutine.yield)))
end)

test("a function that changes what it is given is told so", function()
  local right, said = try(SUMS, function(x)
    local y = x:sum(2)
    x:zero_()
    return y
  end)
  check.no(right)
  check.contains(said, "changes its input x")
end)

test("trying a task leaves the user's random numbers as they were", function()
  torch.manual_seed(7)
  local wanted = torch.randn(3):tolist()
  torch.manual_seed(7)
  try(SUMS, function(x) return x:sum(2) end)
  check.equal(torch.randn(3):tolist(), wanted)
end)

test("the cases are the same each time", function()
  local q = question(SUMS)
  local a, b = task.cases(q, "t.lua", _G), task.cases(q, "t.lua", _G)
  check.equal(#a, #b)
  for i = 1, #a do check.equal(a[i][1], b[i][1]) end
end)

test("a variable is compared with what it should become", function()
  local q = question("--# spec seven = torch.arange(7)")
  local wanted = task.wanted(q, "t.lua", _G)
  check.yes((task.check_value(q, wanted, torch.arange(7))))
  local right, said = task.check_value(q, wanted, torch.arange(7) + 1)
  check.no(right)
  check.contains(said[1], "one too large")
  local given = {picture = torch.arange(20):view(4, 5)}
  q = question("--# spec cut = picture:narrow(1, 2, 2)")
  right, said = task.check_value(q, task.wanted(q, "t.lua", given), given.picture[{{1, 2}}], given)
  check.contains(said[1], "That is rows 1, 2 of what was given")
  q = question("--# spec seven = torch.arange(7)")
  check.no((task.check_value(q, wanted, nil)))
  check.no((task.check_value(q, wanted, torch.arange(7):float())))
end)

local function complaint(code, question)
  question.spec = question.spec or {name = "f"}
  return allow.complaint(code, question, function(name) return name == "x" end)
end

test("an allow list holds operators, loops and names against an answer", function()
  local q = {allow = {"arange", "view", "+", "*"}}
  check.equal(complaint("function f(n) return (torch.arange(n) + 1):view(n, 1) * x end", q), nil)
  check.contains(complaint("function f(n) return torch.arange(n) - 1 end", q), "the operator -")
  check.equal(complaint("function f(n) return torch.arange(n):view(-1, 1) end", q), nil)
  check.contains(complaint("function f(n) for i = 1, n do end end", q), "loops (for)")
  check.contains(complaint("function f(n) return torch.outer(n, n) end", q), "without outer")
  check.contains(complaint("function f(n) return n:t() end", q), "without t; allowed are arange view + *")
  check.contains(complaint("function f(n) return g(n) end", q), "without g")
  check.equal(complaint("function f(n) local t = n return t + 1 -- for while - t()\nend", q), nil)
  check.equal(complaint("f = 'for - :t()'", q), nil)
end)

test("a forbid list holds only what it names", function()
  local q = {forbid = {"for", "while", "item"}}
  check.equal(complaint("function f(n) return torch.outer(n, n) - 1 end", q), nil)
  check.contains(complaint("while true do end", q), "loops")
  check.contains(complaint("function f(n) return n:item() end", q), "item")
  check.equal(complaint("anything - at .. all", {}), nil)
end)

test("the guard passes results and errors on, and leaves no hook behind", function()
  check.equal({guard.call(function(a, b) return b, a, nil end, 1, 1, 2)}, {true, 2, 1})
  local ok, err = guard.call(error, 1, {7})
  check.no(ok)
  check.equal(err, {7})
  check.equal(debug.gethook(), nil)
end)
