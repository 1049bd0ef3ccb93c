-- Names that a part of torch does not have: reading one in a script is an error with the nearest names, as in PyTorch,
-- so that {dtype = torch.flaot64} cannot pass as "no dtype". The half of torch written in Lua may look whether a name
-- is there. Loaded when a wrong name is read.
local torch = torch
local strict = {}

-- What to write where PyTorch has a part that Tycho lacks.
local no_complex = "there are no complex numbers: keep the real and the imaginary part in two tensors"
local use_nvidia_smi = "nvidia-smi shows it"
local own_memory = "memory of devices is always kept and reused; torch.cuda.empty_cache() gives it back"
local instead = {
  complex = no_complex, complex64 = no_complex, complex128 = no_complex, cfloat = no_complex, cdouble = no_complex, view_as_complex = no_complex,
  view_as_real = no_complex, polar = no_complex,
  fft = "there are no complex numbers: conv1d filters; a product with the matrix of cosines and sines transforms",
  from_numpy = 'torch.load("x.npy") reads what numpy.save wrote; torch.tensor takes tables',
  script = "modules need no compiling: call them, and save net:state_dict()",
  trace = "modules need no compiling: call them, and save net:state_dict()",
  onnx = "torch.save(net:state_dict(), path) writes a file that PyTorch reads",
  hub = "torch.models holds networks with torchvision's names of weights",
  tensorboard = "scripts/training.lua writes metrics as CSV; torch.plot draws curves",
  numpy = "tensors are tables with x:tolist(), and .npy files with torch.save(x, \"x.npy\")",
  profiler = "%prof at the prompt tells where the time goes",
  OutOfMemoryError = 'local ok, err = pcall(f, x); err.kind == "oom" says that memory ran out',
  AcceleratorError = 'local ok, err = pcall(f, x); err.kind == "device" says what is wrong with a device',
  CudaError = 'local ok, err = pcall(f, x); err.kind == "device" says what is wrong with a device',
  utilization = use_nvidia_smi, temperature = use_nvidia_smi, power_draw = use_nvidia_smi, clock_rate = use_nvidia_smi,
  memory_usage = use_nvidia_smi, list_gpu_processes = use_nvidia_smi, device_memory_used = use_nvidia_smi,
  cudart = "torch.cuda.synchronize, torch.cuda.mem_get_info and torch.cuda.Event have what scripts want of the runtime",
  get_gencode_flags = "kernels are not compiled by scripts here",
  jiterator = "chains of elementwise operations become one kernel by themselves (torch.set_fusion)",
  ExternalStream = "torch.cuda.Stream() makes a stream; those of other libraries cannot be used",
  get_stream_from_external = "torch.cuda.Stream() makes a stream; those of other libraries cannot be used",
  MemPool = "torch.cuda.graph_pool_handle() makes memory that graphs share; other memory is reused by itself",
  use_mem_pool = "torch.cuda.graph_pool_handle() makes memory that graphs share; other memory is reused by itself",
  caching_allocator_alloc = own_memory, caching_allocator_delete = own_memory, caching_allocator_enable = own_memory,
  change_current_allocator = own_memory, get_allocator_backend = own_memory, CUDAPluggableAllocator = own_memory,
  memory_snapshot = "torch.cuda.memory_summary() and %mem show who holds memory",
  memory_cached = "torch.cuda.memory_reserved is its name now", max_memory_cached = "torch.cuda.max_memory_reserved is its name now",
  reset_max_memory_cached = "torch.cuda.reset_peak_memory_stats is its name now",
  default_generators = "torch.cuda.manual_seed, get_rng_state and set_rng_state are the devices' generators",
  set_sync_debug_mode = "%prof shows which lines wait for the device", get_sync_debug_mode = "%prof shows which lines wait for the device",
  SparseAdam = "gradients are dense here: optim.Adam",
}

---Raises that `owner` has no `name`, for a script that reads it; else gives nil.
---@param owner table
---@param label string what the table is called in scripts
---@param name any
function strict.missing(owner, label, name)
  local caller = debug.getinfo(3, "Sl")
  if type(name) ~= "string" or name:sub(1, 1) == "_" or not caller or caller.what == "C" then return nil end
  if caller.source:find "^=torch/" or caller.source:find "^=shell/" then return nil end
  if instead[name] then torch._raise(('%s has no "%s"; %s'):format(label, name, instead[name]), 3, "argument") end
  local names = require "torch.explain.names"
  -- A call of what is not there has a report of its own, with changes that were tried.
  local called = names.from_text(("%s:%d: attempt to call a nil value (field '%s')"):format(caller.short_src, caller.currentline, name), true)
  if called then error(called, 0) end
  local near = {}
  for i, part in ipairs(require("torch.explain.places").of(name)) do near[i] = part .. "." .. name end
  for _, n in ipairs(#near == 0 and names.nearest(name, owner) or {}) do near[#near + 1] = label .. "." .. n end
  local hint = near[1] and ("; did you mean %s?"):format(table.concat(near, ", ")) or ""
  torch._raise(('%s has no "%s"%s'):format(label, name, hint), 3, "argument")
end

---Raises that a word of Python was read as a variable.
---@param name string
function strict.python(name)
  local caller = debug.getinfo(3, "Sl")
  if not caller or caller.what == "C" or caller.source:find "^=torch/" or caller.source:find "^=shell/" then return end
  torch._raise(("Lua writes %s small: %s"):format(name, name:lower()), 3, "argument")
end

return strict
