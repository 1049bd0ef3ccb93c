-- torch.cuda.comm and the smaller parts of torch.cuda, on simulated devices.
torch.cuda.simulate(3)
local cuda = torch.cuda
local comm = cuda.comm

test("broadcast copies to every device, or into out", function()
  local x = torch.arange(6):float():view(2, 3)
  local a, b, c = comm.broadcast(x:cuda(1), {0, "cuda:1", torch.device("cuda", 2)})
  check.equal({a.device.index, b.device.index, c.device.index}, {0, 1, 2})
  for _, y in ipairs {a, b, c} do check.equal(y:cpu(), x) end
  local out = {torch.zeros(2, 3, {device = "cuda:2"}), torch.zeros(2, 3, {device = "cuda:0"})}
  local p, q = comm.broadcast(x, {out = out})
  check.yes(p == out[1] and q == out[2])
  check.equal(q:cpu(), x)
  check.raises(nil, "either devices or out", function() return comm.broadcast(x) end)
  check.raises(nil, "wants a tensor", function() return comm.broadcast(3, {0}) end)
  check.raises(nil, "list of devices", function() return comm.broadcast(x, {devices = {}}) end)
end)

test("broadcast_coalesced gives a list for each device, and reduce_add_coalesced adds them up again", function()
  local tensors = {torch.ones(2):cuda(0), torch.arange(3):cuda(0)}
  local lists = {comm.broadcast_coalesced(tensors, {0, 1, 2})}
  check.equal({#lists, #lists[3], lists[3][2].device.index}, {3, 2, 2})
  local ones, numbers = comm.reduce_add_coalesced(lists, 1)
  check.equal({ones.device.index, numbers.device.index}, {1, 1})
  check.equal(ones:cpu(), {3, 3})
  check.equal(numbers:cpu(), {0, 3, 6})
  check.raises("value", "list 2 has 1 tensors", function() return comm.reduce_add_coalesced {lists[1], {lists[2][1]}} end)
end)

test("reduce_add adds tensors of one shape on the current device, or another, and copies a single one", function()
  local a, b = torch.ones(2, 2):cuda(1), torch.full({2, 2}, 2.0):cuda(2)
  local sum = comm.reduce_add {a, b}
  check.equal(sum.device.index, 0)
  check.equal(sum:cpu(), {{3, 3}, {3, 3}})
  check.equal(comm.reduce_add({a, b}, {destination = 2}).device.index, 2)
  local one = comm.reduce_add({a}, 1)
  one:add_(1)
  check.equal(a:cpu(), {{1, 1}, {1, 1}})
  check.raises("shape", "different shapes", function() return comm.reduce_add {a, torch.ones(2):cuda()} end)
end)

test("scatter cuts as chunk does, by sizes, along another dimension, on streams and into out; gather puts together", function()
  local x = torch.arange(10):float():view(5, 2)
  local parts = {comm.scatter(x, {0, 1})}
  check.equal({parts[1]:size(1), parts[2]:size(1), parts[2].device.index}, {3, 2, 1})
  check.equal(comm.gather(parts, 1, "cpu"), x)
  parts = {comm.scatter(x, {0, 1, 2}, {1, 1, 3})}
  check.equal(comm.gather(parts, {destination = -1}), x)
  parts = {comm.scatter(x, {devices = {2, 0}, dim = -1, streams = {cuda.Stream(2), cuda.Stream(0)}})}
  check.equal(comm.gather(parts, {dim = 2, destination = 1}):cpu(), x)
  local out = {torch.zeros(1, 2, {device = "cuda:1"}), torch.zeros(4, 2, {device = "cuda:2"})}
  comm.scatter(x, {out = out})
  check.equal(comm.gather(out, {out = torch.zeros(5, 2, {device = "cuda:1"})}):cpu(), x)
  check.raises("value", "one for each of 2 devices", function() return comm.scatter(x, {0, 1}, {5}) end)
end)

test("gradients come back over scatter and gather", function()
  local x = torch.arange(4):float():requires_grad_()
  local a, b = comm.scatter(x, {0, 1})
  comm.gather({a * 2, b * 3}, 1, 0):sum():backward()
  check.equal(x.grad, {2, 2, 3, 3})
end)

test("ranges of NVTX may stand anywhere, with its library or without", function()
  local nvtx = cuda.nvtx
  check.equal(math.type(nvtx.range_push "step"), "integer")
  nvtx.mark "here"
  check.equal(math.type(nvtx.range_pop()), "integer")
  nvtx.range_end(nvtx.range_start "long")
  check.equal(nvtx.range("part", function() return 5 end), 5)
  do
    local _ <close> = nvtx.range "block"
  end
  check.raises(nil, "wants a text", function() nvtx.range_push(3) end)
  check.raises(nil, "what range_start gave", function() nvtx.range_end() end)
end)

test("what scripts ask of devices by other names", function()
  check.equal(cuda.get_arch_list(), {"sm_80"})
  check.equal({cuda.is_tf32_supported(), cuda.get_per_process_memory_fraction(2)}, {true, 1})
  cuda.ipc_collect()
  cuda.set_per_process_memory_fraction(0.5, 2)
  check.equal(cuda.get_per_process_memory_fraction(2), 0.5)
  cuda.set_per_process_memory_fraction(1, 2)
  local there = torch.accelerator
  there.set_device_index(2)
  check.equal({there.current_device_index(), torch.ones(1, {device = "cuda"}).device.index}, {2, 2})
  there.device_index(1, function() check.equal(cuda.current_device(), 1) end)
  there.set_device_index(0)
  there.synchronize()
  check.equal(there.memory_allocated(1), cuda.memory_allocated(1))
end)

test("what is not here says what does the same", function()
  for name, text in pairs {OutOfMemoryError = 'err.kind == "oom"', utilization = "nvidia-smi", MemPool = "graph_pool_handle",
    cudart = "mem_get_info", jiterator = "set_fusion", memory_cached = "memory_reserved"} do
    check.raises("argument", text:gsub("%p", "%%%0"), function() return cuda[name] end)
  end
  local ok, err = pcall(function() return torch.zeros(1 << 20, 1 << 20, 1 << 10, {device = "cuda"}) end)
  check.equal({ok, err.kind}, {false, "oom"})
end)
