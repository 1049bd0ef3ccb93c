-- The half of torch.cuda that is written in Lua: scopes of the current device, streams and events, what is known of a
-- device and of its memory. Loaded when first looked at.
local torch = torch
local error = torch._raise
local cuda = torch.cuda

local function nothing() end

-- A device as a number, a name or a device; the current one when nothing is given.
local function number_of(device, who)
  if device == nil then return cuda.current_device() end
  local at = math.type(device) == "integer" and torch.device("cuda", device) or torch.device(device)
  if at.type == "cpu" then error(who .. ": the CPU is no CUDA device", 3, "device") end
  return at.index or cuda.current_device()
end

---- The current device ------------------------------------------------------------------------------

local function device_scope(device, f, who)
  if math.type(device) == "integer" and device < 0 or device == nil then return torch._scope(nothing, f) end
  local at = math.type(device) == "integer" and torch.device("cuda", device) or torch.device(device)
  if at.type == "cpu" then return torch._scope(nothing, f) end
  local before = cuda.current_device()
  cuda.set_device(at)
  return torch._scope(function() cuda.set_device(before) end, f, "torch.cuda." .. (who or "device"))
end

---Makes a device the current one, which "cuda" means, inside f or until the scope's block ends:
---`local _ <close> = torch.cuda.device(1)`. The CPU and a negative number change nothing.
---@param device any a number, a name or a device
---@param f? function
function cuda.device(device, f) return device_scope(device, f) end

---As torch.cuda.device, for the device on which a tensor lies; one of the CPU changes nothing.
---@param tensor torch.Tensor
---@param f? function
function cuda.device_of(tensor, f)
  if not torch.is_tensor(tensor) then error("device_of: wants a tensor, not a " .. type(tensor), 2) end
  return device_scope(tensor.device, f, "device_of")
end

---- Streams -------------------------------------------------------------------------------------------

local Stream = {__name = "torch.cuda.Stream"}
Stream.__index = Stream
local default = {}  -- device number -> its stream 0
local current = {}  -- device number -> the current stream, where it is not the default one

local function stream_of(number, id, priority)
  return setmetatable({device = torch.device("cuda", number), device_index = number, stream_id = id, priority = priority or 0}, Stream)
end
function Stream.__tostring(s) return ("<torch.cuda.Stream device=%s id=%d>"):format(tostring(s.device), s.stream_id) end
function Stream.__eq(a, b) return a.device_index == b.device_index and a.stream_id == b.stream_id end
function Stream.__gc(s)
  if s.stream_id > 0 then cuda._release_stream(s.device_index, s.stream_id) end
end

local Event = {__name = "torch.cuda.Event"}
Event.__index = Event

local function check_stream(v, who)
  if getmetatable(v) ~= Stream then error(who .. ": wants a torch.cuda.Stream, not a " .. type(v), 3) end
  return v
end

---A queue of a device's work beside the default one: work in different streams has no order among each other, unless one
---waits for the other (wait_stream, wait_event). It has synchronize(), query(), wait_stream(s), wait_event(e) and
---record_event(e). On simulated devices operations run at once, and copies with non_blocking when they are waited for.
---@param device? any default: the current device
---@param priority? integer
function cuda.Stream(device, priority)
  if type(device) == "table" then device, priority = device.device, device.priority end
  local number = number_of(device, "Stream")
  return stream_of(number, cuda._new_stream(number), priority)
end

---The stream that a device's work goes to when no other was chosen.
---@param device? any
function cuda.default_stream(device)
  local number = number_of(device, "default_stream")
  default[number] = default[number] or stream_of(number, 0)
  return default[number]
end

---The stream that a device's work goes to now.
---@param device? any
function cuda.current_stream(device)
  local number = number_of(device, "current_stream")
  return current[number] or cuda.default_stream(number)
end

---Makes a stream the current one of its device, and its device the current one.
---@param stream table
function cuda.set_stream(stream)
  if stream == nil then return end
  check_stream(stream, "set_stream")
  cuda.set_device(stream.device)
  cuda._set_stream(stream.device_index, stream.stream_id)
  current[stream.device_index] = stream
end

---Makes a stream the current one inside f or until the scope's block ends; nil changes nothing.
---@param stream? table
---@param f? function
function cuda.stream(stream, f)
  if stream == nil then return torch._scope(nothing, f) end
  check_stream(stream, "stream")
  local device, before = cuda.current_device(), cuda.current_stream(stream.device)
  cuda.set_stream(stream)
  return torch._scope(function()
    cuda.set_stream(before)
    cuda.set_device(device)
  end, f, "torch.cuda.stream")
end

---Waits until everything asked of the stream is done.
function Stream:synchronize() cuda._wait(self.device_index, self.stream_id, cuda._mark(self.device_index, self.stream_id)) end
---Is everything asked of the stream done?
function Stream:query() return cuda._passed(self.device_index, self.stream_id, cuda._mark(self.device_index, self.stream_id)) end
---What comes next in this stream comes after what is in the other one now.
---@param other table
function Stream:wait_stream(other)
  check_stream(other, "wait_stream")
  cuda._wait_on_device(self.device_index, self.stream_id, other.device_index, other.stream_id, cuda._mark(other.device_index, other.stream_id))
