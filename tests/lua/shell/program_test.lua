-- The program as its users start it: scripts, -e, standard input, options, exit status, error reports.
local function script(name, text)
  local path = check.temp(name)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

local function ends(r, status, out, err)
  check.equal(r.status, status, r.err)
  if out then check.equal(r.out, out, r.err) end
  if err then check.contains(r.err, err) end
end

test("a script gets its arguments in `arg` and in `...`", function()
  local path = script("arguments.lua", "print(#arg, arg[1], arg[2], arg[0], ...)\n")
  ends(check.tycho({path, "one", "two words"}), 0, "2\tone\ttwo words\t" .. path .. "\tone\ttwo words\n")
  ends(check.tycho({path}), 0, "0\tnil\tnil\t" .. path .. "\n")
  ends(check.tycho({path, "--help", "-e"}), 0, "2\t--help\t-e\t" .. path .. "\t--help\t-e\n")
end)

test("a script finds torch as a global and by require", function()
  ends(check.tycho({script("torch.lua", [[
    assert(require "torch" == torch and require("torch.nn") == torch.nn)
    print(torch.ones(2):sum():item())]])}), 0, "2.0\n")
end)

test("a first line that begins with #! is passed over", function()
  ends(check.tycho({script("shebang.lua", "#!/usr/bin/env tycho\nprint(1)\n")}), 0, "1\n")
end)

test("code of -e runs without a prompt", function()
  ends(check.tycho({"-e", "print(1 + 1)"}), 0, "2\n")
  ends(check.tycho({"-e", ""}), 0, "")
  ends(check.tycho({"-e", "x ="}), 1, "", "(command line):1: error: the text ends too early")
  ends(check.tycho({"-e"}), 1, "", "-e wants a piece of code")
  ends(check.tycho({"-e", "error('no')"}), 1, "", "(command line):1: no")
end)

test("a minus sign runs standard input as one script", function()
  ends(check.tycho({"-", "a"}, {stdin = "local x = 2\nprint(x * 21, ...)\nx"}), 1, "", "stdin")
  ends(check.tycho({"-", "a"}, {stdin = "local x = 2\nprint(x * 21, ...)\n"}), 0, "42\ta\n")
  ends(check.tycho({"-"}, {stdin = ""}), 0, "")
end)

test("input that is no terminal is read as entries, whose values are not printed", function()
  ends(check.tycho({}, {stdin = "x = 20\nfor i = 1, 2 do\n  x = x + 11\nend\nx\nprint(x)\n"}), 0, "42\n")
  ends(check.tycho({}, {stdin = "print(1)\nerror('no')\nprint(2)\n"}), 1, "1\n", "no")
  ends(check.tycho({}, {stdin = "x = = 1\nprint(2)\n"}), 1, "", "unexpected '='")
  ends(check.tycho({}, {stdin = "for i = 1, 2 do\n"}), 1, "", "ends inside an entry")
  ends(check.tycho({}, {stdin = ""}), 0, "")
  ends(check.tycho({}, {stdin = "print(1)"}), 0, "1\n")
end)

test("-i goes on with entries after a script, with its globals, and prints their values", function()
  local r = check.tycho({"-i", script("globals.lua", "kept = 41\n")}, {stdin = "kept + 1\n"})
  check.equal(r.status, 0)
  check.contains(r.out, "42")
  r = check.tycho({"-i", script("fails.lua", "kept = 41\nerror('no')\n")}, {stdin = "kept + 1\n"})
  check.contains(r.out, "42")
  check.contains(r.err, "fails.lua:2: no")
end)

test("--version names the libraries and the CPU features in use", function()
  local r = check.tycho {"--version"}
  ends(r, 0)
  for _, part in ipairs {"tycho %d+%.%d+", "Lua 5%.4", "oneDNN %d", "zlib %d", "cpu: kernels for "} do check.contains(r.out, part) end
  check.equal(r.err, "")
end)

test("--help shows every option", function()
  local r = check.tycho {"--help"}
  ends(r, 0)
  for _, part in ipairs {"usage: tycho", "-e CODE", "-i", "--version", "FILE.lua"} do check.contains(r.out, part) end
  ends(check.tycho {"-h"}, 0, r.out)
end)

