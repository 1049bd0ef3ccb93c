-- The reader's frame: options, unpacking, the list of groups, jobs side by side, and the report.
local json = require "json"
local compare = require "compare"
local differences = require "differences"
local reader = {}

-- Group name -> the file that runs it. `due` groups count in scripts/test; the others are read and counted too.
reader.groups = {
  {name = "ops"},
  {name = "errors"},
  {name = "type_promotion"},
  {name = "broadcast"},
  {name = "special_values"},
  {name = "print"},
  {name = "autograd_scenarios"},
  {name = "rng"},
  {name = "autocast"},
  {name = "module_init"},
  {name = "modules"},
  {name = "optim"},
  {name = "lr_scheduler"},
  {name = "data"},
  {name = "init"},
  {name = "grad_scaler"},
  {name = "files"},
}

local usage = [[
usage: tycho tests/conformance/run.lua [PATH] [options]
  PATH                    a folder or an archive of vectors; vectors.tar.xz beside run.lua when absent
  --only GROUP[/OP],...   only these groups or ops
  --skip GROUP,...        all but these
  --due                   only the groups that must pass
  --jobs N                processes side by side (2)
  --device NAME           the tensors of group ops lie on this device, "cuda" say; results must too
  --list-missing          name every operation that is not there
  --verbose               every case that fails, with what was wrong (else the first three of an op)
  --json FILE             all results as JSON lines
groups: ]]

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function stop(text)
  io.stderr:write("run.lua: ", text, "\n")
  os.exit(2)
end

