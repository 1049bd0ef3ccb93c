-- What other languages write where Lua writes something else: a hint for an entry that does not
-- compile. Rows: a pattern that ends or begins at the wrong token, and what to write.
local rows = {
  -- before the token and the token itself
  {"([%a_][%w_%.]*)%s*([%+%-%*/%%^])=", function(name, op) return ("Lua has no %s=; write %s = %s %s ..."):format(op, name, name, op) end},
  {"([%a_][%w_%.]*)%s*%+%+", function(name) return ("Lua has no ++; write %s = %s + 1"):format(name, name) end},
  {"!=", "not equal is ~= in Lua"},
  {"&&", "Lua writes and for &&"},
  {"||", "Lua writes or for ||"},
  {"%*%*", "the power is ^ in Lua"},
  {"!", "Lua writes not for !"},
  {"@", "the matrix product is a:matmul(b)"},
  {"([%a_][%w_]*)%[[%w%s%-,:]*:", function(name) return ('a range is %s[{{1, 2}}] or %s["1:2"]: from 1, both ends in it'):format(name, name) end},
  {"[%(,=]%s*%[", "lists stand in braces: {1, 2, 3}"},
  {"%(%([^()]*,", "there are no tuples: (2, 3) or {2, 3}"},
  {"elif", "Lua writes elseif"},
  {"^%s*import%s+([%w_]+)", function(name) return ('torch is there already; other files: local %s = require "%s"'):format(name, name) end},
  {"^%s*from%s+[%w_%.]+%s+import", "torch is there already; other files: local name = require \"name\""},
  {"^%s*def%s", "Lua writes function name(arguments) ... end"},
  {"^%s*for%s+([%w_]+)%s+in%s+range%s*(%b())", function(name, range)
    return ("Lua writes for %s = %s do ... end"):format(name, range:find(",") and range:sub(2, -2) or "1, " .. range:sub(2, -2))
  end},
  {"^%s*[%a]+.*:%s*$", "Lua ends blocks with the word end: if x then ... end, for i = 1, n do ... end"},
  {"#", "comments begin with -- in Lua"},
  {"lambda%s", "Lua writes function(x) return ... end"},
}

---@param text string
---@param wrong table what entry.read says of it; gets a hint
return function(text, wrong)
  if not wrong.line then return end
  local row, line = 0, ""
  for each in (text .. "\n"):gmatch("(.-)\n") do
    row = row + 1
    if row == wrong.line then line = each end
  end
  for _, case in ipairs(rows) do
    local from = 1
    repeat
      local found = table.pack(line:find(case[1], from))
      if found[1] and found[1] <= wrong.column + wrong.width and (found[2] >= wrong.column - 2 or case[1]:sub(1, 1) == "^") then
        wrong.hint = type(case[2]) == "function" and case[2](table.unpack(found, 3, found.n)) or case[2]
        return
      end
      from = found[1] and found[1] + 1
    until not from
  end
end