test("an unknown option is refused with the usage", function()
  local r = check.tycho {"--colour"}
  ends(r, 1, "", 'no option "--colour"')
  check.contains(r.err, "usage: tycho")
end)

test("a file that is missing or a directory is one sentence and status 1", function()
  local r = check.tycho {"/nowhere/x.lua"}
  ends(r, 1, "", "cannot open /nowhere/x.lua")
  check.equal(select(2, r.err:gsub("\n", "")), 1)
  ends(check.tycho {"/"}, 1, "", "/")
end)

test("an error in a script shows text, hint and traceback on stderr, and ends with status 1", function()
  local r = check.tycho {script("shapes.lua", [[
print("before")
local function inner() return torch.ones(2, 3) + torch.ones(4) end
local function outer() local y = inner() return y end
outer()
print("after")
]])}
  ends(r, 1, "before\n")
  check.contains(r.err, "tycho: ")
  check.contains(r.err, "shapes.lua:2: error SHAPE-2: add: ")
  check.contains(r.err, "[2, 3]")
  check.contains(r.err, "[4]")
  check.contains(r.err, "shapes.lua:3 in outer")
  check.contains(r.err, "shapes.lua:4\n")
  r = check.tycho {"-e", "torch.ones(3):backward()"}
  check.contains(r.err, "try: ")
end)

test("an error of an entry from standard input names the line where the entry begins", function()
  local r = check.tycho({}, {stdin = "x = 1\n\nfunction f()\n  error('boo')\nend\nf()\nprint(2)\n"})
  ends(r, 1, "", "error: boo")
  check.contains(r.err, "line 6 of the input\n")
  r = check.tycho({}, {stdin = "x = 1\nfor i = 1, 2 do\n"})
  ends(r, 1, "", "line 2 of the input\n")
end)

test("error values of every type are shown", function()
  local function shown(code) return check.tycho({"-e", code}).err end
  check.contains(shown "error('text', 0)", "tycho: text\n")
  check.contains(shown "error {code = 7, message = 'no', 1, {2}}", '{1, {2}, ')
  check.contains(shown "error {code = 7}", "{code = 7}")
  check.contains(shown "error({})", "tycho: {}")
  check.contains(shown "error(nil)", "nil")
  check.contains(shown "error(print)", "function")
  check.contains(shown "error(torch.ones(2))", "f32 [2]")
  check.contains(shown "error(setmetatable({}, {__tostring = function() return 'mine' end}))", "tycho: mine")
  check.contains(shown "error(setmetatable({}, {__tostring = function() error('again') end}))", "__tostring fails")
  check.contains(shown "error(setmetatable({}, {__tostring = function() return {} end}))", "__tostring fails")
  local t = "local t = {} t.t = t for i = 1, 100 do t[i] = i end error(t)"
  check.contains(shown(t), "..}")
  for _, code in ipairs {"error({})", "error()", "error(setmetatable({}, {__tostring = error}))", t} do
    check.equal(check.tycho({"-e", code}).status, 1)
  end
end)

test("an error inside coroutines and metamethods ends the script, not the process", function()
  ends(check.tycho {"-e", "coroutine.wrap(function() return torch.ones(2) + torch.ones(3) end)()"}, 1, "", "add")
  ends(check.tycho {"-e", "return setmetatable({}, {__index = function() return torch.ones(2)[5] end}).x"}, 1, "", "index 5")
  ends(check.tycho {"-e", "local function f() return f() + 1 end f()"}, 1, "", "stack overflow")
  ends(check.tycho {"-e", "local t = setmetatable({}, {}) getmetatable(t).__index = t print(t.x)"}, 1, "", "")
  ends(check.tycho {"-e", "setmetatable({}, {__gc = function() error('late') end}) collectgarbage()"}, 0)
end)

