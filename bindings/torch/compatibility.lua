-- Names that PyTorch's scripts use besides the operations: constants, constructors by type, questions about tensors
-- and types, and settings that change nothing here because the engine decides itself.
local torch = torch
local error = torch._raise
local Tensor = torch._tensor_methods()
local F = torch.nn.functional

torch.pi, torch.e, torch.inf, torch.nan = math.pi, math.exp(1), math.huge, 0.0 / 0.0
torch.strided, torch.contiguous_format, torch.preserve_format = "torch.strided", "contiguous_format", "preserve_format"
torch.channels_last, torch.channels_last_3d = "channels_last", "channels_last_3d"

-- --- making tensors ---

local function typed(name, dtype)
  torch[name] = function(...)
    local data = ...
    local kind = torch[dtype] or torch.get_default_dtype()
    if select("#", ...) == 0 then return torch.empty(0, {dtype = kind}) end
    if torch.is_tensor(data) then return data:to(kind) end
    if type(data) == "number" then return torch.empty({...}, {dtype = kind}) end
    if type(data) ~= "table" then error(("%s: wants a list of numbers, or sizes, not %s"):format(name, tostring(data)), 2) end
    if getmetatable(data) ~= nil then return torch.empty(data, {dtype = kind}) end  -- sizes of another tensor
    return torch.tensor(data, {dtype = kind})
  end
end
for name, dtype in pairs {Tensor = "default", FloatTensor = "float32", DoubleTensor = "float64", HalfTensor = "float16",
  BFloat16Tensor = "bfloat16", LongTensor = "int64", IntTensor = "int32", ShortTensor = "int16", CharTensor = "int8",
  ByteTensor = "uint8", BoolTensor = "bool"} do
  typed(name, dtype)
end

---A tensor from data; a tensor that has the type and device asked for comes back itself.
---@param data any
---@param options? {dtype?: any, device?: any}
function torch.as_tensor(data, options)
  local o = type(options) == "table" and options or {dtype = options}
  local device = o.device or torch._default_device()
  if not torch.is_tensor(data) then return torch.tensor(data, {dtype = o.dtype, device = device}) end
  if o.dtype then data = data:to(o.dtype) end
  return device and data:to(device) or data
end
torch.asarray = torch.as_tensor

---A tensor without dimensions that holds one number.
---@param value number|boolean
---@param options? {dtype?: any, device?: any}
function torch.scalar_tensor(value, options)
  local o = options or {}
  if type(o) ~= "table" then error("scalar_tensor: the options are a table {dtype=, device=}, not " .. tostring(o), 2, "argument") end
  return torch.tensor(value, {dtype = o.dtype or torch.get_default_dtype(), device = o.device or torch._default_device()})
end

