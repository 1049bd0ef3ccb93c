-- The pieces of an expression with their shapes: both sides of the operator that is applied last, or
-- the steps of a chain of methods. Shapes are found without computing anything.
local card = require "shell.lesson.card"
local grade = require "shell.lesson.grade"
local values = require "shell.lesson.values"

local operands = {}

-- Globals with every tensor replaced by one without values.
local function stand_ins()
  return setmetatable({}, {__index = function(_, name)
    local value = _G[name]
    return values.is_tensor(value) and torch._stand_in(value) or value
  end})
end

--- The value of an expression as far as shapes and dtypes go; nil when it cannot be told.
function operands.infer(expression)
  local f = load("return " .. expression .. "\n", "=lesson", "t", stand_ins())
  if not f then return nil end
  local ok, value = pcall(torch._shapes_only, f)
  if ok then return value end
end

--- Names and shapes of both sides when an expression lines two different shapes up.
---@return string[]|nil names
---@return integer[][]|nil shapes
function operands.sides(expression)
  local left, right = card.split(grade.subject(expression) or expression)
  if not left then return nil end
  local names, shapes = {left, right}, {}
  for i, e in ipairs(names) do
    local v = operands.infer(e)
    if not values.is_tensor(v) then return nil end
    shapes[i] = v.shape
  end
  if values.same_sizes(shapes[1], shapes[2]) then return nil end
  return names, shapes
end

--- Rows `a [2, 3]`, `:matmul(b) [2, 4]`, .. of a chain of methods; nil when it is none, or one step only.
---@return string[]|nil
function operands.chain(expression)
  if card.split(expression) then return nil end
  local ends, depth = {}, 0
  for _, t in ipairs(torch._lex(expression)) do
    local s = expression:sub(t.first, t.last)
    if s == "(" or s == "[" or s == "{" then depth = depth + 1 end
    if s == ")" or s == "]" or s == "}" then depth = depth - 1 end
    if s == "," and depth == 0 then return nil end
    if s == ":" and depth == 0 and t.first > 1 then ends[#ends + 1] = t.first - 1 end
  end
  if #ends == 0 then return nil end
  ends[#ends + 1] = #expression
  local rows, wide = {}, 0
  for i, last in ipairs(ends) do
    local v = operands.infer(expression:sub(1, last))
    if not values.is_tensor(v) then return nil end
    local piece = expression:sub(i == 1 and 1 or ends[i - 1] + 1, last)
    rows[i] = {piece, values.shape_text(v.shape) .. "  " .. values.dtype_text(v.dtype)}
    wide = math.max(wide, #piece)
  end
  if wide > 40 then return nil end
  for i, r in ipairs(rows) do rows[i] = r[1] .. (" "):rep(wide - #r[1]) .. "  " .. r[2] end
  return rows
end

--- Splits at the commas outside of brackets.
---@return string[]
function operands.list(text)
  local parts, depth, from = {}, 0, 1
  for _, t in ipairs(torch._lex(text)) do
    local s = text:sub(t.first, t.last)
    if s == "(" or s == "[" or s == "{" then depth = depth + 1 end
    if s == ")" or s == "]" or s == "}" then depth = depth - 1 end
    if s == "," and depth == 0 then
      parts[#parts + 1] = text:sub(from, t.first - 1)
      from = t.last + 1
    end
  end
  parts[#parts + 1] = text:sub(from)
  for i, part in ipairs(parts) do parts[i] = part:gsub("^%s+", ""):gsub("%s+$", "") end
  return parts
end

return operands
