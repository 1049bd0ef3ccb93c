-- Files read through a mapping: {mmap = true} of torch.load, and .safetensors as they are. Files under 1 MB are not
-- mapped, so these are larger.
local count = 300000  -- floats: 1.2 MB

local here = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or "."
local made = dofile(here .. "/data/made_files.lua")
local read, write = made.read, made.write

local live = torch.memory_allocated

test("a mapped file's tensors take no memory, share their storage and are written to without changing the file", function()
  local path = check.temp "mapped.pt"
  local base = torch.randn(count)
  torch.save({a = base, b = base:view(300, 1000).T, flags = base:gt(0), epoch = 3, half = base:half()}, path)
  local before = read(path)
  collectgarbage() collectgarbage()
  local used = live()
  local back = torch.load(path, {mmap = true})
  check.yes(live() - used < 400000, live() - used)  -- of the truths, which are looked at
  check.equal(back.a, base)
  check.equal(back.b, base:view(300, 1000).T)
  check.equal(back.flags, base:gt(0))
  check.equal(back.half, base:half())
  check.equal(back.epoch, 3)
  back.a:mul_(2):add_(1)
  check.equal(back.b.T:flatten(), base * 2 + 1)
  back.half:zero_()
  back = nil
  collectgarbage()
  check.yes(read(path) == before)
  check.equal(torch.load(path).a, base)
end)

test("mapped tensors outlive the table they came in, each other, and their file's name", function()
  local path = check.temp "gone.safetensors"
  local x, y = torch.randn(count), torch.randn(count)
  torch.save({x = x, y = y}, path)
  local loaded = torch.load(path)
  local kept = loaded.x
  loaded = nil
  collectgarbage() collectgarbage()
  os.remove(path)
  check.equal(kept, x)
  kept:add_(1)
  check.equal(kept, x + 1)
end)

test("a file is saved over while its own tensors are mapped from it", function()
  for _, path in ipairs {check.temp "over.safetensors", check.temp "over.pt"} do
    local x = torch.randn(count)
    torch.save({x = x}, path)
    for _ = 1, 2 do
      local loaded = torch.load(path, {mmap = true})
      loaded.x:add_(1)
      torch.save(loaded, path)
    end
    check.close(torch.load(path).x, x + 2, 1e-6)
  end
end)

test("a safetensors file is mapped unless told otherwise", function()
  local path = check.temp "default.safetensors"
  torch.save({x = torch.ones(count), flags = torch.ones(5):bool()}, path)
  collectgarbage() collectgarbage()
  local used = live()
  local mapped = torch.load(path)
  check.yes(live() - used < 100000)
  local copied = torch.load(path, {mmap = false})
  check.yes(live() - used >= 4 * count)
  check.equal(mapped, copied)
end)

test("elements that do not lie at a multiple of their size are copied", function()
  local header = ([[{"odd":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"x":{"dtype":"F32","shape":[%d],"data_offsets":[3,%d]}}]]):format(
    count, 3 + 4 * count)
  header = header .. (" "):rep(-#header % 8)
  local x = torch.arange(count):float()
  local npy = check.temp "odd.npy"
  torch.save(x, npy)
  local path = write(check.temp "odd.safetensors", ("<I8"):pack(#header) .. header .. "\1\2\3" .. read(npy):sub(-4 * count))
  local back = torch.load(path)
  check.equal(back.odd, {1, 2, 3})
  check.equal(back.x, x)
  back.x:add_(1)
  check.equal(back.x:sum():item(), (x + 1):sum():item())
end)

test("arrays of NumPy are mapped too when asked", function()
  local npy, npz = check.temp "big.npy", check.temp "big.npz"
  local x, n = torch.randn(3, count // 3), torch.arange(count)
  torch.save(x, npy)
  torch.save({x = x, n = n, flags = n:gt(5)}, npz)
  collectgarbage() collectgarbage()
  local used = live()
  local a, z = torch.load(npy, {mmap = true}), torch.load(npz, {mmap = true})
  check.yes(live() - used < 400000, live() - used)
  check.equal(a, x)
  check.equal(z, {x = x, n = n, flags = n:gt(5)})
  check.equal(torch.load(npy), x)
  check.equal(torch.load(npz), z)
end)

test("a mapped file that another program cuts short is an error, and the process lives", function()
  local path = check.temp "cut.pt"
  local r = check.tycho({"-e", ([[
    local path = %q
    torch.save({x = torch.ones(%d)}, path)
    local x = torch.load(path, {mmap = true}).x
    assert(x[5]:item() == 1)
    os.execute("truncate -s 8192 " .. path)
    local ok, err = pcall(function() local y = x + 1 return (y * 2):sum() end)
    print(ok, err.kind, err.message:find("cut short", 1, true) ~= nil)
    print(x[5]:item(), x[-1]:item())
    print(pcall(torch.add, x, 1))  -- what item() read was lost, and the next operation says so
    print((torch.ones(3) + 1):sum():item())
    print(pcall(torch.load, path))
  ]]):format(path, count)})
  check.contains(r.out, "false\tio\ttrue\n1.0\t0.0\nfalse")
  check.contains(r.out, "6.0\nfalse")
  check.equal(r.status, 0)
end)

test("the options of load are checked by name", function()
  local path = check.temp "options.pt"
  torch.save({x = torch.ones(2)}, path)
  check.raises("argument", 'no option "mmpa" (it has: map_location, mmap, weights_only)', torch.load, path, {mmpa = true})
  check.equal(torch.load(path, {weights_only = true, mmap = true, map_location = "cpu"}).x, {1, 1})
  check.raises("argument", "is no device", torch.load, path, {map_location = true})
end)

test("at the prompt mapped tensors say so, and hold none of the memory in use", function()
  local path = check.temp "prompt.pt"
  torch.save({x = torch.ones(count)}, path)
  local out = check.tycho({}, {stdin = ('x = torch.load(%q, {mmap = true}).x\ny = torch.ones(400000)\n%%who\n%%mem\n'):format(path)}).out
  check.contains(out, "in a mapped file")
  local memory = out:sub(out:find("used", 1, true), -1)
  check.contains(memory, "1.6 MB  y")
  check.lacks(memory, "1.2 MB  x")
end)

test("a loader's workers read mapped tensors", function()
  local path = check.temp "rows.safetensors"
  local x = torch.arange(count):float():view(3000, 100)
  torch.save({x = x}, path)
  local data = torch.utils.data
  local sum, rows = 0, 0
  for batch in data.DataLoader(data.TensorDataset(torch.load(path).x), {batch_size = 500, num_workers = 2})() do
    if type(batch) == "table" then batch = batch[1] end
    rows, sum = rows + batch:size(1), sum + batch:double():sum():item()
  end
  check.equal(rows, 3000)
  check.equal(sum, x:double():sum():item())
end)
