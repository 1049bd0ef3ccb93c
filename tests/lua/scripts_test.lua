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

-- Every script that trains: what its quick run must say, and the columns of its metrics.
local trainings = {
  {"train_chargpt.lua", says = "step 24  loss %d+%.%d+  test loss %d+%.%d+", columns = "step,train_loss,test_loss", more = "--steps=30",
    long = "--steps=100000"},
  {"train_tabular.lua", says = "accuracy %d+%.%d+ %% over all 1797 rows", columns = "round,fold,epoch,train_loss,test_accuracy",
    long = "--epochs=100000"},
  {"train_rnn.lua", says = "test accuracy %d+%.%d+ %% on 640 images", columns = "epoch,train_loss,test_accuracy", more = "--epochs=3",
    long = "--epochs=100000"},
  {"train_vae.lua", says = "painted from random numbers", columns = "epoch,train_loss,test_loss,test_painting,test_code",
    more = "--epochs=3", long = "--epochs=100000"},
}

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end
local function refused(script, text, ...)
  local out = run(script, ...)
  check.contains(out.err, text)
  check.equal(out.status, 1)
  check.lacks(out.err, "traceback")
end

for _, row in ipairs(trainings) do
  local script = row[1]
  local net, csv = check.temp(script .. ".pt"), check.temp(script .. ".csv")

  test(script .. " trains, saves, writes its metrics and goes on", function()
    local first = run(script, "--quick", "--threads", "1", "--save", net, "--metrics", csv)
    check.equal(first.err, "")
    check.equal(first.status, 0)
    check.contains(first.out, row.says)
    check.contains(first.out, "saved to " .. net)
    check.lacks(first.out, "\r")
    local lines = select(2, read(csv):gsub("\n", "\n"))
    check.contains(read(csv), row.columns .. "\n")
    check.yes(lines >= 3, "too few rows")
    local again = run(script, "--quick", "--threads", "1", "--load", net, "--save", net, "--metrics", csv, row.more)
    check.equal(again.err, "")
    check.equal(again.status, 0)
    local now = select(2, read(csv):gsub("\n", "\n"))
    if row.more then check.yes(now > lines, "the metrics did not go on") else check.equal(now, lines) end
  end)

  test(script .. " saves when Ctrl-C stops it", function()
    local path = check.temp(script .. ".stopped.pt")
    local out = check.tycho({"-e", ([[
      arg = {[0] = %q, "--save", %q, "--threads", "1", %q}
      local until_interrupt = torch.until_interrupt
      function torch.until_interrupt(f)
        return until_interrupt(function()
          os.execute("(sleep 0.3; kill -INT $PPID) &")
          f()
        end)
      end
      dofile(arg[0])
    ]]):format(scripts .. script, path, row.long)})
    check.equal(out.err, "")
    check.equal(out.status, 130)
    check.contains(out.out, "stopped; saved to " .. path .. "; go on with --load")
    check.equal(torch.load(path).script .. ".lua", script)
  end)

  test(script .. " runs on a simulated device", function()
    local out = check.tycho({scripts .. script, "--quick", "--threads", "1", "--device", "cuda:1", "--save", check.temp("device.pt")},
      {env = {TYCHO_SIMULATE_CUDA = 2}})
    check.equal(out.err, "")
    check.equal(out.status, 0)
  end)

  test(script .. " answers --help, and wrong options and files in a sentence", function()
    local help = run(script, "--help")
    check.equal(help.status, 0)
    for _, name in ipairs {"seed", "threads", "device", "save", "load", "metrics", "quick", "lr"} do check.contains(help.out, "--" .. name) end
    refused(script, "unknown option --quux", "--quux", "1")
    refused(script, "stray is no option", "stray")
    refused(script, "--seed must be a whole number", "--seed", "x")
    refused(script, "--lr must be a number", "--lr", "-1")
    refused(script, "cannot write /nowhere/net.pt", "--save", "/nowhere/net.pt")
    refused(script, "/nowhere/net.pt", "--load", "/nowhere/net.pt")
    local other = check.temp("other.pt")
    torch.save({1, 2}, other)
    refused(script, "holds no checkpoint of this script", "--load", other)
  end)
