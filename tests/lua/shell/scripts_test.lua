-- The training scripts as a person runs them, in their quick mode: options, files, Ctrl-C at chosen moments, going on;
-- and torch.until_interrupt and torch.uninterrupted, with which they save whole steps.
local scripts = (arg[0]:match("^(.*)/") or ".") .. "/../../scripts/"
local function run(script, ...) return check.tycho {scripts .. script, ...} end

local function write(path, content)
  local file = assert(io.open(path, "wb"))
  file:write(content)
  file:close()
end

test("fit_curve finds the curve and draws it", function()
  local out = run("fit_curve.lua", "--quick", "--save", check.temp("curve.pt"))
  check.equal(out.err, "")
  check.equal(out.status, 0)
  check.contains(out.out, "step  200  loss 0.0")
  check.contains(out.out, "fitted")
  check.contains(out.out, "--quick is a smoke test")
end)

test("hogwild reaches the loss of one process", function()
  local out = run("hogwild.lua", "--quick")
  check.equal(out.err, "")
  check.equal(out.status, 0)
  local alone, together = tonumber(out.out:match "one process +loss ([%d.]+)"), tonumber(out.out:match "2 processes +loss ([%d.]+)")
  check.yes(together < 1.5 * alone + 0.05, out.out)
  check.contains(run("hogwild.lua", "--help").out, "PROCESSES")
  out = run("hogwild.lua", "--device", "cuda")
  check.equal(out.status, 1)
  check.contains(out.err, "hogwild: --device is no number of processes or rounds")
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

-- In a script: a Ctrl-C that has arrived when this returns.
local press = 'io.popen("kill -INT $PPID"):close()'

test("Ctrl-C waits for the end of what uninterrupted runs; a second one does not", function()
  local path = check.temp("whole.lua")
  write(path, ([[
    local n = 0
    local function press() %s end
    print(torch.uninterrupted(function(a) return a, 2 end, 1))
    print((torch.until_interrupt(function()
      torch.uninterrupted(function()
        torch.uninterrupted(press)
        n = n + 1
      end)
      n = n + 10
    end)), n)
    print((torch.until_interrupt(function()
      torch.uninterrupted(function() press() n = n + 1 press() n = n + 10 end)
    end)), n)
    print((torch.until_interrupt(function()
      torch.uninterrupted(function() press() error("lost") end)
    end)), n)
    for i = 1, 100 do assert(torch.ones(2):sum():item() == 2) end
    print(select(2, pcall(torch.uninterrupted, function() error("kept", 0) end)))
  ]]):format(press))
  local out = check.tycho {path}
  check.equal(out.err, "")
  check.equal(out.out, "1\t2\nfalse\t1\nfalse\t2\nfalse\t2\nkept\n")
  check.raises("argument", "uninterrupted: argument 1 must be a function", torch.uninterrupted)
end)

-- Every script that trains: what its quick run says, the columns of its metrics, the function that each step calls once,
-- a call in the middle of the training and the place it is at, and how to train for longer.
local trainings = {
  {"fit_curve.lua", says = "off the true curve by %d+%.%d+ on average", columns = "step,train_loss", calls = "mse_loss", at = 31, draws = {"mean squared error<"},
    place = "step 31", more = "--steps=220"},
  {"train_digits.lua", says = "test accuracy %d+%.%d+ %% on 640 images", columns = "epoch,train_loss,test_accuracy",
    calls = "cross_entropy", at = 14, place = "batch 4 of epoch 2", more = "--epochs=3", quick = {"--epochs=2", "--amp=fp16"}},
  {"train_chargpt.lua", says = "step 24  loss %d+%.%d+  test loss %d+%.%d+", columns = "step,train_loss,test_loss",
    calls = "cross_entropy", at = 14, place = "step 13", more = "--steps=30"},
  {"train_tabular.lua", says = "accuracy %d+%.%d+ %% over all 1797 rows", columns = "round,fold,epoch,train_loss,test_accuracy",
    calls = "cross_entropy", at = 3 * 37 + 50, place = "batch 13 of round 5", draws = {"fold 1<", "fold 3<", "training loss<", "accuracy"}},
  {"train_rnn.lua", says = "test accuracy %d+%.%d+ %% on 640 images", columns = "epoch,train_loss,test_accuracy",
    calls = "cross_entropy", at = 15, place = "batch 5 of epoch 2", more = "--epochs=3"},
  {"train_vae.lua", says = "painted from random numbers", columns = "epoch,train_loss,test_loss,test_painting,test_code",
    calls = "binary_cross_entropy_with_logits", at = 15, place = "batch 4 of epoch 2", more = "--epochs=3"},
  {"train_resnet.lua", says = "test loss %d+%.%d+, top%-1 %d+%.%d+ %%", columns = "epoch,lr,train_loss,test_loss,top1,top5",
    calls = "cross_entropy", at = 5, place = "batch 4 of epoch 1",  -- in the evaluation
    quick = {"--images=32", "--epochs=2", "--ema=0.9", "--amp=fp16", "--schedule=onecycle", "--workers=2"}},
  {"mixed_precision.lua", says = "float16 +%d+%.%d+ +%d+%.%d+ +%d+%.%d+ +%d+%.%d+ %% +%d+\n", timed = true,
    columns = "round,precision,epoch,train_loss,test_loss,test_accuracy", calls = "cross_entropy", at = 18,
    place = "batch 4 of round 2", draws = {"bfloat16<", "training loss<", "test loss<"}, quick = {"--samples=256", "--epochs=1", "--width=4"}},
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
local function quick(row, ...)
  local options = {"--quick", "--threads", "1"}
  table.move(row.quick or {}, 1, #(row.quick or {}), #options + 1, options)
  return table.move({...}, 1, select("#", ...), #options + 1, options)
end

-- Where two checkpoints differ. Their tensors have millions of numbers.
local function difference(a, b, at)
  if type(a) ~= type(b) then return at end
  if type(a) ~= "table" then
    local same = torch.is_tensor(a) and torch.equal(a, b) or not torch.is_tensor(a) and a == b
    return not same and at or nil
  end
  for k, v in pairs(a) do
    local gap = difference(v, b[k], at .. "." .. tostring(k))
    if gap then return gap end
  end
  for k in pairs(b) do
    if a[k] == nil then return at .. "." .. tostring(k) end
  end
end

-- Runs a script; in the call number `at` of `name` (a field of torch or torch.nn.functional) Ctrl-C comes so many times.
local function run_stopped(script, name, at, times, options)
  local words = {}
  for i, option in ipairs(options) do words[i] = ("%q"):format(option) end
  return check.tycho {"-e", ([[
    arg = {[0] = %q, %s}
    local home, calls = rawget(torch.nn.functional, "%s") and torch.nn.functional or torch, 0
    local f = home.%s
    home.%s = function(...)
      calls = calls + 1
      for i = 1, calls == %d and %d or 0 do %s end
      return f(...)
    end
    dofile(arg[0])
  ]]):format(scripts .. script, table.concat(words, ", "), name, name, name, at, times, press)}
end

-- Sanitizers see in a second training of the same steps what they saw in the first.
local seen = os.getenv "TYCHO_SANITIZED" and "each script trains once under sanitizers"

for _, row in ipairs(trainings) do
  local script = row[1]
  local net, csv = check.temp(script .. ".pt"), check.temp(script .. ".csv")
  local ran

  test(script .. " trains, saves, writes its metrics and draws them", function()
    local picture = check.temp(script .. ".svg")
    local first = run(script, table.unpack(quick(row, "--save", net, "--metrics", csv, "--plot", picture)))
    check.equal(first.err, "")
    check.equal(first.status, 0)
    check.contains(first.out, row.says)
    check.contains(first.out, "saved to " .. net)
    check.lacks(first.out, "\r")
    local columns, count = select(2, row.columns:gsub(",", ",")), 0
    for line in (read(csv) .. "\n"):gmatch("([^\n]+)\n") do
      count = count + 1
      if count == 1 then check.equal(line, row.columns) else check.contains(line, "^" .. ("[%d.e+-]+,"):rep(columns) .. "[%d.e+-]+$") end
    end
    check.yes(count >= 3, "too few rows")
    check.contains(read(picture), "</svg>")
    for _, part in ipairs(row.draws or {"loss<"}) do check.contains(read(picture), ">[^<]*" .. part) end
    ran = true
  end)

  test(script .. " stopped in the middle and continued ends as one that was not stopped", function()
    if seen and row ~= trainings[1] then check.skip(seen) end
    if not ran then check.skip("needs the test before") end
    local half, rest = check.temp("half.pt"), check.temp("rest.csv")
    local out = run_stopped(script, row.calls, row.at, 1, quick(row, "--save", half))
    check.equal(out.err, "")
    check.equal(out.status, 130)
    check.contains(out.out, "trained to " .. row.place)
    check.contains(out.out, ("stopped; saved to %s; go on with --load %s"):format(half, half))
    local again = run(script, "--threads", "1", "--load", half, "--metrics", rest)
    check.equal(again.err, "")
    check.contains(again.out, "saved to " .. half)
    check.equal(read(rest), read(csv))
    local a, b = torch.load(net), torch.load(half)
    if row.timed then a.results, b.results = nil, nil end
    check.equal(difference(a, b, ""), nil)
  end)

  test(script .. " goes on from its end, for longer where that makes sense", function()
    if seen and row ~= trainings[1] then check.skip(seen) end
    if not ran then check.skip("needs the test before") end
    local again = run(script, "--threads", "1", "--load", net, "--save", check.temp("more.pt"), "--metrics", csv .. "2", row.more)
    check.equal(again.err, "")
    check.equal(again.status, 0)
    if not row.more then return check.equal(read(csv .. "2"), read(csv)) end
    check.equal(read(csv .. "2"):sub(1, #read(csv)), read(csv))
    check.yes(#read(csv .. "2") > #read(csv), "the metrics did not go on")
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
    for _, name in ipairs {"seed", "threads", "device", "save", "load", "metrics", "plot", "quick", "lr"} do check.contains(help.out, "--" .. name) end
    refused(script, "unknown option --sede; did you mean --seed?", "--sede", "1")
    refused(script, "stray is no option", "stray")
    refused(script, "--seed must be a whole number", "--seed", "x")
    refused(script, "--lr must be a number", "--lr", "-1")
    refused(script, "cannot write /nowhere/net.pt: No such", "--save", "/nowhere/net.pt")
    refused(script, "--plot must end in .svg or .png", "--plot", check.temp("curves.gif"))
    refused(script, "/nowhere/net.pt", "--load", "/nowhere/net.pt")
    local other = check.temp("other.pt")
    torch.save({1, 2}, other)
    refused(script, "holds no checkpoint of this script", "--load", other)
  end)
end

test("train_resnet learns folders of images, with parts of their own or a fifth kept to test", function()
  local images = torch.utils.data
  local function draw(folder, colour, count)
    os.execute("mkdir -p " .. check.quote(folder))
    for i = 1, count do
      local picture = torch.randint(0, 60, {3, 20 + i, 30}, {dtype = torch.uint8})
      picture[colour]:add_(180)
      images.write_image(picture, ("%s/%d.%s"):format(folder, i, i % 2 == 0 and "png" or "jpg"))
    end
  end
  local root = check.temp("colours")
  for i, name in ipairs {"blue", "green", "red"} do
    draw(root .. "/one/" .. name, 4 - i, 10)
    draw(root .. "/two/train/" .. name, 4 - i, 8)
    draw(root .. "/two/val/" .. name, 4 - i, 3)
  end
  local function learn(folder, ...)
    local out = run("train_resnet.lua", "--quick", "--size", "16", "--threads", "1", "--data", root .. "/" .. folder, "--save", check.temp("folder.pt"), ...)
    check.equal(out.err, "")
    return out.out
  end
  check.contains(learn("one"), "24 images to learn from, 6 to test, 3 classes")
  check.contains(learn("two", "--model", "resnet34", "--batch-size", "12"), "24 images to learn from, 9 to test, 3 classes")
  refused("train_resnet.lua", "there is no folder /nowhere", "--data", "/nowhere")
end)

test("bfloat16 and float16 reach the accuracy of float32, for a GPT too", function()
  if seen then check.skip(seen) end
  local out = run("mixed_precision.lua", "--quick", "--threads", "1", "--save", check.temp("mixed.pt"))
  check.equal(out.err, "")
  local accuracy = {}
  for name in ("float32 bfloat16 float16"):gmatch("%w+") do
    accuracy[name] = tonumber(out.out:match("\n" .. name .. "[ %d.]- ([%d.]+) %% +%d+\n"))
    check.close(accuracy[name], accuracy.float32, 0.04)
  end
  check.yes(accuracy.float32 > 80, out.out)
  for half in out.out:match("rounded: (.*)"):gmatch("([%d.]+) %%") do check.close(tonumber(half), accuracy.float32, 0.02) end
  out = run("mixed_precision.lua", "--quick", "--task", "gpt", "--samples", "96", "--epochs", "1", "--width", "4", "--threads", "1",
    "--save", check.temp("mixed.pt"))
  check.equal(out.err, "")
  check.contains(out.out, "with net:half()")
end)

test("a second Ctrl-C stops in the middle of a step, and the last checkpoint stays", function()
  local path = check.temp("twice.pt")
  local out = run_stopped("train_rnn.lua", "cross_entropy", 3, 2, {"--quick", "--threads", "1", "--save", path})
  check.equal(out.status, 130)
  check.contains(out.out, "stopped at once, in the middle of a step; nothing is saved")
  check.no(io.open(path))
  out = run_stopped("train_rnn.lua", "cross_entropy", 13, 2, {"--quick", "--threads", "1", "--save", path})
  check.equal(out.status, 130)
  check.contains(out.out, "saved up to epoch 1; go on with --load " .. path)
  check.equal(torch.load(path).progress.epoch, 1)
end)

test("Ctrl-C while a checkpoint is written leaves one that is whole", function()
  for times = 1, 2 do
    local path = check.temp("saving.pt")
    local out = run_stopped("train_rnn.lua", "save", 1, times, {"--quick", "--threads", "1", "--save", path})
    check.equal(out.err, "")
    check.equal(out.status, 130)
    check.contains(out.out, "saved to " .. path)
    check.equal(torch.load(path).progress, {epoch = 1, step = 10, batch = 0, sum = 0, count = 0})
  end
end)

test("a disk that is full stops no training, and is told at its end", function()
  local path = check.temp("full.pt")
  local out = check.tycho({scripts .. "train_rnn.lua", "--quick", "--threads", "1", "--save", path}, {before = "ulimit -f 9"})
  check.contains(out.out, "the checkpoint was not written: cannot write " .. path)
  check.contains(out.out, "epoch 2/2")
  check.contains(out.err, "train_rnn: cannot write " .. path)
  check.equal(out.status, 1)
  check.no(io.open(path))
end)

test("metrics become lines of JSON by the file's name, and a picture a PNG", function()
  local path, picture = check.temp("curves.jsonl"), check.temp("curves.png")
  local out = run("train_rnn.lua", "--quick", "--threads", "1", "--save", check.temp("json.pt"), "--metrics", path, "--plot", picture)
  check.equal(out.err, "")
  local number = "%-?%d+%.?[%de+-]*"
  check.contains(read(path), ('^{"epoch": 1, "train_loss": %s, "test_accuracy": %s}\n{"epoch": 2, [^\n]+}\n$'):format(number, number))
  check.equal(read(picture):sub(2, 4), "PNG")
end)

test("a checkpoint keeps its options; those that its weights depend on cannot be others", function()
  local path = check.temp("options.pt")
  check.equal(run("train_rnn.lua", "--quick", "--threads", "1", "--hidden", "16", "--save", path).err, "")
  check.equal(run("train_rnn.lua", "--threads", "1", "--load", path).err, "")
  refused("train_rnn.lua", "--hidden is 8, but " .. path .. " was made with 16; leave the option out", "--load", path, "--hidden", "8")
  refused("train_vae.lua", "holds no checkpoint of this script", "--load", path)
end)

test("a GPU that is not there is named before anything else is done", function()
  refused("train_rnn.lua", "there is no CUDA device", "--device", "cuda")
  refused("train_rnn.lua", '"cpu:1" is no device', "--device", "cpu:1")
end)

test("train_tabular learns a column of words, and tables without sense end it with a sentence", function()
  local path = check.temp("table.csv")
  local function bad(text, content, ...)
    write(path, content)
    refused("train_tabular.lua", text, "--data", path, ...)
  end
  refused("train_tabular.lua", "/nowhere/table.csv", "--data", "/nowhere/table.csv")
  bad("has 1 rows; that is too few for --folds 5", "a,b,class\n1,2,0\n")
  bad('column "column2" holds text', "1,2,0\n1,x,0\n")
  bad("table.csv, line 3 has 2 columns, the first line 3", "1,2,0\n1,2,0\n1,0\n")
  bad("table.csv lacks a number in row 2", "1,2,0\n,2,0\n")
  bad("has no column kind", "a,b,class\n1,2,0\n", "--target", "kind")
  local lines = {"kind,weight,name"}
  for i = 1, 60 do lines[i + 1] = ("%s,%d,%d"):format(i % 2 == 0 and "cat" or "dog", i % 2 * 10 + i % 3, i % 7) end
  write(path, table.concat(lines, "\n"))
  local out = run("train_tabular.lua", "--quick", "--epochs", "10", "--threads", "1", "--data", path, "--target", "kind", "--save", check.temp("words.pt"))
  check.equal(out.err, "")
  check.contains(out.out, "60 rows of 2 numbers, 2 classes")
  check.yes(tonumber(out.out:match("accuracy ([%d.]+) %% over all 60 rows")) > 85, out.out)
end)

test("a letter that was not learnt, or a text that is too short, ends train_chargpt with a sentence", function()
  refused("train_chargpt.lua", 'the character "#" at byte 1 is none of', "--quick", "--steps", "1", "--prompt", "#", "--save", check.temp("letter.pt"))
  local path = check.temp("short.txt")
  write(path, "too short")
  refused("train_chargpt.lua", "has 9 tokens; that is too short for --context 64", "--data", path)
end)
