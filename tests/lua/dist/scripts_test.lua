-- The training scripts under `tycho run`: the same files as for one process. One rank's Ctrl-C stops all after the same
-- step, what is saved goes on as if it had not been stopped, and a failed run starts again from there.
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local scripts = here .. "/../../../scripts/"

local function run(ranks, ...)
  return check.tycho({"run", "-n", tostring(ranks), ...}, {env = {}, before = "ulimit -t 300"})
end
local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

-- A script that runs another one: in its call number `at` of cross_entropy, on rank 1 alone, something happens.
local function around(name, at, what)
  local path = check.temp("around_" .. name)
  local file = assert(io.open(path, "w"))
  file:write(([[
    arg[0] = %q
    local F, calls = torch.nn.functional, 0
    local f = F.cross_entropy
    F.cross_entropy = function(...)
      calls = calls + 1
      if calls == %d and os.getenv "RANK" == "1" and (os.getenv "RESTART_COUNT" or "0") == "0" then %s end
      return f(...)
    end
    dofile(arg[0])]]):format(scripts .. name, at, what))
  file:close()
  return path
end

-- Where the networks, and all else that a checkpoint keeps, are not the same.
local function difference(a, b, at)
  if type(a) ~= type(b) then return at end
  if torch.is_tensor(a) then return not torch.equal(a, b) and at or nil end
  if type(a) ~= "table" then return a ~= b and at or nil end
  for k, v in pairs(a) do
    local gap = difference(v, b[k], at .. "." .. tostring(k))
    if gap then return gap end
  end
end

local digits = {"--quick", "--epochs", "2"}
local function with(...)
  return table.unpack(table.move({...}, 1, select("#", ...), #digits + 1, table.move(digits, 1, #digits, 1, {})))
end

local whole, csv = check.temp("whole.pt"), check.temp("whole.csv")

test("train_digits runs on two ranks: one of them speaks, saves and writes the metrics", function()
  local r = run(2, scripts .. "train_digits.lua", with("--save", whole, "--metrics", csv))
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "2 ranks of 1 threads")
  check.contains(r.out, "test accuracy %d+%.%d+ %% on 640 images")
  check.lacks(r.out, "%[r1%]")
  local rows = select(2, read(csv):gsub("\n", "\n"))
  check.equal(rows, 3)
  check.equal(#torch.load(whole).ranks, 2)
end)

test("Ctrl-C at one rank stops all after the same step, and the training goes on as if it had not been", function()
  local half, rest = check.temp("half.pt"), check.temp("rest.csv")
  local r = run(2, around("train_digits.lua", 14, 'io.popen("kill -INT $PPID"):close()'), with("--save", half))
  check.contains(r.out, "stopped; saved to " .. half)
  check.contains(r.out, "of epoch 2")
  local again = run(2, scripts .. "train_digits.lua", "--load", half, "--metrics", rest)
  check.equal(again.status, 0, again.err)
  check.equal(read(rest), read(csv))
  local a, b = torch.load(whole), torch.load(half)
  for _, key in ipairs {"net", "opt", "ranks", "progress", "schedule"} do check.equal(difference(a[key], b[key], key), nil) end
end)

test("a checkpoint of two ranks goes on with one, and with three", function()
  if os.getenv "TYCHO_SANITIZED" then check.skip("the steps are those of the other tests") end
  for _, n in ipairs {1, 3} do
    local other = check.temp("other.pt")
    os.execute(("cp %s %s"):format(check.quote(whole), check.quote(other)))
    local r = run(n, scripts .. "train_digits.lua", "--load", other, "--epochs", "3", "--batch-size", "63")
    check.contains(r.err .. r.out, "leave the option out")  -- the batch size is a part of the training
    r = run(n, scripts .. "train_digits.lua", "--load", other, "--epochs", "3")
    if n == 3 then
      check.contains(r.err .. r.out, "--batch-size must divide among 3 ranks, got 64")
    else
      check.equal(r.status, 0, r.err)
      check.contains(r.out, "epoch 3/3")
    end
  end
end)

test("after a rank has died, all start again from the checkpoint", function()
  local path = check.temp("again.pt")
  local script = around("train_digits.lua", 14, 'io.popen("kill -KILL $PPID"):close()')
  local r = run(2, "--max-restarts", "1", script, with("--save", path))
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "epoch 2/2")
  local a, b = torch.load(whole), torch.load(path)
  check.equal(difference(a.net, b.net, "net"), nil)
end)

test("train_resnet runs on two ranks with mixed precision and an average of the weights", function()
  local r = run(2, scripts .. "train_resnet.lua", "--quick", "--images", "32", "--ema", "0.9", "--amp", "fp16", "--save", check.temp("resnet.pt"))
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "test loss %-?%d+%.%d+, top%-1 %d+%.%d+ %%")
end)

test("ddp_from_scratch gives the same numbers by hand and by DistributedDataParallel", function()
  for _, n in ipairs {1, 2, 3} do
    local r = run(n, scripts .. "ddp_from_scratch.lua", "--quick")
    check.equal(r.status, 0, r.err)
    check.contains(r.out, "the weights of the two differ by 0 at most")
  end
  local r = check.tycho({"run", "-n", "2", scripts .. "ddp_from_scratch.lua", "--quick", "--device", "cuda"}, {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "the weights of the two differ by 0 at most")
  r = run(1, scripts .. "ddp_from_scratch.lua", "--fast")
  check.equal(r.status, 1)
  check.contains(r.out .. r.err, "--fast is no option")
end)
