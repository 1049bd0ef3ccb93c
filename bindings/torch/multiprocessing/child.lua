-- What a process of torch.multiprocessing does: it gets its task from its parent, runs it, and says how
-- it ended. Started by `tycho --process`.
local torch = torch
local carried = require "torch.utils.carried"

-- Values that were put and have not left yet keep the process; the parent is told, in case it waits for us.
local function leave(control, code)
  io.stdout:flush()
  local unsent = torch._flush_sockets(0)
  if unsent > 0 then
    control:send({"unsent", unsent}, "Process", "its end")
    torch._flush_sockets(1e9)
  end
  return code
end

---@param descriptor string of the connection to the parent
---@param parent string its process number
---@return integer # the exit code
return function(descriptor, parent)
  local control = torch._child_begins(math.tointeger(tonumber(descriptor)) or -1, math.tointeger(tonumber(parent)) or -1)
  if not control then
    io.stderr:write "tycho: --process is for processes that torch.multiprocessing starts\n"
    return 1
  end
  local name, quiet = "a process", false
  local function run()
    local mp = require "torch.multiprocessing"
    local got, task = control:receive(1e9)
    if not got then return true, 1 end  -- the parent ended before it had sent the task
    name, quiet = task.name, task.quiet
    local process = require "torch.multiprocessing.process"
    process.parent = task.parent
    local me = process.current
    me.name, me.daemon = task.name, task.daemon
    carried.settle(task.around)
    rawset(_G, "arg", task.arg)
    local exit = os.exit
    function os.exit(status, close)
      leave(control)
      exit(status, close)
    end
    local _ = mp
    task.f(table.unpack(task.args, 1, task.n))
    return true, 0
  end
  local function failed(err) return carried.describe(err, name) end
  local finished, ok, result = torch.until_interrupt(xpcall, run, failed)
  if not finished then return leave(control, 130) end
  if ok then return leave(control, result) end
  if not pcall(control.send, control, {"error", result}, "Process", "its error") then
    result.cause = nil
    pcall(control.send, control, {"error", result}, "Process", "its error")
  end
  if not quiet then
    local lines = {("%s: %s%s"):format(name, result.where and result.where .. ": " or "", result.message)}
    for _, frame in ipairs(result.frames) do lines[#lines + 1] = "  " .. frame end
    io.stderr:write(table.concat(lines, "\n") .. "\n")  -- one write: others write there too
  end
  return leave(control, 1)
end