end

test("a training that is stopped and goes on ends as one that was not stopped", function()
  local whole, half, rest = check.temp("whole.csv"), check.temp("half.pt"), check.temp("rest.csv")
  local options = {"--quick", "--threads", "1", "--every", "6"}
  local function chargpt(...)
    local out = run("train_chargpt.lua", table.unpack(table.move({...}, 1, select("#", ...), #options + 1, table.move(options, 1, #options, 1, {}))))
    check.equal(out.err, "")
  end
  chargpt("--save", check.temp("all.pt"), "--metrics", whole)
  -- Ctrl-C in the middle of step 13.
  local out = check.tycho {"-e", ([[
    arg = {[0] = %q, "--quick", "--threads", "1", "--every", "6", "--save", %q}
    local clip, steps = torch.nn.utils.clip_grad_norm_, 0
    torch.nn.utils.clip_grad_norm_ = function(...)
      steps = steps + 1
      if steps == 13 then
        os.execute("(sleep 0.2; kill -INT $PPID) &")
        while true do torch.ones(1) end
      end
      return clip(...)
    end
    dofile(arg[0])
  ]]):format(scripts .. "train_chargpt.lua", half)}
  check.contains(out.out, "stopped; saved to")
  check.equal(torch.load(half).step, 12)
  chargpt("--load", half, "--save", half, "--metrics", rest)
  check.equal(read(rest), read(whole))
end)

-- Stopped in its second epoch and continued, an epoch's script also ends where it would have.
for _, script in ipairs {"train_rnn.lua", "train_tabular.lua"} do
  test(script .. " goes back to the end of the last whole epoch", function()
    local whole, half, rest = check.temp(script .. "1.csv"), check.temp("half.pt"), check.temp(script .. "2.csv")
    local first = run(script, "--quick", "--threads", "1", "--save", check.temp("all.pt"), "--metrics", whole)
    check.equal(first.err, "")
    local out = check.tycho {"-e", ([[
      arg = {[0] = %q, "--quick", "--threads", "1", "--save", %q}
      local cross_entropy, last, steps = torch.nn.functional.cross_entropy, %d, 0
      torch.nn.functional.cross_entropy = function(...)
        steps = steps + 1
        if steps == last then
          os.execute("(sleep 0.2; kill -INT $PPID) &")
          while true do torch.ones(1) end
        end
        return cross_entropy(...)
      end
      dofile(arg[0])
    ]]):format(scripts .. script, half, script == "train_rnn.lua" and 15 or 3 * 37 + 50)}
    check.contains(out.out, "stopped; saved to")
    check.contains(out.out, script == "train_rnn.lua" and "trained to epoch 1" or "fold 1/3")
    check.equal(run(script, "--quick", "--threads", "1", "--load", half, "--save", half, "--metrics", rest).err, "")
    check.equal(read(rest), read(whole))
  end)
end

test("tables that are no tables of numbers and classes end train_tabular with a sentence", function()
  local path = check.temp("table.csv")
  local function bad(text, content)
    write(path, content)
    refused("train_tabular.lua", text, "--data", path)
  end
  refused("train_tabular.lua", "/nowhere/table.csv", "--data", "/nowhere/table.csv")
  bad("is too few for --folds 5", "a,b,class\n1,2,0\n")
  bad('table.csv:2: "x" is no number', "1,2,0\n1,x,0\n")
  bad("table.csv:3 has 2 columns, the lines before it 3", "1,2,0\n1,2,0\n1,0\n")
  bad("the last column must be a class from 0, got 0.5", "1,2,0.5\n")
end)

test("a letter that was not learnt, or a text that is too short, ends train_chargpt with a sentence", function()
  refused("train_chargpt.lua", 'the letter "#" is not in the text', "--quick", "--steps", "1", "--prompt", "#", "--save", check.temp("letter.pt"))
  local path = check.temp("short.txt")
  write(path, "too short")
  refused("train_chargpt.lua", "has 9 letters; that is too short for --context 64", "--data", path)
end)
