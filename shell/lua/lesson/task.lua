-- Tasks: tries the user's function, or variable, against the lesson's spec, and says in a few lines
-- what is missing. Random inputs are seeded, and the user's own random numbers are left as they were.
local allow = require "shell.lesson.allow"
local columns = require "shell.columns"
local guard = require "shell.lesson.guard"
local near_miss = require "shell.lesson.near_miss"
local parse = require "shell.lesson.parse"
local values = require "shell.lesson.values"

local task = {}

task.seconds = 3     -- one call of a task's function may take
local CASES = 20     -- random tries
local ALL = 12       -- a single range of up to so many numbers is tried in full

local function chunk(code, line, path, env)
  return assert(parse.load(code, line, path, env))()
end

-- The cases of a task: lists of arguments. `env` is where expressions of `try` find names.
function task.cases(question, path, env)
  local tries, ranges = question.tries, {}
  for _, t in ipairs(tries) do
    if t.low then ranges[#ranges + 1] = t end
  end
  local count = CASES
  if #ranges == 1 and #tries == 1 and ranges[1].high - ranges[1].low < ALL then
    count = ranges[1].high - ranges[1].low + 1
  end
  local state = torch.get_rng_state()
  torch.manual_seed(20)
  local ok, list = pcall(function()
    local list = {}
    for k = 1, count do
      local case = setmetatable({}, {__index = env})
      for _, t in ipairs(tries) do
        if t.code then
          case[t.name] = chunk(t.code, t.line, path, case)
        elseif count < CASES then
          case[t.name] = t.low + k - 1
        elseif k <= 2 then
          case[t.name] = k == 1 and t.low or t.high
        else
          case[t.name] = torch.randint(t.low, t.high + 1, {}):item()
        end
      end
      local arguments = {n = #question.spec.parameters}
      for i, name in ipairs(question.spec.parameters) do arguments[i] = rawget(case, name) end
      list[k] = arguments
    end
    return list
  end)
  torch.set_rng_state(state)
  if not ok then error(list, 0) end
  return list
end

local function copy(v)
  if values.is_tensor(v) then return v:detach():clone() end
  return v
end

local function copies(arguments)
  local list = {n = arguments.n}
  for i = 1, arguments.n do list[i] = copy(arguments[i]) end
  return list
end

-- table_of(5), or total(x) with x of shape [3, 4]
local function call_text(question, arguments)
  local parts, tensors = {}, {}
  for i = 1, arguments.n do
    local v = arguments[i]
    local name = question.spec.parameters[i]
    if values.is_tensor(v) then
      parts[i] = name
      tensors[#tensors + 1] = name .. " " .. values.what(v):gsub("^a tensor ", ""):gsub(" of shape", "")
    else
      parts[i] = values.brief(v)
    end
  end
  local text = question.spec.name .. "(" .. table.concat(parts, ", ") .. ")"
  return text, #tensors > 0 and table.concat(tensors, ", ") or nil
end

-- Lines on one wrong result.
local function compare_lines(text, got, wanted, inputs, given)
  local remark, _, caption = near_miss.find(got, wanted, inputs)
  local lines = {}
  local a, b = values.brief(got), values.brief(wanted)
  if a ~= b then
    lines[1] = ("not yet: %s is %s, wanted %s"):format(text, a, b)
  elseif values.is_tensor(got) and values.is_tensor(wanted) and got.dtype == wanted.dtype then
    lines[1] = ("not yet: %s has the right shape, %s, but not the right values"):format(text, a)
  else
    lines[1] = ("not yet: %s is %s, wanted %s"):format(text, values.what(got), values.what(wanted))
  end
  if remark then
    lines[1] = ("%s. %s%s%s"):format(lines[1], remark:sub(1, 1):upper(), remark:sub(2), remark:find("[%?%.]$") and "" or ".")
  end
  if given then lines[#lines + 1] = "  with " .. given end
  local small = {tensor = true, number = true, boolean = true, shape = true}
  local mine, theirs = values.rows(got), values.rows(wanted)
  if small[values.kind(got)] and small[values.kind(wanted)] and math.max(#mine, #theirs) <= 6 then
    local label = {"  yours   ", "  wanted  "}
    for k, shown in ipairs {mine, theirs} do
      for i, rowtext in ipairs(shown) do
        lines[#lines + 1] = (i == 1 and label[k] or "          ") .. rowtext
        if k == 1 and i == 1 and caption and #lines[#lines] + #caption + 8 < columns.window() then
          lines[#lines] = lines[#lines] .. "        " .. caption
        end
      end
    end
  end
  return lines, remark
end

local function case_size(case)
  local n = 0
  for i = 1, case.n do
    local v = case[i]
    n = n + (values.is_tensor(v) and v:numel() or math.type(v) == "integer" and v * v or 1)
  end
  return n
end

local function ranges_text(question)
  local parts = {}
  for _, t in ipairs(question.tries) do
    if t.low then parts[#parts + 1] = ("%s = %d to %d"):format(t.name, t.low, t.high) end
  end
  return table.concat(parts, ", ")
end

--- Checks a function against the spec.
---@return boolean right
---@return string[] lines what to say
function task.check_function(question, path, env, f)
  local spec = chunk(question.spec.code, question.spec.line, path, env)
  local found
  local cases = task.cases(question, path, env)
  local function keep(rank, lines)
    if not found or rank < found.rank then found = {rank = rank, lines = lines} end
  end
  for _, case in ipairs(cases) do
    local wanted = table.pack(spec(table.unpack(copies(case), 1, case.n)))
    local given = copies(case)
    local got = table.pack(guard.call(f, task.seconds, table.unpack(given, 1, given.n)))
    local text, inputs = call_text(question, case)
    local size = math.abs(case_size(case) - 14)
    if not got[1] then
      local lines = {("not yet: %s stops: %s"):format(text, guard.message(got[2]))}
      if inputs then lines[2] = "  with " .. inputs end
      if got[3] == "time" then return false, lines end
      keep(size, lines)
    else
      for i = 1, math.max(wanted.n, 1) do
        if not values.same(got[i + 1], wanted[i]) then
          local name = wanted.n > 1 and ("result %d of %s"):format(i, text) or text
          local lines, remark = compare_lines(name, got[i + 1], wanted[i], case, inputs)
          keep((remark and 0 or 1000000) + size, lines)
          break
        end
      end
      for i = 1, case.n do
        if values.is_tensor(case[i]) and not values.same(given[i], case[i]) then
          keep(2000000 + size, {("not yet: %s has the right value, but changes its input %s; work on a copy.")
            :format(text, question.spec.parameters[i])})
        end
      end
    end
  end
  if found then return false, found.lines end
  local over = ranges_text(question)
  return true, {#question.tries == 1 and over ~= "" and ("right, for %s."):format(over) or
    ("right, on %d random inputs."):format(#cases)}
end

--- The value that a task's variable should get, worked out before the user begins.
function task.wanted(question, path, env)
  return copy(chunk(question.spec.code, question.spec.line, path, env))
end

--- Checks a variable against the value worked out before.
function task.check_value(question, wanted, got, env)
  if values.same(got, wanted) then return true, {"right."} end
  -- The tensors that the spec names are what the user was given.
  local given = {}
  for _, use in ipairs(allow.uses(question.spec.code)) do
    local v = use.kind == "global" and use.name ~= question.spec.name and rawget(env or {}, use.name)
    if values.is_tensor(v) then given[#given + 1] = v end
  end
  return false, (compare_lines(question.spec.name, got, wanted, given))
end

task.copy = copy

return task
