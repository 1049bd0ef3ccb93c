-- Entries of the prompt as they are read and run, through standard input (`tycho -i`) and through the
-- session itself.
local real = getmetatable(_G).__index  -- the globals that entries see

local function prompt(entries, options)
  options = options or {}
  local env = {HOME = check.temp("home"), TERM = "dumb"}
  for k, v in pairs(options.env or {}) do env[k] = v end
  return check.tycho(options.arguments or {"-i", "--clean"}, {stdin = table.concat(entries, "\n") .. "\n", env = env})
end

-- What entries print, line by line, without an error.
local function prints(entries, ...)
  local r = prompt(entries)
  check.equal(r.err, "", table.concat(entries, " | "))
  check.equal(r.status, 0)
  -- How long a slow entry took is said on a line of its own, on a busy machine of any entry.
  local out = ("\n" .. r.out):gsub("\n[%d.]+ m?s%f[\n]", ""):sub(2)
  check.equal(out, table.concat({...}, "\n") .. (... and "\n" or ""), table.concat(entries, " | "))
end

local function fails(entries, ...)
  local r = prompt(entries)
  check.equal(r.status, 1, table.concat(entries, " | "))
  for _, part in ipairs {...} do check.contains(r.err, part) end
  return r
end

-- ---- complete, incomplete, wrong --------------------------------------------------------------

local entry = require "shell.entry"
local function kind(text)
  local code, wrong = entry.read(text)
  return code and "complete" or wrong.kind
end

test("complete entries are told from those with more to come and from wrong ones", function()
  local cases = {
    complete = {"1", "x = 1", "f()", "x = 1; x", "x = 1\nx", "6 * 7 -- a comment", "-- nothing", "for i = 1, 3 do end", "return 1, 2",
      "::a::", "= 5", "x = [[\n]]", "local x <const> = 1", "a.b.c", "function f() end", "x = 1; -x", "do x = 1 end\n#t", "f'x'", "x;"},
    incomplete = {"for i = 1, 3 do", "x =", "1 +", "f(", "{1, 2,", "x = [[abc", "--[[ abc", "if x then", "function f()", "x = 1; y +",
      "repeat", "x = function()\n\n", "not", "x.", "f{", "'abc\\", "local", "goto"},
    wrong = {"x = = 1", "'abc", "end", "x y", "1 2", "f(]", "for for", "break", "goto nowhere", "x = )", "3 = x", "return return",
      "local function 3", "x = 'a\nb'", "if x then else else", "\1", "@", "a b (", "local x <const> = 1; x = 2"},
  }
  for wanted, texts in pairs(cases) do
    for _, text in ipairs(texts) do check.equal(kind(text), wanted, text) end
  end
end)

test("the caret stands under the wrong token", function()
  local cases = {
    {"x = = 1", 1, 5, 1}, {"6 * * 7", 1, 5, 1}, {"foo bar", 1, 5, 3}, {"x = 'abc", 1, 5, 4}, {"f = function(a b) end", 1, 16, 1},
    {"x = 1\ny = = 2", 2, 5, 1}, {"if x then\n  y = )\nend", 2, 7, 1}, {"= = 5", 1, 3, 1}, {"a = = = b", 1, 5, 1},
    {'x = "\\u{110000000}"', 1, 5, 15}, {'x = "\\q" y', 1, 5, 4}, {"x = 3x", 1, 5, 2},
  }
  for _, case in ipairs(cases) do
    local code, wrong = entry.read(case[1])
    check.equal(code, nil, case[1])
    check.equal({wrong.line, wrong.column, wrong.width}, {case[2], case[3], case[4]}, case[1] .. ": " .. wrong.message)
  end
  local r = fails({"x = = 1"}, "error: unexpected '='\n   x = = 1\n       ^\n")
  check.equal(r.out, "")
  fails({'s = "中文" = 1'}, '   s = "中文" = 1\n              ^\n')
end)

