-- mp.Semaphore, mp.BoundedSemaphore, mp.Condition and mp.Barrier, from words of shared memory and a lock. As in Python's
-- multiprocessing; `reason` of an error says "broken" or "timeout" where a script wants to tell.
local torch = torch
local error = torch._raise
local mp = package.loaded["torch.multiprocessing"]
local queues = require "torch.multiprocessing.queues"

local forever = 1e9

local function wants_count(who, what, n, least)
  if math.type(n) ~= "integer" or n < least or n > 0x7fffffff then
    error(("%s: %s wants an integer from %d, not %s"):format(who, what, least, tostring(n)), 4)
  end
  return n
end
-- f's results, or its error after `last` has run.
local function finally(last, f, ...)
  local results = table.pack(pcall(f, ...))
  last()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end
-- with(x, f): what Python's `with x:` does; without f a scope, `local _ <close> = x:hold()`.
local function hold(x, f, ...)
  x:acquire()
  if f ~= nil then return finally(function() x:release() end, f, ...) end
  return setmetatable({}, {__close = function() x:release() end, __name = "a held " .. getmetatable(x).__name})
end

-- --- semaphores: a word counts how many are taken ---
local Semaphore = {__name = "Semaphore", hold = hold}
Semaphore.__index = Semaphore

---Takes one; waits until there is one. Gives false when none came in time.
---@param block? boolean|table false: does not wait; or {block=, timeout=}
---@param timeout? number seconds
---@return boolean
function Semaphore:acquire(block, timeout)
  return torch._word_below(self._taken, self._value, queues.patience("Semaphore.acquire", block, timeout))
end
---Gives `n` back.
---@param n? integer
function Semaphore:release(n)
  n = wants_count("Semaphore.release", "n", n or 1, 1)
  local left = torch._word_add(self._taken, -n)
  if self._bounded and left < 0 then
    torch._word_add(self._taken, n)
    error(("BoundedSemaphore.release: given back more often than taken (it holds %d)"):format(self._value), 2, "value")
  end
end
---How many there are now.
---@return integer
function Semaphore:get_value() return self._value - torch._word_get(self._taken) end
function Semaphore:__tostring() return ("%s (%d left)"):format(self._bounded and "BoundedSemaphore" or "Semaphore", self:get_value()) end

local function new_semaphore(who, value, bounded)
  if type(value) == "table" then value = value.value end
  return setmetatable({_taken = queues.new_word(), _value = wants_count(who, "value", value or 1, 0), _bounded = bounded}, Semaphore)
end
mp.Semaphore = setmetatable(Semaphore, {__name = "Semaphore", __call = function(_, value) return new_semaphore("Semaphore", value, false) end})
---A semaphore that raises when more is given back than was taken.
---@param value? integer
function mp.BoundedSemaphore(value) return new_semaphore("BoundedSemaphore", value, true) end

-- --- conditions: who waits is counted under the lock, and woken through a semaphore ---
local Condition = {__name = "Condition", hold = hold}
Condition.__index = Condition

---Takes the condition's lock.
function Condition:acquire(...) return self._lock:acquire(...) end
---Gives it back.
function Condition:release() return self._lock:release() end
---Gives the lock back, waits to be notified, and takes it again. A wait may end without reason: look again, or use wait_for.
---@param timeout? number seconds
---@return boolean # false when the time ran out
function Condition:wait(timeout)
  local seconds = queues.patience("Condition.wait", true, timeout)
  -- Counted before the lock is free, or whoever takes it next would see nobody to wake.
  torch._word_add(self._waiting, 1)
  local held = 0  -- how often: an RLock may be taken several times
  while torch._mutex_unlock(self._lock._memory) do held = held + 1 end
  if held == 0 then
    torch._word_add(self._waiting, -1)
    error("Condition.wait: this process does not have the lock", 2, "value")
  end
  return finally(function()
    for _ = 1, held do self._lock:acquire() end
  end, function()
    if self._calls:acquire(true, seconds) or self._calls:acquire(false) then return true end
    torch._word_add(self._waiting, -1)
    return false
  end)
end
---Waits until `predicate()` is true, and gives what it gave last.
---@param predicate function
---@param timeout? number seconds
function Condition:wait_for(predicate, timeout)
  local seconds = queues.patience("Condition.wait_for", true, timeout)
  local ends = torch.perf_counter() + seconds
  local value = predicate()
  while not value do
    local left = ends - torch.perf_counter()
    if left <= 0 or not self:wait(left) then return predicate() end
    value = predicate()
  end
  return value
