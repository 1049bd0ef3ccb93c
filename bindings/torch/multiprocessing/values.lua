-- mp.Value and mp.Array: numbers that processes share, over shared tensors, with a lock. The type is one of C's letters, as
-- in Python's `array`, or a dtype. For more than a few numbers a tensor with share_memory_() is the thing itself.
local torch = torch
local error = torch._raise
local mp = package.loaded["torch.multiprocessing"]

local letters = {b = torch.int8, B = torch.uint8, h = torch.int16, i = torch.int32, l = torch.int64, q = torch.int64,
  f = torch.float32, d = torch.float64}

local function dtype_of(who, code)
  if letters[code] then return letters[code] end
  if pcall(torch.zeros, {0}, {dtype = code}) and code ~= nil then return code end
  error(("%s: the type is one of b B h i l q f d, or a dtype, not %s"):format(who, type(code) == "string" and '"' .. code .. '"' or tostring(code)), 4)
end
local function lock_of(who, lock)
  if type(lock) == "table" and rawget(lock, "lock") ~= nil and getmetatable(lock) == nil then lock = lock.lock end
  if lock == nil or lock == true then return mp.RLock() end
  if lock == false then return false end
  if getmetatable(lock) == mp.Lock then return lock end
  error(("%s: lock wants true, false, or an mp.Lock, not %s"):format(who, type(lock)), 4)
end

-- What both have: the lock, and the shared tensor itself.
local common = {}
---The lock: `local _ <close> = v:get_lock():hold()` around `v.value = v.value + 1`.
function common:get_lock()
  return rawget(self, "_lock") or error("this was made with lock = false, so it has none", 2, "value")
end
---The shared tensor behind it.
---@return Tensor
function common:get_obj() return rawget(self, "_tensor") end

-- --- one number ---
local Value = {__name = "Value"}
function Value.__index(self, key)
  if key == "value" then return rawget(self, "_tensor")[{1}]:item() end
  return common[key]
end
function Value.__newindex(self, key, x)
  if key ~= "value" then error(('Value: there is only .value to set, no "%s"'):format(tostring(key)), 2) end
  rawget(self, "_tensor")[{1}] = x
end
function Value:__tostring() return ("Value (%s)"):format(tostring(self.value)) end

local function new_value(_, code, x, lock)
  local t = torch.zeros({1}, {dtype = dtype_of("Value", code)}):share_memory_()
  if x ~= nil then t[{1}] = x end
  return setmetatable({_tensor = t, _lock = lock_of("Value", lock)}, Value)
end
mp.Value = setmetatable(Value, {__name = "Value", __call = new_value})

-- --- several ---
local Array = {__name = "Array"}
function Array.__index(self, key)
  if math.type(key) == "integer" then return rawget(self, "_tensor")[{key}]:item() end
  if type(key) == "table" then return rawget(self, "_tensor")[key] end
  return common[key]
end
function Array.__newindex(self, key, x)
  if type(key) ~= "table" and math.type(key) ~= "integer" then error(("Array: wants a position from 1 to %d, not %s"):format(#self, tostring(key)), 2) end
  rawget(self, "_tensor")[type(key) == "table" and key or {key}] = x
end
function Array.__len(self) return #rawget(self, "_tensor") end
function Array:__tostring() return ("Array (%s)"):format(tostring(rawget(self, "_tensor"))) end

local function new_array(_, code, size, lock)
  local dtype, t = dtype_of("Array", code), nil
  if math.type(size) == "integer" and size >= 0 then
    t = torch.zeros({size}, {dtype = dtype})
  elseif torch.is_tensor(size) or type(size) == "table" then
    t = torch.is_tensor(size) and size:detach():to(dtype):flatten():clone() or torch.tensor(size, {dtype = dtype})
  else
    error(("Array: wants how many numbers, or a list of them, not %s"):format(tostring(size)), 3)
  end
  return setmetatable({_tensor = t:share_memory_(), _lock = lock_of("Array", lock)}, Array)
end
mp.Array = setmetatable(Array, {__name = "Array", __call = new_array})

---A Value without a lock.
function mp.RawValue(code, x) return new_value(nil, code, x, false) end
---An Array without a lock.
function mp.RawArray(code, size) return new_array(nil, code, size, false) end
