-- Heads of Python's blocks that guard, close or choose, written in Lua: try and what follows it, with, match and case.
local Parser = require "torch.foreign.parse"
local heads = {}

heads["try"] = function(s)
  s:head_ends()
  s.w.said "try"
  return "local ok, err = pcall(function()", "end)"
end
heads["except"] = function(s)
  local name
  if s.p:text() ~= ":" then
    s.p:expression()
    if s.p:accept "as" then name = s.p:name() end
  end
  s:head_ends()
  s.w.said "try"
  return "if not ok then" .. (name and name ~= "err" and (" local %s = err;"):format(name) or ""), "end"
end
heads["finally"] = function(s)
  s:head_ends()
  s.w.said "try"
  return "do", "end"
end
heads["with"] = function(s)
  local p = s.p
  local e = p:expression()
  local name
  if p:accept "as" then name = p:name() end
  local scopes = {}
  while p:accept "," do  -- several: each a variable that is closed
    if #scopes == 0 then scopes[1] = ("local %s <close> = %s;"):format(name or "_", (s.w:write(e))) end
    local text = s:expression()
    scopes[#scopes + 1] = ("local %s <close> = %s;"):format(p:accept "as" and p:name() or "_", text)
  end
  s:head_ends()
  s.w.said "with"
  if #scopes > 0 then return "do " .. table.concat(scopes, " "), "end" end
  local text = s.w:write(e)
  local scope = text:match "^(torch%.[%w_.]*)(%b())$"
  local f = scope and scope:match "([%w_]+)$"
  if f == "no_grad" or f == "enable_grad" or f == "inference_mode" or f == "autocast" or f == "set_grad_enabled" or scope == "torch.device" then
    local inner = select(2, text:match "^(torch%.[%w_.]*)(%b())$"):sub(2, -2)
    return ("%s(%sfunction()"):format(scope, inner ~= "" and inner .. ", " or ""), "end)"
  end
  local mode, braces = text:match "^(torch%.[%w_.]*)(%b{})$"
  if mode then return ("%s(%s, function()"):format(mode, braces), "end)" end
  return ("do local %s <close> = %s;"):format(name or "_", text), "end"
end
function heads.match(s)
  local value = s:expression()
  if s.p:text() ~= ":" then Parser.fail() end
  s:head_ends()
  return ("do local value = %s;"):format(value), "end"
end
function heads.case(s)
  local value = s:expression()
  if s.p:text() ~= ":" then Parser.fail() end
  s:head_ends()
  s.w.said "block"
  return value == "_" and "do" or ("if value == %s then"):format(value), "end"
end

return heads