end
---Wakes at most `n` who wait. The lock must be held.
---@param n? integer 1 when left out
function Condition:notify(n)
  n = math.min(wants_count("Condition.notify", "n", n or 1, 1), torch._word_get(self._waiting))
  if n < 1 then return end
  torch._word_add(self._waiting, -n)
  self._calls:release(n)
end
---Wakes all who wait. The lock must be held.
function Condition:notify_all() self:notify(0x7fffffff) end
function Condition:__tostring() return ("Condition (%d waiting)"):format(torch._word_get(self._waiting)) end

local function new_condition(_, lock)
  if lock ~= nil and getmetatable(lock) ~= mp.Lock then error(("Condition: wants an mp.Lock or mp.RLock, not %s"):format(type(lock)), 3) end
  return setmetatable({_lock = lock or mp.RLock(), _waiting = queues.new_word(), _calls = new_semaphore("Condition", 0, false)}, Condition)
end
mp.Condition = setmetatable(Condition, {__name = "Condition", __call = new_condition})

-- --- barriers: a round is a number that changes when all have come, or when the barrier breaks ---
local Barrier = {__name = "Barrier"}

local function broken(who)
  local _, err = pcall(error, ("%s: the barrier is broken: a process gave up waiting, or called abort"):format(who), 4, "distributed")
  rawset(err, "reason", "broken")
  error(err, 0)
end
-- Ends a round; the lock is held. Whether the round broke, and whether the barrier stays broken.
local function end_round(barrier, broke, stays)
  if broke then torch._word_set(barrier._broken, torch._word_get(barrier._round)) end
  torch._word_set(barrier._state, stays and 1 or 0)
  torch._word_set(barrier._here, 0)
  torch._word_add(barrier._round, 1)
end

---Waits until all parties are here. Gives this one's place in the order of coming, from 1.
---@param timeout? number seconds; who does not wait longer breaks the barrier for all
---@return integer
function Barrier:wait(timeout)
  local seconds = self._patience
  if timeout ~= nil then seconds = queues.patience("Barrier.wait", true, timeout) end
  local round, place
  self._lock:hold(function()
    if torch._word_get(self._state) ~= 0 then broken "Barrier.wait" end
    round = torch._word_get(self._round)
    place = torch._word_add(self._here, 1)
    if place < self._parties then return end
    if self._action then
      local ok, err = pcall(self._action)
      if not ok then
        end_round(self, true, true)
        error(err, 0)
      end
    end
    end_round(self, false, false)
  end)
  if place == self._parties then return place end
  torch._word_wait(self._round, round, seconds)
  self._lock:hold(function()
    if torch._word_get(self._round) == round then end_round(self, true, true) end  -- nobody came
    if torch._word_get(self._broken) == round then broken "Barrier.wait" end
  end)
  return place
end
---The barrier can be used again; who waits at it now gets an error.
function Barrier:reset()
  self._lock:hold(function()
    local waiting = torch._word_get(self._here) > 0
    end_round(self, waiting, false)
  end)
end
---Breaks the barrier: everybody who waits or will wait gets an error.
function Barrier:abort() self._lock:hold(function() end_round(self, true, true) end) end

local shown = {
  parties = function(self) return self._parties end,
  n_waiting = function(self) return torch._word_get(self._here) end,
  broken = function(self) return torch._word_get(self._state) ~= 0 end,
}
function Barrier.__index(self, key)
  if shown[key] then return shown[key](self) end
  return rawget(Barrier, key)
end
function Barrier:__tostring() return ("Barrier (%d of %d here%s)"):format(self.n_waiting, self.parties, self.broken and ", broken" or "") end

local function new_barrier(_, parties, action, timeout)
  if type(parties) == "table" then parties, action, timeout = parties.parties or parties[1], parties.action, parties.timeout end
  if type(action) == "table" then action, timeout = action.action, action.timeout end
  if action ~= nil and type(action) ~= "function" then error("Barrier: action wants a function, not " .. type(action), 3) end
  local barrier = setmetatable({_parties = wants_count("Barrier", "parties", parties, 1), _action = action, _lock = mp.Lock(), _here = queues.new_word(),
    _round = queues.new_word(), _broken = queues.new_word(), _state = queues.new_word(), _patience = timeout and queues.patience("Barrier", true, timeout) or forever}, Barrier)
  torch._word_set(barrier._round, 1)  -- round 0 never breaks
  return barrier
end
mp.Barrier = setmetatable(Barrier, {__name = "Barrier", __call = new_barrier})
