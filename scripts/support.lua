-- What the training scripts beside this file share: options, a progress line, a table of metrics with its file and
-- its plot; and, in training.lua, the loops of a training that can be stopped and goes on. A script begins with:
-- local support = dofile(here .. "/support.lua")
local support = {}

---True where the output is a terminal that can redraw a line.
support.in_terminal = os.execute("test -t 1") and os.getenv("TERM") ~= "dumb"

---True when run as tycho -i SCRIPT: the prompt opens when the script ends.
support.interactive = false
for i = -8, -1 do support.interactive = support.interactive or arg[i] == "-i" end

local here = debug.getinfo(1, "S").source:match("^@(.*)/") or "."
assert(loadfile(here .. "/ranks.lua"))(support)

local bar

---Prints a line, once for all ranks, above the bar of progress.
---@param text string a format, with its values after it
function support.say(text, ...)
  if support.rank > 0 then return end
  print(text:format(...))
  io.stdout:flush()
end

---Ends the script with one sentence about what is wrong with an option or a file.
function support.stop(text, ...)
  support.progress_ends()
  io.stdout:flush()
  io.stderr:write(support.script or "script", ": ", text:format(...), "\n")
  os.exit(1, true)
end
local say, stop = support.say, support.stop

---What an error says, without the place in these scripts where it was raised.
function support.reason(why)
  if type(why) == "string" or not why.message then return tostring(why) end
  return why.message .. (why.hint ~= "" and "\n   try: " .. why.hint or "")
end

