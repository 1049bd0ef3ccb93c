-- What a remark on a wrong answer may say: nothing that the sizes of the example make up, and nothing that gives the
-- answer away before somebody asks for help.

local T = require("torch.language").text

-- Slips that look like nothing else, whatever the sizes are.
local certain = {dtype = true, ["not a number"] = true, ["some entries"] = true, unchanged = true}

-- Slips whose remark would tell the one number that is asked for.
local telling = {factors = true, ["one over"] = true, ["squares and roots"] = true, ["a mean not taken"] = true, sign = true}

---@param remark string
---@param name string of the slip
---@param how? string "plain": only what no accident of sizes can look like; "closed": where, not what
---@param single boolean one number is asked for
---@return string|nil
return function(remark, name, how, single)
  if how == "plain" then return certain[name] and remark or nil end
  if how ~= "closed" then return remark end
  if name == "a constant off" then return T"every value is off by the same number" end
  if single and name == "off by one" then return T"you are close" end
  return not (single and telling[name]) and remark or nil
end
