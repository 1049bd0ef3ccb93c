-- A rank beside the prompt, in a process of its own: it gets entries from the prompt's process, runs them
-- as the prompt would, and sends back what they printed and gave, as text. shell.ranks is the other side.
local native = require "shell.native"
local session = require "shell.session"
local entry = require "shell.entry"

-- Collectives whose tensors are drawn by %ranks show: the arguments that are read or written.
local drawn = "all_reduce broadcast reduce all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor "
  .. "all_to_all all_to_all_single gather scatter"

local most_numbers = 8

-- A tensor, or a list of them, in few words: its numbers while they are few.
local function brief(value)
  if torch.is_tensor(value) then
    if value:numel() > most_numbers then return torch._brief(value) end
    local numbers = {}
    for i, x in ipairs(value:detach():flatten():tolist()) do numbers[i] = type(x) == "number" and ("%.5g"):format(x) or tostring(x) end
    return table.concat(numbers, " ")
  end
  if type(value) ~= "table" then return nil end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = brief(item) end
  return #parts > 0 and table.concat(parts, " | ") or nil
end

local function briefs(arguments)
  local list = {}
  for i = 1, arguments.n do
    local text = brief(arguments[i])
    if text then list[#list + 1] = text end
  end
  return list
end

-- torch.distributed, whose collectives remember what their tensors held before.
local calls
local function watched(distributed)
  local dist = {}
  for name in drawn:gmatch("%S+") do
    local f = distributed[name]
    dist[name] = f and function(...)
      local arguments = table.pack(...)
      calls[#calls + 1] = {name = name, arguments = arguments, before = briefs(arguments)}
      return f(...)
    end
  end
  return setmetatable(dist, {__index = distributed, __newindex = distributed})
end

-- What print and io.write say while an entry runs goes to the prompt, which folds what is equal.
local said
local function keep_output()
  rawset(_G, "print", function(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    said[#said + 1] = table.concat(words, "\t", 1, words.n) .. "\n"
  end)
  local write = io.write
  function io.write(...)
    if io.output() ~= io.stdout then return write(...) end
    for _, word in ipairs {...} do said[#said + 1] = tostring(word) end
    return io.stdout
  end
end

local function failure(err, trace)
  local report = require "shell.report"
  local remembered = report.remember(err, trace)
  remembered.number = session.number
  session.last_error = remembered
  return report.text(remembered)
end

-- Runs an entry: {ok=, printed=, value= or error=, calls=}.
local function run(number, text)
  session.number, said, calls = number, {}, {}
  local f, ready = session.compile(text)
  if not f then return {ok = false, printed = "", error = require("shell.report").wrong(ready), calls = {}} end
  session.names.forget_constants(ready.kept)
  session.names.current = number
  local values = table.pack(native.contained(f))
  session.names.after(number, entry.assigned(ready.tokens), ready.constants)
  session.names.current = nil
  local reply = {ok = values[1], calls = {}}
  if reply.ok then
    table.remove(values, 1)
    values.n = values.n - 1
    session.results.keep(number, values)
    if not entry.is_quiet(ready.tokens) and values.n > 0 and not (values.n == 1 and rawequal(values[1], io.stdout)) then
      local shown, out, trace = native.guarded(require("shell.show").values, values, {colour = false})
      if shown then reply.value = out else reply.ok, reply.error = false, failure(out, trace) end
    end
  else
    reply.error = failure(values[2], values[3])
  end
  for i, call in ipairs(calls) do
    -- A handle that nobody waited for yet may still write.
    local fine, after = pcall(briefs, call.arguments)
    reply.calls[i] = {name = call.name, before = call.before, after = fine and after or {}}
  end
  reply.printed = table.concat(said)
  said, calls = {}, {}
  return reply
end

---Serves entries until the prompt ends.
---@param rank integer from 0
---@param world integer how many ranks there are
---@param pipes table rank -> its end of the connection to the prompt
return function(rank, world, pipes)
  local pipe = pipes[rank]
  for other, theirs in pairs(pipes) do
    if other ~= rank then theirs:close() end  -- else the prompt would not see the end of that rank
  end
  local distributed = require "torch.distributed"
  local devices = torch.cuda.device_count()
  if devices > 0 then torch.cuda.set_device(rank % devices) end
  calls, said = {}, {}
  local ok, err = pcall(distributed.init_process_group)
  pipe:send {ok = ok, error = not ok and tostring(err) or nil, device = devices > 0 and ("cuda:%d"):format(rank % devices) or "cpu"}
  if not ok then return end
  rawset(_G, "rank", rank)
  rawset(_G, "world_size", world)
  rawset(torch, "distributed", watched(distributed))  -- by whatever name an entry calls it
  rawset(_G, "dist", torch.distributed)
  session.options.print = false
  keep_output()
  while true do
    -- Ctrl-C while nothing runs is meant for the others.
    local received, task, trace = native.contained(pipe.recv, pipe)
    if received then
      if not pcall(pipe.send, pipe, run(task.number, task.text)) then break end
    elseif not trace.interrupted then
      break  -- the prompt has ended
    end
  end
  pcall(distributed.destroy_process_group)
end
