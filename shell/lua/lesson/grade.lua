-- Predictions: reads what the user answered, tells whether it is right, and if not, says what the
-- answer looks like. A shape is answered as `3 4` or `[3, 4]`, a dtype as `f32` or `float32`,
-- values as a list of numbers, and `error` where something does not work.
local near_miss = require "shell.lesson.near_miss"
local values = require "shell.lesson.values"
local T = require("torch.language").text

local grade = {}

local WORDS = {["true"] = true, yes = true, ["false"] = false, no = false, ["#"] = true}

-- A number as typed: {value=, step= half a unit of its last place}.
local function number(word)
  local top, bottom = word:match("^([%+%-]?[%d%.]+)/(%d+)$")
  if top and tonumber(top) and tonumber(bottom) ~= 0 then return {value = tonumber(top) / tonumber(bottom), step = 0} end
  local value = tonumber(word)
  if not value then
    local lower = word:lower():gsub("^%+", "")
    if lower == "inf" then return {value = math.huge, step = 0} end
    if lower == "-inf" then return {value = -math.huge, step = 0} end
    if lower == "nan" then return {value = 0 / 0, step = 0} end
    return nil
  end
  local decimals = word:match("%.(%d*)")
  return {value = value, step = decimals and 0.5 * 10.0 ^ -#decimals or 0}
end

--- Reads an answer: {kind="error"} | {kind="dtype", dtype=} | {kind="list", numbers} |
--- {kind="booleans", ...}; nil when the text is no answer but something to run.
---@param text string
---@return table|nil
function grade.read(text)
  text = text:gsub("%-%-.*$", ""):gsub("^%s+", ""):gsub("[%s;%.]+$", "")
  local lower = text:lower()
  if lower == "error" or lower == "an error" or lower == "fails" or lower == "it fails" or lower == "none" then
    return {kind = "error"}
  end
  if lower == "scalar" or lower == "number" or lower == "[]" or lower == "{}" or lower == "()" then
    return {kind = "list"}
  end
  if lower:find("^[%a][%w%.]*$") and WORDS[lower] == nil and lower ~= "x" then
    local word = lower:gsub("^torch%.", "")
    local ok, sample = pcall(torch.zeros, 0, {dtype = word})
    if ok then return {kind = "dtype", dtype = sample.dtype} end
  end
  local inner = lower:gsub("torch%.size", ""):gsub("[%[%]{}%(%),;]", " "):gsub("(%d)%s*x%s*(%d)", "%1 %2")
    :gsub("(%d)%s*x%s*(%d)", "%1 %2"):gsub("%s*/%s*", "/"):gsub("by", " ")
  local numbers, booleans = {kind = "list"}, {kind = "booleans"}
  for word in inner:gmatch("%S+") do
    local n = number(word)
    if n then numbers[#numbers + 1] = n end
    if WORDS[word] ~= nil then
      booleans[#booleans + 1] = WORDS[word]
    elseif not n then
      return nil
    end
  end
  if #numbers > 0 and #booleans == 0 then return numbers end
  if #booleans > 0 and #numbers == 0 then return booleans end
  return nil
end

-- The wanted value as a flat list of numbers or booleans, or nil.
local function flat(wanted)
  local kind = values.kind(wanted)
  if kind == "number" or kind == "boolean" then return {wanted} end
  if kind == "tensor" then
    if wanted.ndim == 0 then return {wanted:item()} end
    return wanted:detach():flatten():tolist()
  end
  if kind == "shape" or kind == "table" then
    local list = {}
    for i = 1, #wanted do list[i] = wanted[i] end
    return list
  end
end

local function agrees(answer, wanted)
  local e = wanted == true and 1 or wanted == false and 0 or wanted
  local a = answer.value
  if a == e or (a ~= a and e ~= e) then return true end
  if math.abs(e) == math.huge then return false end
  -- Rounding is allowed to the places that were typed, as long as they say something.
  return math.abs(a - e) <= 1e-6 * math.max(1, math.abs(e)) + math.min(answer.step * 1.001, 0.02 * math.abs(e))
end

local function list_of(answer)
  local list = {}
  for i, n in ipairs(answer) do list[i] = n.value end
  return list
end

local function is_permutation(a, b)
  a, b = {table.unpack(a)}, {table.unpack(b)}
  table.sort(a)
  table.sort(b)
  return values.same_sizes(a, b)
end

local function without_ones(a)
  local list = {}
  for _, n in ipairs(a) do
    if n ~= 1 then list[#list + 1] = n end
  end
  return list
end

local function product(a)
  local n = 1
  for _, k in ipairs(a) do n = n * k end
  return n
end

-- Remarks on a wrong shape, the most telling first.
local function shape_remark(answer, wanted, expression)
  if #answer == 1 and #wanted ~= 1 and answer[1] == product(wanted) then
    return T"that is the number of elements; a shape has one size for each dimension"
  elseif #answer == #wanted and #wanted > 1 then
    local reversed = true
    for i = 1, #wanted do reversed = reversed and answer[i] == wanted[#wanted + 1 - i] end
    if reversed then return T"the right sizes the other way round: rows come before columns" end
  end
  if is_permutation(answer, wanted) then return T"the right sizes, in another order" end
  if values.same_sizes(without_ones(answer), without_ones(wanted)) then
    if #answer > #wanted then return T"one dimension of size 1 too many: is that dimension still there?" end
    if #answer < #wanted then return T"a dimension of size 1 is still there" end
  end
  if #answer == #wanted then
    local off, by = 0, nil
    for i = 1, #wanted do
      if answer[i] ~= wanted[i] then
        off = off + 1
        by = answer[i] - wanted[i]
      end
    end
    if off == 1 and math.abs(by) == 1 then
      return (by < 0 and T"one size is one too small" or T"one size is one too large") .. (
        expression:find("[%[,]%s*{") and T"; both ends of a range belong to it" or "")
    end
    if off == 1 then return T"one of the sizes is different" end
    return T"the number of dimensions is right, their sizes are not"
  end
  return T("it has %s, your answer has %d"):format(#wanted == 0 and T"no dimensions: it is one number" or
    #wanted == 1 and T"one dimension" or T("%d dimensions"):format(#wanted), #answer)
end

local FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
local function is_float(dtype)
  for _, t in ipairs(FLOATS) do
    if t == dtype then return true end
  end
  return false
end

local function dtype_remark(answer, wanted)
  if is_float(wanted) and not is_float(answer) then return T"there are fractions in it, so it is a floating point dtype" end
  if not is_float(wanted) and is_float(answer) then return T"nothing in it asks for fractions" end
  return T"the right kind of number, with another number of bits"
end

-- An element was asked for, x[{i, j}]: where does what was answered stand?
local function index_remark(expression, answer, lookup)
  local name, i, j = expression:match("^%s*([%a_][%w_]*)%[{(%-?%d+),%s*(%-?%d+)}%]")
  if not name or #answer ~= 1 then return nil end
  local ok, x = pcall(lookup, name)
  if not ok or not values.is_tensor(x) or x.ndim ~= 2 then return nil end
  i, j = math.tointeger(i), math.tointeger(j)
  local function at(r, c)
    local found, v = pcall(function() return x[{r, c}]:item() end)
    return found and v == answer[1]
  end
  if i > 0 and j > 0 then
    if at(j, i) then return T("that stands at [{%d, %d}]: the row comes first"):format(j, i) end
    if at(i + 1, j + 1) then return T("that stands at [{%d, %d}]: positions count from 1"):format(i + 1, j + 1) end
  end
  if x:numel() > 4096 then return nil end
  local places = x:double():eq(answer[1]):nonzero()
  if #places == 1 then return T("that stands at [{%d, %d}]"):format(places[{1, 1}]:item(), places[{1, 2}]:item()) end
  if #places == 0 then return T("there is no such number in %s"):format(name) end
end

local function value_remark(answer, wanted, expression, lookup)
  local list, target = list_of(answer), flat(wanted)
  local remark = index_remark(expression, list, lookup)
  if remark then return remark end
  if #list ~= #target then
    return #target == 1 and T"it is one number" or
      T("it has %d values, your answer has %d"):format(#target, #list)
  end
  for i, v in ipairs(target) do
    if type(v) == "boolean" then target[i] = v and 1 or 0 end
  end
  local got = torch.tensor(list, {dtype = "float64"})
  local goal = torch.tensor(target, {dtype = "float64"})
  if values.kind(wanted) == "tensor" and wanted.ndim > 1 then
    got, goal = got:view(wanted.shape), goal:view(wanted.shape)
  elseif #list == 1 then
    got, goal = got[1], goal[1]
  end
  return (near_miss.find(got, goal, {}, "closed"))
end

--- Grades an answer.
---@param answer table what grade.read gave
---@param wanted table {ok=, value=} of the expression: raised, or its value
---@param expression string
---@param lookup fun(name: string): any the session's variables
---@return boolean right
---@return string|nil remark
function grade.grade(answer, wanted, expression, lookup)
  if not wanted.ok then
    if answer.kind == "error" then return true end
    return false, T"would it run at all? (`error` is an answer, too)"
  end
  if answer.kind == "error" then return false, T"it runs, and has a value" end
  local kind = values.kind(wanted.value)
  if kind == "dtype" then
    if answer.kind ~= "dtype" then return false, T"a dtype is asked for, such as i64 or f32" end
    if answer.dtype == wanted.value then return true end
    return false, dtype_remark(answer.dtype, wanted.value)
  elseif answer.kind == "dtype" then
    return false, kind == "shape" and T"a shape is asked for, such as [2, 3]" or T"a value is asked for"
  end
  local target = flat(wanted.value)
  if not target then return false, T"no answer fits that" end
  if answer.kind == "booleans" then
    local right = #answer == #target
    for i = 1, #target do
      local t = target[i]
      right = right and answer[i] == (t == true or t == 1)
    end
    if right and kind ~= "shape" then return true end
    return false, #answer ~= #target and T("it has %d values, your answer has %d"):format(#target, #answer) or nil
  end
  local right = #answer == #target
  for i = 1, #target do right = right and answer[i] ~= nil and agrees(answer[i], target[i]) end
  if right then return true end
  if kind == "shape" then return false, shape_remark(list_of(answer), target, expression) end
  return false, value_remark(answer, wanted.value, expression, lookup)
end

--- Whether two answers say the same.
---@param a table what grade.read gave
---@param b table
---@return boolean
function grade.same_answer(a, b)
  if a.kind ~= b.kind or a.dtype ~= b.dtype or #a ~= #b then return false end
  for i = 1, #a do
    local x, y = a[i], b[i]
    if type(x) == "table" then x, y = x.value, y.value end
    if x ~= y and (x == x or y == y) then return false end
  end
  return true
end

--- "what shape is a + b ?" from "(a + b).shape".
---@return string question
function grade.question(expression)
  local function bare(e)
    local inner = e:match("^(%b())$")
    return inner and inner:sub(2, -2) or e
  end
  local of = expression:match("^(.*)%.shape$") or expression:match("^(.*):size%(%)$")
  if of then return T("what shape is `%s`?"):format(bare(of)) end
  of = expression:match("^(.*)%.dtype$")
  if of then return T("what dtype is `%s`?"):format(bare(of)) end
  return T("what is `%s`?"):format(expression)
end

--- The operand of a question about a shape or dtype: "a + b" of "(a + b).shape".
function grade.subject(expression)
  local of = expression:match("^(.*)%.shape$") or expression:match("^(.*):size%(%)$") or expression:match("^(.*)%.dtype$")
  if not of then return nil end
  local inner = of:match("^(%b())$")
  return inner and inner:sub(2, -2) or of
end

return grade