test("what other languages write is answered with what Lua writes", function()
  local cases = {
    {"x += 1", "in Lua: x = x + 1"}, {"x != 2", "in Lua: x ~= 2"}, {"a && b", "in Lua: a and b"}, {"i++", "in Lua: i = i + 1"}, {"x = 2 ** 3", "in Lua: x = 2 ^ 3"},
    {"a @ b", "in Lua: a:matmul(b)"}, {"import numpy as np", "tensors do what arrays do"}, {"def f(x): return x", "in Lua: function f(x) return x end"}, {"x = 1 # note", "in Lua: x = 1  -- note"},
    {"for i in range(3):", "for i = 1, 3 do"}, {"if x == 1:", "the word end"}, {"if x then y = 1 elif z then w = 1 end", "elseif"},
  }
  for _, case in ipairs(cases) do fails({case[1]}, case[2]) end
  check.lacks(fails({"x = = 3"}).err, "Lua")
end)

test("the message of a wrong entry holds no control character", function()
  check.lacks(fails({"x = \27[31m"}).err, "\27")
  check.lacks(fails({"x = \1 1"}).err, "\1")
end)

test("an incomplete entry at the end of the input is an error", function()
  fails({"for i = 1, 3 do"}, "ends inside an entry")
end)

-- ---- the last expression ----------------------------------------------------------------------

test("the last expression of an entry is printed, whatever stands before it", function()
  prints({"x = 1; x"}, "1")
  prints({"6 * 7   -- a comment is fine"}, "42")
  prints({"= 5"}, "5")
  prints({"x = 2; x + 1 -- why"}, "3")
  prints({"for i = 1, 2 do", "  x = i", "end x"}, "2")
  prints({"print(1); 2"}, "1", "2")
  prints({"f = function() return 7 end; f()"}, "7")
  prints({"1, 'a', nil"}, '1      "a"      nil')
end)

test("a semicolon at the end prints nothing and keeps the value", function()
  prints({"5;", "_"}, "5")
  prints({"x = 1; x;", "_"}, "1")
end)

test("statements, calls without results and io.write print nothing of their own", function()
  prints({"x = 5", "(function() end)()", "io.write('ab\\n')"}, "ab")
  prints({"nil"}, "nil")
end)

test("a line that begins with : or . continues the last value", function()
  prints({"t = {a = {b = 3}}; t;", ".a.b", "'abc'", ":upper()", ".5"}, "3", '"abc"', '"ABC"', "0.5")
end)

test("pasted prompts are stripped, and what was printed with them", function()
  for _, text in ipairs {"[3]> 1 + 1", "th> 1 + 1", "> 1 + 1", ">> 1 + 1", ">>> 1 + 1", "[12]>1 + 1", "[2] lesson> 1 + 1", "In [3]: 1 + 1", "...> 1 + 1"} do
    check.equal(entry.pasted(text), {"1 + 1"}, text)
  end
  check.equal(entry.pasted("[1]> x = 5\n[2]> x\n5\n[3]> y = 6"), {"x = 5", "x", "y = 6"})
  check.equal(entry.pasted("[1]> for i = 1, 2 do\n...>   print(i)\n...> end\n1\n2"), {"for i = 1, 2 do\n  print(i)\nend"})
  check.equal(entry.pasted("> for i = 1, 2 do\n>>   print(i)\n>> end\n1\n2\n> x"), {"for i = 1, 2 do\n  print(i)\nend", "x"})
  check.equal(entry.pasted("In [1]: f(1,\n   ...:   2)\n3\n\nIn [2]: x\nOut[2]: 5\n"), {"f(1,\n  2)", "x"})
  check.equal(entry.pasted("> f(1,\n  2)"), {"f(1,\n  2)"})
  check.equal(entry.pasted("x > 1"), {"x > 1"})
  check.equal(entry.pasted("...x"), {"...x"})
  prints({"[1]> 6 * 7"}, "42")
end)

test("what Python writes otherwise is named", function()
  local cases = {
    ["torch.tensor([1, 2])"] = "in Lua: torch.tensor{1, 2}", ["y = [1]"] = "lists stand in braces",
    ["y[1:2]"] = "in Lua: y[{{2, 2}}]", ["y[:, 0]"] = "in Lua: y[{{}, 1}]",
    ["torch.rand((2, 3))"] = "in Lua: torch.rand{2, 3}", ["x += 1"] = "in Lua: x = x + 1", ["a @ b"] = "in Lua: a:matmul(b)",
    ["len(y)"] = "Python's len is here: #x", ["None"] = "Python's None is here: nil", ["True"] = "Python's True is here: true",
  }
  for code, says in pairs(cases) do check.contains(check.tycho({"--clean", "-i"}, {stdin = code .. "\n"}).err, says, code) end
end)

