-- `tycho learn --report FILE.csv|json`: who solved what, with how many tries and hints. It is written when it is asked
-- for, from the progress on this machine. Rows of others in the file stay, so a class can share one.
local find = require "shell.lesson.find"
local progress = require "shell.lesson.progress"

local report = {}

local COLUMNS = {"who", "course", "lesson", "entry", "kind", "state", "tries", "hints", "answer"}

-- --- CSV ---

local function cell(v)
  local text = tostring(v == nil and "" or v)
  return text:find '[",\r\n]' and '"' .. text:gsub('"', '""') .. '"' or text
end

local function to_csv(rows)
  local lines = {table.concat(COLUMNS, ",")}
  for _, row in ipairs(rows) do
    local cells = {}
    for i, name in ipairs(COLUMNS) do cells[i] = cell(row[name]) end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

-- Rows of a CSV text; nil where it has other columns.
local function from_csv(text)
  local rows, row, at = {}, {}, 1
  while at <= #text do
    local quoted = text:match('^"()', at)
    local value, after
    if quoted then
      local close = quoted
      repeat
        close = text:find('"', close, true)
        if not close then return nil end
        if text:sub(close + 1, close + 1) ~= '"' then break end
        close = close + 2
      until false
      value, after = text:sub(quoted, close - 1):gsub('""', '"'), close + 1
    else
      value, after = text:match('^([^,\r\n]*)()', at)
    end
    row[#row + 1] = value
    local stop, next_at = text:match('^(,)()', after)
    if stop then
      at = next_at
      if at > #text then row[#row + 1] = "" end
    else
      rows[#rows + 1] = row
      row, at = {}, text:match('^\r?\n()', after) or #text + 1
    end
  end
  if #row > 0 then rows[#rows + 1] = row end
  if not rows[1] or table.concat(rows[1], ",") ~= table.concat(COLUMNS, ",") then return nil end
  local list = {}
  for i = 2, #rows do
    local named = {}
    for k, name in ipairs(COLUMNS) do named[name] = rows[i][k] end
    list[#list + 1] = named
  end
  return list
end

-- --- JSON: one row a line ---

local ESCAPES = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}
local CHARACTERS = {n = "\n", r = "\r", t = "\t"}

local function json_value(v)
  if math.type(v) == "integer" then return tostring(v) end
  return '"' .. tostring(v):gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function to_json(rows)
  local lines = {}
  for i, row in ipairs(rows) do
    local fields = {}
    for _, name in ipairs(COLUMNS) do
      if row[name] ~= nil then fields[#fields + 1] = ('"%s": %s'):format(name, json_value(row[name])) end
    end
    lines[i] = "  {" .. table.concat(fields, ", ") .. "}"
  end
  return "[\n" .. table.concat(lines, ",\n") .. "\n]\n"
end

-- Rows of a text that to_json wrote; nil for another one.
local function from_json(text)
  if not text:find "^%[\n.*%]\n?$" then return nil end
  local rows = {}
  for line in text:sub(3):gmatch "[^\n]+" do
    if line == "]" then break end
    line = line:match "^  ({.*}),?$"
    if not line then return nil end
    local row, at = {}, 2
    while true do
      local name, from = line:match('^"(%l+)": ()', at)
      if not name then return nil end
      local number, after = line:match("^(%d+)()", from)
      if number then
        row[name] = math.tointeger(tonumber(number))
      else
        local close = from + 1
        while close <= #line and line:sub(close, close) ~= '"' do close = close + (line:sub(close, close) == "\\" and 2 or 1) end
        if close > #line then return nil end
        after = close + 1
        row[name] = line:sub(from + 1, close - 1):gsub("\\u(%x%x%x%x)", function(hex) return utf8.char(tonumber(hex, 16)) end)
          :gsub("\\(.)", function(c) return CHARACTERS[c] or c end)
      end
      at = line:match("^, ()", after)
      if not at then break end
    end
    rows[#rows + 1] = row
  end
  return rows
end

local FORMATS = {csv = {write = to_csv, read = from_csv}, json = {write = to_json, read = from_json}}

-- The user's name on this machine.
local function user()
  local name = os.getenv "USER" or os.getenv "LOGNAME"
  if name and name ~= "" then return name end
  local pipe = io.popen "id -un 2>/dev/null"
  name = pipe and pipe:read "l"
  if pipe then pipe:close() end
  return name or "somebody"
end

--- The user's own rows: one for each question that was reached.
---@return table[]
function report.rows()
  local kept, rows = progress.read(), {}
  local who = user()
  local course = find.course()
  for _, lesson in ipairs(course.lessons) do
    local p = kept[lesson.key]
    for at, step in ipairs(p and lesson.steps or {}) do
      local q = step.question
      local c = p.counts[at]
      if q and q.kind ~= "play" and (c or at < p.entry or p.done) then
        -- Entries from before counts were kept say only that they lie behind.
        rows[#rows + 1] = {who = who, course = course.title, lesson = lesson.name, entry = at, kind = q.kind,
                           state = c and c.state or "passed", tries = c and c.tries, hints = c and c.hints, answer = p.answers[at]}
      end
    end
  end
  return rows
end

--- Writes the report; the exit status.
---@param path string ends in .csv or .json
---@return integer
function report.main(path)
  local function fail(...)
    io.stderr:write("tycho: ", (...):format(select(2, ...)), "\n")
    return 1
  end
  local format = FORMATS[(path or ""):lower():match "%.(%w+)$"]
  if not format then return fail("--report wants a file that ends in .csv or .json, such as --report lessons.csv") end
  local rows = report.rows()
  local others, mine = {}, {}
  for _, row in ipairs(rows) do mine[row.who .. "\0" .. row.course] = true end
  local file = io.open(path, "rb")
  if file then
    local text = file:read "a" or ""
    file:close()
    local old = text == "" and {} or format.read(text)
    if not old then return fail("%s is there and is no report; name another file, or remove it", path) end
    for _, row in ipairs(old) do
      if not mine[tostring(row.who) .. "\0" .. tostring(row.course)] then others[#others + 1] = row end
    end
  end
  table.move(rows, 1, #rows, #others + 1, others)
  local out, message = io.open(path, "wb")
  if not out then return fail("%s", message) end
  local good, why = out:write(format.write(others))
  if good then good, why = out:close() end
  if not good then return fail("%s: %s", path, why) end
  print(("%s: %d questions%s"):format(path, #rows, #others > #rows and (", and %d of others"):format(#others - #rows) or ""))
  return 0
end

return report
