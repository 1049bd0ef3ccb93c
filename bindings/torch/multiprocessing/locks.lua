-- mp.Event, mp.Lock and mp.RLock: words of shared memory that processes wait for. A lock knows its owner:
-- when that process dies, the next one who wants it gets an error instead of waiting for ever.
local torch = torch
local error = torch._raise
local mp = package.loaded["torch.multiprocessing"]
local queues = require "torch.multiprocessing.queues"

local forever = 1e9

-- --- events ---
local Event = {__name = "Event"}
Event.__index = Event

---Wakes all who wait, and whoever waits later.
function Event:set() torch._word_set(self._word, 1) end
---From now on wait waits.
function Event:clear() torch._word_set(self._word, 0) end
---Whether it is set.
---@return boolean
function Event:is_set() return torch._word_get(self._word) ~= 0 end
---Waits until it is set, at most `timeout` seconds; whether it is.
---@param timeout? number seconds
---@return boolean
function Event:wait(timeout) return torch._word_wait(self._word, 0, queues.patience("Event.wait", true, timeout)) end
function Event:__tostring() return self:is_set() and "Event (set)" or "Event (not set)" end

mp.Event = setmetatable(Event, {__name = "Event", __call = function() return setmetatable({_word = queues.new_word()}, Event) end})

-- --- locks ---
local Lock = {__name = "Lock"}
Lock.__index = Lock

local function new(name, recursive)
  local memory = torch.zeros({torch._mutex_words}, {dtype = torch.int32})
  torch._share {memory}
  torch._mutex_new(memory, recursive)
  return setmetatable({_memory = memory, _as = name}, Lock)
end

---Takes the lock; waits until it is free. Gives false when it did not come in time.
---@param block? boolean|table false: does not wait; or {block=, timeout=}
---@param timeout? number seconds
---@return boolean
function Lock:acquire(block, timeout)
  local said, pid = torch._mutex_lock(self._memory, queues.patience("Lock.acquire", block, timeout))
  if said == "own" then error("Lock.acquire: this process has the lock already (an RLock can be taken again)", 2, "value") end
  if said == "died" then
    local _, err = pcall(error, ("Lock.acquire: the process that held the lock (pid %d) died with it; what it guards may be half done. The lock is free again"):format(pid), 3, "distributed")
    rawset(err, "reason", "died")
    error(err, 0)
  end
  return said == "held"
end

---Gives the lock back.
function Lock:release()
  if not torch._mutex_unlock(self._memory) then error("Lock.release: this process does not have the lock", 2, "value") end
end

---f's results, with the lock held; without f a scope: `local _ <close> = lock:hold()`.
---@param f? function
function Lock:hold(f, ...)
  self:acquire()
  if f == nil then
    local lock = self
    return setmetatable({}, {__close = function() lock:release() end, __name = "a held lock"})
  end
  local results = table.pack(pcall(f, ...))
  self:release()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end
function Lock:__tostring() return self._as end

mp.Lock = setmetatable(Lock, {__name = "Lock", __call = function() return new("Lock", false) end})
---A lock that its owner can take several times.
function mp.RLock() return new("RLock", true) end