-- ---- locals -----------------------------------------------------------------------------------

local kept = 'kept "%s" for the session (%%locals off for plain Lua)'

test("local is kept for the session at depth 0 only, and said once", function()
  prints({"local w = 3", "local v = 4", "w + v"}, kept:format("w"), "7")
  prints({"local a, b = 1", "a, b"}, kept:format('a", "b'), "1  nil")
  prints({"local function f(n) return n == 0 and 1 or n * f(n - 1) end", "f(5)"}, kept:format("f"), "120")
  prints({"do local w = 3 end", "_G.w"}, "nil")
  prints({"function f() local w = 3 return w end", "f(), _G.w"}, "3  nil")
  prints({"local x", "x"}, kept:format("x"), "nil")
  prints({"s = 'local y = 1' -- local z = 2", "_G.y, _G.z"}, "nil  nil")
  prints({"x = 1 local y = x + 1; y"}, kept:format("y"), "2")
  prints({"%locals off", "local w = 3; w", "_G.w"}, "locals are those of plain Lua", "3", "nil")
end)

test("local <const> becomes a constant of the session that only local can change", function()
  prints({"local c <const> = 5", "c + 1", "function f() return c end", "f()"}, kept:format("c"), "6", "5")
  fails({"local c <const> = 5", "c = 6"}, '"c" is a constant of this session')
  prints({"local c <const>, d = 5, 6", "local c = 7; c", "c = 8; c, d"}, kept:format('c", "d'), "7", "8  6")
end)

test("local <close> at depth 0 is refused with what to write", function()
  fails({"local f <close> = io.open('x')"}, "do local f <close> = ... end", "^^^^^^^")
  prints({"do local f <close> = nil end", "1"}, "1")
end)

-- ---- names ------------------------------------------------------------------------------------

test("an unknown name is an error that names the nearest", function()
  fails({"function scale(k) return k end", "scael(2)"}, 'error: no variable "scael". Did you mean "scale" (function, from [1])?\n')
  fails({"randn(3)"}, 'Did you mean "torch.randn"?')
  fails({"optmi"}, 'Did you mean "optim" (module)?')
  fails({"qqqqqqqqqq"}, 'error: no variable "qqqqqqqqqq".\n')
  for name, home in pairs {Linear = "nn.", CosineAnnealingLR = "optim.lr_scheduler.", cross_entropy = "F.", svdvals = "torch.linalg.", random_split = "data.",
    kaiming_normal_ = "nn.init.", clip_grad_norm_ = "nn.utils.", DistributedDataParallel = "nn.parallel.", resnet18 = "torch.models.", Adam = "optim."} do
    fails({name .. "(2)"}, ('error: no variable "%s". Did you mean "%s%s"?'):format(name, home, name))
  end
  fails({"function f() return missing_one end", "f()"}, 'no variable "missing_one"')
end)

test("_G.name and names that were set to nil give nil", function()
  prints({"_G.nothing", "x = nil", "x", "y = 1", "y = nil", "y == nil"}, "nil", "nil", "true")
  prints({"_ENV.nothing == nil and rawget(_G, 'nothing') == nil"}, "true")
  prints({"({}).field == nil"}, "true")
  prints({"utf8 = nil", "utf8"}, "nil")
end)

test("files read unknown names as nil", function()
  local path = check.temp("reads.lua")
  local file = io.open(path, "w")
  file:write("return tostring(never_set) .. tostring(nn)\n")
  file:close()
  prints({("dofile(%q)"):format(path)}, '"nilnil"')
end)

test("modules are at hand under short names, and may be replaced", function()
  prints({"nn == torch.nn and F == torch.nn.functional and optim == torch.optim and data == torch.utils.data"}, "true")
  prints({"nn = 5", "nn"}, "5")
  prints({"rawget(_G, 'nn') == nil"}, "true")
end)

