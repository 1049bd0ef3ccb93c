-- The scripts beside train_digits as a person runs them, in their quick mode; and torch.until_interrupt, with which
-- they save when Ctrl-C stops them.
local scripts = (arg[0]:match("^(.*)/") or ".") .. "/../../scripts/"
local function run(script, ...) return check.tycho {scripts .. script, ...} end

local function write(path, content)
  local file = assert(io.open(path, "wb"))
  file:write(content)
  file:close()
end

test("fit_curve finds the curve and draws it", function()
  local out = run("fit_curve.lua", "--quick")
  check.equal(out.err, "")
  check.equal(out.status, 0)
  check.contains(out.out, "step  200  loss 0.0")
  check.contains(out.out, "fitted")
  check.contains(run("fit_curve.lua", "--help").out, "STEPS")
end)

test("Ctrl-C stops what until_interrupt runs, and the code after it goes on", function()
  local path = check.temp("stopped.lua")
  write(path, [[
    os.execute("(sleep 0.3; kill -INT $PPID) &")
    local done, where = torch.until_interrupt(function()
      while true do torch.no_grad(function() pcall(torch.ones, 50) end) end
    end)
    for i = 1, 100 do assert(torch.ones(2):sum():item() == 2) end
    print(done, where, torch.is_grad_enabled())
  ]])
  local out = check.tycho {path}
  check.equal(out.err, "")
  check.contains(out.out, "false\t")
  check.contains(out.out, "stopped.lua:3\ttrue")
end)

test("until_interrupt gives results and passes errors on", function()
  check.equal({torch.until_interrupt(function(a, b) return b, a end, 1, 2)}, {true, 2, 1})
  check.raises("shape", nil, torch.until_interrupt, function() return torch.ones(2, 3):matmul(torch.ones(2, 3)) end)
  check.raises("argument", "until_interrupt: argument 1 must be a function", torch.until_interrupt)
end)
