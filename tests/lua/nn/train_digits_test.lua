-- The training script as a person runs it: its options, its files, what it says when they are wrong, and
-- (not in quick or sanitized runs) that it reaches 98 % on real digits.
local script = (arg[0]:match("^(.*)/") or ".") .. "/../../scripts/train_digits.lua"
local data = check.temp("digits")
os.execute("mkdir -p " .. check.quote(data))

local function write(name, content)
  local file = assert(io.open(data .. "/" .. name, "wb"))
  file:write(content)
  file:close()
end

-- Images that are easy to tell apart, also when shifted: a bright bar, lying for 0..4 and standing for
-- 5..9, at one of five places; with some noise.
local function write_digits(part, n)
  local images, labels = {}, {}
  local state = 12345
  for i = 1, n do
    local digit = (i * 7 + i // 10) % 10
    labels[i] = string.char(digit)
    for y = 1, 28 do
      local row = {}
      for x = 1, 28 do
        state = (state * 1103515245 + 12345) % 2147483648
        local across, along = digit < 5 and y or x, digit < 5 and x or y
        local bright = across // 2 == (digit % 5 * 5 + 4) // 2 and along > 4 and along < 24
        row[x] = string.char((bright and 200 or 0) + state // 65536 % 50)
      end
      images[#images + 1] = table.concat(row)
    end
  end
  write(part .. "-images-idx3-ubyte", string.pack(">I4I4I4I4", 0x803, n, 28, 28) .. table.concat(images))
  write(part .. "-labels-idx1-ubyte", string.pack(">I4I4", 0x801, n) .. table.concat(labels))
end
write_digits("train", 320)
write_digits("t10k", 60)

local function train(...) return check.tycho({script, "--threads", "1", ...}) end
local function refused(text, ...)
  local run = train(...)
  check.contains(run.err, text)
  check.equal(run.status, 1)
  check.lacks(run.err, "traceback")
  local _, lines = run.err:gsub("\n", "\n")
  check.yes(lines <= 6, "more than a sentence and where to get the files: " .. run.err)
end

test("--help lists the options and ends with status 0", function()
  local run = train("--help")
  check.equal(run.status, 0)
  for _, name in ipairs{"epochs", "batch-size", "lr", "seed", "threads", "device", "amp", "workers", "data", "save", "load"} do
    check.contains(run.out, "--" .. name)
  end
end)

test("an unknown option is refused with the nearest name", function()
  refused("unknown option --epoch; did you mean --epochs?", "--epoch", "3")
  refused("did you mean --batch-size?", "--batch_size=3")
  refused("--help lists them", "--quuxes", "3")
  refused("stray is no option", "stray")
end)

test("a bad value is refused with the value", function()
  refused("--epochs must be a whole number of at least 1, got 0", "--epochs", "0")
  refused("--lr must be a number of at least 0, got fast", "--lr", "fast")
  refused("got inf", "--lr", "inf")
  refused("--amp must be off, bf16 or fp16, got int8", "--amp", "int8")
  refused("--save needs a value", "--save")
  refused("device", "--device", "toaster")
end)

test("it trains, saves, and tests what it saved to the same accuracy", function()
  local saved = check.temp("net.pt")
  local run = train("--data", data, "--save", saved, "--epochs", "3", "--batch-size", "32", "--lr=0.01")
  check.equal(run.err, "")
  check.equal(run.status, 0)
  check.contains(run.out, "epoch 3/3  loss %d+%.%d+  test accuracy [%d.]+ %%  %d+ images/s")
  check.contains(run.out, "read as")
  check.contains(run.out, "█")
  check.lacks(run.out, "\r")
  local accuracy = run.out:match("test accuracy ([%d.]+) %% on 60 images")
  check.yes(tonumber(accuracy) > 90, "accuracy " .. tostring(accuracy))
  local again = train("--data", data, "--load", saved)
  check.equal(again.err, "")
  check.contains(again.out, "test accuracy " .. accuracy .. " % on 60 images")
  check.lacks(again.out, "epoch")
end)

test("the same seed gives the same network, another one another", function()
  local function losses(seed)
    return train("--data", data, "--epochs", "1", "--seed", seed, "--save", check.temp("seed.pt")).out:match("loss [%d.]+")
  end
  local first = losses("3")
  check.yes(first)
  check.equal(losses("3"), first)
  check.yes(losses("4") ~= first)
end)

test("it runs under autocast to bfloat16", function()
  local run = train("--data", data, "--epochs", "2", "--amp", "bf16", "--save", check.temp("low.pt"))
  check.equal(run.err, "")
  check.equal(run.status, 0)
end)

test("it runs on a simulated device", function()
  local run = check.tycho({script, "--data", data, "--epochs", "1", "--device", "cuda:1", "--save", check.temp("dev.pt")},
    {env = {TYCHO_SIMULATE_CUDA = 2}})
  check.equal(run.err, "")
  check.equal(run.status, 0)
end)

test("data that is missing, cut off or of the wrong shape ends it with one sentence", function()
  refused("there is no t10k-images-idx3-ubyte (or t10k-images-idx3-ubyte.gz) in /nowhere", "--data", "/nowhere")
  local good = data
  data = check.temp("bad")
  os.execute(("cp -r %s %s"):format(check.quote(good), check.quote(data)))
  write("t10k-labels-idx1-ubyte", string.pack(">I4I4", 0x801, 60) .. "cut")
  refused("t10k-labels-idx1-ubyte", "--data", data)
  write("t10k-labels-idx1-ubyte", string.pack(">I4I4", 0x801, 3) .. "\1\2\3")
  refused("a label for each of 60 pictures", "--data", data)
  write("t10k-labels-idx1-ubyte", string.pack(">I4I4", 0x801, 60) .. ("\10"):rep(60))
  refused("must hold labels from 0 to 9, not 10", "--data", data)
  write("t10k-images-idx3-ubyte", "no digits")
  refused("t10k-images-idx3-ubyte", "--data", data)
  data = good
end)

test("a checkpoint that is missing, corrupted or something else ends it with one sentence", function()
  local path = check.temp("broken.pt")
  refused(path, "--data", data, "--load", path)
  local file = assert(io.open(path, "wb"))
  file:write(("garbage"):rep(100))
  file:close()
  refused(path, "--data", data, "--load", path)
  torch.save({1, 2, 3}, path)
  refused("holds no checkpoint of this script", "--data", data, "--load", path)
  check.equal(train("--data", data, "--epochs", "1", "--save", path).err, "")
  local saved = torch.load(path)
  saved.net = {weight = torch.zeros(3)}
  torch.save(saved, path)
  refused("weight", "--data", data, "--load", path)
end)

test("a place that cannot be written is found out before the training", function()
  refused("cannot write /nowhere/net.pt", "--data", data, "--save", "/nowhere/net.pt")
end)

test("it reaches 98 % on the real digits", function()
  if os.getenv("TYCHO_QUICK") or os.getenv("TYCHO_SANITIZED") then check.skip("a whole training is for the full run") end
  local run = check.tycho{script, "--save", check.temp("real.pt")}
  check.equal(run.err, "")
  local accuracy = run.out:match("test accuracy ([%d.]+) %% on 2000 images")
  check.yes(accuracy and tonumber(accuracy) >= 98, "accuracy " .. tostring(accuracy))
end)
