-- The prompt's % commands, as entries of standard input (`tycho -i`).

local globals = getmetatable(_G).__index  -- the real ones: a test file has a table of its own
local home = check.temp("home")
os.execute("mkdir -p " .. check.quote(home))

-- What a session of these entries prints.
local function session(entries, options)
  options = options or {}
  local env = {HOME = home, XDG_STATE_HOME = home, TERM = "dumb"}
  for k, v in pairs(options.env or {}) do env[k] = v end
  local result = check.tycho({"-i"}, {stdin = table.concat(entries, "\n") .. "\n", env = env, cwd = options.cwd})
  result.lines = {}
  for line in result.out:gmatch("[^\n]*") do result.lines[#result.lines + 1] = line end
  return result
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

-- ---- the table of commands --------------------------------------------------------------------

test("% shows every command on one screen, in groups", function()
  local r = session({"%"})
  local commands = require "shell.commands"
  for _, name in ipairs(commands.names()) do
    local row = commands.find(name)
    if name ~= "%echo" then check.yes((r.out .. " "):find("%" .. name .. "%s"), name) end  -- another name of %shapes
    check.yes(row.doc:find("%.$"), name .. " ends its sentence")
    check.kind_of(row.run, "function")
  end
  check.yes(#r.lines < 20, "a screen")
  for _, line in ipairs(r.lines) do check.yes(#line <= 80, line) end
  check.contains(r.out, "gradients")
end)

test("% with a word finds the commands that have to do with it", function()
  local out = session({"% memory"}).out
  check.contains(out, "%mem\n  Memory of tensors per device")
  check.lacks(out, "%%cd")
  check.contains(session({"% zebras"}).out, 'no command has to do with "zebras"')
end)

test("an unknown command names the nearest one", function()
  local r = session({"%bensh x"})
  check.equal(r.status, 1)
  check.contains(r.err, 'no command "%bensh". Did you mean "%bench"?')
end)

test("a command used wrongly is not the last error that %explain and %debug look at", function()
  local path = check.temp("misuse.log")
  local commands = require "shell.commands"
  local ok, err = pcall(commands.run, "%bits", "", {})
  check.no(ok)
  check.yes(err.misuse)
  check.contains(tostring(err), "usage")
  session({"%log on " .. path, "%nosuch"})
  check.contains(read(path), 'no command "%nosuch"')
end)

test("commands of other prompts lead to those that are here", function()
  check.contains(session({"%timeit 1"}).err, 'no command "%timeit"; here it is %bench')
  check.contains(session({"%restart"}).err, "cannot begin anew")
end)

test("a command asked with ? tells its usage and an example", function()
  local out = session({"%bits ?"}).out
  check.contains(out, "%bits VALUE, ..")
  check.contains(out, "for example  %bits 0.1")
end)

test("arguments that make no sense are answered with usage and example, and the session goes on", function()
  for _, line in ipairs {"%bench", "%prof", "%bits", "%layout 3", "%log nowhere", "%who a b", "%echo maybe", "%rerun x",
    "%save", "%reload", "%run", "%debug x", "%mem x", "%pwd x", "%reload torch"} do
    local r = session({line, "print('not reached')"})
    check.equal(r.status, 1, line)
    check.contains(r.err, "usage", line)
    check.contains(r.err, "for example", line)
    check.lacks(r.err, "shell/", line)
  end
end)

test("whatever is given to a command, it answers with an error of one kind or works", function()
  for _, name in ipairs {"time", "bench", "prof", "who", "bits", "layout", "save", "rerun", "log", "run", "reload", "debug", "bt", "cd"} do
    for _, args in ipairs {"(", "'", "[[", "nil, nil", "error()", "error(nil)", "{}", "99999999999999999999", "\\", "\1"} do
      local r = session({("%%%s %s"):format(name, args)}, {cwd = home})
      check.yes(r.status <= 1, name .. " " .. args)
      check.lacks(r.err, "attempt to", name .. " " .. args)
      check.lacks(r.err, "shell/", name .. " " .. args)
    end
  end
end)

-- ---- measuring --------------------------------------------------------------------------------

test("%time shows the values, keeps them as _ and tells the time", function()
  local out = session({"%time torch.ones(3) * 2", "_:sum():item()", "%time on", "x = 1", "%time off"}).out
  check.contains(out, "f32 [3]  2 2 2")
  check.contains(out, "^.-%d+%.?%d* [num]s\n")
  check.contains(out, "6.0")
  check.contains(out, "every entry tells its time\n%d+%.?%d* [num]s\n")
end)

test("%bench reports the arithmetic and the bytes of a product and nothing that it left out", function()
  local out = session({"a, b = torch.ones(50, 40), torch.ones(40, 25)", "%bench a:matmul(b)"}).out
  check.contains(out, "median ")
  check.contains(out, "runs)")
  check.contains(out, "100 kflop -> ")      -- 2 * 50 * 40 * 25
  check.contains(out, "17 kB -> ")          -- 4 * (2000 + 1000 + 1250)
  check.contains(out, "FLOP/s")
end)

test("%bench of code that fails says the error", function()
  local r = session({"%bench torch.ones(2) + torch.ones(3)"})
  check.equal(r.status, 1)
  check.contains(r.err, "[2]")
  check.lacks(r.out, "median")
end)

test("%bench waits for simulated devices and says so", function()
  local r = session({"x = torch.ones(8, {device = 'cuda'})", "%bench x + 1", "%time x + 1"}, {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.contains(r.out, "cuda:0, synchronised")
  check.contains(r.out, "host ")
end)

test("%prof sees the sums over ranks that a backward makes", function()
  local meeting = check.temp "prof_meeting"
  local out = session({"dist = torch.distributed",
    ("dist.init_process_group {rank = 0, world_size = 1, init_method = %q}"):format("file://" .. meeting),
    "net = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))",
    "%prof for i = 1, 3 do net(torch.ones(4, 3)):sum():backward() end"}).out
  assert(out:find "all_reduce +3 ", out)
end)

test("%prof tells time per operation and per line", function()
  local out = session({"x = torch.ones(20, 20)", "%prof for i = 1, 7 do local h = x:matmul(x) h:sum() end"}).out
  check.contains(out, "matmul +7 ")
  check.contains(out, "sum +7 ")
  check.contains(out, "%[2%]:1 +14 ")
  check.contains(out, "in operations")
end)

test("%prof shows rows that ran as one, and what each of their lines took", function()
  local out = session({"x = torch.ones(20000)", "%prof for i = 1, 7 do", "  local h = x * 2 + 1", "  h:tanh():sum():item()", "end"}).out
  check.contains(out, "mul %+ add %+ tanh[^\n]- 7 ")
  check.contains(out, "%[2%]:2 +14 ")
  check.contains(out, "%[2%]:3 +14 ")
  out = session({"torch.set_fusion(false)", "x = torch.ones(20000)", "%prof for i = 1, 7 do (x * 2 + 1):sum():item() end"}).out
  check.contains(out, "add +7 ")
  check.no(out:find("mul + add", 1, true))
end)

test("the code of a command may have several lines", function()
  local out = session({"%prof for i = 1, 3 do", "  torch.ones(2):sum()", "end", "%bits ({1,", "2})[1]", "6 * 7"}).out
  check.contains(out, "sum +3 ")
  check.contains(out, "i8    00000001")
  check.contains(out, "42\n")
end)

test("commands keep no tensor alive", function()
  local out = session({
    "for _, code in ipairs{'y = torch.ones(1000, 1000)', 'y = y + 1'} do y = nil end",
    "y = torch.ones(1000, 1000)", "%time y * 2", "%prof z = y + 1", "%bench y + 1", "%layout y, y:t()", "%bits y", "%who", "%mem",
    "%nan y * 2", "%shapes on", "v = y + 2", "y, z, v = nil", "%free", "collectgarbage() print('left', torch.memory_allocated())",
  }).out
  check.contains(out, "left\t0\n")
end)

test("%prof shows what ran before an error", function()
  local r = session({"%prof torch.ones(2):sum() error('stop here')"})
  check.contains(r.out, "sum +1 ")
  check.contains(r.err, "stop here")
end)

test("%shapes echoes what an entry assigned", function()
  local out = session({"%shapes on", "w, n = torch.ones(3, 4), 7", "function f() end", "w = nil", "%echo off", "v = torch.ones(2)"}).out
  check.contains(out, "w: f32 [3, 4]\nn: 7\n")
  check.lacks(out, "f:")
  check.lacks(out, "v:")
end)

-- ---- variables and memory ---------------------------------------------------------------------

test("%who tells kinds, shapes, views and what nodes save", function()
  local out = session({
    "W1 = torch.randn(784, 256, {requires_grad = true})", "W1t = W1:t()", "h = (W1 * 2):exp()", "n = 3",
    "h:sum():backward{retain_graph = true}", "%who",
  }).out
  check.contains(out, "W1 +leaf +f32 +%[784, 256%] +803 kB +%[1%] +grad set")
  check.contains(out, "W1t +view +f32 +%[256, 784%] +%- +%[2%] +of W1")
  check.contains(out, "h +node +f32 +%[784, 256%] +803 kB +%[3%] +1 saved for backward")
  check.contains(out, "n +number +%[4%] +3")
  check.lacks(out, "torch ")
end)

test("%who says which device or type a name is", function()
  local out = session({"place = torch.device 'cpu'", "kind = torch.float16", "%who"}).out
  check.contains(out, "place +device +%[1%] +cpu")
  check.contains(out, "kind +dtype +%[2%] +torch.float16")
end)

test("%who takes a pattern", function()
  local out = session({"alpha, beta, w1 = 1, 2, torch.ones(1)", "%who w*", "%who eta", "%who nothing*"}).out
  check.contains(out, "w1 ")
  check.lacks(out, "alpha")
  check.contains(out, "beta")
  check.contains(out, 'no variable fits "nothing*"')
end)

test("%who of ten thousand globals stays within a screen or three", function()
  local out = session({"for i = 1, 10000 do _G['v' .. i] = i end", "%who"}).out
  local _, lines = out:gsub("\n", "")
  check.yes(lines < 70)
  check.contains(out, "and 9940 more")
end)

test("tables fit a window of 40 columns", function()
  local columns = require "shell.columns"
  local heads = {{title = "name"}, {title = "shape"}, {title = "from", drop = 2}, {title = "notes", drop = 1, cut = true}}
  local rows = {{"weight", "[784, 256]", "[12]", "a view of something that has a long name"}}
  for line in columns.table(heads, rows, 40):gmatch("[^\n]+") do check.yes(columns.width(line) <= 40, line) end
  check.contains(columns.table(heads, rows, 40), "weight  [784, 256]")
  check.equal(columns.bytes(802816), "803 kB")
  check.equal(columns.bytes(1.6e9), "1.60 GB")
  check.equal(columns.seconds(0.00136), "1.36 ms")
  check.equal(columns.clip("abcdef", 4), "ab..")
  check.equal(columns.plain("a\27[1m\n"), "a\\x1b[1m ")
end)

test("%mem names the holders and the lines that free them", function()
  local out = session({
    "cache = {old = {scores = torch.ones(1000, 1000)}}", "do local big = torch.ones(500, 500) function g() return big end end",
    "small = torch.ones(400, 400)[{{1, 2}, {1, 2}}]",
    "w = torch.ones(300, 300, {requires_grad = true})", "loss = (w * 2):exp():sum()", "%mem",
  }).out
  check.contains(out, "cpu  used ")
  check.contains(out, "4.0 MB  cache.old.scores, set at %[1%] +%-> cache.old.scores = nil")
  check.contains(out, "1.0 MB  big in g.- %-> g = nil")
  check.contains(out, "small = small:clone()")
  check.contains(out, "360 kB  graph of loss %[5%] +%-> loss = loss:item%(%)")
end)

test("the lines that %mem gives do free what they name", function()
  local holders = require "shell.holders"
  local before = torch.memory_allocated()
  globals.t_cache = {a = {b = torch.ones(1000, 1000)}}
  globals.t_small = torch.ones(900, 900)[1]
  local w = torch.ones(800, 800, {requires_grad = true})
  globals.t_loss = (w * 2):exp():sum()
  for _ = 1, 3 do
    for _, h in ipairs((holders.find())) do
      if h.root:find("^t_") and h.bytes > 1e6 then assert(load(h.cure))() end
    end
  end
  w = nil
  collectgarbage()
  collectgarbage()
  check.yes(torch.memory_allocated() - before < 1e5)
  globals.t_cache, globals.t_small, globals.t_loss = nil, nil, nil
end)

test("variables named as Lua's own tables break neither the commands nor the modules", function()
  local out = session({
    "table, string, math, io, os, debug = 1, 2, 3, 4, 5, 6", "print, type, next, pairs, ipairs, pcall = nil", "torch.ones(2) * 2",
    "nn.Linear(2, 3)(torch.ones(4, 2)).shape", "%who", "%mem", "%bits 0.5", "%hist", "%prof torch.ones(2):sum()", "6 * 7",
  }).out
  check.contains(out, "f32 [2]  2 2")
  check.contains(out, "[4, 3]")
  check.contains(out, "string +number")
  check.contains(out, "sum +1 ")
  check.contains(out, "42\n$")
end)

test("deep, large and strange tables are looked through", function()
  local out = session({
    "deep = {} do local d = deep for i = 1, 50000 do d.n = {} d = d.n end d.t = torch.ones(10) end",
    "big = {} for i = 1, 200000 do big[i] = i end", "_G['no name\\27'] = torch.ones(3)", "_G[5] = torch.ones(4)",
    "evil = setmetatable({torch.ones(5)}, {__index = error, __pairs = error, __len = error, __tostring = error, __eq = error, __name = 5})",
    "co = coroutine.create(function() local held = torch.ones(100) coroutine.yield() end) coroutine.resume(co)", "%who", "%mem",
  }).out
  check.contains(out, "-> deep = nil")
  check.contains(out, '_G["no name\\27"] = nil')
  check.contains(out, "-> _G[5] = nil")
  check.contains(out, "-> evil[1] = nil")
  check.contains(out, "held in co, set at %[6%] +%-> co = nil")
end)

test("looking for holders keeps nothing alive", function()
  local holders = require "shell.holders"
  globals.t_held = {torch.ones(1000, 1000)}
  local before = torch.memory_allocated()
  local found = holders.find({{number = 3, value = torch.ones(10, 10)}})
  check.yes(#found > 0)
  globals.t_held = nil
  collectgarbage()
  collectgarbage()
  check.yes(torch.memory_allocated() <= before - 4000000)
end)

test("%free lets go of what only the prompt keeps", function()
  local out = session({"torch.ones(1000, 1000);", "torch.ones(2);", "%free", "_1 == nil", "%mem"}).out
  check.contains(out, "dropped _1 _2: 4.0 MB freed")
  check.lacks(out, "4.0 MB  _1")
end)

-- ---- looking inside ---------------------------------------------------------------------------

test("%bits shows how 0.1 is stored in every floating type", function()
  local out = session({"%bits 0.1"}).out
  check.contains(out, "f32   0 01111011 10011001100110011001101  0.100000001")
  check.contains(out, "f16   0 01011    1001100110               0.0999756    error -0.024 %")
  check.contains(out, "bf16  0 01111011 1001101                  0.100098     error +0.098 %")
  check.contains(out, "f64   0 01111111011 1001100110011001100110011001100110011001100110011010")
end)

test("%bits shows integers, elements, and what does not fit", function()
  local out = session({"%bits -2", "%bits 70000.0", "%bits 6e-8", "%bits torch.tensor({1, -1}, {dtype = 'int8'})", "%bits torch.zeros(0)"}).out
  check.contains(out, "i8    11111110")
  check.contains(out, "too large: the largest is 65504")
  check.contains(out, "f16   0 00000    0000000001               5.96046e-08")
  check.contains(out, "[2]  i8  11111111  -1")
  check.contains(out, "empty")
end)

test("%layout draws cells, steps and who shares them", function()
  local r = session({"x = torch.arange(6):view(2, 3); xt = x:t()", "%layout x, xt"})
  check.equal(r.out, [[
store 1   i64 x 6   | 0 | 1 | 2 | 3 | 4 | 5 |
x   [2, 3]  steps 3 1  contiguous
xt  [3, 2]  steps 1 3  view of x
xt[{1, 2}] is cell 4, the same as x[{2, 1}]: writing one changes the other
]])
end)

test("what %layout says of a write is what a write does", function()
  local out = session({
    "x = torch.arange(6):view(2, 3); xt = x:t()", "xt[{1, 2}] = 70", "print(x[{2, 1}]:item())",
    "%layout x[1], x[2]", "%layout torch.ones(3, 1):expand(3, 2)", "%layout torch.ones(2), torch.ones(2)",
    "%layout torch.arange(100000)", "%layout torch.zeros(0), torch.tensor(1)",
  }).out
  check.contains(out, "70\n")
  check.contains(out, "share the storage but no cell")
  check.contains(out, "are both cell 1: ")
  check.contains(out, "2 storages: writing to one changes none of the others")
  check.contains(out, "i64 x 100000   | 0 | 1 |")
  check.contains(out, "| 99999 |")
  check.contains(out, "empty")
end)

-- ---- entries ----------------------------------------------------------------------------------

test("%save writes a script that prints what the session printed", function()
  local path = check.temp("saved.lua")
  local entries = {
    "local x = torch.randn(4, 3); x", ":sum()", "_2 * 2", "x:sum(1);", "nn.Linear(3, 2)(x).shape",
    "local function f(a) return a + 1 end", "f(_5[1]) -- a comment", "%who zzz",
    "for i = 1, 2 do", "x = x + i", "end", "local c <const> = 5", "__", "print(c)", "x:mean()",
  }
  entries[#entries + 1] = "%save " .. path
  local before = session(entries)
  check.contains(before.out, "wrote 12 entries to")
  local expected = before.out:gsub('kept "x"[^\n]*\n', ""):gsub('no variable fits[^\n]*\n', ""):gsub("wrote 12[^\n]*\n", "")
  local alone = check.tycho({path}, {env = {HOME = home}})
  check.equal(alone.err, "")
  check.equal(alone.out, expected)
  local text = read(path)
  check.contains(text, "torch.manual_seed(")
  check.contains(text, "local nn = torch.nn\n")
  check.contains(text, "-- %who zzz")
  check.lacks(text, "local F")
  local again = session({"x = 1", "%save " .. path})
  check.contains(again.err, "is there already")
  check.equal(session({"x = 1", "%save -f " .. path}).status, 0)
end)

test("%save and %rerun answer wrong ranges", function()
  for _, line in ipairs {"%save f.lua 9", "%save f.lua 2-1", "%save f.lua x", "%save 3-5", "%rerun 77", "%rerun -"} do
    local r = session({"x = 1", line}, {cwd = home})
    check.equal(r.status, 1, line)
    check.contains(r.err, "usage", line)
  end
end)

test("%rerun runs entries again under new numbers", function()
  local out = session({"x = 1", "x = x * 3", "x", "%rerun 2-3", "%rerun 2", "_6", "x"}).out
  check.contains(out, "3\n[5]> x = x * 3\n[6]> x\n9\n")
  check.contains(out, "[8]> x = x * 3\n9\n27\n")
end)

test("%log keeps entries and what they print", function()
  local path = check.temp("log.txt")
  session({"%log on " .. path, "print('hello', 5)", "6 * 7", "io.write('raw\\n')", "for i = 1, 2 do", "print(i) end", "%log off", "print('after')"})
  local text = read(path)
  check.contains(text, "[2]> print('hello', 5)\nhello\t5\n[3]> 6 * 7\n42\n")
  check.contains(text, "raw\n")
  check.contains(text, "[5]> for i = 1, 2 do\n...> print(i) end\n1\n2\n")
  check.lacks(text, "after")
end)

test("%hist shows this session's entries when nothing is written down", function()
  local out = session({"alpha = 1", "beta = 2", "%hist alp"}).out
  check.contains(out, "alpha = 1")
  check.contains(out, "[1]")
  check.lacks(out, "beta = 2")
end)

-- ---- files, programs, modules -----------------------------------------------------------------

test("%run runs a script with arguments and keeps its globals", function()
  local path = check.temp("script.lua")
  write(path, "#!/usr/bin/env tycho\nlocal hidden = 1\nfound = {..., arg[0], arg[2]}\n")
  local out = session({"%run " .. path .. " one 'two three'", "found[1], found[3], rawget(_G, 'hidden')"}).out
  check.contains(out, '"one"')
  check.contains(out, '"two three"')
end)

test("%run tells errors with file and line, and a script that exits ends alone", function()
  local path = check.temp("wrong.lua")
  write(path, "x = 1\n\nlocal function f() error('oh no') end\nf()\n")
  local r = session({"%run " .. path})
  check.equal(r.status, 1)
  check.contains(r.err, "wrong.lua:3: oh no")
  write(path, "x = = 1\n")
  check.contains(session({"%run " .. path}).err, "wrong.lua:1:")
  write(path, "y = 5 os.exit(3)\n")
  local out = session({"%run " .. path, "y", "os.exit ~= nil"}).out
  check.contains(out, "ended with status 3\n5\n")
  check.contains(session({"%run /no/such/file"}).err, "/no/such/file")
end)

test("%reload puts new code into objects of old classes", function()
  local dir = check.temp("modules")
  os.execute("mkdir -p " .. check.quote(dir))
  write(dir .. "/mine.lua", [[
local M = {}
local function helper(x) return x + 1 end
M.Thing = {}
M.Thing.__index = M.Thing
function M.Thing.new() return setmetatable({}, M.Thing) end
function M.Thing:hello() return "old hello" end
function M.f(x) return helper(x) end
function M.gone() end
return M]])
  write(dir .. "/newer.lua", (read(dir .. "/mine.lua"):gsub("old hello", "new hello"):gsub("x %+ 1", "x + 2"):gsub("M.gone", "M.fresh")))
  local out = session({
    "m = require 'mine'; t = m.Thing.new(); f = m", "t:hello()", "!cp newer.lua mine.lua", "%reload mine", "t:hello(), m.f(1), f.fresh ~= nil, rawget(m, 'gone')",
    "m.Thing.new():hello()", "require 'mine' == m", "%reload mine",
  }, {cwd = dir}).out
  check.contains(out, '"old hello"')
  check.contains(out, "changed Thing.hello; added fresh; gone gone")
  check.contains(out, '"new hello" +3 +true')
  check.contains(out, "reloaded mine from ./mine.lua: nothing changed")
  write(dir .. "/mine.lua", "syntax error here")
  local r = session({"m = {1}", "package.loaded.mine = m", "%reload mine"}, {cwd = dir})
  check.equal(r.status, 1)
  check.contains(r.out, "the module is as it was")
  check.contains(session({"%reload no_such_module"}).err, 'there is no module "no_such_module"')
end)

test("%reload gives networks of old classes their new forward", function()
  local dir = check.temp("networks")
  os.execute("mkdir -p " .. check.quote(dir))
  write(dir .. "/netw.lua", [[
local nn = torch.nn
local Net = nn.class("Net")
function Net:init() self.fc = nn.Linear(2, 1) end
function Net:forward(x) return self.fc(x) * 1 end
return {Net = Net, make = function() return Net() end}]])
  local out = session({
    "m = require 'netw'; net = m.make(); x = torch.ones(1, 2); before = net(x):item()", "!sed -i 's/ \\* 1/ * 3/' netw.lua", "%reload netw",
    "math.abs(net(x):item() / before - 3) < 1e-5", "getmetatable(net) == m.Net, m.make()(x).shape",
  }, {cwd = dir}).out
  check.contains(out, "changed Net.forward")
  check.contains(out, "\ntrue\ntrue +%[1, 1%]")
end)

test("%cd, %pwd, %ls and !command know the directory, and a status is told", function()
  local dir = check.temp("place")
  os.execute("mkdir -p " .. check.quote(dir .. "/inner"))
  local out = session({"%cd " .. dir, "%ls", "%cd inner", "%pwd", "%cd -", "!exit 4", "%env TYCHO_X=17", "!echo got $TYCHO_X", "!kill -9 $$"}).out
  check.contains(out, "inner\n")
  check.contains(out, "/inner\n" .. dir)
  check.contains(out, "status 4")
  check.contains(out, "got 17")
  check.contains(out, "ended by kill")
  check.contains(session({"%cd /no/such/place"}).err, "no such file or directory")
end)

test("%edit writes an entry in the editor and runs it", function()
  local editor = check.temp("editor.sh")
  write(editor, "#!/bin/sh\nsed -i 's/3/4/' \"$1\"\n[ -s \"$1\" ] || echo 'print(\"from nothing\")' > \"$1\"\n")
  os.execute("chmod +x " .. check.quote(editor))
  local r = session({"x = 3", "%edit 1", "x", "%edit", "function f() return 3 end", "%edit f", "f()"}, {env = {VISUAL = editor}})
  check.contains(r.out, "[3]> x = 4\n4\n")
  check.contains(r.out, "from nothing")
  check.contains(r.out, "return 4 end\n4\n")
  local failed = session({"%edit"}, {env = {VISUAL = "false"}})
  check.equal(failed.status, 1)
  check.contains(failed.err, "ended with status 1")
end)

test("nothing that a command prints to a file has an escape byte", function()
  local out = session({"x = torch.randn(20, 20)", "%who", "%mem", "%bits 0.1", "%layout x", "%prof x:sum()", "%", "%hist", "%env HOME"}).out
  check.lacks(out, "\27")
end)

-- ---- %undo ------------------------------------------------------------------------------------

test("%undo takes back variables, fields, values of tensors, gradients and random numbers", function()
  local out = session({
    "x = torch.ones(2, 3); k = 5; t = {a = 1, list = {1, 2}}", "x:add_(1); k = 6; t.a = 2; t.list[3] = 9; new = 1", "%undo",
    "print(x:sum():item(), k, t.a, #t.list, rawget(_G, 'new'))",
    "v = x[2]; v:fill_(9)", "x[1] = 7", "%undo", "%undo", "print(x:sum():item(), rawget(_G, 'v'))",
    "a = torch.rand(2)", "%undo", "b = torch.rand(2)", "%undo", "c = torch.rand(2)", "torch.manual_seed(0)",
  }).out
  check.contains(out, "took back [2]: x:add_(1); k = 6")
  check.contains(out, "6.0\t5\t1\t2\tnil")
  check.contains(out, "6.0\tnil\n")
  out = session({
    "net = nn.Linear(2, 1); opt = optim.Adam(net:parameters(), {lr = 0.1}); w0 = net.weight:detach():clone()",
    "for i = 1, 5 do opt:zero_grad() net(torch.ones(4, 2)):sum():backward() opt:step() end",
    "print((net.weight - w0):abs():sum():item() > 0, next(opt.state) ~= nil)", "%undo",
    "print((net.weight - w0):abs():sum():item(), net.weight.grad, next(opt.state))",
    "bn = nn.BatchNorm1d(2); bn(torch.randn(8, 2)); m = bn.running_mean:clone()", "bn(torch.randn(8, 2))", "%undo",
    "print('mean', bn.running_mean:equal(m))",
    "w = torch.ones(2, {requires_grad = true}); w:sum():backward()", "w.grad:mul_(3) w.grad = nil", "%undo", "w.grad",
  }).out
  check.contains(out, "true\ttrue")
  check.contains(out, "0.0\tnil\tnil")
  check.contains(out, "mean\ttrue")
  check.contains(out, "f32 [2]  1 1")
end)

test("%undo says what it cannot take back, and %undo off keeps nothing", function()
  local out = session({
    "%undo", "big = torch.zeros(5000, 5000)", "big:add_(1)", "%undo", "m = torch.ones(2, 3)", "m:transpose_(1, 2)", "%undo",
    "big = torch.ones(1); for i = 1, 3 do collectgarbage() end", "collectgarbage()", "%undo",
    "%undo off", "z = 1", "%undo on", "%undo", "print(z)",
  })
  check.contains(out.out, "there is nothing to take back")
  check.contains(out.out, "not taken back: tensors of 100.0 MB were changed in place, too much to keep")
  check.contains(out.out, "transpose_ gave a tensor another shape")
  check.contains(out.out, "an old value that was too large to keep")
  check.contains(out.out, "\n1\n")
  check.contains(session({"z = 1", "%undo off", "%undo"}).err, "switched off")
end)

test("what is undone is a change to graphs made before: their gradients are never wrong", function()
  local r = session({"w = torch.ones(2, {requires_grad = true}); h = w * 2; l = (h * h):sum()", "torch.no_grad(function() h:add_(1) end)", "%undo", "l:backward()"})
  check.contains(r.err, "changed it in place")
end)
