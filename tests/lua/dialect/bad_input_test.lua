-- Bad input: each is an error object of the right kind, one sentence with the values, and nothing is
-- lost: not the process, not the old file.
local F, nn, optim, data = torch.nn.functional, torch.nn, torch.optim, torch.utils.data

-- kind, a part of the text, what does it
local cases = {
  {"shape", "ragged: at depth 2 one has 1 elements, the first 2", function() torch.tensor {{1, 2}, {3}} end},
  {"shape", "ragged", function() torch.tensor {{1, 2}, 3} end},
  {"shape", "ragged", function() torch.tensor {1, {2, 3}} end},
  {"shape", "ragged", function() torch.tensor {{{1}, {2}}, {{3}, {4, 5}}} end},
  {"argument", 'not the string "a"', function() torch.tensor {1, "a"} end},
  {"argument", "element 2", function() torch.tensor {1, nil, 3} end},
  {"shape", "deeper", function() local t = {} t[1] = t torch.tensor(t) end},
  {"index", "index 0", function() return torch.ones(3)[0] end},
  {"index", "index 0", function() return torch.ones(3, 3)[{1, 0}] end},
  {"index", "index 0", function() return torch.ones(3)[{{0, 2}}] end},
  {"index", "positions count from 1", function() return torch.ones(3)[torch.tensor {0}] end},
  {"index", "index 5 is out of range for dimension 1 with size 4 (1..4, or -4..-1)", function() return torch.ones(4)[5] end},
  {"index", "index 9 is out of range", function() torch.ones(4)[9] = 1 end},
  {"index", "1.5", function() return torch.ones(4)[1.5] end},
  {"dim", "dimension 0", function() torch.ones(2):sum(0) end},
  {"dim", "dimension 3", function() torch.ones(2):sum(3) end},
  {"argument", 'sum: no argument "keep"; did you mean "keepdim"?', function() torch.ones(2):sum {keep = true} end},
  {"argument", 'did you mean "dtype"', function() torch.zeros({2}, {dtpe = "int32"}) end},
  {"argument", 'Linear: no argument "bais"', function() nn.Linear {3, 4, bais = false} end},
  {"argument", 'SGD: no option "learning"', function() optim.SGD(nn.Linear(1, 1):parameters(), {learning = 1}) end},
  {"argument", "list of parameters is empty", function() optim.SGD({}, {lr = 1}) end},
  {"value", "lr must be", function() optim.SGD(nn.Linear(1, 1):parameters(), {lr = -1}) end},
  {"argument", 'DataLoader: no argument "batchsize"', function() data.DataLoader(data.TensorDataset(torch.ones(3)), {batchsize = 3}) end},
  {"shape", "TensorDataset: tensor 2 of shape [4] has 4 rows, the first has 3", function() data.TensorDataset(torch.ones(3), torch.ones(4)) end},
  {"shape", "weight is [2, 2] here and [3, 3] there", function() nn.Linear(2, 2):load_state_dict {weight = torch.ones(3, 3), bias = torch.ones(2)} end},
  {"dtype", "float32 and int64", function() torch.ones(2, 2):matmul(torch.ones(2, 2):to("int64")) end},
  {"dtype", "flot32", function() torch.zeros(2, {dtype = "flot32"}) end},
  {"dtype", "int64", function() torch.ones(2):to("int64"):requires_grad_() end},
  {"dtype", "float32", function() return torch.ones(2) & torch.ones(2) end},
  {"broadcast", "[2, 3] and [4]", function() return torch.ones(2, 3) + torch.ones(4) end},
  {"broadcast", "[2, 3]", function() torch.ones(3):add_(torch.ones(2, 3)) end},
  {"broadcast", "[4]", function() torch.ones(2, 3)[1] = torch.ones(4) end},
  {"argument", "_lex: argument 1 must be a string, not", function() torch._lex(torch.ones(2)) end},
  {"argument", "_shapes_only: argument 1 must be a function", function() torch._shapes_only() end},
  {"argument", "_measure: argument 2 must be a number", function() torch._measure(print, {}) end},
  {"shape", "too large", function() F.interpolate(torch.ones(1, 1, 4), {size = 1 << 61}) end},
  {"shape", "too large", function() F.interpolate(torch.ones(1, 1, 4), {scale_factor = 1e30}) end},
  {"shape", "above 0", function() F.interpolate(torch.ones(1, 1, 4), {scale_factor = 0 / 0}) end},
  {"shape", "too many", function() F.unfold(torch.ones(1, 1, 4, 4), 1, {padding = (1 << 31) - 1}) end},
  {"shape", "do not hold", function() F.ctc_loss(torch.rand(4, 6, 3), torch.tensor {2}, torch.full({6}, 4), torch.full({6}, 1 << 60)) end},
  {"argument", "alpha", function() F.lp_pool3d(torch.ones(1, 2, 2, 2), 2, {alpha = 1}) end},
  {"argument", "the options are a table", function() F.triplet_margin_with_distance_loss(torch.ones(2), torch.ones(2), torch.ones(2), 3) end},
  {"shape", "matmul", function() torch.ones(2, 3):matmul(torch.ones(2, 3)) end},
  {"shape", "2 channels", function() nn.Conv2d(3, 4, 3)(torch.ones(1, 2, 8, 8)) end},
  {"shape", "view", function() torch.ones(6):view(4) end},
  {"shape", "negative", function() torch.zeros(-2) end},
  {"shape", "at most 8 dimensions", function() torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1) end},
  {"index", "target[1] = 0", function() F.cross_entropy(torch.zeros(2, 3), torch.tensor {0, 1}) end},
  {"index", "valid 1..3", function() F.cross_entropy(torch.zeros(2, 3), torch.tensor {1, 9}) end},
  {"shape", "one number", function() torch.ones(2):item() end},
  {"argument", "a:lt(b)", function() return torch.ones(2) < torch.ones(2) end},
  {"argument", "torch.equal(a, b)", function() return torch.ones(2) == torch.ones(2) end},
  {"autograd", "requires_grad_()", function() torch.ones(2):sum():backward() end},
  {"io", "No such file or directory", function() torch.load("/nowhere/x") end},
  {"io", "Is a directory", function() torch.load("/") end},
  {"io", "No such file or directory", function() torch.io.read_idx("/nowhere/x.gz") end},
  {"io", "cannot write", function() torch.save({a = 1}, "/nowhere/x") end},
  {"argument", "a function cannot be saved", function() torch.save({a = print}, check.temp "never") end},
  {"argument", "hold themselves", function() local t = {} t.t = t torch.save(t, check.temp "never") end},
}