test("os.exit ends a script with its status and what it printed", function()
  ends(check.tycho {"-e", "io.write('a') os.exit(3)"}, 3, "a")
  ends(check.tycho {"-e", "io.write('a') local x = torch.ones(10) os.exit(true, true)"}, 0, "a")
  ends(check.tycho {"-e", "print(1) os.exit(false)"}, 1, "1\n")
  ends(check.tycho {"-e", "local x = torch.ones(1000, 1000):matmul(torch.ones(1000, 1000)) os.exit(4)"}, 4, "")
  ends(check.tycho {"-e", "coroutine.wrap(function() torch.no_grad(function() os.exit(5, true) end) end)()"}, 5, "")
end)

test("output that cannot be written is an error", function()
  local r = check.tycho({"-e", "print(1)"}, {before = "exec >/dev/full"})
  ends(r, 1, "", "cannot write to standard output: No space left")
  r = check.tycho({"-"}, {before = "exec >&-", stdin = "print(1)\n"})
  ends(r, 1, "", "cannot write to standard output")
  check.no(r.err:find "ioctl", r.err)
end)

test("the engine writes nothing to standard output", function()
  local r = check.tycho {"-e", [[
    local net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 10))
    local opt = torch.optim.Adam(net:parameters(), {lr = 0.01})
    local loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 1, 8, 8)), torch.randint(1, 11, {8}))
    loss:backward()
    opt:step()
    local b = torch.ones(64, 64):to("bfloat16")
    b:matmul(b)
    pcall(torch.add, torch.ones(2), torch.ones(3))]]}
  ends(r, 0, "")
  check.equal(r.err, "")
end)