---Runs f and ends the script with one sentence if it fails: for what depends on options and files alone.
function support.attempt(f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  if type(results[2]) ~= "string" and results[2].kind == "interrupt" then error(results[2], 0) end
  stop("%s", support.reason(results[2]))
end

---- Options ----------------------------------------------------------------------------------------

-- Options that all scripts have: name, kind, default, what it is.
local common = {
  {"seed", "N", 1, "start of the random numbers", least = 0},
  {"threads", "N", nil, "threads to compute with (all cores)"},
  {"device", "NAME", "cpu", "where to compute: cpu, cuda, cuda:1, .., or auto: cuda where there is one"},
  {"load", "FILE", nil, "go on from this checkpoint, with its options"},
  {"metrics", "FILE", nil, "write the curves to this file: CSV, or JSON lines if it ends in .jsonl"},
  {"plot", "FILE", nil, "draw the curves into this file too: .svg or .png"},
}
for _, row in ipairs(common) do row.free = true end

local function help(about, rows)
  say("tycho scripts/%s.lua [--OPTION VALUE]...\n%s\n", support.script, about)
  for _, row in ipairs(rows) do
    local default = row[3] and (" (%s%s)"):format(row[3], row[1] == "save" and ", or --load's" or "") or ""
    say("  --%-16s %s%s", row[1] .. " " .. row[2], row[4], default)
  end
  say("  --%-16s a small run of a few seconds, to see that all works", "quick")
  say("  --%-16s show this", "help")
  say("\nCtrl-C ends the step, saves and stops; a second Ctrl-C stops at once.")
end

-- A value as its row wants it: N is a whole number, X a number, a|b one of the words, all else text.
local function value_of(row, text)
  if row[2]:find("|", 1, true) then
    for word in row[2]:gmatch("[^|]+") do
      if text == word then return text end
    end
    stop("--%s must be %s, got %s", row[1], (row[2]:gsub("|", ", "):gsub(", ([^,]+)$", " or %1")), text)
  end
  if row[2] ~= "N" and row[2] ~= "X" then return text end
  local value, least = tonumber(text), row.least or (row[2] == "N" and 1 or 0)
  if row[2] == "N" then value = value and math.tointeger(value) end
  if not value or value < least or value == math.huge or value ~= value or row.most and value > row.most then
    stop("--%s must be %s of at least %s%s, got %s", row[1], row[2] == "N" and "a whole number" or "a number", least,
      row.most and " and at most " .. row.most or "", text)
  end
  return value
end

local function unknown(key, rows)
  local distance, nearest, fewest = require "torch.explain.distance", nil, #key // 2 + 1
  for _, row in ipairs(rows) do
    local edits = distance(key, row[1], fewest)
    if edits < fewest then nearest, fewest = row[1], edits end
  end
  stop("unknown option --%s; %s", key, nearest and "did you mean --" .. nearest .. "?" or "--help lists them")
end

-- The options of the command line alone.
local function read_arguments(about, rows, by_name)
  local given, i = {}, 1
  while arg[i] do
    local key, value = arg[i]:match("^%-%-([^=]+)=?(.*)$")
    if not key then stop("%s is no option; options are written --name value, and --help lists them", arg[i]) end
    if key == "help" then
      help(about, rows)
      os.exit(0, true)
    elseif key == "quick" then
      given.quick = true
    else
      if not by_name[key] then unknown(key, rows) end
      if not arg[i]:find("=", 1, true) then
        i = i + 1
        value = arg[i]
      end
      if not value or value == "" then stop("--%s needs a value, as in --help", key) end
      given[key] = value_of(by_name[key], value)
    end
    i = i + 1
  end
  return given
end

-- A checkpoint's options hold unless others are given; those that its weights depend on cannot be others.
local function take_over(given, by_name)
  local saved = support.attempt(torch.load, given.load, {map_location = "cpu"})
  if type(saved) ~= "table" or saved.script ~= support.script or type(saved.options) ~= "table" then
    stop("%s holds no checkpoint of this script; --save FILE makes such files", given.load)
  end
  for key, value in pairs(saved.options) do
    local row = by_name[key]
    if given[key] == nil then
      given[key] = value
    elseif row and not row.free and given[key] ~= value then
      stop("--%s is %s, but %s was made with %s; leave the option out", key, given[key], given.load, value)
    end
  end
  return saved
end

-- A place that cannot be written is found out now, not after the training.
local function check_writable(key, path)
  local file, why = io.open(path .. ".part", "ab")
  if not file then stop("cannot write %s; choose another place with --%s FILE", why:gsub("%.part:", ":"), key) end
  file:close()
  os.remove(path .. ".part")
end

---Reads the options of the command line, chooses threads and seed, and returns the options by name. With --load the
---checkpoint is `support.saved`.
---@param script string the script's name
---@param about string what it does
---@param rows table[] {name, kind, default, what it is, quick = its default with --quick, least =, most =,
---free = true where a training that goes on may change it}
---@return table
function support.options(script, about, rows)
  support.script = script
  local by_name = {}
  for _, row in ipairs(rows) do by_name[row[1]] = row end
  for _, row in ipairs(common) do
    if not by_name[row[1]] then by_name[row[1]], rows[#rows + 1] = row, row end
  end
  local given = read_arguments(about, rows, by_name)
  -- Started again after a failure (tycho run --max-restarts): goes on from what was saved.
  if not given.load and (tonumber(os.getenv "RESTART_COUNT") or 0) > 0 then
    local path = given.save or by_name.save and by_name.save[3]
    local file = path and io.open(path, "rb")
    if file then
      file:close()
      given.load = path
    end
  end
  local kept = {"metrics", "plot", "load", "threads", "device", "save"}  -- of this run alone
  if given.load then
    support.saved = take_over(given, by_name)
    given.save = given.save or given.load
  end
  support.given = {}
  for key, value in pairs(given) do support.given[key] = value end
  for _, key in ipairs(kept) do support.given[key] = nil end
  for _, row in ipairs(rows) do
    if given[row[1]] == nil then given[row[1]] = given.quick and row.quick or row[3] end
    if not row.free then support.given[row[1]] = given[row[1]] end
  end
  if support.rank > 0 then given.metrics, given.plot = nil, nil end
  given.device = support.meet(given.device)
  if given.threads then support.attempt(torch.set_num_threads, given.threads) end
  if given.device == "auto" then given.device = torch.cuda.is_available() and "cuda" or "cpu" end
  support.attempt(torch.zeros, 1, {device = given.device})
  torch.manual_seed(given.seed)
  for _, key in ipairs {"save", "metrics", "plot"} do
    if given[key] and support.rank == 0 then check_writable(key, given[key]) end
  end
  if given.quick then
    say("--quick is a smoke test: it shows that all works; the numbers of so small a run say nothing about the real one")
  end
  if given.plot and not given.plot:lower():find("%.svg$") and not given.plot:lower():find("%.png$") then
    stop("--plot must end in .svg or .png, got %s", given.plot)
  end
  return given
end

---- Progress ---------------------------------------------------------------------------------------

---Seconds as minutes and seconds.
function support.clock(seconds)
  seconds = math.ceil(seconds)
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

---Shows how far the work is: a bar in a terminal, elsewhere a line a minute (torch.progress).
---@param done number how much is done
---@param all number how much there is
---@param text string what else to show
function support.progress(done, all, text, ...)
  bar = bar or torch.progress {total = all, initial = done, unit = false, leave = false, file = io.stdout}
  bar:to(done, text:format(...))
end

---The work is done, or stops: the bar goes.
function support.progress_ends()
  if bar then bar:close() end
  bar = nil
end

---- Metrics ----------------------------------------------------------------------------------------

-- One row of numbers as a line of the file: nan and infinity are null in JSON.
local function line_of(json, columns, row)
  local cells = {}
  for i, v in ipairs(row) do
    local text = math.type(v) == "float" and ("%.6g"):format(v) or tostring(v)
    if json then
      if v ~= v or v == math.huge or v == -math.huge then text = "null" end
      text = ('"%s": %s'):format(columns[i], text)
    end
    cells[i] = text
  end
  return (json and "{%s}\n" or "%s\n"):format(table.concat(cells, json and ", " or ","))
end

---A table of numbers that grows while the network learns. With a path it is also a file (CSV, or JSON lines when it
---ends in .jsonl), which has every row at once, so that others can read it during the training.
---@param path? string
---@param columns string[] the first is the place on the curves: step or epoch
---@param rows? number[][] what an earlier run left
function support.metrics(path, columns, rows)
  local log = {rows = rows or {}}
  local json = path and path:lower():find("%.jsonl?$")
  local function write(mode, text)
    if not path then return end
    local file, why = io.open(path, mode)
    if file then
      local ok, fault = file:write(text)
      local closed, late = file:close()
      why = not ok and fault or not closed and late or nil
    end
    if why then say("the curves are not in %s: %s", path, why) end
  end
  local before = json and {} or {table.concat(columns, ",") .. "\n"}
  for _, row in ipairs(log.rows) do before[#before + 1] = line_of(json, columns, row) end
  write("w", table.concat(before))
  ---Adds a row: one number for each column.
  function log.add(...)
    log.rows[#log.rows + 1] = {...}
    write("a", line_of(json, columns, {...}))
  end
  -- The numbers of a column, as one curve or (with `by`) as one for each value of another column.
  local function curves_of(label, by)
    local out, at = {}, {}
    for k, column in ipairs(columns) do at[column] = k end
    for _, row in ipairs(log.rows) do
      local name = by and (by.names and by.names[row[at[by[1]]]] or by[1] .. " " .. row[at[by[1]]]) or label
      out[name] = out[name] or {}
      table.insert(out[name], row[at[label]])
    end
    return out
  end
  ---Draws what was measured, in a terminal and into a file (.svg or .png) if one is given. Each plot is a title and the
  ---columns that are its curves; by = {"fold"} makes a curve for each value of that column (names = {..}: what they are called).
  ---@param file? string
  ---@param plots table[] {title, column, ..}
  ---@param by? table
  function log.plot(file, plots, by)
    if #log.rows == 0 or not file and not support.in_terminal then return end
    local figure, places = {}, curves_of(columns[1])[columns[1]]
    for i, one in ipairs(plots) do
      local curves = {}
      for k = 2, #one do
        for name, numbers in pairs(curves_of(one[k], by)) do curves[name] = numbers end
      end
      figure[i] = by and {curves, title = one[1], xlabel = "epoch"} or {places, curves, title = one[1], xlabel = columns[1]}
    end
    if support.in_terminal and #log.rows > 1 then
      say("")
      figure.height = 9
      torch.figure(figure)
      figure.height = nil
    end
    if file then
      figure.file = file
      support.attempt(torch.figure, figure)
      say("curves drawn in %s", file)
    end
  end
  return log
end

---- Data -------------------------------------------------------------------------------------------

---Handwritten digits in MNIST's format: images as float32 [n, 28, 28] from 0 to 1, and labels 1..10 for 0..9.
---@param directory string that holds the four files, with or without .gz
---@param train boolean whether those to learn from, or those to test
---@param most? integer no more images than that
function support.digits(directory, train, most)
  local set = support.attempt(torch.utils.data.mnist, directory, {train = train})
  local _, _, height, width = table.unpack(set.images:size())
  if height ~= 28 or width ~= 28 then stop("%s must hold images of 28x28, got %dx%d", directory, height, width) end
  local last = {{1, math.min(most or #set, #set)}}
  return set.images[last]:squeeze(2), set.labels[last]
end

-- Two rows of pixels per line of text.
local blocks = {[0] = " ", "▀", "▄", "█"}

---Images of digits as text, side by side: what is brighter than `level` in the middle 22 x 22.
---@param images torch.Tensor [n, 28, 28]
---@param level number
function support.show_digits(images, level)
  local pixels = images:gt(level):tolist()
  for top = 4, 24, 2 do
    local parts = {}
    for i, image in ipairs(pixels) do
      local line = {}
      for x = 4, 25 do line[#line + 1] = blocks[(image[top][x] and 1 or 0) + (image[top + 1][x] and 2 or 0)] end
      parts[i] = table.concat(line)
    end
    say("  %s", table.concat(parts, "   "))
  end
end

assert(loadfile(here .. "/training.lua"))(support)
return support
