-- mp.spawn: the same function in several processes, which stand and fall together.
local torch = torch
local error = torch._raise
local carried = require "torch.utils.carried"
local mp = package.loaded["torch.multiprocessing"]
local process = require "torch.multiprocessing.process"

local Context = {__name = "ProcessContext"}
Context.__index = Context

-- The server where the ranks could meet is needed no more.
local function close_server(self)
  if self._server then torch._serve_no_more(self._server) end
  self._server = nil
end

-- Who is let go of and runs no more needs no server either.
function Context.__gc(self)
  for _, p in ipairs(self.processes) do
    if p:is_alive() then return end
  end
  close_server(self)
end

-- The first failure, raised here.
local function raise(self, rank)
  local p = self.processes[rank + 1]
  local wrong, code = process.failure(p), p.exitcode
  self._together:stop()
  close_server(self)
  local who = ("process %d of spawn (pid %d)"):format(rank, p.pid)
  local more = {rank = rank, exitcode = code}
  if wrong then carried.raise(wrong, who, more) end
  local _, err = pcall(error, ("spawn: process %d (pid %d) %s"):format(rank, p.pid, process.end_text(code)), 4, "distributed")
  rawset(err, "reason", code < 0 and "died" or "left")
  rawset(err, "ranks", {rank})
  for k, v in next, more do rawset(err, k, v) end
  error(err, 0)
end

-- Who began it: a rank whose error says that another one is gone follows from that one's failure, which may
-- come to be known after it.
local function culprit(self, rank)
  local wrong = process.failure(self.processes[rank + 1])
  for _, other in ipairs(wrong and wrong.ranks or {}) do
    local p = other ~= rank and self.processes[other + 1]
    local code = p and process.wait(p, 1)
    if code and code ~= 0 then return other end
  end
  return rank
end

---Waits until all have ended, at most `timeout` seconds; whether they have. The first failure ends the
---others and is raised, with its rank and traceback.
---@param timeout? number seconds
---@return boolean
function Context:join(timeout)
  if timeout ~= nil and type(timeout) ~= "number" then error("spawn: join's timeout wants seconds, not " .. type(timeout), 2) end
  local until_ = torch.perf_counter() + (timeout or 1e9)
  local guard <close> = self._together  -- a Ctrl-C or another error here ends them, too
  while true do
    local running, failed = 0, nil
    for rank, p in ipairs(self.processes) do
      local code = process.wait(p, 0)
      if not code then running = running + 1 end
      -- Who was ended by a signal mostly follows from another one's error.
      if code and code ~= 0 and (not failed or (not process.failure(self.processes[failed + 1]) and process.failure(p))) then failed = rank - 1 end
    end
    if failed then raise(self, culprit(self, failed)) end
    if running == 0 then
      close_server(self)
      return true
    end
    local left = until_ - torch.perf_counter()
    if left <= 0 then return false end
    torch._living_children(math.min(left, 1))
  end
end

---The processes' numbers, in the order of ranks.
---@return integer[]
function Context:pids()
  local list = {}
  for i, p in ipairs(self.processes) do list[i] = p.pid end
  return list
end
function Context:__tostring() return ("ProcessContext (%d processes)"):format(#self.processes) end
mp.ProcessContext = Context

local options_of = {args = true, nprocs = true, join = true, daemon = true, start_method = true}

local function is_options(t)
  for k in next, t do
    if options_of[k] then return true end
  end
  return false
end

-- The threads of one machine are shared out.
local function environment(variables, nprocs)
  if not os.getenv "OMP_NUM_THREADS" and not os.getenv "TYCHO_NUM_THREADS" then
    variables.OMP_NUM_THREADS = tostring(math.max(1, mp.cpu_count() // nprocs))
  end
  return variables
end

---Runs f(rank, args...) in `nprocs` processes, with ranks from 0, and waits for them. The first failure
---ends the others and is raised here. In them torch.distributed.init_process_group() needs no arguments.
---@param f function
---@param options? table {args={}, nprocs=1, join=true, daemon=false}; or the arguments, then nprocs, join, daemon
---@return table|nil # with join=false: the processes, to be joined
function mp.spawn(f, options, nprocs, join, daemon)
  local o = options or {}
  process.check("spawn", f, o)
  if not is_options(o) then o = {args = o, nprocs = nprocs, join = join, daemon = daemon} end
  for k in next, o do
    if not options_of[k] then error(('spawn: no argument "%s" (it has: args, nprocs, join, daemon)'):format(tostring(k)), 2) end
  end
  process.check("spawn", f, o.args)
  local n = o.nprocs or 1
  if math.type(n) ~= "integer" or n < 1 or n > 4096 then error(("spawn: nprocs wants 1 to 4096 processes, not %s"):format(tostring(n)), 2, "value") end
  if o.start_method then mp.set_start_method(o.start_method) end
  local args = o.args or {}
  local count = args.n or #args
  local self = setmetatable({processes = {}, _together = torch._together()}, Context)
  local server, variables = torch._serve(n)
  self._server = server
  local guard <close> = self._together
  for rank = 0, n - 1 do
    local p = mp.Process(f, table.pack(rank, table.unpack(args, 1, count)), {name = ("spawn-%d"):format(rank), daemon = o.daemon})
    rawset(p, "_env", environment(variables[rank + 1], n))
    rawset(p, "_quiet", o.join ~= false)
    p:start()
    self._together:add(p._child)
    self.processes[rank + 1] = p
  end
  if o.join == false then return self end
  self:join()
end
