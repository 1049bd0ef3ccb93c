-- mp.Process: a function that runs in a process of its own.
local torch = torch
local error = torch._raise
local carried = require "torch.utils.carried"
local mp = package.loaded["torch.multiprocessing"]

local process = {current = {name = "MainProcess", pid = torch._process_id(), daemon = false}, parent = nil}

local Process = {__name = "Process"}
local count = 0
local all = {}    -- those that have started and are not known to have ended
local ended = {}  -- the last ones that have, for messages

local signal_names = {[1] = "SIGHUP", [2] = "SIGINT", [3] = "SIGQUIT", [4] = "SIGILL", [6] = "SIGABRT", [7] = "SIGBUS", [8] = "SIGFPE",
  [9] = "SIGKILL", [11] = "SIGSEGV", [13] = "SIGPIPE", [15] = "SIGTERM"}

local function callable(f)
  if type(f) == "function" then return true end
  local meta = getmetatable(f)
  return type(meta) == "table" and meta.__call ~= nil
end

---Raises unless `f` can be called and `args` is a list.
function process.check(who, f, args)
  if not callable(f) then error(("%s: wants a function to run, not %s"):format(who, type(f)), 3) end
  if args ~= nil and type(args) ~= "table" then error(("%s: args wants a list of arguments, {..}, not %s"):format(who, type(args)), 3) end
end

local allowed = {name = "string", daemon = "boolean", args = "table", target = true}

local function new(_, f, args, options)
  if type(f) == "table" and not callable(f) then f, args, options = f.target, f.args, f end
  process.check("Process", f, args)
  options = options or {}
  if type(options) ~= "table" then error("Process: options are a table: {name = .., daemon = ..}", 3) end
  for k, v in next, options do
    local kind = allowed[k]
    if not kind then error(('Process: no argument "%s" (it has: target, args, name, daemon)'):format(tostring(k)), 3) end
    if kind ~= true and type(v) ~= kind then error(("Process: %s wants a %s, not %s"):format(k, kind, type(v)), 3) end
  end
  count = count + 1
  return setmetatable({_f = f, _args = args or {}, name = options.name or ("Process-%d"):format(count), daemon = options.daemon or false}, Process)
end

-- How it is told in one word what it ended with.
function process.end_text(code)
  if code < 0 then return ("was ended by signal %d (%s)"):format(-code, signal_names[-code] or "?") end
  return ("ended with exit code %d"):format(code)
end

-- Reads what the process said about itself: {"error", description}, {"unsent", n}.
local function listen(self)
  local control = rawget(self, "_control")
  while control do
    local ok, got, said = pcall(control.receive, control, 0)
    if not ok or not got then
      if not ok or said == "closed" then rawset(self, "_control", nil) end
      return
    end
    rawset(self, "_" .. said[1], said[2])
  end
end

local function poll(self, seconds)
  local child = rawget(self, "_child")
  if not child then return nil end
  if rawget(self, "_code") == nil then
    local code = child:wait(seconds)
    if code then
      listen(self)
      if rawget(self, "_control") then self._control:close() end
      rawset(self, "_control", nil)
      rawset(self, "_code", code)
      all[self] = nil
      if #ended >= 16 then table.remove(ended, 1) end
      ended[#ended + 1] = self
    end
  end
  return rawget(self, "_code")
end

local methods = {}

-- A process has the simulated devices of who started it, also those that are no variable's.
local function environment(given)
  local n = torch.cuda._simulated()
  if not n then return given end
  local out = {TYCHO_SIMULATE_CUDA = tostring(n)}
  for name, value in pairs(given or {}) do out[name] = value end
  return out
end

---Starts the process. What f uses (its variables and globals) and the arguments are copied; tensors are shared.
function methods:start()
  if rawget(self, "_child") then error("Process.start: " .. self.name .. " has been started already", 2, "value") end
  if process.current.daemon then error("Process.start: a daemon may not start processes: nobody would wait for them", 2, "value") end
  local args, ours, theirs = rawget(self, "_args"), torch._socket_pair()
  local task = {f = self._f, args = args, n = args.n or #args, name = self.name, daemon = self.daemon, quiet = rawget(self, "_quiet"),
    parent = {name = process.current.name, pid = process.current.pid}, arg = rawget(_G, "arg"), around = carried.surroundings()}
  ours:send(task, "Process", "the task")
  local child = torch._spawn(theirs, self.name, environment(rawget(self, "_env")), self.daemon)
  theirs:close()
  rawset(self, "_control", ours)
  rawset(self, "_child", child)
  rawset(self, "pid", child:pid())
  rawset(self, "_f", nil)
  rawset(self, "_args", nil)
  all[self] = true
end

local function started(self, what)
  if not rawget(self, "_child") then error(("Process.%s: %s has not been started"):format(what, self.name), 3, "value") end
end

-- After so many seconds a note says why a process does not end; tests set it.
process.patience = 10

---Waits until the process has ended, at most `timeout` seconds.
---@param timeout? number seconds
function methods:join(timeout)
  started(self, "join")
  if type(timeout) == "table" then timeout = timeout.timeout end
  if timeout ~= nil and type(timeout) ~= "number" then error("Process.join: timeout wants seconds, not " .. type(timeout), 2) end
  if not timeout then
    if poll(self, process.patience) then return end
    listen(self)
    if rawget(self, "_unsent") then
      io.stderr:write(("note: Process.join: %s has run to its end, but %d values that it put are not taken yet, and it waits for that: get them before join\n"):format(self.name, self._unsent))
    end
  end
  poll(self, timeout or 1e9)
end

---Whether it has been started and has not ended.
---@return boolean
function methods:is_alive() return rawget(self, "_child") ~= nil and poll(self, 0) == nil end

---Asks the process to end (SIGTERM).
function methods:terminate()
  started(self, "terminate")
  self._child:kill(15)
end

---Ends the process at once (SIGKILL).
function methods:kill()
  started(self, "kill")
  self._child:kill(9)
end

---Lets go of what belongs to an ended process.
function methods:close()
  if self:is_alive() then error("Process.close: " .. self.name .. " still runs; terminate it, or join", 2, "value") end
  rawset(self, "_control", nil)
end

-- What it failed with, as carried.describe has it, or nil.
function process.failure(self)
  poll(self, 0)
  listen(self)
  return rawget(self, "_error")
end
function process.wait(self, seconds) return poll(self, seconds) end

---The last processes that have ended.
function process.ended()
  for p in next, all do poll(p, 0) end
  return ended
end

---The processes that have been started and are not known to have ended, the first first.
function process.started()
  local list = {}
  for p in next, all do list[#list + 1] = p end
  table.sort(list, function(a, b) return a.pid < b.pid end)
  return list
end

function Process.__index(self, key)
  if key == "exitcode" then return poll(self, 0) end
  return methods[key]
end
function Process.__tostring(self)
  local code = self.exitcode
  local state = not rawget(self, "_child") and "not started" or not code and "running" or process.end_text(code)
  return ("Process %s (%s%s)"):format(self.name, self.pid and ("pid %d, "):format(self.pid) or "", state)
end

---A process that runs f(args...) when it is started.
---@param f function
---@param args? table the list of arguments
---@param options? table {name=, daemon=}
mp.Process = setmetatable(Process, {__call = new, __name = "Process"})
for name, f in next, methods do Process[name] = f end

return process
