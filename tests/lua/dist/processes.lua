-- What the tests of torch.multiprocessing share: scripts in a program of their own, functions in another process, counts of
-- descriptors. Each test waits for what it needs, so nothing depends on time; runs that could hang have a limit.
local mp = torch.multiprocessing
local processes = {}

-- Runs a script in a fresh program with a limit: {status=, out=, err=}.
function processes.script(code, options)
  options = options or {}
  local path = check.temp("script.lua")
  local f <close> = assert(io.open(path, "w"))
  f:write(code)
  f:close()
  return check.tycho({path}, {before = options.before or "ulimit -t 60", env = options.env})
end

function processes.run(f, args, options)
  local p = mp.Process(f, args, options)
  p:start()
  p:join()
  return p
end

-- What a function gives in another process.
function processes.elsewhere(f, ...)
  local q = mp.Queue()
  local args = table.pack(...)
  local p = mp.Process(function() q:put(table.pack(f(table.unpack(args, 1, args.n)))) end)
  p:start()
  local out = q:get()
  p:join()
  return table.unpack(out, 1, out.n)
end

-- Not by io.popen, whose own pipe may or may not be open on this side when it looks.
function processes.descriptors()
  local path, n = check.temp "descriptors", 0
  os.execute(("ls /proc/%d/fd >%s"):format(torch._process_id(), path))
  for _ in io.lines(path) do n = n + 1 end
  return n
end

return processes