end
---What comes next in this stream comes after the event.
---@param event table
function Stream:wait_event(event)
  if getmetatable(event) ~= Event then error("wait_event: wants a torch.cuda.Event, not a " .. type(event), 2) end
  event:wait(self)
end
---Records an event in this stream; a new one unless given.
---@param event? table
function Stream:record_event(event)
  event = event or cuda.Event()
  if getmetatable(event) ~= Event then error("record_event: wants a torch.cuda.Event, not a " .. type(event), 2) end
  event:record(self)
  return event
end

---- Events -------------------------------------------------------------------------------------------

function Event.__tostring(e) return ("<torch.cuda.Event %s>"):format(e.mark and "recorded" or "not recorded") end

---A mark in a stream, to wait for or to measure between: it has record(stream), wait(stream), query(), synchronize() and,
---with enable_timing, elapsed_time(later), in milliseconds.
---@param enable_timing? boolean|{enable_timing?: boolean, blocking?: boolean, interprocess?: boolean}
function cuda.Event(enable_timing)
  if type(enable_timing) == "table" then
    for k in pairs(enable_timing) do
      if k ~= "enable_timing" and k ~= "blocking" and k ~= "interprocess" then
        error(('Event: no argument "%s" (it has: enable_timing, blocking, interprocess)'):format(tostring(k)), 2)
      end
    end
    enable_timing = enable_timing.enable_timing
  end
  return setmetatable({enable_timing = enable_timing or false}, Event)
end

-- A GPU's time of the event, which stands in its stream; simulated devices have the host's.
function Event:__gc()
  if self.gpu_time then cuda._release_time(self.device.index, self.gpu_time) end
  self.gpu_time = nil
end

---Marks how far the stream is.
---@param stream? table default: the current one
function Event:record(stream)
  stream = stream and check_stream(stream, "record") or cuda.current_stream()
  Event.__gc(self)
  self.device, self.stream_id = stream.device, stream.stream_id
  if self.enable_timing then
    local _, _, _, simulated = cuda._info(stream.device_index)
    self.gpu_time = not simulated and cuda._new_time(stream.device_index, stream.stream_id) or nil
    self.time = torch.perf_counter()
  end
  self.mark = cuda._mark(stream.device_index, stream.stream_id)
end
---What comes next in the stream comes after this event.
---@param stream? table default: the current one
function Event:wait(stream)
  stream = stream and check_stream(stream, "wait") or cuda.current_stream()
  if self.mark then cuda._wait_on_device(stream.device_index, stream.stream_id, self.device.index, self.stream_id, self.mark) end
end
---Has the stream passed the event?
function Event:query()
  if not self.mark then return true end
  local passed = cuda._passed(self.device.index, self.stream_id, self.mark)
  -- Who asks until it is so gets there: nothing else drives a simulated device.
  if not passed then cuda._wait(self.device.index, self.stream_id, self.mark) end
  return passed
end
---Waits until the stream has passed the event.
function Event:synchronize()
  if self.mark then cuda._wait(self.device.index, self.stream_id, self.mark) end
end
---The milliseconds from this event to a later one.
---@param later table
function Event:elapsed_time(later)
  if getmetatable(later) ~= Event then error("elapsed_time: wants the later event: first:elapsed_time(later)", 2) end
  if not self.enable_timing or not later.enable_timing then
    error("elapsed_time: both events must be made with enable_timing: torch.cuda.Event{enable_timing = true}", 2, "value")
  end
  if not self.mark or not later.mark then error("elapsed_time: both events must be recorded before the time between them is asked for", 2, "value") end
  for _, e in ipairs {self, later} do
    if not cuda._passed(e.device.index, e.stream_id, e.mark) then
      error("elapsed_time: both events must be passed before the time between them is asked for: later:synchronize()", 2, "value")
    end
  end
  if not self.gpu_time then return (later.time - self.time) * 1000 end
  if self.device ~= later.device then error("elapsed_time: both events must be of one device", 2, "value") end
  return cuda._milliseconds(self.device.index, self.gpu_time, later.gpu_time)
end

---- What a device is ---------------------------------------------------------------------------------

