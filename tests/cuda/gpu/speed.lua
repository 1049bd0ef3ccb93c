-- How fast the device is: medians over data several times its caches, against a copy of the same data in the same run.
-- Prints rows `name | figure | of its limit | verdict` for tests/cuda/run_all. An argument makes everything small by that
-- factor, to try the program itself.
local cuda, F = torch.cuda, torch.nn.functional
local small = tonumber(arg[1] or 1)
local rows = math.max(64, 65536 // small)
local width = 1024
local gpu = {device = "cuda"}

local function median(f)
  for _ = 1, 3 do f() end
  cuda.synchronize()
  local times = {}
  for i = 1, small > 1 and 3 or 15 do
    local began = torch.perf_counter()
    for _ = 1, 4 do f() end
    cuda.synchronize()
    times[i] = (torch.perf_counter() - began) / 4
  end
  table.sort(times)
  return times[#times // 2 + 1]
end

local on_cpu = {}
for _, name in ipairs(cuda._ops_on_cpu() or {}) do on_cpu[name] = true end

torch.manual_seed(1)
local x, y = torch.randn(rows, width, gpu), torch.randn(rows, width, gpu)
local half = x:to "bfloat16"
local bytes = rows * width * 4
local copied = torch.empty(rows, width, gpu)
local copy = 2 * bytes / median(function() copied:copy_(x) end)
print(("copy | %.0f GB/s | | report"):format(copy / 1e9))

local failed = false
-- `moved`: bytes that are read and written; `op`: what must have a kernel, else it would be the CPU's time.
local function bandwidth(name, limit, moved, f, op)
  if op and on_cpu[op] then return print(("%s | | | no kernel yet: runs on the CPU"):format(name)) end
  local rate = moved / median(f)
  local part = rate / copy
  local good = part >= limit
  failed = failed or not good
  print(("%s | %.0f GB/s | %.0f %% of copy, limit %.0f | %s"):format(name, rate / 1e9, 100 * part, 100 * limit, good and "good" or "below"))
end
local fusion = torch.get_fusion()
torch.set_fusion(false)  -- results that nobody reads would not be written
torch.no_grad(function()
  bandwidth("x + y", 0.9, 3 * bytes, function() return x + y end)
  bandwidth("x:mul_(1.0001)", 0.9, 2 * bytes, function() x:mul_(1.0001) end)
  bandwidth("gelu", 0.9, 2 * bytes, function() return F.gelu(x) end)
  bandwidth("float32 to bfloat16", 0.9, 1.5 * bytes, function() return x:to "bfloat16" end)
  bandwidth("bfloat16 + bfloat16", 0.9, 1.5 * bytes, function() return half + half end)
  bandwidth("transposed copy", 0.9, 2 * bytes, function() return x:t():contiguous() end)
  bandwidth("sum", 0.8, bytes, function() return x:sum() end, "sum")
  bandwidth("sum of rows", 0.8, bytes, function() return x:sum(2) end, "sum")
  bandwidth("sum of columns", 0.8, bytes, function() return x:sum(1) end, "sum")
  bandwidth("softmax", 0.8, 2 * bytes, function() return x:softmax(2) end, "softmax")
  bandwidth("layer_norm", 0.8, 2 * bytes, function() return F.layer_norm(x, {width}) end, "row_norm")
  -- Rows that run together: what is between them moves no bytes.
  torch.set_fusion(true)
  local kept
  local function chain(x, y)
    return function()
      kept = (torch.tanh(x * 0.8 + y) + 1) * x - y:abs()
      torch.perf_counter()  -- runs what is held
    end
  end
  local short = chain(x[{{1, 8}}], y[{{1, 8}}])
  for _ = 1, small > 1 and 1 or 400 do chain(x, y)() short() end  -- until they have been compiled
  bandwidth("a chain of seven", 0.9, 3 * bytes, chain(x, y))
  torch.set_fusion(false)
end)

-- --- without a limit, or another than a copy's ---
local function report(name, figure) print(("%s | %s | | report"):format(name, figure)) end
local few, more = x[{{1, 8}}], y[{{1, 8}}]
local function chain() return (torch.tanh(few * 0.8 + more) + 1) * few - more:abs() end
for _, on in ipairs {false, true} do
  torch.set_fusion(on)
  report(("a chain of seven, 8192 elements, %s"):format(on and "as one" or "one by one"),
    ("%.2f us"):format(median(function() for _ = 1, 100 do chain() torch.perf_counter() end end) * 1e4))
end
torch.set_fusion(fusion)
local one = torch.randn(16, gpu)
local calls = small > 1 and 100 or 2000
local each = median(function() for _ = 1, calls do local _ = one + one end end) / calls
local quick = each <= 5e-6
if small == 1 and not quick then failed = true end
print(("op from Lua, 16 elements | %.2f us | limit 5 | %s"):format(each * 1e6, quick and "good" or "below"))
report("item()", ("%.2f us"):format(median(function() one[1]:item() end) * 1e6))
report("a tensor made and dropped", ("%.2f us"):format(median(function() for _ = 1, 100 do local _ = torch.empty(1000, gpu) end end) * 1e4))
local host = torch.randn(rows, width):pin_memory()
report("pinned memory to the device", ("%.1f GB/s"):format(bytes / median(function() return host:to("cuda", {non_blocking = true}) end) / 1e9))
report("the device to memory", ("%.1f GB/s"):format(bytes / median(function() return x:cpu() end) / 1e9))
if on_cpu.matmul then
  print "bfloat16 matrix product | | | no kernel yet: runs on the CPU"
else
  local n = 8192 // math.floor(small ^ 0.5)
  local a = torch.randn(n, n, {device = "cuda", dtype = "bfloat16"})
  local b = torch.randn(n, n, {device = "cuda", dtype = "bfloat16"})
  local plain = median(function() return a:matmul(b) end)
  report(("bfloat16 matrix product, %d"):format(n), ("%.0f TFLOP/s"):format(2 * n ^ 3 / plain / 1e12))
  local bias = torch.randn(n, {device = "cuda", dtype = "bfloat16"})
  torch.no_grad(function()
    local kept
    local layer = median(function()
      kept = F.gelu(F.linear(a, b, bias), {approximate = "tanh"})
      torch.perf_counter()  -- runs what is held
    end)
    local good = layer <= plain / 0.95
    if small == 1 and not good then failed = true end
    print(("the same with a bias and gelu | %.0f TFLOP/s | %.0f %% of the product alone, limit 95 | %s"):format(
      2 * n ^ 3 / layer / 1e12, 100 * plain / layer, good and "good" or "below"))
  end)
end
-- The library's own choice, its fastest way, and what runs where it is missing.
for _, c in ipairs {{"bfloat16 3x3, 256 channels", 64, 256, 256, 28, 3, 1}, {"bfloat16 depthwise 3x3", 64, 256, 256, 56, 3, 256},
  {"bfloat16 1x1, 512 to 128 channels", 64, 512, 128, 28, 1, 1}} do
  local name, batch, channels, out, size, kernel, groups = table.unpack(c)
  local images = math.max(1, batch // small)
  size = small > 1 and 8 or size
  if small > 1 then channels, out, groups = 16, 16, groups > 1 and 16 or 1 end
  local x = torch.randn(images, channels, size, size, {device = "cuda", dtype = "bfloat16"}):contiguous {memory_format = torch.channels_last}
  local w = torch.randn(out, channels // groups, kernel, kernel, {device = "cuda", dtype = "bfloat16"})
  local work = 2 * images * size * size * out * channels // groups * kernel * kernel
  local cudnn = torch.backends.cudnn
  for _, how in ipairs {{"as the library chooses", true, false}, {"benchmark", true, true}, {"without the library", false, false}} do
    cudnn.enabled, cudnn.benchmark = how[2], how[3]
    report(("convolution %s, %s"):format(name, how[1]),
      ("%.1f TFLOP/s"):format(work / median(function() return F.conv2d(x, w, {padding = kernel // 2, groups = groups}) end) / 1e12))
  end
  cudnn.enabled, cudnn.benchmark = true, false
end
if on_cpu.fused_attention then
  print "attention | | | no kernel yet: runs on the CPU"
else
  local n = math.max(64, 4096 // math.floor(small ^ 0.5))
  for _, case in ipairs {{"bfloat16", true, 64}, {"bfloat16", true, 128}, {"bfloat16", false, 128}, {"float32", true, 64}} do
    local dtype, causal, depth = table.unpack(case)
    local shape = {small > 1 and 1 or 4, 16, n, depth}
    local q, k, v = (torch.randn(shape, gpu) / 2):to(dtype), torch.randn(shape, gpu):to(dtype), torch.randn(shape, gpu):to(dtype)
    local pairs_of_all = shape[1] * shape[2] * n * n / (causal and 2 or 1)
    local function run() return F.scaled_dot_product_attention(q, k, v, {is_causal = causal}) end
    local name = ("attention, %s, %d positions of %d%s"):format(dtype, n, depth, causal and ", causal" or "")
    report(name, ("%.1f TFLOP/s"):format(4 * depth * pairs_of_all / median(function() torch.no_grad(run) end) / 1e12))
    for _, x in ipairs {q, k, v} do x:requires_grad_() end
    local g = torch.randn(shape, gpu):to(dtype)
    local both = median(function() torch.autograd.grad(run(), {q, k, v}, g) end)
    report(name .. ", with its gradients", ("%.1f TFLOP/s"):format(14 * depth * pairs_of_all / both / 1e12))
  end
end
os.exit(failed and small == 1 and 1 or 0)
