-- A device as a program uses it: training, memory, streams, faults, Ctrl-C. Run by tests/cuda/run_all on a GPU; on
-- simulated devices with TYCHO_SIMULATE_CUDA=2. TYCHO_GPU_STEPS says how long the long loops are.
local cuda = torch.cuda
local steps = math.tointeger(os.getenv "TYCHO_GPU_STEPS" or 10000)
local gpu = {device = "cuda"}

-- `body` with the CPU's tensors and the device's: what it returns (tensors) is the same.
local function same(tolerance, body)
  local want, got = table.pack(body "cpu"), table.pack(body "cuda")
  for i = 1, want.n do check.close(got[i]:cpu(), want[i], tolerance) end
end

-- The losses of so many steps of cross entropy.
local function losses_of(net, opt, x, y, steps)
  local out = {}
  for i = 1, steps do
    opt:zero_grad()
    local loss = torch.nn.functional.cross_entropy(net(x), y)
    loss:backward()
    opt:step()
    out[i] = loss:item()
  end
  return torch.tensor(out)
end

test("elementwise chains, reductions, products and layouts give the CPU's numbers", function()
  torch.manual_seed(1)
  local a, b = torch.randn(130, 257), torch.randn(257, 64)
  same(1e-4, function(device)
    local x, y = a:to(device), b:to(device)
    local z = ((x * 2 + 1):relu() - x:t():contiguous():t()):exp():log1p()
    return z, z:sum(), z:mean(1), x:matmul(y), z:softmax(2), z:max(2), x:t()[{{3, 9}}], z:to("bfloat16"):float()
  end)
end)

