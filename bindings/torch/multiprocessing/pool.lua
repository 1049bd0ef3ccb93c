-- mp.Pool: processes that take tasks from one queue. The parent knows which task each has, so that one that
-- dies is an error of its task, not a wait without end, and another process takes its place.
local torch = torch
local error = torch._raise
local carried = require "torch.utils.carried"
local mp = package.loaded["torch.multiprocessing"]
local process = require "torch.multiprocessing.process"

local Pool = {__name = "Pool"}
Pool.__index = Pool

-- --- in a worker ---
local function work(number, tasks, results, initializer, initargs)
  if initializer then initializer(table.unpack(initargs, 1, initargs.n or #initargs)) end
  local me = mp.current_process().name
  local function described(err) return carried.describe(err, me) end
  while true do
    local task = tasks:get()
    if task == "end" then return end
    results:put {"took", number, task.id}
    local function run()
      local out = {}
      for i, args in ipairs(task.list) do out[i] = table.pack(task.f(table.unpack(args, 1, args.n))) end
      return out
    end
    local ok, out = xpcall(run, described)
    local sent, why = pcall(results.put, results, {"done", number, task.id, ok, out})
    if not sent then
      if not ok then out.cause = nil else out = carried.describe(why, me) end
      results:put {"done", number, task.id, false, out}
    end
  end
end

-- --- in the parent ---
local function add_worker(pool)
  pool._count = pool._count + 1
  local p = mp.Process(work, {pool._count, pool._tasks, pool._results, pool._initializer or false, pool._initargs}, {daemon = true, name = ("PoolWorker-%d"):format(pool._count)})
  if not os.getenv "OMP_NUM_THREADS" and not os.getenv "TYCHO_NUM_THREADS" then
    rawset(p, "_env", {OMP_NUM_THREADS = tostring(math.max(1, mp.cpu_count() // pool._wanted))})
  end
  p:start()
  pool._workers[pool._count] = p
end

local known = {initializer = true, initargs = true, processes = true}

local function new(_, processes, initializer, initargs)
  local o = {processes = processes, initializer = initializer, initargs = initargs}
  for _, t in ipairs {type(processes) == "table" and processes or {}, type(initializer) == "table" and initializer or {}} do
    for k, v in next, t do
      if not known[k] then error(('Pool: no argument "%s" (it has: processes, initializer, initargs)'):format(tostring(k)), 3) end
      o[k] = v
    end
  end
  if type(o.processes) == "table" then o.processes = nil end
  if type(o.initializer) == "table" then o.initializer = nil end
  local n = o.processes or mp.cpu_count()
  if math.type(n) ~= "integer" or n < 1 or n > 4096 then error(("Pool: wants 1 to 4096 processes, not %s"):format(tostring(n)), 3, "value") end
  if o.initializer then process.check("Pool", o.initializer, o.initargs) end
  local pool = setmetatable({_tasks = mp.Queue(), _results = mp.Queue(), _workers = {}, _count = 0, _wanted = n, _has = {}, _open = {}, _last = 0,
    _untaken = 0, _state = "open", _initializer = o.initializer, _initargs = o.initargs or {}}, Pool)
  for _ = 1, n do add_worker(pool) end
  return pool
end

local function finish(pool, id, ok, value)
  local task = pool._open[id]
  if not task then return end  -- a task that was sent twice
  pool._open[id] = nil
  if not task.taken then pool._untaken = pool._untaken - 1 end
  task.done(ok, value)
end

local function take(pool, message)
  local what, number, id, ok, value = table.unpack(message, 1, 5)
  if what == "took" then
    pool._has[number] = id
    local task = pool._open[id]
    if task and not task.taken then
      task.taken = true
      pool._untaken = pool._untaken - 1
    end
  else
    pool._has[number] = nil
    finish(pool, id, ok, value)
  end
end

-- Workers that died: their tasks have failed, and others take their places.
local function bury(pool)
  local dead = {}
  for number, p in next, pool._workers do
    if process.wait(p, 0) then dead[number] = p end
  end
  for number, p in next, dead do
    local code = p.exitcode
    do
      -- What it said before its end comes first.
      while true do
        local got, message = pool._results._front:receive(0)
        if not got then break end
        torch._word_add(pool._results._size, -1)
        take(pool, message)
      end
      pool._workers[number] = nil
      local id = pool._has[number]
      pool._has[number] = nil
      local wrong = process.failure(p)
      local text = ("%s (pid %d) %s%s"):format(p.name, p.pid, process.end_text(code), id and " in this task" or "")
      if id then finish(pool, id, false, wrong or {message = "Pool: " .. text, frames = {}, kind = "distributed", reason = "died"}) end
      if pool._state == "open" or (pool._state == "closed" and next(pool._open)) then
        -- One that cannot even begin would be replaced for ever.
        if wrong and not id then
          pool:terminate()
          carried.raise(wrong, text)
        end
        add_worker(pool)
        pool._lost = pool._untaken > 0
      end
    end
  end
end

-- A worker that died after it had taken a task and before it could say so took it along: nobody works,
-- nothing waits, and tasks are missing. They go to the queue again.
local function find_lost(pool)
  if not pool._lost or next(pool._has) or pool._tasks._front:ready() or pool._results._front:ready() or torch._flush_sockets(0) > 0 then return end
  pool._lost = false
  for id, task in next, pool._open do
    if not task.taken then pool._tasks:put {id = id, f = task.f, list = task.list} end
  end
end

-- Takes results for at most so many seconds, until `enough()`.
local function pump(pool, seconds, enough)
  local until_ = torch.perf_counter() + seconds
  while not enough() do
    if pool._state == "terminated" then error("Pool: it was terminated", 4, "value") end
    local left = until_ - torch.perf_counter()
    local got, message = pool._results._front:receive(math.max(0, math.min(0.05, left)))
    if got then
      torch._word_add(pool._results._size, -1)
      take(pool, message)
    else
      bury(pool)
      find_lost(pool)
      if left <= 0 then return false end
    end
  end
  return true
end

local function check_open(pool, who)
  if getmetatable(pool) ~= Pool then error(who .. ": wants a pool: pool:map(..), with a colon", 3) end
  if pool._state ~= "open" then error(("%s: the pool is %s"):format(who, pool._state), 3, "value") end
end

local function submit(pool, f, list, done)
  pool._last = pool._last + 1
  local id = pool._last
  pool._tasks:put {id = id, f = f, list = list}
  pool._open[id] = {f = f, list = list, done = done, taken = false}
  pool._untaken = pool._untaken + 1
  -- What has come meanwhile is taken, so that the results' queue never fills.
  pump(pool, 0, function() return not pool._results._front:ready() end)
end

-- --- results to come ---
local Result = {__name = "AsyncResult"}
Result.__index = Result

---Whether it has come.
---@return boolean
function Result:ready()
  pump(self._pool, 0, function() return self._left == 0 end)
  return self._left == 0
end
---Waits for it, at most `timeout` seconds.
---@param timeout? number
function Result:wait(timeout) pump(self._pool, timeout or 1e9, function() return self._left == 0 end) end
---Whether the call succeeded; raises when it is not ready.
---@return boolean
function Result:successful()
  if self._left > 0 then error("AsyncResult.successful: it is not ready", 2, "value") end
  return self._wrong == nil
end
---The result; waits for it. An error of the function is raised here, with the way to it.
---@param timeout? number seconds
function Result:get(timeout)
  self:wait(timeout)
  if self._left > 0 then
    local _, err = pcall(error, ("AsyncResult.get: no result within %s s"):format(timeout), 3, "value")
    rawset(err, "reason", "timeout")
    error(err, 0)
  end
  if self._wrong then carried.raise(self._wrong, "in the pool", {exitcode = nil}) end
  return self._unpack(self._values)
end
mp.AsyncResult = Result

-- The calls of f with each of a list of arguments, in pieces of `chunk`.
local function begin(pool, f, calls, chunk, unpack, callback, error_callback)
  local result = setmetatable({_pool = pool, _left = 0, _values = {}, _unpack = unpack}, Result)
  for first = 1, #calls, chunk do
    local list = table.move(calls, first, math.min(first + chunk - 1, #calls), 1, {})
    result._left = result._left + 1
    submit(pool, f, list, function(ok, value)
      result._left = result._left - 1
      if ok then
        for i, v in ipairs(value) do result._values[first + i - 1] = v end
      else
        result._wrong = result._wrong or value
      end
      if result._left > 0 then return end
      if result._wrong then
        if error_callback then error_callback(result._wrong) end
      elseif callback then
        callback(unpack(result._values))
      end
    end)
  end
  return result
end

local function list_of(who, items)
  if torch.is_tensor(items) then
    local list = {}
    for i = 1, #items do list[i] = items[i] end
    return list
  end
  if type(items) == "function" then
    local list = {}
    for v in items do list[#list + 1] = v end
    return list
  end
  if type(items) ~= "table" then error(("%s: wants a list of items, not %s"):format(who, type(items)), 4) end
  return items
end

local function chunk_of(pool, who, n, chunk)
  if type(chunk) == "table" then chunk = chunk.chunksize end
  if chunk == nil then return math.max(1, (n + pool._wanted * 4 - 1) // (pool._wanted * 4)) end
  if math.type(chunk) ~= "integer" or chunk < 1 then error(("%s: chunksize wants an integer from 1, not %s"):format(who, tostring(chunk)), 4) end
  return chunk
end

local function firsts(values)
  local out = {}
  for i, v in ipairs(values) do out[i] = v[1] end
  return out
end

local function start_map(pool, who, f, items, chunk, spread)
  check_open(pool, who)
  process.check(who, f)
  local calls = {}
  for i, item in ipairs(list_of(who, items)) do
    if spread and type(item) ~= "table" then error(("%s: item %d wants a list of arguments, not %s"):format(who, i, type(item)), 4) end
    calls[i] = spread and table.pack(table.unpack(item, 1, item.n or #item)) or {item, n = 1}
  end
  return begin(pool, f, calls, chunk_of(pool, who, #calls, chunk), firsts)
end

---The list of f(item) for each item of a list (or rows of a tensor), in order; waits for all.
---@param f function
---@param items table|userdata
---@param chunksize? integer items that go to a process at once
function Pool:map(f, items, chunksize) return start_map(self, "Pool.map", f, items, chunksize):get() end
---map that does not wait: its result to come.
function Pool:map_async(f, items, chunksize) return start_map(self, "Pool.map_async", f, items, chunksize) end
---The list of f(a, b, ..) for each {a, b, ..} of a list.
---@param f function
---@param items table
---@param chunksize? integer
function Pool:starmap(f, items, chunksize) return start_map(self, "Pool.starmap", f, items, chunksize, true):get() end
---starmap that does not wait.
function Pool:starmap_async(f, items, chunksize) return start_map(self, "Pool.starmap_async", f, items, chunksize, true) end

local function iterate(pool, who, f, items, chunk, in_order)
  check_open(pool, who)
  process.check(who, f)
  if type(chunk) == "table" then chunk = chunk.chunksize end
  local list = list_of(who, items)
  local calls, ready, next_ = {}, {}, 1
  for i, item in ipairs(list) do calls[i] = {item, n = 1} end
  for first = 1, #calls, chunk or 1 do
    local size = math.min(chunk or 1, #calls - first + 1)
    submit(pool, f, table.move(calls, first, first + size - 1, 1, {}), function(ok, value)
      for i = 1, size do
        local place = in_order and first + i - 1 or #ready + 1
        ready[place] = {ok, ok and value[i][1] or value}
        if not ok and i < size and not in_order then break end
      end
    end)
  end
  return function()
    if next_ > #calls then return nil end
    local at = next_
    next_ = next_ + 1
    pump(pool, 1e9, function() return ready[at] end)
    local item = ready[at]
    ready[at] = false
    if not item[1] then
      next_ = math.huge
      carried.raise(item[2], "in the pool")
    end
    return item[2] == nil and torch.none or item[2]
  end
end

---An iterator over f(item) for each item, in order: `for y in pool:imap(f, items) do`.
---@param f function
---@param items table|userdata
---@param chunksize? integer default 1
function Pool:imap(f, items, chunksize) return iterate(self, "Pool.imap", f, items, chunksize, true) end
---The same in the order in which results come.
function Pool:imap_unordered(f, items, chunksize) return iterate(self, "Pool.imap_unordered", f, items, chunksize, false) end

---f(args...) in one of the processes; does not wait. Gives its result to come.
---@param f function
---@param args? table
---@param options? table {callback=, error_callback=}
function Pool:apply_async(f, args, options)
  check_open(self, "Pool.apply_async")
  process.check("Pool.apply_async", f, args)
  local o = options or {}
  args = args or {}
  return begin(self, f, {table.pack(table.unpack(args, 1, args.n or #args))}, 1, function(values) return table.unpack(values[1], 1, values[1].n) end, o.callback, o.error_callback)
end
---f(args...) in one of the processes; its results.
---@param f function
---@param args? table
function Pool:apply(f, args)
  check_open(self, "Pool.apply")
  process.check("Pool.apply", f, args)
  return self:apply_async(f, args):get()
end

---Takes no further tasks; the processes end when all are done.
function Pool:close()
  if self._state ~= "open" then return end
  self._state = "closed"
  for _ = 1, self._wanted do self._tasks:put "end" end
end
---Ends the processes at once; tasks that are not done are lost.
function Pool:terminate()
  if self._state == "terminated" then return end
  self._state = "terminated"
  for _, p in next, self._workers do p:kill() end
  for _, p in next, self._workers do process.wait(p, 1e9) end
  self._workers = {}
  self._tasks:close()
  self._results:close()
end
---Waits until the processes have ended; close or terminate comes before.
function Pool:join()
  if self._state == "open" then error("Pool.join: close or terminate the pool first", 2, "value") end
  if self._state == "terminated" then return end
  pump(self, 1e9, function() return not next(self._open) end)
  for number, p in next, self._workers do
    process.wait(p, 1e9)
    self._workers[number] = nil
  end
end
function Pool:__tostring() return ("Pool (%d processes, %s)"):format(self._wanted, self._state) end
-- `local pool <close> = mp.Pool(4)` ends the processes with the scope.
Pool.__close = function(pool) pool:terminate() end
Pool.__gc = function(pool) pcall(pool.terminate, pool) end

mp.Pool = setmetatable(Pool, {__call = new, __name = "Pool"})
