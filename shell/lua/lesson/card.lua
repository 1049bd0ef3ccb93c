-- The alignment card: how the shapes of operands line up from the right, and what stretches.
local T = require("torch.language").text
local card = {}

--- The broadcast shape of a list of shapes, or nil and the dimension (from the right) that disagrees.
---@param shapes integer[][]
---@return integer[]|nil shape
---@return integer|nil place
function card.shape(shapes)
  local rank, result = 0, {}
  for _, s in ipairs(shapes) do rank = math.max(rank, #s) end
  for back = 0, rank - 1 do
    local size = 1
    for _, s in ipairs(shapes) do
      local n = rawget(s, #s - back)
      if n and n ~= 1 then
        if size ~= 1 and size ~= n then return nil, back + 1 end
        size = n
      end
    end
    result[rank - back] = size
  end
  return result
end

--- Rows `name  sizes`, right-aligned under each other, a dot where an operand has no dimension, and the
--- result last; when the shapes do not fit, the last row says where.
---@param names string[]
---@param shapes integer[][]
---@return string[]
function card.rows(names, shapes)
  local result, wrong = card.shape(shapes)
  local rank, wide, name_width = 0, {}, 1
  local all = table.move(shapes, 1, #shapes, 1, {})
  if result then all[#all + 1] = result end
  for _, s in ipairs(all) do rank = math.max(rank, #s) end
  for _, s in ipairs(all) do
    for back = 0, #s - 1 do wide[back] = math.max(wide[back] or 1, #tostring(rawget(s, #s - back))) end
  end
  for _, name in ipairs(names) do name_width = math.max(name_width, utf8.len(name) or #name) end
  local out = {}
  for i, s in ipairs(all) do
    local name = names[i] or "="
    local line = name .. (" "):rep(name_width - (utf8.len(name) or #name))
    for back = rank - 1, 0, -1 do
      local cell = rawget(s, #s - back) and tostring(rawget(s, #s - back)) or "."
      line = line .. "  " .. (" "):rep((wide[back] or 1) - #cell) .. cell
    end
    out[i] = line
  end
  if not result then
    local sizes = {}
    for _, s in ipairs(shapes) do
      local n = rawget(s, #s - wrong + 1)
      if n and n ~= 1 then sizes[#sizes + 1] = tostring(n) end
    end
    out[#out + 1] = T("%s from the right: %s against %s, and neither is 1"):format(
      wrong == 1 and T"the first" or wrong == 2 and T"the second" or T("number %d"):format(wrong),
      sizes[1], sizes[2])
  end
  return out
end

-- Operators that line their operands up; a card belongs to an expression whose outermost step is one.
local LEVELS = {{"|"}, {"~"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%"}, {"^"}}
local RANK = {}
for level, ops in ipairs(LEVELS) do
  for _, op in ipairs(ops) do RANK[op] = level end
end

--- Splits an expression at the operator that is applied last: "a + b * c" gives "a", "b * c", "+".
---@return string|nil left
---@return string|nil right
---@return string|nil operator
function card.split(expression)
  local tokens = {}
  for _, t in ipairs(torch._lex(expression)) do
    if t.kind ~= "space" and t.kind ~= "comment" then
      t.text = expression:sub(t.first, t.last)
      tokens[#tokens + 1] = t
    end
  end
  -- Brackets around the whole are dropped.
  local function wrapped()
    if #tokens < 2 or tokens[1].text ~= "(" or tokens[#tokens].text ~= ")" then return false end
    local depth = 0
    for i, t in ipairs(tokens) do
      if t.text == "(" then depth = depth + 1 elseif t.text == ")" then depth = depth - 1 end
      if depth == 0 and i < #tokens then return false end
    end
    return true
  end
  while wrapped() do
    table.remove(tokens)
    table.remove(tokens, 1)
  end
  local depth, best = 0, nil
  for i, t in ipairs(tokens) do
    local s = t.text
    if s == "(" or s == "[" or s == "{" then
      depth = depth + 1
    elseif s == ")" or s == "]" or s == "}" then
      depth = depth - 1
    elseif t.kind == "keyword" or s == "," or s == ";" or s == "=" or s == ".." then
      if depth == 0 then return nil end
    elseif depth == 0 and t.kind == "op" and RANK[s] and i > 1 and i < #tokens then
      local before = tokens[i - 1]
      local binary = before.kind ~= "op" or before.text == ")" or before.text == "]" or before.text == "}"
      -- Left-associative: the last of the weakest is applied last.
      if binary and (not best or RANK[s] < RANK[tokens[best].text] or
                     RANK[s] == RANK[tokens[best].text] and s ~= "^") then
        best = i
      end
    end
  end
  if not best or depth ~= 0 then return nil end
  return expression:sub(tokens[1].first, tokens[best - 1].last),
    expression:sub(tokens[best + 1].first, tokens[#tokens].last), tokens[best].text
end

return card
