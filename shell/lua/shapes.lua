-- Shape rules of help ("[.., n, m], [.., m, p] -> [.., n, p]; [n, m], [m] -> [n]") with the sizes of live
-- tensors put in: what the next operand must look like.
local shapes = {}

local read_patterns = {}  -- rules share them

-- "[.., n, 1]" -> {"..", "n", "1"}; nil for what is no plain list of sizes
local function read_pattern(text)
  local known = read_patterns[text]
  if known ~= nil then return known or nil end
  read_patterns[text] = false
  local inner = text:match "^%s*%[([^%[%]]*)%]%s*$"
  if not inner then return nil end
  local items = {}
  for item in inner:gmatch "[^,]+" do
    item = item:match "^%s*(.-)%s*$"
    if not (item == ".." or item:find "^%a%w*$" or item:find "^%d+$") then return nil end
    items[#items + 1] = item
  end
  read_patterns[text] = items
  return items
end

local read_rules = {}

---The alternatives of a rule: a list of lists of patterns, those of the operands, each maybe behind a name.
---@param rule string
function shapes.read(rule)
  if read_rules[rule] then return read_rules[rule] end
  local alternatives = {}
  for part in rule:gmatch "[^;]+" do
    local operands = part:match "^(.-)%->"
    local list, plain = {}, operands ~= nil
    local rest = operands or ""
    while plain and rest:find "%S" do
      local pattern, after = rest:match "^%s*%l*%s*(%b[])%s*,?(.*)$"
      local items = pattern and read_pattern(pattern)
      plain = items ~= nil
      list[#list + 1] = items
      rest = after or ""
    end
    if plain and #list > 0 then alternatives[#alternatives + 1] = list end
  end
  read_rules[rule] = alternatives
  return alternatives
end

-- Binds the letters of a pattern to a shape's sizes; false when they disagree.
local function bind(pattern, shape, letters)
  local dots, count = nil, 0
  for i, item in ipairs(pattern) do
    if item == ".." then dots, count = i, count + 1 end
  end
  if count > 1 then return #shape > 0 end  -- [.., n, ..]: some dimension
  local fixed = #pattern - (dots and 1 or 0)
  if #shape < fixed or (not dots and #shape ~= fixed) then return false end
  for i, item in ipairs(pattern) do
    if item ~= ".." then
      local size = (not dots or i < dots) and shape[i] or shape[#shape - (#pattern - i)]
      local known = tonumber(item) or letters[item]
      if known and known ~= size then return false end
      letters[item] = size
    end
  end
  return true
end

local function render(pattern, letters)
  local dots = 0
  for _, item in ipairs(pattern) do dots = dots + (item == ".." and 1 or 0) end
  if dots > 1 then return nil end
  local parts = {}
  for i, item in ipairs(pattern) do parts[i] = letters[item] and tostring(letters[item]) or item end
  return "[" .. table.concat(parts, ", ") .. "]"
end

---What operand `n` may look like when the operands before it have the given shapes: "[784] or [784, n]", or
---nil when the rule says nothing that fits.
---@param rule string
---@param given table[] shapes of the operands before, in order
---@param letters? table<string, integer> sizes known otherwise
---@return string|nil
function shapes.wanted(rule, given, letters)
  local out, seen = {}, {}
  for _, patterns in ipairs(shapes.read(rule)) do
    local bound, fits = {}, true
    for k, v in pairs(letters or {}) do bound[k] = v end
    for i, shape in ipairs(given) do
      fits = fits and patterns[i] ~= nil and bind(patterns[i], shape, bound)
    end
    local next_one = patterns[#given + 1]
    if fits and next_one then
      local text = render(next_one, bound)
      if text and not seen[text] then
        seen[text] = true
        out[#out + 1] = text
      end
    end
  end
  return #out > 0 and table.concat(out, " or ") or nil
end

---Can a tensor of this shape be the first operand? True where the rule does not say.
---@param rule string
---@param shape table
function shapes.fits(rule, shape)
  local alternatives = shapes.read(rule)
  for _, patterns in ipairs(alternatives) do
    if bind(patterns[1], shape, {}) then return true end
  end
  return #alternatives == 0
end

return shapes
