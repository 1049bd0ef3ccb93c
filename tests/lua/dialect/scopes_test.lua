-- Scopes that nobody closes: torch.no_grad() alone on a line ends with it, and says so; every form that closes does what it did.
local w = torch.ones(2, {requires_grad = true})
local function records() return (w * 2).requires_grad end

local function script(text)
  local path = check.temp "scope.lua"
  local file = assert(io.open(path, "w"))
  file:write("local w = torch.ones(2, {requires_grad = true})\nlocal function records() return (w * 2).requires_grad end\n", text)
  file:close()
  return check.tycho {path}, path
end

test("a scope that stands alone ends with its statement, with a note that shows both forms", function()
  for call, inside in pairs {
    ["torch.no_grad()"] = "torch.no_grad(function() ... end)",
    ["torch.inference_mode()"] = "torch.inference_mode(function() ... end)",
    ["torch.set_grad_enabled(false)"] = "torch.set_grad_enabled(false, function() ... end)",
    ['torch.autocast("cpu", {dtype = "bfloat16"})'] = 'torch.autocast("cpu", {dtype = "bfloat16"}, function() ... end)',
  } do
    local r, path = script(call .. "\nprint(records(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled())\n")
    check.equal(r.out, "true\ttrue\tfalse\tfalse\n", call)
    check.equal(r.err, ("note SCOPE: %s alone ends with its statement (%s:3)\n   for some lines: %s\n   for a block: do local _ <close> = %s ... end\n"):format(call, path, inside, call))
  end
end)

test("what the note shows works", function()
  check.equal(script("torch.no_grad(function() print(records()) end)\nprint(records())\n").out, "false\ntrue\n")
  check.equal(script("do local _ <close> = torch.no_grad() print(records()) end\nprint(records())\n"), {status = 0, out = "false\ntrue\n", err = ""})
end)

test("a variable without <close> does not hold a scope", function()
  local r = script "local guard = torch.no_grad()\nprint(records())\n"
  check.equal(r.out, "true\n")
  check.contains(r.err, "guard would never close torch.no_grad()")
  check.contains(r.err, "local guard <close> = torch.no_grad()")
  check.equal(script("x = torch.no_grad()\nprint(records())\n").out, "true\n")
end)

test("scopes that somebody closes hold, wherever they come from", function()
  local function quiet() return torch.no_grad() end
  do
    local _ <close> = quiet()
    check.no(records())
    collectgarbage()
    check.no(records())
  end
  check.yes(records())
  do
    local one <close>, two = torch.no_grad(), 2
    check.no(records())
    do
      local _ <close> = torch.enable_grad()
      check.yes(records())
    end
    check.no(records())
  end
  local once = true
  for _ in function() if once then once = false return 1 end end, nil, nil, torch.no_grad() do check.no(records()) end
  check.yes(records())
  pcall(function()
    local _ <close> = torch.inference_mode()
    error "out"
  end)
  check.yes(records())
end)

test("a coroutine's scope is its own, also where it ends before anybody looks", function()
  local seen = {}
  local co = coroutine.wrap(function()
    local _ <close> = torch.no_grad()
    coroutine.yield()
    seen[1] = records()
    coroutine.yield()
    seen[2] = records()
  end)
  co()
  check.yes(records())
  co()
  check.yes(records())
  co()
  check.equal(seen, {false, false})
  local r = script "local co = coroutine.wrap(function() torch.no_grad() end)\nco()\nco = nil\ncollectgarbage()\nprint(records())\n"
  check.equal(r.out, "true\n")
  check.contains(r.err, "note SCOPE")
  check.equal(script("local co = coroutine.wrap(function() torch.no_grad() coroutine.yield() print(records()) end)\nco()\nprint(records())\nco()\n").out, "true\ntrue\n")
end)

test("at the prompt a scope ends with its entry, and backward works afterwards", function()
  local r = check.tycho({"-i", "--clean"}, {stdin = "w = torch.ones(2, {requires_grad = true})\ntorch.no_grad();\n(w * 2):sum():backward()\nw.grad.shape\nx = torch.no_grad()\n(w * 2).requires_grad\n"})
  check.contains(r.err, "note SCOPE: torch.no_grad() alone ends with its statement\n")
  check.contains(r.out, "[2]\n")
  check.contains(r.out, "true\n")
  check.equal(r.status, 0)
end)