local Properties = {__name = "torch.cuda.DeviceProperties"}
function Properties.__tostring(p)
  return ("DeviceProperties(name='%s', major=%d, minor=%d, total_memory=%dMB, multi_processor_count=%d)"):format(p.name, p.major, p.minor,
    p.total_memory // 1048576, p.multi_processor_count)
end

---What is known of a device: name, major and minor (its compute capability), total_memory in bytes,
---multi_processor_count. A simulated one has the memory of TYCHO_SIMULATE_MEMORY, else the machine's, and counts threads.
---@param device? any
function cuda.get_device_properties(device)
  local number = number_of(device, "get_device_properties")
  local major, minor, units = cuda._info(number)
  return setmetatable({name = cuda.get_device_name(number), major = major, minor = minor, total_memory = (cuda._limits(number)),
    multi_processor_count = units, is_integrated = 0, is_multi_gpu_board = 0}, Properties)
end
---The compute capability of a device, as two numbers; a simulated one says 8, 0: what it computes, such GPUs compute too.
---@param device? any
function cuda.get_device_capability(device)
  local major, minor = cuda._info(number_of(device, "get_device_capability"))
  return major, minor
end
---Can the current device compute in bfloat16? Simulated ones can.
function cuda.is_bf16_supported() return cuda.is_available() and (cuda._info(cuda.current_device())) >= 8 end
---Can tensors be copied from one device to the other without the host in between?
---@param device any
---@param peer any
function cuda.can_device_access_peer(device, peer)
  return number_of(device, "can_device_access_peer") ~= number_of(peer, "can_device_access_peer")
end
---Was a device asked for? There is nothing to start for simulated ones.
function cuda.is_initialized() return cuda.is_available() end
---Starts the devices, which also happens by itself; raises where there are none.
function cuda.init() cuda.current_device() end
---The states of all devices' random numbers, a list.
function cuda.get_rng_state_all()
  local out = {}
  for i = 1, cuda.device_count() do out[i] = cuda.get_rng_state(i - 1) end
  return out
end
---Puts back the states that get_rng_state_all gave.
---@param states table
function cuda.set_rng_state_all(states)
  if type(states) ~= "table" then error("set_rng_state_all: wants the list that get_rng_state_all gave", 2) end
  for i, state in ipairs(states) do cuda.set_rng_state(state, i - 1) end
end

---- Memory -------------------------------------------------------------------------------------------

---The bytes of a device that nobody has taken, and all its bytes.
---@param device? any
---@return integer free, integer total
function cuda.mem_get_info(device)
  local total, free = cuda._limits(number_of(device, "mem_get_info"))
  return free, total
end
---The most bytes taken from a device at one time, as far as it is known: not less than tensors held, or than are taken now.
---@param device? any
function cuda.max_memory_reserved(device) return math.max(cuda.memory_reserved(device), cuda.max_memory_allocated(device)) end
local fractions = {}  -- device number -> what set_per_process_memory_fraction said
function cuda._fraction(device) return fractions[number_of(device, "get_per_process_memory_fraction")] or 1.0 end
---Limits what tensors may hold on a device to a part of its memory; beyond that they raise an out-of-memory error.
---@param fraction number from 0 to 1
---@param device? any
function cuda.set_per_process_memory_fraction(fraction, device)
  if type(fraction) ~= "number" or fraction < 0 or fraction > 1 then
    error(("set_per_process_memory_fraction: wants a number from 0 to 1, not %s"):format(tostring(fraction)), 2, "value")
  end
  local number = number_of(device, "set_per_process_memory_fraction")
  fractions[number] = fraction
  local total = cuda._limits(number)
  cuda._set_limit(number, math.max(1, math.floor(total * fraction)))
end
---max_memory_allocated counts from now on.
---@param device? any
function cuda.reset_max_memory_allocated(device) return cuda.reset_peak_memory_stats(device) end

local counted = {}  -- device number -> its allocations when reset_accumulated_memory_stats was called
---The counts of memory_stats that only grow ("allocation.all.allocated") begin at 0 again.
---@param device? any
function cuda.reset_accumulated_memory_stats(device)
  local number = number_of(device, "reset_accumulated_memory_stats")
  counted[number] = select(3, cuda._limits(number))
end

---Counts of a device's memory by PyTorch's names: "allocated_bytes.all.current", ".peak", "reserved_bytes.all.current",
---"allocation.all.allocated".
---@param device? any
---@return table
function cuda.memory_stats(device)
  if not cuda.is_available() then return {} end
  local number = number_of(device, "memory_stats")
  local _, _, allocations = cuda._limits(number)
  allocations = allocations - (counted[number] or 0)
  return {["allocated_bytes.all.current"] = cuda.memory_allocated(number), ["allocated_bytes.all.peak"] = cuda.max_memory_allocated(number),
    ["reserved_bytes.all.current"] = cuda.memory_reserved(number), ["reserved_bytes.all.peak"] = cuda.max_memory_reserved(number),
    ["allocation.all.allocated"] = allocations}
end

---The counts of a device's memory as a table to print.
---@param device? any
---@return string
function cuda.memory_summary(device)
  local number = number_of(device, "memory_summary")
  local free, total = cuda.mem_get_info(number)
  local rows = {{"tensors hold", cuda.memory_allocated(number)}, {"at most", cuda.max_memory_allocated(number)},
    {"taken from the device", cuda.memory_reserved(number)}, {"free", free}, {"in all", total}}
  local lines = {("cuda:%d  %s"):format(number, cuda.get_device_name(number))}
  for _, row in ipairs(rows) do lines[#lines + 1] = ("  %-22s %12.1f MB"):format(row[1], row[2] / 1e6) end
  return table.concat(lines, "\n")
end

require "torch.cuda_graphs"
require "torch.cuda_names"
return cuda
