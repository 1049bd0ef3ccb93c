-- What the training scripts beside this file share: options, a progress line, a table of metrics with its file and
-- its plot, and checkpoints. A script begins with: local support = dofile(here .. "/support.lua")
local support = {}

---True where the output is a terminal that can redraw a line.
support.in_terminal = os.execute("test -t 1") and os.getenv("TERM") ~= "dumb"

local name = "script"
local line_shown = false

---Prints a line; a progress line above it goes away.
---@param text string a format, with its values after it
function support.say(text, ...)
  if line_shown then io.stdout:write("\r\27[K") end
  line_shown = false
  io.stdout:write(text:format(...), "\n")
  io.stdout:flush()
end

---Ends the script with one sentence about what is wrong with an option or a file.
function support.stop(text, ...)
  io.stderr:write(name, ": ", text:format(...), "\n")
  os.exit(1, true)
end
local say, stop = support.say, support.stop

---Runs f and ends the script with one sentence if it fails: for what depends on options and files alone.
function support.attempt(f, ...)
  local results = table.pack(pcall(f, ...))
  if not results[1] then stop("%s", tostring(results[2])) end
  return table.unpack(results, 2, results.n)
end

---- Options ----------------------------------------------------------------------------------------

-- Options that all scripts have: name, kind, default, what it is.
local common = {
  {"seed", "N", 1, "start of the random numbers", least = 0},
  {"threads", "N", nil, "threads to compute with (all cores)"},
  {"device", "NAME", "cpu", "where to compute: cpu, cuda, cuda:1, ..."},
  {"load", "FILE", nil, "go on from this checkpoint"},
  {"metrics", "FILE", nil, "write the curves to this file, as CSV"},
}

local function help(about, rows)
  say("tycho scripts/%s.lua [--OPTION VALUE]...\n%s\n", name, about)
  for _, row in ipairs(rows) do
    local default = row[3] and (" (%s)"):format(row[3]) or ""
    say("  --%-16s %s%s", row[1] .. " " .. row[2], row[4], default)
  end
  say("  --%-16s a small run of a few seconds, to see that all works", "quick")
  say("  --%-16s show this", "help")
end

-- A value as its row wants it: N is a whole number, X a number, all else text.
local function value_of(row, text)
  if row[2] ~= "N" and row[2] ~= "X" then return text end
  local value, least = tonumber(text), row.least or (row[2] == "N" and 1 or 0)
  if row[2] == "N" then value = value and math.tointeger(value) end
  if not value or value < least or value == math.huge or value ~= value then
    stop("--%s must be %s of at least %s, got %s", row[1], row[2] == "N" and "a whole number" or "a number", least, text)
  end
  return value
end