test("a network is trained to the same losses as on the CPU", function()
  local function losses(device)
    torch.manual_seed(3)
    local net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.LayerNorm(64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    local x, y = torch.randn(200, 20), torch.randint(1, 5, {200})
    net:to(device)
    return losses_of(net, torch.optim.AdamW(net:parameters(), {lr = 1e-2}), x:to(device), y:to(device), 20)
  end
  same(1e-3, losses)
end)

test("a convolutional network is trained to the same losses as on the CPU, by the library and without it", function()
  local nn, cudnn = torch.nn, torch.backends.cudnn
  cudnn.allow_tf32 = false
  local function losses(device)
    torch.manual_seed(4)
    local net = nn.Sequential(nn.Conv2d(3, 16, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, {groups = 4, stride = 2}),
      nn.ReLU(), nn.ConvTranspose2d(32, 8, 3, {stride = 2}), nn.Flatten(), nn.Linear(8 * 7 * 7, 5))
    local x, y = torch.randn(20, 3, 16, 16), torch.randint(1, 5, {20})
    net:to(device)
    return losses_of(net, torch.optim.SGD(net:parameters(), {lr = 0.05}), x:to(device), y:to(device), 8)
  end
  same(1e-3, losses)
  cudnn.benchmark = true
  same(1e-3, losses)
  cudnn.enabled, cudnn.benchmark = false, false
  same(1e-3, losses)
  cudnn.enabled, cudnn.allow_tf32 = true, true
end)

test("attention gives the CPU's numbers and gradients, in every type that it has tensor cores for", function()
  local F = torch.nn.functional
  torch.manual_seed(5)
  local shape, keys = {2, 4, 150, 64}, {2, 2, 190, 64}
  local q, k, v = torch.randn(shape), torch.randn(keys), torch.randn(keys)
  for _, case in ipairs {{"float32", 1e-4}, {"bfloat16", 4e-2}, {"float16", 5e-3}, {"float64", 1e-10}} do
    for _, causal in ipairs {false, true} do
      same(case[2], function(device)
        local inputs = {}
        for i, x in ipairs {q, k, v} do
          -- the CPU has the same rounded numbers, and computes in full
          local rounded = x:to(case[1])
          if device == "cpu" and case[1]:find "16" then rounded = rounded:float() end
          inputs[i] = rounded:to(device):detach():requires_grad_()
        end
        local y = F.scaled_dot_product_attention(inputs[1], inputs[2], inputs[3], {is_causal = causal, enable_gqa = true})
        y:backward(torch.ones_like(y))
        local out = {y:detach():float()}
        for i, x in ipairs(inputs) do out[i + 1] = x.grad:float() end
        return table.unpack(out)
      end)
    end
  end
end)

test("attention with dropout trains from one seed to one result", function()
  local function run()
    torch.manual_seed(9)
    local x = torch.randn(2, 3, 70, 32, gpu):requires_grad_()
    local y = torch.nn.functional.scaled_dot_product_attention(x, x, x, {dropout_p = 0.3, is_causal = true})
    y:sum():backward()
    return y:detach():cpu(), x.grad:cpu()
  end
  local y, g = run()
  local again, g_again = run()
  check.yes(torch.equal(y, again) and torch.equal(g, g_again))
  check.no(y:isnan():any():item())
end)

test("ctc_loss, singular values and determinants give the CPU's numbers", function()
  torch.manual_seed(6)
  local x, a = torch.randn(40, 3, 20):log_softmax(3), torch.randn(5, 12, 8)
  local square = torch.randn(6, 9, 9)
  same(1e-4, function(device)
    local labels = torch.tensor {{2, 3, 3, 5}, {7, 8, 9, 2}, {4, 4, 4, 4}}
    local scores = x:to(device):detach():requires_grad_()
    local loss = torch.nn.functional.ctc_loss(scores, labels:to(device), torch.tensor({40, 33, 20}, {device = device}),
      torch.tensor({4, 4, 3}, {device = device}))
    loss:backward()
    local on = square:to(device)
    return loss:detach(), scores.grad, torch.linalg.svdvals(a:to(device)), torch.linalg.det(on), torch.linalg.pinv(a:to(device)),
      torch.linalg.solve_triangular(on + 9 * torch.eye(9, {device = device}), on, {upper = true})
  end)
end)

test("a long loop needs no more memory at its end than after its beginning", function()
  local x = torch.randn(64, 64, gpu)
  local held, taken
  for i = 1, steps do
    local y = (x * 2 + 1):relu():sum()
    if i == 200 then
      collectgarbage()
      held, taken = cuda.memory_allocated(), cuda.memory_reserved()
    end
  end
  collectgarbage()
  cuda.synchronize()
  check.yes(cuda.memory_allocated() <= held + 1048576)
  check.yes(cuda.memory_reserved() <= taken + 67108864)
end)

test("a full device says who holds what, and the session goes on", function()
  local free = cuda.mem_get_info()
  local blocks, limit = {}, math.min(free, 2 ^ 37)
  if os.getenv "TYCHO_SIMULATE_CUDA" then
    cuda.set_per_process_memory_fraction(64e6 / free)
    limit = 64e6
  end
  local n = limit // 8 // 4
  local ok, err = pcall(function()
    for i = 1, 20 do blocks[i] = torch.empty(n, gpu) end
  end)
  check.no(ok)
  check.equal(err.kind, "oom")
  check.contains(err.message, "most is held by blocks")
  blocks = nil
  collectgarbage()
  check.equal(torch.ones(n, gpu):sum():item(), n + 0.0)
  cuda.set_per_process_memory_fraction(1)
  cuda.empty_cache()
end)

test("a position out of range raises, and the device goes on", function()
  local x = torch.arange(10.0, gpu)
  for _, wrong in ipairs {0, 11, -3} do
    local err = check.raises("index", nil, function()
      local y = x:index_select(1, torch.tensor({2, wrong}, gpu))
      cuda.synchronize()
      return y
    end)
    check.yes(err ~= nil)
    check.equal((x * 2):sum():item(), 90.0)
  end
end)

test("streams that wait for each other see each other's values, also through pinned memory", function()
  local one, two = cuda.Stream(), cuda.Stream()
  local host = torch.randn(1000, 100):pin_memory()
  for _ = 1, 50 do
    local x, y
    cuda.stream(one, function() x = host:to("cuda", {non_blocking = true}) * 2 end)
    two:wait_stream(one)
    cuda.stream(two, function() y = x + 1 end)
    cuda.current_stream():wait_stream(two)
    check.close((y - 1):cpu() / 2, host, 1e-6)
  end
  local first, last = cuda.Event {enable_timing = true}, cuda.Event {enable_timing = true}
  first:record()
  local x = host:cuda():exp()
  last:record()
  last:synchronize()
  check.yes(first:elapsed_time(last) >= 0 and x ~= nil)
end)

test("random numbers repeat with their seed and have the moments of their kind", function()
  torch.manual_seed(7)
  local a = torch.randn(100000, gpu)
  torch.manual_seed(7)
  check.yes(torch.equal(a, torch.randn(100000, gpu)))
  check.yes(math.abs(a:mean():item()) < 0.02 and math.abs(a:std():item() - 1) < 0.02)
end)

test("Ctrl-C ends a long queue of work within seconds", function()
  local code = "local x = torch.randn(4096, 4096, {device = 'cuda'}) for _ = 1, 100000000 do x = x * 1.0001 end torch.cuda.synchronize()"
  local _, _, status = os.execute(("timeout -s INT -k 30 5 %s -e %s >/dev/null 2>&1"):format(check.quote(os.getenv "TYCHO"), check.quote(code)))
  check.yes(status ~= 137, "it had to be killed")
  check.yes(status == 124 or status == 130, status)
end)

test("tensors go from device to device", function()
  if cuda.device_count() < 2 then check.skip "there is one device" end
  local x = torch.randn(1000, 10, {device = "cuda:0"})
  check.close((x:to("cuda:1") * 2):to("cuda:0"):cpu(), (x * 2):cpu(), 0)
end)
