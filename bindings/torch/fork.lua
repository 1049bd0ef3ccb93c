-- torch.fork and torch.wait: functions that run beside each other, each in a thread with a Lua state and
-- one processor of its own. What goes there and comes back is copied, tensors share their memory. Gradients
-- flow through: the tensors that need them are leaves in the other thread's graph, which stays there, and
-- what came back has a node here whose gradient is asked for there.
local torch = torch
local error = torch._raise
local carried = require "torch.utils.carried"

local depth = 0          -- how many forks this state stands in (torch/forked.lua sets it)
local deepest = 32
local pool               -- the threads of this state's forks
local load = {}          -- tasks that each has
local futures = {}       -- number -> what waits for it
local last = 0

local function setup()
  return {entry = "torch.forked", around = carried.surroundings(), seed = 0, depth = depth + 1}
end

-- The thread with least to do; a new one while there are processors for more.
local function choose()
  if pool and pool:is_over() then pool = nil end
  if not pool then
    if depth >= deepest then error(("fork: forks are nested %d deep, and each level has a thread; wait for some of them first, or call the function itself"):format(deepest), 3, "value") end
    load, futures = {0}, {}
    pool = torch._worker_pool(1, false, setup())
    return 1
  end
  local best = 1
  for i = 2, #load do
    if load[i] < load[best] then best = i end
  end
  if load[best] > 0 and #load < torch.get_num_threads() and pool:grow(setup()) then
    load[#load + 1] = 0
    best = #load
  end
  return best
end

-- Where the user's script is: "train.lua:12".
local function user_line()
  for level = 3, 60 do
    local info = debug.getinfo(level, "Sl")
    if not info then return "?" end
    if info.currentline > 0 and info.source:sub(1, 7) ~= "=torch/" then return ("%s:%d"):format(info.short_src, info.currentline) end
  end
end

local Future = {__name = "Future"}
Future.__index = Future

-- Sends a task to a thread; `inputs` are tensors here whose gradients it may have, before those in the task.
local function submit(worker, task, inputs, from)
  last = last + 1
  task.number = last
  local sent = pool:fork(worker, last, task)
  local all = table.move(inputs, 1, #inputs, 1, {})
  table.move(sent, 1, #sent, #all + 1, all)
  load[worker] = load[worker] + 1
  local future = setmetatable({_pool = pool, _worker = worker, _number = last, _inputs = all, _from = from}, Future)
  futures[last] = future
  return future
end

local backward

-- A thread forgets a graph when nobody here can ask for its gradient any more. Until then it may be asked
-- again: results of one fork may be parts of several losses.
local held = {__gc = function(ctx)
  pcall(function()
    if not ctx.pool:is_over() then ctx.pool:send(ctx.worker, 0, {free = ctx.number}) end
  end)
end}

-- A result has come.
local function take(number, answer, outputs)
  local future = futures[number]
  futures[number] = nil
  if not future then return end
  load[future._worker] = load[future._worker] - 1
  local ok, value = answer[1], answer[2]
  future._done = true
  if not ok then
    future._wrong = value
    return
  end
  future._value = value
  if #outputs > 0 then
    local ctx = setmetatable({pool = future._pool, worker = future._worker, number = number, inputs = future._inputs, from = future._from, _keep_undefined = true}, held)
    torch.autograd._attach("fork", ctx, backward, future._inputs, outputs)
  end
  future._inputs = nil
end

-- Takes results until this one has come, at most so many seconds. An interrupt ends all threads of the pool.
local function receive(future, seconds)
  while not future._done do
    local on = future._pool
    if on:is_over() then error(("fork: its thread was stopped (forked at %s)"):format(future._from), 3, "value") end
    local number, worker, answer, outputs
    do
      local guard <close> = on
      number, worker, answer, outputs = on:receive(seconds)
    end
    if not number then return false end
    take(number, answer, outputs)
  end
  return true
end

local function result(future)
  receive(future, 1e9)
  if future._wrong then carried.raise(future._wrong, "forked at " .. future._from) end
  return table.unpack(future._value, 1, future._value.n)
end

function backward(ctx, ...)
  local n = select("#", ...)
  if ctx.pool:is_over() then error(("fork: the thread that held this graph was stopped (forked at %s); compute the result again"):format(ctx.from), 3, "autograd") end
  local grads = table.pack(...)
  for i = 1, n do
    if grads[i] == nil then grads[i] = false end
  end
  local create = torch.is_grad_enabled()
  local future = submit(ctx.worker, {backward = ctx.number, grads = grads, n = n, create = create}, create and ctx.inputs or {}, ctx.from)
  local list = result(future)
  for i = 1, #ctx.inputs do
    if list[i] == false then list[i] = nil end
  end
  return table.unpack(list, 1, #ctx.inputs)
end

---Whether the result is there.
---@return boolean
function Future:done()
  if not self._done and not self._pool:is_over() then receive(self, 0) end
  return self._done == true
end
---The result; waits for it. An error of the function is raised here, with the line of the fork.
function Future:wait() return result(self) end
Future.value = Future.wait
function Future:__tostring() return ("Future (forked at %s, %s)"):format(self._from, self._done and "done" or "running") end

local seeded, forks = nil, 0

-- Each fork draws numbers of its own, the same in every run from the same seed.
local function next_seed()
  local seed = torch.initial_seed()
  if seed ~= seeded then seeded, forks = seed, 0 end
  forks = forks + 1
  return (seed + forks * 0x9E3779B97F4A7C15) & 0x1FFFFFFFFFFFFF
end

---Runs f(...) in another thread and goes on; torch.wait gives its results, and gradients flow through them
---to the arguments and to tensors that f uses. The threads are as many as torch.get_num_threads(), each
---computes on one processor, and further forks wait for their turn.
---@param f function a function or a module
---@param ... any its arguments
---@return table # a future, for torch.wait
function torch.fork(f, ...)
  local meta = type(f) == "table" and getmetatable(f)
  if type(f) ~= "function" and not (type(meta) == "table" and meta.__call) then
    error("fork: wants a function or a module first, not " .. (torch.is_tensor(f) and "a tensor" or f == nil and "nil" or "a " .. type(f)), 2)
  end
  local args = table.pack(...)
  return submit(choose(), {f = f, args = args, n = args.n, seed = next_seed(), device = torch._default_device()}, {}, user_line())
end

---The results of a fork, or of a list of forks as a list; waits for them.
---@param future table
function torch.wait(future)
  if getmetatable(future) == Future then return result(future) end
  if type(future) ~= "table" or getmetatable(future) ~= nil then error("wait: wants what torch.fork gave, not " .. (torch.is_tensor(future) and "a tensor" or type(future)), 2) end
  local list = {}
  for i, one in ipairs(future) do
    if getmetatable(one) ~= Future then error(("wait: item %d is not what torch.fork gave"):format(i), 2) end
    list[i] = result(one)
  end
  return list
end

torch.jit = torch._strict({fork = torch.fork, wait = torch.wait}, "torch.jit")

-- For forked.lua: this state stands in so many forks.
return function(level) depth = level end
