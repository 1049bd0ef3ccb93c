-- Attention's ways beside each other, for TYCHO_ATTENTION as it is set: TFLOP/s forward, and with gradients.
local cuda, F, gpu = torch.cuda, torch.nn.functional, {device = "cuda"}
local function median(f)
  for _ = 1, 3 do f() end
  cuda.synchronize()
  local times = {}
  for i = 1, 5 do
    local began = torch.perf_counter()
    for _ = 1, 3 do f() end
    cuda.synchronize()
    times[i] = (torch.perf_counter() - began) / 3
  end
  table.sort(times)
  return times[3]
end
for _, case in ipairs {{"bfloat16", true, 64}, {"bfloat16", false, 64}, {"bfloat16", true, 128}, {"bfloat16", false, 128}, {"float32", true, 64}} do
  local dtype, causal, depth = table.unpack(case)
  local shape = {4, 16, 4096, depth}
  local q, k, v = (torch.randn(shape, gpu) / 2):to(dtype), torch.randn(shape, gpu):to(dtype), torch.randn(shape, gpu):to(dtype)
  local pairs_of_all = shape[1] * shape[2] * 4096 * 4096 / (causal and 2 or 1)
  local function run() return F.scaled_dot_product_attention(q, k, v, {is_causal = causal}) end
  local forward = 4 * depth * pairs_of_all / median(function() torch.no_grad(run) end) / 1e12
  for _, x in ipairs {q, k, v} do x:requires_grad_() end
  local g = torch.randn(shape, gpu):to(dtype)
  local both = 14 * depth * pairs_of_all / median(function() torch.autograd.grad(run(), {q, k, v}, g) end) / 1e12
  print(("%s of %d%s: %.1f forward, %.1f with gradients"):format(dtype, depth, causal and ", causal" or "", forward, both))
end