test("the prompt works whatever names are taken away or used for something else", function()
  prints({"table, string, io, math, torch, debug, package, coroutine, os = 1", "require, print, tostring, ipairs, pairs, type, load, error, next = 2",
    "setmetatable, getmetatable, rawget, rawset, select, pcall, _VERSION, utf8 = 3", "1 + 1", "_", "{1, {2}}", "%locals"},
    "2", "2", "{1, {2}}", "locals are kept for the session")
  fails({"_G, table, string, require = nil", "({}).x.y"}, "attempt to index a nil value")
  fails({"for name in next, _G do if name ~= '_G' then _G[name] = nil end end", "x"}, 'no variable "x"')
  local r = check.tycho({"-e", "require, torch, print, table, string = nil error('no')"})
  check.equal(r.status, 1)
  check.contains(r.err, "no")
end)

-- ---- results ----------------------------------------------------------------------------------

test("_ is the last value, __ the one before, _7 that of entry 7", function()
  prints({"5", "'a'", "_, __, _1", "x = 1", "_, __"}, "5", '"a"', '"a"      5      5', '"a"      "a"')
  prints({"_"}, "nil")
  prints({"_, x = 3, 4", "_", "9", "_"}, "3", "9", "9")
  prints({"1, 2, 3", "_"}, "1  2  3", "1")
  fails({"_77"}, "entry 77 gave no value")
end)

test("only so many results are kept, and asking for another says how to get it", function()
  local entries = {"'first'"}
  for i = 2, 25 do entries[i] = tostring(i) end
  entries[26] = "_1"
  local r = prompt(entries)
  check.contains(r.out, 'note: _1 (the string "first") was not kept. %rerun 1 computes it again.')
  entries[26] = "_1 .. 'x'"
  fails(entries, '_1 (the string "first") was not kept. %rerun 1 computes it again.')
end)

test("large results do not live longer than the next one", function()
  local r = prompt {"torch.zeros(5000, 5000);", "1;", "collectgarbage()", "_1", "torch.cuda.is_available()"}
  check.contains(r.out, "_1 (f32 [5000, 5000], 100.0 MB) was not kept")
  r = prompt({"torch.zeros(1000, 1000, {device='cuda'});", "1;", "collectgarbage()", "_1"}, {env = {TYCHO_SIMULATE_CUDA = "1"}})
  check.contains(r.out, "_1 (f32 [1000, 1000] cuda:0, 4.0 MB) was not kept")
  prints({"x = torch.zeros(5000, 5000);", "x;", "1;", "collectgarbage();", "_2.shape[1]"}, "5000")
  r = prompt {"torch.zeros(3000, 3000);", "torch.zeros(3000, 3000);", "1;", "collectgarbage();", "_1"}
  check.contains(r.out, "_1 (f32 [3000, 3000], 36.0 MB) was not kept")
  prints({"x = torch.zeros(3000, 3000);", "x;", "x:t();", "x;", "x = nil", "1;", "collectgarbage();", "_2.shape[1]"}, "3000")
end)

-- ---- errors -----------------------------------------------------------------------------------

local session = require "shell.session"
local said, complained
session.say = function(text) said = said .. text .. "\n" end
session.complain = function(text) complained = complained .. text .. "\n" end
local function run(text)
  said, complained = "", ""
  return session.run(text)
end

local function tensor_bytes()
  collectgarbage()
  collectgarbage()
  return torch.memory_allocated and torch.memory_allocated("cpu") or torch.cuda.memory_allocated("cpu")
end

test("an entry that fails keeps no tensor alive", function()
  local known, before = pcall(tensor_bytes)
  if not known then check.skip("no count of tensor bytes") end
  for _, text in ipairs {
    "local function f() local big = torch.ones(1000, 1000) error('no') end f()",
    "local function f() local big = torch.ones(1000, 1000) error({big = big, code = 7}) end f()",
    "local function f() local big = torch.ones(1000, 1000) return big:matmul(torch.ones(3, 4)) end f()",
    "coroutine.wrap(function() local big = torch.ones(1000, 1000) error('no') end)()",
    "big = torch.ones(1000, 1000) big = nil error('no')",
  } do
    check.no(run(text), text)
    check.yes(session.last_error.text ~= "", text)
    rawset(real, "f", nil)
    check.yes(tensor_bytes() - before < 100000, text)
  end
end)

