-- Commands that measure: %time, %bench, %prof, and the echo of shapes.
local columns = require "shell.columns"
local commands = require "shell.commands"
local T = require("torch.language").text

-- What waits for the devices, or nil when there are none.
local function waiter() return torch.cuda.is_available() and torch.cuda.synchronize or nil end

-- on, off, or nothing: the new setting, or nil and a complaint.
local function switch(args, now)
  if args == "" then return now end
  if args == "on" or args == "off" then return args == "on" end
  return nil, T("it is on or off, not %q"):format(args)
end

-- Where operations ran: "cpu, 2 threads", "cuda:0, synchronised".
local function where(seen)
  local parts = {}
  for _, device in ipairs(#seen.devices > 0 and seen.devices or {"cpu"}) do
    local n = torch.get_num_threads()
    parts[#parts + 1] = device == "cpu" and (n == 1 and T"cpu, %d thread" or T"cpu, %d threads"):format(n) or device
  end
  local text = table.concat(parts, ", ")
  return text:find("cuda") and text .. ", synchronised" or text
end

-- What a stopped run gathered begins on a line of its own, after the terminal's ^C.
local function end_line(session, seen)
  local ok, native = pcall(require, "shell.native")
  if seen.stopped and ok and native.is_terminal(0) then session.say("") end
end

local function failed(seen) error(seen.error, 0) end

-- "2.1 Mflop -> 54 GFLOP/s   82 kB -> 2.1 GB/s"
local function rates(seen, seconds)
  local parts = {}
  if seen.flops > 0 then
    parts[#parts + 1] = ("%sflop -> %sFLOP/s"):format(columns.amount(seen.flops), columns.amount(seen.flops / seconds))
  end
  if seen.bytes > 0 then
    parts[#parts + 1] = ("%s -> %sB/s"):format(columns.bytes(seen.bytes), columns.amount(seen.bytes / seconds))
  end
  return parts
end

local function say_parts(session, parts)
  local line = table.concat(parts, "   ")
  if columns.width(line) <= columns.window() then return session.say(line) end
  for _, part in ipairs(parts) do session.say(part) end
end

local function time(args, session)
  if args == "" or args == "on" or args == "off" then
    if args ~= "" then session.options.time = args == "on" end
    return session.say(session.options.time and T"every entry tells its time" or T"only entries over 0.5 s tell their time")
  end
  local run, done = commands.compile(args, session)
  local wait = waiter()
  if wait then wait() end
  local began = torch.perf_counter()
  local values = table.pack(run())
  local host = torch.perf_counter() - began
  if wait then wait() end
  local all = torch.perf_counter() - began
  done(values)
  session.print(values)
  session.say(wait and T("%s   host %s   devices synchronised"):format(columns.seconds(all), columns.seconds(host)) or columns.seconds(all))
end

local function bench(args, session)
  if args == "" then return T"what should run?" end
  local run, done = commands.compile(args, session)
  local seen = torch._observe(run)
  seen.results = nil
  if not seen.ok then failed(seen) end
  local took = torch._measure(run, 1, waiter())
  done()
  end_line(session, took)
  if not took.median then
    if took.stopped then return session.say(T"stopped before the first run was measured") end
    failed(took)
  end
  local parts = {
    T("median %s"):format(columns.seconds(took.median)),
    ("(%s .. %s, %d runs)"):format(columns.seconds(took.low), columns.seconds(took.high), took.runs),
  }
  if waiter() then parts[#parts + 1] = "host " .. columns.seconds(took.host) end
  say_parts(session, parts)
  local rate = rates(seen, took.median)
  rate[#rate + 1] = where(seen)
  say_parts(session, rate)
  if took.stopped then session.say(T"stopped by Ctrl-C after these runs") elseif not took.ok then failed(took) end
end

-- The text of a line of the user's code.
local function source_line(source, line)
  local text = torch._chunks[source]
  local n = 0
  if text then
    for each in (text .. "\n"):gmatch("(.-)\n") do
      n = n + 1
      if n == line then return each:match("^%s*(.-)%s*$") end
    end
    return ""
  end
  local file = io.open(source, "r")
  if not file then return "" end
  for each in file:lines() do
    n = n + 1
    if n == line then
      file:close()
      return each:match("^%s*(.-)%s*$")
    end
  end
  file:close()
  return ""
end

local most_rows = 12

local function prof(args, session)
  if args == "" then return T"what should run?" end
  local run, done = commands.compile(args, session)
  local seen = torch._observe(run, true)
  done()
  seen.results = nil
  end_line(session, seen)
  local all = math.max(seen.seconds, 1e-9)
  local function percent(s) return ("%.0f"):format(100 * s / all) end
  session.say(columns.clip(T("%s, in operations %s (%s %%)"):format(
    columns.seconds(seen.seconds), columns.seconds(seen.in_ops), percent(seen.in_ops)), columns.window()))
  table.sort(seen.ops, function(a, b) return a.seconds > b.seconds end)
  local rows = {}
  for i, op in ipairs(seen.ops) do
    if i > most_rows then break end
    rows[i] = {
      op.name, tostring(op.calls), columns.seconds(op.seconds), percent(op.seconds),
      columns.seconds(op.seconds / op.calls),
      op.flops > 0 and columns.amount(op.flops / op.seconds) .. "FLOP/s" or "",
      op.bytes > 0 and columns.amount(op.bytes / op.seconds) .. "B/s" or "",
    }
  end
  if #rows > 0 then
    session.say(columns.table({
      {title = "operation"}, {title = "calls", right = true}, {title = "time", right = true},
      {title = "%", right = true, drop = 1}, {title = "each", right = true, drop = 2},
      {title = "", right = true, drop = 4}, {title = "", right = true, drop = 3},
    }, rows))
    if #seen.ops > most_rows then session.say(T("and %d more operations"):format(#seen.ops - most_rows)) end
  end
  table.sort(seen.lines, function(a, b) return a.seconds + a.lua > b.seconds + b.lua end)
  rows = {}
  for i, line in ipairs(seen.lines) do
    if i > most_rows then break end
    local place = line.source == "" and T"(no line)" or ("%s:%d"):format(line.source, line.line)
    rows[i] = {
      place, tostring(line.calls), columns.seconds(line.seconds), columns.seconds(line.lua),
      percent(line.seconds + line.lua), columns.plain(source_line(line.source, line.line)),
    }
  end
  if #rows > 0 then
    session.say(columns.table({
      {title = "line"}, {title = "calls", right = true}, {title = "operations", right = true},
      {title = "Lua", right = true}, {title = "%", right = true, drop = 1}, {title = "", drop = 2, cut = true},
    }, rows))
    if #seen.lines > most_rows then session.say(T("and %d more lines"):format(#seen.lines - most_rows)) end
  end
  if seen.stopped then session.say(T"stopped by Ctrl-C; this is what ran until then") elseif not seen.ok then failed(seen) end
end

local function echo(args, session)
  local setting = require "shell.echo"
  local on, wrong = switch(args, setting.on)
  if wrong then return wrong end
  setting.set(session, on)
  session.say(on and T"assigned names are echoed with dtype and shape" or T"assignments are silent")
end

return {
  {
    name = "time", usage = "%time CODE, %time on|off", example = "%time torch.randn(1000, 1000):sum()",
    doc = "Run code and tell how long it took, devices synchronised; or tell it after every entry.",
    run = time,
  },
  {
    name = "bench", usage = "%bench CODE", example = "%bench a:matmul(b)",
    doc = "Run code for about a second: median time, spread, and what it means in FLOP/s and bytes/s.",
    more = "The spread is that of the middle 80 % of the runs. Work is counted from the operations' shapes.",
    run = bench,
  },
  {
    name = "prof", usage = "%prof CODE", example = "%prof for i = 1, 100 do step() end",
    doc = "Run code once: time per operation and per line of Lua. Ctrl-C ends it and shows what was seen.",
    run = prof,
  },
  {
    name = "shapes", usage = "%shapes on|off", example = "%shapes on",
    doc = "Echo what an entry assigned in one line: w: f32 [3, 4].",
    run = echo,
  },
  {name = "echo", usage = "%echo on|off", example = "%echo on", doc = "The same as %shapes.", run = echo},
}