local function lines_of(command)
  local pipe = assert(io.popen(command))
  local out = {}
  for line in pipe:lines() do out[#out + 1] = line end
  pipe:close()
  return out
end

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

local function read_all(path)
  local f, why = io.open(path, "rb")
  if not f then error(why, 0) end
  local text = f:read("a")
  f:close()
  return text
end
reader.read_all = read_all

---@return table list of decoded lines
function reader.read_lines(path)
  local out = {}
  for line in io.lines(path) do
    if line ~= "" then out[#out + 1] = json.decode(line) end
  end
  return out
end

function reader.read_json(path) return json.decode(read_all(path)) end

-- The folder that holds manifest.json; an archive is unpacked into a temporary one.
local function open(path)
  if exists(path .. "/manifest.json") then return path end
  if not exists(path) then stop("there is no " .. path) end
  local folder = lines_of("mktemp -d")[1]
  if not os.execute(("tar xf %s -C %s"):format(quote(path), quote(folder))) then stop("cannot unpack " .. path) end
  local found = lines_of(("find %s -name manifest.json"):format(quote(folder)))[1]
  if not found then stop(path .. " holds no manifest.json") end
  return found:match("^(.*)/manifest%.json$"), folder
end

-- One unit of work: a group, or one op of `ops`. `report(id, status, check, why)`.
local function run_unit(folder, group, op, report)
  require("groups." .. group).run(folder, op, report)
end

-- Every unit named by the options, the ops one by one.
local function units(folder, options)
  local out = {}
  for _, group in ipairs(reader.groups) do
    local wanted = not (options.due and group.later) and not options.skip[group.name]
    if wanted and group.name == "ops" then
      for _, file in ipairs(lines_of(("ls %s"):format(quote(folder .. "/ops")))) do
        local op = file:match("^(.*)%.jsonl$")
        if op and (not options.only or options.only.ops or options.only["ops/" .. op]) then out[#out + 1] = {"ops", op} end
      end
    elseif wanted and (not options.only or options.only[group.name]) then
      out[#out + 1] = {group.name, ""}
    end
  end
  return out
end

local function run_units(folder, list, first, step, write)
  for i = first, #list, step do
    local group, op = list[i][1], list[i][2]
    local ok, why = pcall(run_unit, folder, group, op, function(id, status, check, text)
      write(table.concat({group, op, id, status, check or "", (tostring(text or ""):gsub("[\t\n]", " "))}, "\t"))
    end)
    if not ok then write(table.concat({group, op, group .. ":" .. op, "failed", "reader", (tostring(why):gsub("[\t\n]", " "))}, "\t")) end
  end
end

-- Counts result lines per group and op.
local function count(results, differences, on_gpu)
  local table_of, order = {}, {}
  for _, line in ipairs(results) do
    local group, op, id, status, check, why = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local key = op ~= "" and group .. "/" .. op or group
    local row = table_of[key]
    if not row then
      row = {group = group, key = key, passed = 0, failed = 0, missing = 0, skipped = 0, failures = {}}
      table_of[key], order[#order + 1] = row, key
    end
    if status ~= "passed" and (differences[id] or on_gpu[id]) then status = "skipped" end
    row[status] = row[status] + 1
    if status == "failed" or status == "missing" then row.failures[#row.failures + 1] = {id = id, check = check, why = why} end
  end
  table.sort(order)
  return table_of, order
end

local function print_report(table_of, order, options)
  local groups, group_order = {}, {}
  for _, key in ipairs(order) do
    local row = table_of[key]
    local g = groups[row.group]
    if not g then
      g = {passed = 0, failed = 0, missing = 0, skipped = 0}
      groups[row.group], group_order[#group_order + 1] = g, row.group
    end
    for _, field in ipairs {"passed", "failed", "missing", "skipped"} do g[field] = g[field] + row[field] end
    if row.failed + row.missing > 0 then
      print(("%-48s %6d passed %5d failed %5d not implemented"):format(key, row.passed, row.failed, row.missing))
      for i, f in ipairs(row.failures) do
        if i > 3 and not options.verbose then
          print(("    ... and %d more (--verbose)"):format(#row.failures - 3))
          break
        end
        print(("    %s  %s: %s"):format(f.id, f.check, options.verbose and f.why or f.why:sub(1, 160)))
      end
    end
  end
  print(("%-24s %8s %8s %16s %8s"):format("group", "passed", "failed", "not implemented", "skipped"))
  local total = {passed = 0, failed = 0, skipped = 0}
  for _, name in ipairs(group_order) do
    local g = groups[name]
    print(("%-24s %8d %8d %16d %8d"):format(name, g.passed, g.failed, g.missing, g.skipped))
    total.passed, total.failed, total.skipped = total.passed + g.passed, total.failed + g.failed + g.missing, total.skipped + g.skipped
  end
  if options.list_missing then
    print("not implemented:")
    for _, key in ipairs(order) do
      if table_of[key].missing > 0 then print("  " .. key) end
    end
  end
  print(("%d passed, %d failed, %d skipped"):format(total.passed, total.failed, total.skipped))
  return total.failed == 0 and total.passed > 0
end

local function parse(arguments, here)
  local options = {path = here .. "/vectors.tar.xz", jobs = 2, skip = {}}
  local i = 1
  local function value()
    i = i + 1
    return arguments[i] or stop(arguments[i - 1] .. " wants a value")
  end
  local function set(text, check)
    local out = {}
    for part in text:gmatch("[^,]+") do
      local group = part:match("^[^/]+")
      local known = false
      for _, g in ipairs(reader.groups) do known = known or g.name == group end
      if not known then stop(("no group %q; %s"):format(group, check)) end
      out[part] = true
    end
    return out
  end
  local names = {}
  for k, g in ipairs(reader.groups) do names[k] = g.name end
  names = table.concat(names, " ")
  while arguments[i] do
    local a = arguments[i]
    if a == "--only" then options.only = set(value(), "the groups are " .. names)
    elseif a == "--skip" then options.skip = set(value(), "the groups are " .. names)
    elseif a == "--due" then options.due = true
    elseif a == "--jobs" then options.jobs = math.max(1, math.tointeger(tonumber(value())) or stop("--jobs wants a number"))
    elseif a == "--device" then options.device = value()
    elseif a == "--list-missing" then options.list_missing = true
    elseif a == "--verbose" then options.verbose = true
    elseif a == "--json" then options.json = value()
    elseif a == "--mutant" then options.mutant = value()
    elseif a == "--shard" then options.shard = value()
    elseif a == "--help" or a == "-h" then
      print(usage .. names)
      os.exit(0)
    elseif a:sub(1, 1) == "-" then stop("no option " .. a .. "; --help lists them")
    else options.path = a
    end
    i = i + 1
  end
  return options
end

-- The same program with the same options, one part of the units each.
local function start_jobs(here, arguments, folder, jobs)
  local program = arg[-1] or "tycho"
  local pipes = {}
  for k = 1, jobs do
    local words = {quote(program), quote(here .. "/run.lua"), quote(folder), "--shard", ("%d/%d"):format(k, jobs)}
    local skip_next = false
    for i, a in ipairs(arguments) do
      if skip_next then skip_next = false
      elseif a == "--jobs" or a == "--json" then skip_next = true
      elseif a:sub(1, 1) == "-" or (i > 1 and (arguments[i - 1] == "--only" or arguments[i - 1] == "--skip" or arguments[i - 1] == "--mutant" or arguments[i - 1] == "--device")) then
        words[#words + 1] = quote(a)
      end
    end
    pipes[k] = assert(io.popen(table.concat(words, " "), "r"))
  end
  local results = {}
  for k, pipe in ipairs(pipes) do
    local ended = false
    for line in pipe:lines() do
      if line == "end" then ended = true else results[#results + 1] = line end
    end
    local ok, how, status = pipe:close()
    if not ended or not ok then
      results[#results + 1] = table.concat({"ops", "", "job " .. k, "failed", "reader", ("the process ended early (%s %s)"):format(tostring(how), tostring(status))}, "\t")
    end
  end
  return results
end

---@param here string  the folder of run.lua
function reader.main(here, arguments)
  local options = parse(arguments, here)
  local folder, temporary = open(options.path)
  local manifest = reader.read_json(folder .. "/manifest.json")
  for name, t in pairs(manifest.tolerance) do compare.tolerance[name] = t end
  local list = units(folder, options)
  if #list == 0 then stop("nothing matches") end
  if options.mutant then require("mutants").switch_on(options.mutant) end
  if options.device then
    torch.set_default_device(options.device)
    torch.backends.cudnn.allow_tf32 = false  -- convolutions have float32's digits
  end
  if options.shard then
    local k, n = options.shard:match("^(%d+)/(%d+)$")
    torch.set_num_threads(1)
    run_units(folder, list, tonumber(k), tonumber(n), print)
    print("end")
    os.exit(0)
  end
  local results
  if options.jobs > 1 and #list > 1 then
    results = start_jobs(here, arguments, folder, options.jobs)
  else
    results = {}
    run_units(folder, list, 1, 1, function(line) results[#results + 1] = line end)
  end
  if temporary then os.execute("rm -rf " .. quote(temporary)) end
  if options.json then
    local f = assert(io.open(options.json, "w"))
    for _, line in ipairs(results) do
      local group, op, id, status, check, why = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
      f:write(("{\"group\": %q, \"op\": %q, \"id\": %q, \"status\": %q, \"check\": %q, \"why\": %q}\n"):format(group, op, (id:gsub('"', "'")), status, check, (why:gsub('["\\]', "'"))))
    end
    f:close()
  end
  local table_of, order = count(results, differences, options.device and differences.on_gpu or {})
  os.exit(print_report(table_of, order, options) and 0 or 1)
end

return reader