---Reads the options of the command line, chooses threads and seed, and returns the options by name.
---@param script string the script's name
---@param about string what it does
---@param rows table[] {name, kind, default, what it is, quick = its default with --quick, least =}
---@return table
function support.options(script, about, rows)
  name = script
  for _, row in ipairs(common) do rows[#rows + 1] = row end
  local by_name, given, i = {}, {}, 1
  for _, row in ipairs(rows) do by_name[row[1]] = row end
  while arg[i] do
    local key, value = arg[i]:match("^%-%-([^=]+)=?(.*)$")
    if not key then stop("%s is no option; options are written --name value, and --help lists them", arg[i]) end
    if key == "help" then
      help(about, rows)
      os.exit(0, true)
    elseif key == "quick" then
      given.quick = true
    else
      if not by_name[key] then stop("unknown option --%s; --help lists them", key) end
      if not arg[i]:find("=", 1, true) then
        i = i + 1
        value = arg[i]
      end
      if not value or value == "" then stop("--%s needs a value, as in --help", key) end
      given[key] = value_of(by_name[key], value)
    end
    i = i + 1
  end
  for _, row in ipairs(rows) do
    if given[row[1]] == nil then given[row[1]] = given.quick and row.quick or row[3] end
  end
  if given.threads then support.attempt(torch.set_num_threads, given.threads) end
  support.attempt(torch.zeros, 1, {device = given.device})
  torch.manual_seed(given.seed)
  for _, key in ipairs {"save", "metrics"} do  -- a place that cannot be written is found out now, not after the training
    if given[key] then
      local file, why = io.open(given[key] .. ".part", "ab")
      if not file then stop("cannot write %s; choose another place with --%s FILE", why, key) end
      file:close()
      os.remove(given[key] .. ".part")
    end
  end
  return given
end

---- Progress ---------------------------------------------------------------------------------------

---Seconds as minutes and seconds.
function support.clock(seconds)
  seconds = math.ceil(seconds)
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

local began, began_at, last_shown
---Shows how far the work is: a bar that is redrawn in a terminal, elsewhere a line every ten seconds.
---@param done number of total
---@param total number
---@param text string what else to show
function support.progress(done, total, text, ...)
  local now = torch.perf_counter()
  if not began then began, began_at, last_shown = now, done, now end
  if now - last_shown < (support.in_terminal and 0.1 or 10) then return end
  last_shown = now
  local left = done > began_at and (now - began) / (done - began_at) * (total - done) or 0
  text = ("%3d %%  %s  %s left"):format(100 * done // total, text:format(...), support.clock(left))
  if not support.in_terminal then return say("  %s", text) end
  local filled = 24 * done // total | 0
  io.stdout:write("\r", ("█"):rep(filled), ("░"):rep(24 - filled), " ", text, "\27[K")
  io.stdout:flush()
  line_shown = true
end

---- Metrics ----------------------------------------------------------------------------------------

---A table of numbers that grows while the network learns. With a path it is also a CSV file, which has every row at
---once, so that others can read it during the training.
---@param path? string
---@param columns string[] the first is the place on the curves: step or epoch
---@param rows? number[][] what an earlier run left
function support.metrics(path, columns, rows)
  local log = {rows = rows or {}}
  local function write(mode, values)
    local file = path and support.attempt(function() return assert(io.open(path, mode)) end)
    if not file then return end
    local texts = {}
    for i, v in ipairs(values) do texts[i] = math.type(v) == "float" and ("%.6g"):format(v) or tostring(v) end
    file:write(table.concat(texts, ","), "\n")
    file:close()
  end
  write("w", columns)
  for _, row in ipairs(log.rows) do write("a", row) end
  ---Adds a row: one number for each column.
  function log.add(...)
    log.rows[#log.rows + 1] = {...}
    write("a", {...})
  end
  ---Draws columns as curves, when there is a terminal to see them.
  function log.plot(title, ...)
    if not support.in_terminal or #log.rows < 2 then return end
    local curves, labels = {}, {...}
    local data = torch.tensor(log.rows):double()
    for i, label in ipairs(labels) do
      for k, column in ipairs(columns) do
        if column == label then curves[i] = data[{{}, k}] end
      end
    end
    say("")
    torch.plot(data[{{}, 1}], table.unpack(curves), {title = title, xlabel = columns[1], labels = labels, height = 12})
  end
  return log
end

---- Checkpoints ------------------------------------------------------------------------------------

---Writes a checkpoint: `state` is a table of state dicts and numbers.
---@param path string
---@param state table its `rng`: the random numbers' state before the step that was stopped
---@param finished boolean false when Ctrl-C stopped the training
function support.save(path, state, finished)
  state.script, state.rng = name, not finished and state.rng or torch.get_rng_state()
  support.attempt(torch.save, state, path)
  if finished then say("saved to %s", path) else say("stopped; saved to %s; go on with --load %s", path, path) end
end

---A copy of a state dict that does not change when the training goes on.
function support.copy(state)
  if torch.is_tensor(state) then return state:clone() end
  if type(state) ~= "table" then return state end
  local out = {}
  for k, v in pairs(state) do out[k] = support.copy(v) end
  return out
end

---Reads a checkpoint that this script wrote. Once the network is made, torch.set_rng_state(state.rng) makes the random
---numbers go on where they were.
---@param path string
---@return table state
function support.load(path)
  local state = support.attempt(torch.load, path)
  if type(state) ~= "table" or state.script ~= name then
    stop("%s holds no checkpoint of this script; --save FILE makes such files", path)
  end
  return state
end

return support
