-- Smaller parts of torch.cuda that scripts ask for: what kernels are for, limits, NVTX's ranges; and what to write in place of
-- parts that mean nothing here.
local torch = torch
local error = torch._raise
local cuda = torch.cuda

cuda.comm = require "torch.cuda_comm"
cuda.StreamContext = cuda.stream
-- PyTorch's files of these names hold what torch.cuda has itself.
for _, name in ipairs {"memory", "random", "streams"} do
  cuda[name] = torch._strict({}, "torch.cuda." .. name, function(_, key) return rawget(cuda, key) end)
end

---The kinds of GPU that operations run on here, as "sm_90": those of the devices; none without devices.
---@return string[]
function cuda.get_arch_list()
  local seen, out = {}, {}
  for i = 1, cuda.device_count() do
    local major, minor = cuda.get_device_capability(i - 1)
    local name = ("sm_%d%d"):format(major, minor)
    if not seen[name] then out[#out + 1] = name end
    seen[name] = true
  end
  table.sort(out)
  return out
end

---Lets go of memory that other processes gave and that nobody uses. CUDA tensors go to other processes through the host here, so
---there is none.
function cuda.ipc_collect() end

---Can the current device compute products of float32 in TF32? From Ampere (8.0) on.
---@return boolean
function cuda.is_tf32_supported() return cuda.is_available() and (cuda.get_device_capability()) >= 8 end

---Which part of a device's memory tensors may hold, as set_per_process_memory_fraction set it; 1 before.
---@param device? any
---@return number
function cuda.get_per_process_memory_fraction(device) return cuda._fraction(device) end

---- NVTX: names of parts of a script, for NVIDIA's profilers. Without its library they cost a call and do nothing. ---------------

local nvtx = {}
cuda.nvtx = nvtx

local function text_of(text, who)
  if type(text) ~= "string" then error(("nvtx.%s: wants a text, not a %s"):format(who, type(text)), 3) end
  return text
end

---Begins a range, which range_pop ends; ranges of one thread nest.
---@param text string
---@return integer # how deep it is, from 0; -1 where NVTX is not there
function nvtx.range_push(text) return cuda._nvtx("push", text_of(text, "range_push")) end
---Ends the range that was begun last.
---@return integer # how deep it was, from 0; below 0 where there was none
function nvtx.range_pop() return cuda._nvtx "pop" end
---Marks a point in time.
---@param text string
function nvtx.mark(text) cuda._nvtx("mark", text_of(text, "mark")) end
---Begins a range that may end anywhere.
---@param text string
---@return integer # for range_end
function nvtx.range_start(text) return cuda._nvtx("start", text_of(text, "range_start")) end
---Ends a range that range_start began.
---@param range integer
function nvtx.range_end(range)
  if math.type(range) ~= "integer" then error("nvtx.range_end: wants what range_start gave, not a " .. type(range), 2) end
  cuda._nvtx("end", nil, range)
end
---A range around f, or until the scope's block ends: `local _ <close> = torch.cuda.nvtx.range("forward")`.
---@param text string
---@param f? function
function nvtx.range(text, f)
  nvtx.range_push(text)
  return torch._scope(function() nvtx.range_pop() end, f, "torch.cuda.nvtx.range")
end

return cuda