---A tensor of data with this one's type and device.
---@param data any
---@param options? {dtype?: any, device?: any, requires_grad?: boolean}
function Tensor:new_tensor(data, options)
  local o = options or {}
  if type(o) ~= "table" then error("new_tensor: the options are a table {dtype=, device=, requires_grad=}, not a " .. type(o), 2, "argument") end
  if type(data) == "table" and options == nil and (data.dtype or data.device or data.requires_grad ~= nil) then
    o, data = data, table.move(data, 1, #data, 1, {})
  end
  if torch.is_tensor(data) then data = data:detach():clone():to(o.dtype or self.dtype):to(o.device or self.device) else
    data = torch.tensor(data, {dtype = o.dtype or self.dtype, device = o.device or self.device})
  end
  return o.requires_grad and data:requires_grad_() or data
end

---Sizes, as x.shape gives them.
---@param sizes integer[]
function torch.Size(sizes)
  if type(sizes) ~= "table" then error("Size: wants a list of sizes, as in torch.Size{2, 3}, not " .. tostring(sizes), 2, "argument") end
  local out = torch.empty(0).shape
  rawset(out, 1, nil)
  for i = 1, #sizes do rawset(out, i, sizes[i]) end
  return out
end

---The shape to which all shapes broadcast.
---@param ... integer[]
function torch.broadcast_shapes(...)
  local out = torch.Size {}
  for _, shape in ipairs {...} do
    if type(shape) == "number" then shape = {shape} end
    if type(shape) ~= "table" then error("broadcast_shapes: wants shapes (x.shape, {2, 3}), not " .. tostring(shape), 2, "argument") end
    if #shape > 8 then error(("broadcast_shapes: a shape has at most 8 dimensions, not %d"):format(#shape), 2, "dim") end
    local n, wide = math.max(#out, #shape), {}
    for d = 1, n do
      local a, b = rawget(out, #out - n + d) or 1, rawget(shape, #shape - n + d) or 1
      if a ~= b and a ~= 1 and b ~= 1 then
        error(("broadcast_shapes: %s and %s do not fit"):format(tostring(out), tostring(torch.Size(shape))), 2, "broadcast")
      end
      wide[d] = a == 1 and b or a
    end
    out = torch.Size(wide)
  end
  return out
end

-- --- questions ---

local function tensor_first(name, x)
  if not torch.is_tensor(x) then error(("%s: wants a tensor, not a %s"):format(name, type(x)), 3) end
  return x
end

---Whether the elements are floating point numbers.
function torch.is_floating_point(x) return tensor_first("is_floating_point", x):is_floating_point() end
---How many elements there are.
function torch.numel(x) return tensor_first("numel", x):numel() end

local questions = {
  ---Whether the elements are complex numbers: never, here.
  is_complex = function() return false end,
  ---Whether the elements can be negative.
  is_signed = function(x) return x.dtype ~= torch.uint8 and x.dtype ~= torch.bool end,
  ---Whether the one element is not zero.
  is_nonzero = function(x)
    if x:numel() ~= 1 then error(("is_nonzero: wants one element, not shape %s"):format(tostring(x.shape)), 2, "shape") end
    local v = x:item()
    return v ~= 0 and v ~= false
  end,
  ---Whether another tensor has the same sizes.
  is_same_size = function(x, other) return x.shape == tensor_first("is_same_size", other).shape end,
  ---Whether the memory is locked for copies to a device (pin_memory).
  is_pinned = function(x) return torch.cuda._is_pinned(x) end,
  ---Whether other processes may see the memory (share_memory_, a queue).
  is_shared = function(x) return torch._is_shared(x) end,
  ---The number of the CUDA device, -1 on the CPU.
  get_device = function(x) return x.device.type == "cpu" and -1 or x.device.index or 0 end,
}
for name, f in pairs(questions) do
  local function ask(x, ...) return f(tensor_first(name, x), ...) end
  torch[name], Tensor[name] = ask, ask
end
torch.is_pinned, torch.is_shared = nil, nil

---A copy in memory that devices read by themselves, so that to(device, {non_blocking=true}) need not wait; the tensor
---itself where it is pinned already, or where there are no devices.
function Tensor:pin_memory()
  local x = tensor_first("pin_memory", self)
  if torch.cuda.device_count() == 0 or torch.cuda._is_pinned(x) then return x end
  if x.device.type ~= "cpu" then error(("pin_memory: only tensors of the CPU can be pinned, not one on %s"):format(tostring(x.device)), 2, "device") end
  return torch._pin_memory(x)
end
---Says that a stream uses the tensor: its memory is never given to others before that is done, said or not.
---@param stream table
function Tensor:record_stream(stream)
  tensor_first("record_stream", self)
  if type(stream) ~= "table" or not stream.stream_id then error("record_stream: wants a torch.cuda.Stream, not a " .. type(stream), 2) end
end
---Moves the memory to where other processes see it, too, with all its views; gives back the tensor.
function Tensor:share_memory_()
  torch._share {tensor_first("share_memory_", self)}
  return self
end
---The same tensor in the type of another, and on its device.
---@param other userdata
function Tensor:type_as(other) return self:to(tensor_first("type_as", other)) end

local type_names = {float32 = "Float", float64 = "Double", float16 = "Half", bfloat16 = "BFloat16", int64 = "Long", int32 = "Int",
  int16 = "Short", int8 = "Char", uint8 = "Byte", bool = "Bool"}
---PyTorch's name of the tensor's type, "torch.FloatTensor"; given a type, the tensor in it.
---@param dtype? any a type, its name, or such a name
function Tensor:type(dtype)
  tensor_first("type", self)
  if dtype == nil then
    return ("torch.%s%sTensor"):format(self.is_cuda and "cuda." or "", type_names[tostring(self.dtype):match "%w+$"])
  end
  local name = type(dtype) == "string" and dtype:match "^torch%.[cuda.]*(%w+)Tensor$"
  for known, long in pairs(name and type_names or {}) do
    if long == name then return self:to(known) end
  end
  for known, made in pairs(type(dtype) == "function" and type_names or {}) do
    if torch[made .. "Tensor"] == dtype then return self:to(known) end
  end
  return self:to(dtype)
end
---What kind of value it is, as PyTorch names it.
function torch.typename(x) return torch.is_tensor(x) and x:type() or type(x) end

---Whether a value is an object of a class, or of one of a list of classes, or of one that extends it: Python's isinstance.
---@param value any
---@param class table nn.Linear, or {nn.Linear, nn.Conv2d}
---@return boolean
function torch.isinstance(value, class)
  if class == torch.Tensor then return torch.is_tensor(value) end
  if class == torch.nn.Parameter then return torch.nn._is_parameter(value) end
  if type(class) == "table" and rawget(class, "_name") == nil and rawget(class, "__index") == nil then
    for i = 1, rawlen(class) do
      local one = rawget(class, i)
      if type(one) == "table" and rawlen(one) > 0 and rawget(one, "__index") == nil then
        error(("isinstance: class %d of the list is a list itself"):format(i), 2)
      end
      if torch.isinstance(value, one) then return true end
    end
    return false
  end
  if type(class) ~= "table" then error("isinstance: wants a class, as nn.Linear, or a list of them", 2) end
  local at = type(value) == "table" and getmetatable(value) or nil
  while at do
    if at == class then return true end
    if class == torch.nn.Module and rawget(at, "_base") == nil and rawget(at, "_call") then return true end
    local base = rawget(at, "_base")
    if not base then
      local meta = getmetatable(at)
      base = type(meta) == "table" and type(meta.__index) == "table" and meta.__index or nil
    end
    at = base
  end
  return false
end

-- --- types ---

local function dtype_of(name, v)
  if v == nil then return torch.get_default_dtype() end
  local ok, t = pcall(torch.empty, 0, {dtype = torch.is_tensor(v) and v.dtype or v})
  if not ok then error(("%s: %s is no type"):format(name, tostring(v)), 3) end
  return t.dtype
end

-- Bits, eps, largest, smallest normal number, digits.
local floats = {
  ["torch.float32"] = {32, 2.0 ^ -23, (2 - 2.0 ^ -23) * 2.0 ^ 127, 2.0 ^ -126, 1e-6},
  ["torch.float64"] = {64, 2.0 ^ -52, (2 - 2.0 ^ -52) * 2.0 ^ 1023, 2.0 ^ -1022, 1e-15},
  ["torch.float16"] = {16, 2.0 ^ -10, 65504.0, 2.0 ^ -14, 1e-3},
  ["torch.bfloat16"] = {16, 2.0 ^ -7, (2 - 2.0 ^ -7) * 2.0 ^ 127, 2.0 ^ -126, 1e-2},
}
---What a floating point type holds: bits, eps, max, min, tiny (the smallest normal number), resolution.
---@param dtype? any
function torch.finfo(dtype)
  local t = dtype_of("finfo", dtype)
  local f = floats[tostring(t)] or error(("finfo: %s is no floating point type; iinfo tells of integers"):format(tostring(t)), 2, "dtype")
  return {dtype = tostring(t):match "%w+$", bits = f[1], eps = f[2], max = f[3], min = -f[3], tiny = f[4], smallest_normal = f[4], resolution = f[5]}
end
---What an integer type holds: bits, max, min.
---@param dtype any
function torch.iinfo(dtype)
  local t = dtype_of("iinfo", dtype)
  local bits = ({["torch.int64"] = 64, ["torch.int32"] = 32, ["torch.int16"] = 16, ["torch.int8"] = 8, ["torch.uint8"] = 8})[tostring(t)]
  if not bits then error(("iinfo: %s is no integer type; finfo tells of floating point ones"):format(tostring(t)), 2, "dtype") end
  local max = t == torch.uint8 and 255 or bits == 64 and math.maxinteger or (1 << bits - 1) - 1
  return {dtype = tostring(t):match "%w+$", bits = bits, max = max, min = t == torch.uint8 and 0 or -max - 1}
end

---The type of a result of two tensors or numbers.
function torch.result_type(a, b)
  if not torch.is_tensor(a) and not torch.is_tensor(b) then a = torch.tensor(a) end
  local function small(x)
    if not torch.is_tensor(x) then return x end
    return torch.empty(x.ndim == 0 and {} or {0}, {dtype = x.dtype})
  end
  return torch.where(torch.empty(0, {dtype = "bool"}), small(a), small(b)).dtype
end
---The type that holds the values of two types.
function torch.promote_types(a, b)
  return torch.result_type(torch.empty(0, {dtype = dtype_of("promote_types", a)}), torch.empty(0, {dtype = dtype_of("promote_types", b)}))
end
---Whether PyTorch's rules let values of one type be stored in another: not from floating point to integer, nor to bool.
function torch.can_cast(from, to)
  local function rank(t) return floats[tostring(t)] and 3 or t == torch.bool and 1 or 2 end
  return rank(dtype_of("can_cast", from)) <= rank(dtype_of("can_cast", to))
end

-- --- settings ---

local precisions = {highest = 0, high = 1, medium = 2, [0] = "highest", "high", "medium"}
---How exact products of float32 are to be on GPUs: "highest", "high" (TF32: 11 bits of each number) or "medium" (bfloat16:
---8 bits). Sums are float32 in each case; the CPU's products are exact to float32 whatever is said.
---@param name string
function torch.set_float32_matmul_precision(name)
  if type(name) ~= "string" or not precisions[name] then
    error(('set_float32_matmul_precision: wants "highest", "high" or "medium", not %s'):format(tostring(name)), 2, "value")
  end
  torch.cuda._matmul_precision(precisions[name])
end
---What set_float32_matmul_precision said; "highest" at first.
function torch.get_float32_matmul_precision() return precisions[torch.cuda._matmul_precision()] end

---Calls f, after which the random numbers of the CPU and of the devices go on as if it had drawn none; without f it gives a
---scope.
---@param devices? table the devices' numbers, or {devices =, enabled =, device_type =}; default: all
---@param enabled? boolean
---@param f? function
function torch.random.fork_rng(devices, enabled, f)
  local given = table.pack(devices, enabled, f)
  for i = 1, given.n do
    if type(given[i]) == "function" then
      f, given[i] = given[i], nil
      break
    end
  end
  devices, enabled = given[1], given[2]
  if type(devices) == "table" and #devices == 0 and next(devices) ~= nil then devices, enabled = devices.devices, devices.enabled end
  if enabled == false then return torch._scope(function() end, f, "torch.random.fork_rng") end
  local generators = require "torch.generators"
  local states = generators.states(devices)
  return torch._scope(function() generators.set(states) end, f, "torch.random.fork_rng")
end

---- The default device ------------------------------------------------------------------------------

-- Names a device, or makes it the default one inside of a function that comes last, as `with torch.device("cuda"):` does.
local name_device = torch.device
function torch.device(...)
  local n, first = select("#", ...), ...
  local f = n > 0 and select(n, ...)
  if type(f) ~= "function" then
    if n == 1 and type(first) == "table" and first.type then return name_device(first.type, first.index) end
    return name_device(...)
  end
  local before = torch._default_device()
  local given = table.pack(...)
  torch.set_default_device(name_device(table.unpack(given, 1, n - 1)))
  return torch._scope(function() torch.set_default_device(before) end, f, "torch.device")
end
---Where torch.zeros, torch.tensor, layers and the like put what they make for this script: the CPU, or what set_default_device said.
function torch.get_default_device()
  local said = torch._default_device()
  if said and said.type == "cuda" and not said.index then return torch.device("cuda", torch.cuda.current_device()) end
  return said or torch.device "cpu"
end

---Gives back the function or module: nothing is compiled beforehand here.
---@param f any
function torch.compile(f) return f end

-- torch.special has PyTorch's second names of functions that torch has too.
local special = {expit = "sigmoid", gammaln = "lgamma", psi = "digamma", log_ndtr = false}
torch.special = torch._strict({}, "torch.special", function(_, name)
  if type(name) ~= "string" or special[name] == false then return nil end
  return rawget(torch, special[name] or name) or rawget(F, name)
end)

-- Tolerances of assert_close: relative, absolute.
local tolerances = {["torch.float32"] = {1.3e-6, 1e-5}, ["torch.float64"] = {1e-7, 1e-7}, ["torch.float16"] = {1e-3, 1e-5}, ["torch.bfloat16"] = {1.6e-2, 1e-5}}
torch.testing = {
  ---Raises unless two tensors (or numbers, or tables of them) agree, within tolerances that fit their type.
  ---@param actual any
  ---@param expected any
  ---@param options? {rtol?: number, atol?: number, equal_nan?: boolean, check_dtype?: boolean}
  assert_close = function(actual, expected, options)
    local o = options or {}
    if type(actual) == "table" and type(expected) == "table" and getmetatable(actual) == nil then
      for k in pairs(expected) do torch.testing.assert_close(actual[k], expected[k], options) end
      for k in pairs(actual) do
        if expected[k] == nil then error(("assert_close: only the first has %s"):format(tostring(k)), 2, "value") end
      end
      return
    end
    if type(actual) == "number" then actual = torch.tensor(actual) end
    if type(expected) == "number" then expected = torch.tensor(expected) end
    if not torch.is_tensor(actual) or not torch.is_tensor(expected) then
      if actual == expected then return end
      error(("assert_close: %s and %s cannot be compared"):format(tostring(actual), tostring(expected)), 2)
    end
    if actual.shape ~= expected.shape then
      error(("assert_close: the shapes differ: %s and %s"):format(tostring(actual.shape), tostring(expected.shape)), 2, "shape")
    end
    if o.check_dtype ~= false and actual.dtype ~= expected.dtype then
      error(("assert_close: the types differ: %s and %s"):format(tostring(actual.dtype), tostring(expected.dtype)), 2, "dtype")
    end
    local t = tolerances[tostring(actual.dtype)] or {0, 0}
    local rtol, atol = o.rtol or t[1], o.atol or t[2]
    local a, e = actual:detach():double():reshape(-1), expected:detach():double():reshape(-1)
    local apart = (a - e):abs()
    local wrong = ~(a:eq(e) | apart:le(e:abs() * rtol + atol))
    if o.equal_nan then wrong = wrong & ~(a:isnan() & e:isnan()) end
    local count = wrong:sum():item()
    if count == 0 then return end
    local worst = apart:masked_fill(~wrong, -1):nan_to_num(math.huge):argmax():item()
    error(("assert_close: %d of %d elements differ by more than %g + %g * |expected|; the most at element %d: %.9g and %.9g"):format(
      count, a:numel(), atol, rtol, worst, a[worst]:item(), e[worst]:item()), 2, "value")
  end,
}

torch.__version__ = "2.15"
torch.version = {cuda = nil}

-- The devices that scripts ask for by kind.
torch.accelerator = {
  ---Whether there is a device besides the CPU.
  is_available = function() return torch.cuda.is_available() end,
  ---The device besides the CPU, nil where there is none.
  current_accelerator = function() return torch.cuda.is_available() and torch.device "cuda" or nil end,
  device_count = function() return torch.cuda.device_count() end,
  synchronize = function(device) return torch.cuda.synchronize(device) end,
}
-- What else it has is torch.cuda's, under other names.
for name, of in pairs {
  current_device_index = "current_device", current_device_idx = "current_device", set_device_index = "set_device",
  set_device_idx = "set_device", device_index = "device", current_stream = "current_stream", set_stream = "set_stream",
  empty_cache = "empty_cache", memory_allocated = "memory_allocated", max_memory_allocated = "max_memory_allocated",
  memory_reserved = "memory_reserved", max_memory_reserved = "max_memory_reserved", memory_stats = "memory_stats",
  reset_peak_memory_stats = "reset_peak_memory_stats", get_memory_info = "mem_get_info",
} do
  torch.accelerator[name] = function(...) return torch.cuda[of](...) end
end

-- The CPU as a device among others: it is one, and has no queue to wait for.
torch.cpu = torch._strict({
  is_available = function() return true end,
  device_count = function() return 1 end,
  current_device = function() return "cpu" end,
  set_device = function() end,
  synchronize = function() end,
}, "torch.cpu")

---The part of torch that is about a kind of device: torch.cuda or torch.cpu; without a kind, that of the devices there are.
---@param device? any
function torch.get_device_module(device)
  if device == nil then return torch.cuda.is_available() and torch.cuda or torch.cpu end
  return torch.device(device).type == "cuda" and torch.cuda or torch.cpu
end
---As torch.cuda.Stream: a queue of a device's work.
---@param device? any
---@param priority? integer
function torch.Stream(device, priority) return torch.cuda.Stream(device, priority) end
---As torch.cuda.Event; the device is that of the stream in which it is recorded.
---@param device? any|{device?: any, enable_timing?: boolean, blocking?: boolean, interprocess?: boolean}
---@param options? {enable_timing?: boolean, blocking?: boolean, interprocess?: boolean}
function torch.Event(device, options)
  local o = {}
  for k, v in pairs(type(device) == "table" and device or options or {}) do o[k] = v end
  o.device = nil
  return torch.cuda.Event(o)
end
