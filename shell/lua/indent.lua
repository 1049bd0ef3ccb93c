-- How far the line that holds the cursor is indented: two columns for each block or bracket that is
-- open before it, less for what it begins with when that closes one.
local lex = torch._lex

local change = {["do"] = 1, ["then"] = 1, ["function"] = 1, ["repeat"] = 1, ["else"] = 1,
  ["end"] = -1, ["until"] = -1, ["elseif"] = -1,
  ["("] = 1, ["{"] = 1, ["["] = 1, [")"] = -1, ["}"] = -1, ["]"] = -1}
local closers = {["end"] = true, ["else"] = true, ["elseif"] = true, ["until"] = true, [")"] = true, ["}"] = true, ["]"] = true}

return function(text, cursor)
  local from = 1
  for at in text:sub(1, cursor):gmatch("\n()") do from = at end
  local depth, first = 0, nil
  for _, token in ipairs(lex(text)) do
    if token.first >= from then
      first = text:sub(token.first, token.last)
      break
    end
    if token.unfinished or token.last >= from then return 0 end  -- inside a long string
    if token.kind == "keyword" or token.kind == "op" then
      local word = text:sub(token.first, token.last)
      if word == "else" then depth = depth - 1 end
      depth = depth + (change[word] or 0)
    end
  end
  if first and closers[first] then depth = depth - 1 end
  return math.max(depth, 0) * 2
end
