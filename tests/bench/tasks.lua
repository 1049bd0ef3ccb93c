-- The benchmark's tasks on Tycho: one JSON line per task on standard output, keys as peers.py writes.
--   tycho tests/bench/tasks.lua [GROUP...] [--threads N] [--only PREFIX,...] [--after TASK]
--                               [--seconds S] [--list]
-- A task is a statement kept as text and run in a plain loop, so that nothing but the statement is timed;
-- `local c` drops the last result at once, so the collector's work is inside the timed region.
-- A task that cannot run prints a line with "error" and the next one goes on; `--seconds 0` runs each
-- statement once, to see whether it runs at all.
local torch = torch or require "torch"
local here = (arg[0]:match("^(.*)/") or ".") .. "/groups/"
local made = dofile(here .. "made.lua")
local groups = {}
for _, file in ipairs {"operations.lua", "training.lua"} do
  for name, group in pairs(assert(loadfile(here .. file))(made)) do groups[name] = group end
end

-- ---------------------------------------------------------------- timing
local now = torch.perf_counter

-- The statement as a function of the number of runs; only the names it uses are made and bound.
local function timer(statement, env)
  local names, values, seen = {}, {}, {}
  for before, name in (" " .. statement):gmatch("([^%w_])([%a_][%w_]*)") do
    if before ~= "." and before ~= ":" and not seen[name] then
      seen[name] = true
      local value = env[name]
      if value ~= nil then names[#names + 1], values[#values + 1] = name, value end
    end
  end
  local bind = #names > 0 and "local " .. table.concat(names, ", ") .. " = ...; " or ""
  local loop = assert(load(bind .. "return function(n) for _ = 1, n do " .. statement .. " end end"))
  loop = loop(table.unpack(values))
  return function(n)
    local start = now()
    loop(n)
    return now() - start
  end
end

-- Microseconds per run of each sample, runs per sample, seconds of the first run, processor / wall time.
-- A sample is a loop of at least 5 ms; samples until `seconds` or 30 of them, at least 3.
local function measure(statement, env, inner, seconds)
  local run = timer(statement, env)
  local first = run(1)
  if seconds == 0 then return {first * 1e6}, 1, first, 1.0 end
  local one = first
  if first < 2 then
    for _ = 1, 3 do one = math.min(one, run(1)) end
    local start = now()
    while one < 0.05 and now() - start < 0.1 do
      local k = one > 1e-4 and 1 or 100
      one = math.min(one, run(k) / k)
    end
  end
  local k = inner or math.max(1, math.ceil(5e-3 / math.max(one, 1e-9)))
  local samples, total, cpu = {}, 0.0, os.clock()
  while #samples < 3 or (total < seconds and #samples < 30) do
    local t = run(k)
    total = total + t
    samples[#samples + 1] = t / k * 1e6
    if total > 8 and #samples >= 2 then break end
  end
  return samples, k, first, (os.clock() - cpu) / total
end

-- ---------------------------------------------------------------- lines
local escapes = {['"'] = '\\"', ["\\"] = "\\\\"}
local function json(value)
  if math.type(value) == "integer" then return tostring(value) end
  if type(value) == "number" then return ("%.5g"):format(value) end
  if type(value) == "string" then
    return '"' .. value:gsub('[%c"\\]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
  end
  local parts = {}
  for _, pair in ipairs(value) do parts[#parts + 1] = json(pair[1]) .. ": " .. json(pair[2]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function read_costs()
  local costs, folder = {}, arg[0]:match("^(.*)/") or "."
  for line in io.lines(folder .. "/costs.tsv") do
    local name, flops, bytes = line:match("^([^#\t][^\t]*)\t([^\t]*)\t([^\t]*)$")
    if name then costs[name] = {flops = tonumber(flops), bytes = tonumber(bytes)} end
  end
  return costs
end

local function run_task(row, threads, seconds, cost)
  local head = {{"task", row.name}, {"peer", "tycho"}, {"threads", threads}}
  local samples, k, first, cpu
  local function go() samples, k, first, cpu = measure(row.statement, row.env, row.options.inner, seconds) end
  local ok, err = pcall(function()
    if row.options.no_grad then torch.no_grad(go) else go() end
  end)
  if not ok then
    head[#head + 1] = {"error", (tostring(err):match("[^\n]*"))}
    return print(json(head))
  end
  table.sort(samples)
  local n = #samples
  local extra = {{"first_us", math.floor(first * 1e6)}, {"cpu", cpu}}
  local kind = row.name:sub(1, 1)
  if cost and cost.flops > 0 and ("fgh"):find(kind, 1, true) then
    extra[#extra + 1] = {"gf_s", cost.flops / samples[1] * 1e-3}
  end
  if cost and cost.bytes > 0 and ("cde"):find(kind, 1, true) then
    extra[#extra + 1] = {"gb_s", cost.bytes / samples[1] * 1e-3}
  end
  for _, pair in ipairs {
    {"min_us", samples[1]}, {"median_us", (samples[(n + 1) // 2] + samples[n // 2 + 1]) / 2}, {"n", n},
    {"inner", k}, {"extra", extra},
  } do head[#head + 1] = pair end
  print(json(head))
end

-- ---------------------------------------------------------------- command line
local function usage(text)
  io.stderr:write("tasks.lua: ", text, "\n")
  os.exit(2)
end

local wanted, options = {}, {threads = "1", seconds = "0.5"}
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match("^%-%-(%l+)$")
    if name == "list" then
      options.list = true
    elseif name then
      if not ({threads = 1, only = 1, after = 1, seconds = 1})[name] then usage("no option " .. arg[i]) end
      options[name] = arg[i + 1] or usage(arg[i] .. " needs a value")
      i = i + 1
    elseif groups[arg[i]] then
      wanted[#wanted + 1] = arg[i]
    else
      usage(("no group %q; groups are a to h"):format(arg[i]))
    end
    i = i + 1
  end
end
local prefixes = {}
for prefix in (options.only or ""):gmatch("[^,]+") do prefixes[#prefixes + 1] = prefix end
if #wanted == 0 then
  local seen = {}
  for _, prefix in ipairs(prefixes) do
    local group = prefix:sub(1, 1)
    if groups[group] and not seen[group] then
      seen[group], wanted[#wanted + 1] = true, group
    end
  end
  if #prefixes == 0 then wanted = {"a", "b", "c", "d", "e", "f", "g", "h"} end
end
local threads = math.tointeger(tonumber(options.threads)) or usage("--threads needs a whole number")
local seconds = tonumber(options.seconds) or usage("--seconds needs a number")

local function chosen(name)
  if #prefixes == 0 then return true end
  for _, prefix in ipairs(prefixes) do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

if not options.list then torch.set_num_threads(threads) end
io.stdout:setvbuf("line")
local costs = read_costs()
local waiting = options.after
for _, group in ipairs(wanted) do
  made.rows = {}
  if not options.list and torch.manual_seed then torch.manual_seed(0) end
  groups[group]()
  for _, row in ipairs(made.rows) do
    if waiting then
      if row.name == waiting then waiting = nil end
    elseif chosen(row.name) then
      if options.list then print(row.name) else run_task(row, threads, seconds, costs[row.name]) end
      collectgarbage()
    end
  end
end
for _, f in ipairs(made.at_end) do f() end