for _, c in ipairs(cases) do
  test(("%s error: %s"):format(c[1], c[2]), function()
    local err = check.raises(c[1], c[2], c[3])
    check.contains(err.where, "bad_input_test.lua:")
    check.no(err.message:find("\n", 1, true), "one sentence")
  end)
end

test("tensors of different devices do not mix; the error names both", function()
  local r = check.tycho({"-e", [[
    local ok, e = pcall(torch.add, torch.ones(2), torch.ones(2, {device = "cuda:1"}))
    print(ok, e.kind, e.message:find("cpu", 1, true) ~= nil, e.message:find("cuda:1", 1, true) ~= nil, e.hint)
    print((torch.ones(2, {device = "cuda:1"}) + 1):cpu():sum():item())
    print(pcall(torch.zeros, 2, {device = "cuda:7"}))]]}, {env = {TYCHO_SIMULATE_CUDA = "2"}})
  check.equal(r.status, 0, r.err)
  check.contains(r.out, "false\tdevice\ttrue\ttrue\t")
  check.contains(r.out, "\n4.0\nfalse\t")
end)

test("a bad entry does not end the session, and a bad script ends with status 1", function()
  local lines = {"local ok = 1", "x = torch.ones(3)"}
  local r = check.tycho({"-e", "local x = torch.ones(3) return x[0]"})
  check.equal(r.status, 1)
  check.contains(r.err, "index 0")
  r = check.tycho({"-e", "torch.io.read_idx('/nowhere')"})
  check.equal(r.status, 1)
  check.contains(r.err, "/nowhere: No such file")
end)

-- --- files ---
local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end
local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- A generator of its own, so that the same bytes are changed every time.
local state = 12345
local function random(n)
  state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
  return (state >> 20) % n + 1
end