test("coroutines behave as Lua's manual says", function()
  local co = coroutine.create(function(a, b)
    local c, d = coroutine.yield(a + b, a - b)
    return c * d
  end)
  check.equal({coroutine.resume(co, 5, 3)}, {true, 8, 2})
  check.equal(coroutine.status(co), "suspended")
  check.equal({coroutine.resume(co, 6, 7)}, {true, 42})
  check.equal(coroutine.status(co), "dead")
  check.equal({coroutine.resume(co)}, {false, "cannot resume dead coroutine"})
  local closed = {}
  local open = coroutine.create(function()
    local x <close> = setmetatable({}, {__close = function(_, e) closed[#closed + 1] = tostring(e) end})
    coroutine.yield()
  end)
  coroutine.resume(open)
  check.equal(coroutine.close(open), true)
  check.equal(closed, {"nil"})
  local failing = coroutine.wrap(function()
    local x <close> = setmetatable({}, {__close = function(_, e) closed[#closed + 1] = tostring(e) end})
    error("inside", 0)
  end)
  local ok, e = pcall(failing)
  check.no(ok)
  check.contains(e, "inside")
  check.equal(closed[2], "inside")
  check.no((pcall(coroutine.resume, 5)))
  check.no((pcall(coroutine.wrap, 5)))
  check.no((pcall(coroutine.close, coroutine.running())))
  local self
  self = coroutine.create(function() return coroutine.resume(self) end)
  check.equal({coroutine.resume(self)}, {true, false, "cannot resume non-suspended coroutine"})
  local many = coroutine.wrap(function(...) return select("#", ...) end)
  check.equal(many(table.unpack({}, 1, 5000)), 5000)
  check.equal({pcall(coroutine.wrap(function() return pcall(coroutine.yield, 1) end))}, {true, 1})
end)

test("a coroutine that yields inside a scope leaves the resumer's mode unchanged", function()
  local inside = coroutine.wrap(function()
    torch.no_grad(function()
      coroutine.yield(torch.is_grad_enabled())
      coroutine.yield(torch.is_grad_enabled())
    end)
    return torch.is_grad_enabled()
  end)
  check.equal(inside(), false)
  check.equal(torch.is_grad_enabled(), true)
  check.equal(inside(), false)
  check.equal(torch.is_grad_enabled(), true)
  check.equal(inside(), true)
end)

test("closed standard streams are no trouble", function()
  local function closed(redirection, rest)
    local _, how, code = os.execute(("timeout 20 %s %s %s 2>/dev/null"):format(check.quote(check.program), rest, redirection))
    return how == "exit" and code or how
  end
  check.equal(closed("<&- >/dev/null", ""), 0)
  check.equal(closed("<&- >&-", ""), 0)
  check.equal(closed("</dev/null >&-", "-e 'print(1)'"), 1)
end)

-- What a device still has to say at the end: `torch.cuda._finish` is asked for it.
local pending = [[torch.cuda._finish = function() torch._raise("index_select: index 9 at position 2 is out of range (1 to 5)", 1, "index") end ]]

test("a device's error that is still to come is told before the program ends, however that ends", function()
  for code, status in pairs {["os.exit()"] = 1, ["os.exit(0)"] = 1, ["os.exit(true)"] = 1, ["os.exit(true, true)"] = 1, ["os.exit(false)"] = 1, ["os.exit(3)"] = 3,
    ["coroutine.wrap(function() os.exit(0) end)()"] = 1, ["pcall(os.exit, 0)"] = 1, ["local x = 1"] = 1} do
    local r = check.tycho {"-e", pending .. 'io.write "said" ' .. code}
    check.equal({code, r.status, r.out}, {code, status, "said"})
    check.contains(r.err, "index 9 at position 2 is out of range")
  end
  local r = check.tycho({"-i"}, {stdin = pending .. "\n"})
  check.equal(r.status, 1)
  check.contains(r.err, "index 9 at position 2 is out of range")
  for code, status in pairs {["os.exit()"] = 0, ["os.exit(0)"] = 0, ["os.exit(true)"] = 0, ["os.exit(false)"] = 1, ["os.exit(7, true)"] = 7} do
    r = check.tycho {"-e", "torch.cuda.simulate(1) local x = torch.ones(3, {device = 'cuda'}) " .. code}
    check.equal({code, r.status, r.err}, {code, status, ""})
  end
end)

test("a driver that is cut off in the middle kills nothing: its file is named, and there are no devices", function()
  local folder = check.temp "libraries"
  assert(os.execute("mkdir -p " .. check.quote(folder)))
  local path = folder .. "/libcuda.so.1"
  for _, bytes in ipairs {70, 1000, 100000} do
    assert(os.execute(("head -c %d %s > %s"):format(bytes, check.quote(check.program), check.quote(path))))
    local env = {env = {LD_LIBRARY_PATH = folder}}
    local r = check.tycho({"doctor"}, env)
    check.equal({bytes, r.status}, {bytes, 0})
    if r.out:find "\ndriver " then check.contains(r.out, "\ndriver +the NVIDIA driver cannot be loaded: .*libcuda.so.1") end
    if bytes > 70 and r.out:find "\ndriver " then check.contains(r.out, "libcuda.so.1 is cut off; install it anew") end
    check.contains(r.out, "\nsimulated +off")
    r = check.tycho({"-e", "print(torch.cuda.is_available(), (pcall(torch.ones, 1, {device = 'cuda'})))"}, env)
    check.equal({r.status, r.out}, {0, "false\tfalse\n"})
  end
end)

test("an entry whose results find no memory is that entry's error, and the session goes on", function()
  local r = check.tycho({"-i", "--clean"}, {stdin = 'x = torch.ones(2, 3, {device = "cuda:1"})\nx + 1\ny = x * 2\n1 + 1\n', env = {TYCHO_SIMULATE_CUDA = "2", TYCHO_SIMULATE_MEMORY = "64"}})
  check.equal(r.status, 1)
  check.contains(r.err, "out of memory on cuda:1")
  check.lacks(r.err, "function: 0x")
end)

test("tycho doctor says what is found on this machine, what is missing and what to install", function()
  local r = check.tycho({"doctor"}, {env = {TYCHO_CPU_LEVEL = "x86_64"}})
  check.equal(r.status, 0)
  check.contains(r.out, "processor +kernels for x86_64")
  check.contains(r.out, "oneDNN +oneDNN %d")
  check.contains(r.out, "Gloo +there")
  check.contains(r.out, "\nMPI ")
  check.contains(r.out, "\nGPU kernels ")
  check.contains(r.out, "\nsimulated +off\n +-> .*TYCHO_SIMULATE_CUDA=2")
  for name in r.out:gmatch "(%S+) is not on this machine" do check.contains(r.out, "pip install") end
  r = check.tycho {"doctor", "now"}
  check.equal({r.status, r.out}, {1, ""})
end)