test("the note can be an error, and the scope has ended all the same", function()
  local r = script 'torch.notes("SCOPE", "error")\ntorch.no_grad()\nprint(pcall(records))\nprint(records())\n'
  check.contains(r.out, "false\t")
  check.contains(r.out, "alone ends with its statement")
  check.contains(r.out, "\ntrue\n")
end)

test("detect_anomaly alone ends with its statement, as no_grad does; set_detect_anomaly stays, as in PyTorch", function()
  local lines = "local x = torch.zeros(1, {requires_grad = true})\nlocal function back() return (pcall(function() (x * 0 / x):sum():backward() end)) end\n"
  local r = script("torch.notes('NAN', 'off')\n" .. lines .. "torch.autograd.detect_anomaly()\nprint(back())\ntorch.autograd.detect_anomaly(function() print(back()) end)\ndo local _ <close> = torch.autograd.detect_anomaly() print(back()) end\nprint(back())\ntorch.autograd.set_detect_anomaly(true)\nprint(back())\n")
  check.equal(r.out, "true\nfalse\nfalse\ntrue\nfalse\n")
  check.contains(r.err, "note SCOPE: torch.autograd.detect_anomaly() alone ends with its statement")
end)

test("the scopes stand in torch.autograd too, which has no other names", function()
  for _, name in ipairs {"no_grad", "enable_grad", "inference_mode", "set_grad_enabled"} do check.equal(torch.autograd[name], torch[name]) end
  check.equal(torch.autograd.no_grad(records), false)
  local r = script "torch.autograd.no_grad()\nprint(records())\n"
  check.equal(r.out, "true\n")
  check.contains(r.err, "note SCOPE: torch.autograd.no_grad() alone ends with its statement")
  check.raises("argument", "torch.autograd", function() return torch.autograd.no_gard end)
  check.kind_of(torch.autograd.functional.jacobian, "function")
end)

test("a scope tells whether it is open", function()
  do
    local scope <close> = torch.no_grad()
    check.contains(tostring(scope), "ends where its <close> variable does")
  end
  check.contains(check.tycho({"-i", "--clean"}, {stdin = "torch.no_grad()\n"}).out, "a scope, which has ended")
end)

test("a scope of a device or a stream, and of random numbers, that stands alone ends with its statement too", function()
  local path = check.temp "devices.lua"
  local file = assert(io.open(path, "w"))
  file:write [[
torch.cuda.simulate(2)
local cuda, s = torch.cuda, torch.cuda.Stream()
local function now() return cuda.current_device(), cuda.current_stream(0) == s end
cuda.device(1)
print(now())
torch.cuda.stream(s)
print(now())
local kept = torch.cuda.device_of(torch.ones(1, {device = "cuda:1"}))
print(now())
do local _ <close> = torch.cuda.device(1) print(now()) end
print(cuda.stream(s, now))
print(pcall(cuda.device, 1, "f"))
print(now())
local state = torch.get_rng_state()
torch.random.fork_rng()
torch.rand(3)
print(torch.equal(state, torch.get_rng_state()))
]]
  file:close()
  local r = check.tycho {path}
  check.equal(r.status, 0)
  check.equal(r.out, "0\tfalse\n0\tfalse\n0\tfalse\n1\tfalse\n0\ttrue\n" ..
    "false\t" .. path .. ":12: torch.cuda.device: its last argument is a function that runs inside, or nothing: do local _ <close> = torch.cuda.device(..) ... end\n" ..
    "0\tfalse\nfalse\n")
  check.contains(r.err, ("note SCOPE: cuda.device(1) alone ends with its statement (%s:4)\n   for some lines: cuda.device(1, function() ... end)\n   for a block: do local _ <close> = cuda.device(1) ... end\n"):format(path))
  check.contains(r.err, "note SCOPE: torch.cuda.stream(s) alone")
  check.contains(r.err, "kept would never close torch.cuda.device_of(torch.ones")
  check.contains(r.err, "note SCOPE: torch.random.fork_rng() alone")
  check.equal(select(2, r.err:gsub("note SCOPE", "")), 4)
end)