-- Reads every damaged form of `whole`; each either works or raises an io error. The number that raised.
local function read_damaged(path, whole, reader, count)
  local raised = 0
  for i = 1, count do
    local text
    if i % 2 == 0 then
      text = whole:sub(1, random(#whole) - 1)
    else
      text = whole
      for _ = 1, random(3) do
        local at = random(#text)
        text = text:sub(1, at - 1) .. string.char(random(256) - 1) .. text:sub(at + 1)
      end
    end
    write(path, text)
    local ok, err = pcall(reader, path)
    if not ok then
      raised = raised + 1
      if type(err) ~= "table" or (err.kind ~= "io" and err.kind ~= "oom") then error(err, 0) end
      check.contains(err.message, path)
    end
  end
  return raised
end

test("cut or changed checkpoints are io errors, 2,000 ways", function()
  local path = check.temp("whole.ckpt")
  torch.save({net = nn.Linear(4, 3):state_dict(), epoch = 3, lr = 0.5, name = "a", list = {1, 2, {true}}}, path)
  local raised = read_damaged(check.temp "damaged.ckpt", read(path), torch.load, 2000)
  check.yes(raised > 1000, raised)
end)

test("cut or changed .safetensors and .npy files are io errors", function()
  local path = check.temp("whole.safetensors")
  torch.save({a = torch.ones(3, 4), b = torch.arange(5)}, path)
  check.yes(read_damaged(check.temp "damaged.safetensors", read(path), torch.load, 600) > 200)
  path = check.temp("whole.npy")
  torch.save(torch.ones(3, 4), path)
  check.yes(read_damaged(check.temp "damaged.npy", read(path), torch.load, 600) > 200)
end)

test("a cut file of images is an io error at every length", function()
  local whole = read("scripts/data/t10k-labels-idx1-ubyte.gz")
  local path = check.temp("cut.gz")
  for i = 1, 60 do
    write(path, whole:sub(1, (#whole - 1) * (i - 1) // 59))
    local err = check.raises("io", path, torch.io.read_idx, path)
  end
  check.yes(read_damaged(path, whole, torch.io.read_idx, 300) > 200)
  write(path, whole .. "junk")
  pcall(torch.io.read_idx, path)
end)

test("a failed save keeps the old file and leaves nothing beside it", function()
  local dir = check.temp("readonly")
  os.execute("mkdir -p " .. check.quote(dir))
  local path = dir .. "/kept.ckpt"
  torch.save({x = torch.ones(3)}, path)
  local before = read(path)
  local function beside() return io.popen("ls -A " .. check.quote(dir)):read("a") end
  check.raises("argument", "cannot be saved", torch.save, {x = torch.ones(100000), f = print}, path)
  check.equal(read(path) == before, true)
  check.equal(beside(), "kept.ckpt\n")
  -- A limit on the size of files stands for a full disk.
  local r = check.tycho({"-e", ("local ok, e = pcall(torch.save, {x = torch.ones(1000000)}, %q) print(ok, e.kind) io.stdout:flush() error(e)"):format(path)},
    {before = "ulimit -f 100"})
  check.equal(r.status, 1, r.err)
  check.equal(r.out, "false\tio\n")
  check.contains(r.err, "cannot write " .. path)
  check.equal(read(path) == before, true)
  check.equal(beside(), "kept.ckpt\n")
  check.equal(torch.load(path).x, {1, 1, 1})
end)

test("a full device is an io error", function()
  local device = io.open("/dev/full", "wb")
  if not device then check.skip("no /dev/full here") end
  device:close()
  local err = check.raises("io", "/dev/full", torch.save, {x = torch.ones(100000)}, "/dev/full")
  check.contains(err.message, "No space left")
end)

test("a directory cannot be replaced by a checkpoint", function()
  local dir = check.temp("directory.ckpt")
  os.execute("mkdir -p " .. check.quote(dir))
  check.raises("io", "Is a directory", torch.save, {x = 1}, dir)
end)

test("without CUDA devices their memory is 0, and their cache empty", function()
  if torch.cuda.device_count() > 0 then check.skip("there is a device") end
  check.equal(torch.cuda.memory_allocated(), 0)
  torch.cuda.empty_cache()
end)
