-- Tasks: tries the user's function, or variable, against the lesson's spec, and says in a few lines
-- what is missing. Random inputs are seeded, and the user's own random numbers are left as they were.
local allow = require "shell.lesson.allow"
local columns = require "shell.columns"
local guard = require "shell.lesson.guard"
local near_miss = require "shell.lesson.near_miss"
local parse = require "shell.lesson.parse"
local values = require "shell.lesson.values"
local pad = require("shell.text").pad
local language = require "torch.language"
local T, sentence = language.text, language.sentence

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

-- Lines on one wrong result. `near` says nothing of the slip when it is false, else how the slip is looked for;
-- `closed` keeps what is wanted to itself.
local function compare_lines(text, got, wanted, inputs, given, near, closed)
  local remark, caption
  local _
  if near ~= false then remark, _, caption = near_miss.find(got, wanted, inputs, near) end
  local lines = {}
  local a, b = values.brief(got), values.brief(wanted)
  if type(got) == "table" and type(wanted) == "table" and values.kind(got) == "table" then
    lines[1] = #got ~= #wanted and T("not yet: %s has %d entries, wanted %d"):format(text, #got, #wanted) or
      T("not yet: %s is a table, but not the right one"):format(text)
  elseif closed and (a == b or not values.is_tensor(wanted) or wanted.ndim == 0) then
    lines[1] = a == b and T("not yet: %s has the right shape, but not the right values"):format(text) or T("not yet: %s is %s"):format(text, a)
  elseif a ~= b then
    lines[1] = T("not yet: %s is %s, wanted %s"):format(text, a, b)
  elseif values.is_tensor(got) and values.is_tensor(wanted) and got.dtype == wanted.dtype then
    lines[1] = T("not yet: %s has the right shape, %s, but not the right values"):format(text, a)
  else
    lines[1] = T("not yet: %s is %s, wanted %s"):format(text, values.what(got), values.what(wanted))
  end
  if remark then
    lines[1] = T("%s. %s"):format(lines[1], sentence(remark))
  end
  if given then lines[#lines + 1] = T("  with %s"):format(given) end
  local small = {tensor = true, number = true, boolean = true, shape = true}
  local mine, theirs = values.rows(got), values.rows(wanted)
  if small[values.kind(got)] and small[values.kind(wanted)] and math.max(#mine, #theirs) <= 6 then
    local label = {"  " .. pad(T"yours", 8), "  " .. pad(T"wanted", 8)}
    for k, shown in ipairs {mine, closed and {} or theirs} do
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

-- The sizes that a case has: of each dimension of its tensors, and its whole numbers.
local function sizes_of(case)
  local list = {}
  for i = 1, case.n do
    local v = case[i]
    if values.is_tensor(v) then
      for d = 1, v.ndim do list[#list + 1] = v:size(d) end
    elseif math.type(v) == "integer" then
      list[#list + 1] = v
    end
  end
  return list
end

-- Which cases tell slips apart: their sizes exceed 1 and differ, as far as those of the task ever do. Where rows and
-- columns are of one number, or there is one of them, a slip looks like another one.
local function telling(cases)
  local lists = {}
  for k, case in ipairs(cases) do lists[k] = sizes_of(case) end
  local function always(test)
    for _, list in ipairs(lists) do
      if not test(list) then return false end
    end
    return true
  end
  local out = {}
  for k, list in ipairs(lists) do
    local good = true
    for i = 1, #list do
      good = good and (list[i] > 1 or always(function(l) return (l[i] or 1) <= 1 end))
      for j = i + 1, #list do
        good = good and (list[i] ~= list[j] or always(function(l) return l[i] == l[j] end))
      end
    end
    out[k] = good
  end
  return out
end

-- A slip is named only where the telling cases agree on it.
local function agreed(wrong)
  local seen, name = 0, nil
  for _, w in ipairs(wrong) do
    if w.telling and seen < 12 then
      local remark, found = near_miss.find(w.got, w.wanted, w.case)
      if not remark or name and found ~= name then return false end
      seen, name = seen + 1, found
    end
  end
  return seen > 0
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
    if t.low then parts[#parts + 1] = T("%s = %d to %d"):format(t.name, t.low, t.high) end
  end
  return table.concat(parts, ", ")
end

--- Checks a function against the spec.
---@return boolean right
---@return string[] lines what to say
function task.check_function(question, path, env, f)
  local spec = chunk(question.spec.code, question.spec.line, path, env)
  local cases = task.cases(question, path, env)
  local tells, stops, wrong, changes = telling(cases), {}, {}, {}
  local function smallest(list)
    table.sort(list, function(a, b) return a.size < b.size end)
    return list[1]
  end
  for k, case in ipairs(cases) do
    local wanted = table.pack(spec(table.unpack(copies(case), 1, case.n)))
    local given = copies(case)
    local got = table.pack(guard.call(f, task.seconds, table.unpack(given, 1, given.n)))
    local text, inputs = call_text(question, case)
    local size = math.abs(case_size(case) - 14)
    if not got[1] then
      local lines = {T("not yet: %s stops: %s"):format(text, guard.message(got[2]))}
      if inputs then lines[2] = T("  with %s"):format(inputs) end
      if got[3] == "time" then return false, lines end
      stops[#stops + 1] = {size = size, lines = lines}
    else
      for i = 1, math.max(wanted.n, 1) do
        if not values.same(got[i + 1], wanted[i]) then
          local name = wanted.n > 1 and T("result %d of %s"):format(i, text) or text
          wrong[#wrong + 1] = {size = size, telling = tells[k], name = name, got = got[i + 1], wanted = wanted[i], case = case, inputs = inputs}
          break
        end
      end
      for i = 1, case.n do
        if values.is_tensor(case[i]) and not values.same(given[i], case[i]) then
          changes[#changes + 1] = {size = size, lines = {T("not yet: %s has the right value, but changes its input %s; work on a copy.")
            :format(text, question.spec.parameters[i])}}
        end
      end
    end
  end
  if #wrong > 0 then
    smallest(wrong)
    local named, shown = agreed(wrong), wrong[1]
    for i = #wrong, 1, -1 do
      if wrong[i].telling then shown = wrong[i] end
    end
    return false, (compare_lines(shown.name, shown.got, shown.wanted, shown.case, shown.inputs, not named and "plain" or nil))
  end
  local other = smallest(stops) or smallest(changes)
  if other then return false, other.lines end
  local over = ranges_text(question)
  return true, {#question.tries == 1 and over ~= "" and T("right, for %s."):format(over) or
    T("right, on %d random inputs."):format(#cases)}
end

--- The value that a task's variable should get, worked out before the user begins.
function task.wanted(question, path, env)
  return copy(chunk(question.spec.code, question.spec.line, path, env))
end

--- Checks a variable against the value worked out before, which is shown to those who asked for help.
function task.check_value(question, wanted, got, env, asked)
  if values.same(got, wanted) then return true, {T"right."} end
  -- The tensors that the spec names are what the user was given.
  local given = {}
  for _, use in ipairs(allow.uses(question.spec.code)) do
    local v = use.kind == "global" and use.name ~= question.spec.name and rawget(env or {}, use.name)
    if values.is_tensor(v) then given[#given + 1] = v end
  end
  return false, (compare_lines(question.spec.name, got, wanted, given, nil, not asked and "closed" or nil, not asked))
end

task.copy = copy

return task
