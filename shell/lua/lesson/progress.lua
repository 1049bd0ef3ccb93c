-- How far each lesson was followed, one line per lesson, `NAME ENTRY OF [done]`, what solved its tasks, a line
-- each, `NAME ENTRY: CODE` (with \n for a new line), and how questions went, `NAME ENTRY tries N hints N STATE`, in $XDG_STATE_HOME/tycho/lessons
-- (~/.local/state/tycho/lessons). Lines that make no sense are passed over; where nothing can be
-- written, lessons work all the same.
local progress = {}

local HEAD = "tycho lessons 1"
local LONGEST = 1 << 20  -- bytes of the file that are read
local LONGEST_ANSWER = 4096  -- bytes; a longer one is not kept

local escapes = {["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r"}
local states = {solved = true, skipped = true, open = true}
local characters = {["\\"] = "\\", n = "\n", r = "\r"}

--- The file's path, or nil where there is no home.
---@return string|nil
function progress.path()
  local state, home = os.getenv("XDG_STATE_HOME"), os.getenv("HOME")
  if state and state:sub(1, 1) == "/" then return state .. "/tycho/lessons" end
  if home and home:sub(1, 1) == "/" then return home .. "/.local/state/tycho/lessons" end
end

--- Name -> {entry=, of=, done=, answers={[entry]=code}, counts={[entry]={tries=, hints=, state="solved"|"skipped"|"open"}}}.
---@return table<string, table>
function progress.read()
  local all, path = {}, progress.path()
  local file = path and io.open(path, "rb")
  if not file then return all end
  local text = file:read(LONGEST) or ""
  file:close()
  -- A last line without its end was cut off.
  for line in (text:match("^.*\n") or ""):gmatch("[^\n]+") do
    local name, entry, of, done = line:match("^([%w_%-%.]+) (%d+) (%d+)( ?%l*)$")
    entry, of = math.tointeger(tonumber(entry)), math.tointeger(tonumber(of))
    if entry and of and entry >= 1 and of >= 1 and of < 10000 and (done == "" or done == " done") then
      all[name] = {entry = math.min(entry, of), of = of, done = done == " done", answers = {}, counts = {}}
    end
    local asked, number, tries, hints, how = line:match("^([%w_%-%.]+) (%d+) tries (%d+) hints (%d+) (%l+)$")
    number, tries, hints = math.tointeger(tonumber(number)), math.tointeger(tonumber(tries)), math.tointeger(tonumber(hints))
    if number and tries and hints and all[asked] and states[how] then
      all[asked].counts[number] = {tries = tries, hints = hints, state = how}
    end
    local solved, at, code = line:match("^([%w_%-%.]+) (%d+): (.+)$")
    at = math.tointeger(tonumber(at))
    if at and all[solved] then all[solved].answers[at] = code:gsub("\\(.)", characters) end
  end
  return all
end

local function compose(all)
  local names, lines = {}, {HEAD}
  for name in pairs(all) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local p = all[name]
    lines[#lines + 1] = ("%s %d %d%s"):format(name, p.entry, p.of, p.done and " done" or "")
    for at = 1, p.of do
      local code = p.answers[at]
      if code then lines[#lines + 1] = ("%s %d: %s"):format(name, at, (code:gsub("[\\\n\r]", escapes))) end
      local c = p.counts[at]
      if c then lines[#lines + 1] = ("%s %d tries %d hints %d %s"):format(name, at, c.tries, c.hints, c.state) end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Notes where a lesson is. The file is read again first: another prompt may have written it.
---@param solved? table {[entry]=code} of tasks that were solved
---@param counts? table {[entry]={tries=, hints=, state=}} of questions that were tried; a solved one stays solved
---@return boolean|nil ok
---@return string|nil message
function progress.write(name, entry, of, done, solved, counts)
  local path = progress.path()
  if not path then return nil, "there is no home directory" end
  local all = progress.read()
  local before = all[name]
  local answers = before and before.answers or {}
  for at, code in pairs(solved or {}) do
    if #code <= LONGEST_ANSWER then answers[at] = code end
  end
  local went = before and before.counts or {}
  for at, c in pairs(counts or {}) do
    if not (went[at] and went[at].state == "solved") then went[at] = c end
  end
  all[name] = {entry = entry, of = of, done = done or before ~= nil and before.done, answers = answers, counts = went}
  return require("shell.native").write_private(path, compose(all))
end

return progress