test("the last error knows the functions it went through and what their locals were", function()
  run("function inner(x) local y = x + 1 error('deep') end function outer(n) inner(torch.ones(2, 3)) return n end")
  check.no(run("outer(5)"))
  local frames = session.last_error.frames
  check.equal(frames[1].name, "inner")
  check.equal(frames[2].name, "outer")
  local texts = {}
  for _, each in ipairs(frames[1].locals) do
    texts[each.name] = each.text
    check.equal(each.value, nil)
  end
  check.contains(texts.x, "[2, 3]")
  check.contains(complained, "deep")
end)

test("errors of every type are reported and the session goes on", function()
  for _, text in ipairs {"error()", "error(nil)", "error(5)", "error({})", "error(print)", "error(torch.ones(2))",
    "error(setmetatable({}, {__tostring = function() error('no') end}))", "error(setmetatable({}, {__tostring = function() return 5 end}))",
    "error(setmetatable({}, {__index = function() error('no') end, __name = 5}))", "local function f() return f() + 1 end f()",
    "string.rep('x', 1 << 40)", "error(('x'):rep(1e6))", "local t = {} for i = 1, 1e5 do t = {t} end error(t)",
    "setmetatable({}, {__tostring = function() error('no') end, __name = 7, __len = error, __pairs = error})"} do
    run(text)
    check.yes(run("1 + 1"), text)
    check.contains(said, "2", text)
  end
end)

test("an error in an entry of several lines shows its line", function()
  run("x = 1\nlocal y = nil\nerror('here')\nx = 2")
  check.contains(complained, "here")
  check.contains(complained, "error('here')")
end)

test("hooks that fail stop neither the entry nor the session", function()
  local hook = function() error("a bad hook") end
  table.insert(session.hooks.after, hook)
  table.insert(session.hooks.before, hook)
  check.yes(run("1 + 1"))
  check.contains(said, "2")
  check.contains(complained, "a bad hook")
  table.remove(session.hooks.after)
  table.remove(session.hooks.before)
end)

test("an entry knows where its variables come from", function()
  run("here = 1")
  local number = session.number - 1
  check.equal(session.origin("here"), number)
  run("function make() made = 1 end")
  run("make()")
  check.equal(session.origin("made"), session.number - 1)
  run("here, there = 2, 3")
  check.equal(session.origin("here"), session.number - 1)
  check.equal(session.origin("nowhere"), nil)
end)

test("a lesson takes entries, and those it leaves are run", function()
  local seen = {}
  session.mode = {prompt = "lesson> ", handle = function(text)
    seen[#seen + 1] = text
    return text ~= "1 + 2"
  end}
  check.contains(session.prompt(), "] lesson> ")
  run("an answer")
  run("1 + 2")
  session.mode = nil
  check.equal(seen, {"an answer", "1 + 2"})
  check.contains(said, "3")
end)

test("a thousand entries leave nothing behind", function()
  local function round(n)
    for i = 1, n do
      run(("a%d = torch.ones(10) + %d; a%d:sum()"):format(i % 7, i, i % 7))
      run("b = nothing_of_this_name")
      run("c = = 5")
      run("local d = {1, 2, 3}; d")
      if i % 3 == 0 then run("function g() return 1 end") end
    end
    said, complained = "", ""
    collectgarbage()
    collectgarbage()
    return collectgarbage("count")
  end
  -- Looking at all variables around each entry, thousands here, would take most of the time.
  local undo = require "shell.undo"
  undo.on = false
  round(600)
  local before = round(300)
  local after = round(500)
  undo.on = true
  check.yes(after - before < 60, ("%.0f KB more"):format(after - before))
end)

test("errors are said after the user has broken the string library", function()
  local r = check.tycho({"-i"}, {stdin = "x = = 1\n"})
  check.contains(r.err, "unexpected")
  r = check.tycho({"-i", "-e", "string.rep = 13"}, {stdin = "x = = 1\n"})
  check.contains(r.err, "error")
end)
