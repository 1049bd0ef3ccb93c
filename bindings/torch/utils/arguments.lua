-- The arguments of what torch.utils.data makes: by position, by name in a last table, or both in one table.
local torch = torch
local error = torch._raise
local nearest = require "torch.explain.nearest"

local function has_names(t)
  for k in next, t do
    if type(k) == "string" then return true end
  end
  return false
end

---The arguments as a table by name.
---@param who string for messages
---@param names string[] in the order of positions; `needed = n`: the first n must be given; `list = true`: the first may
---  be a list, so a table without names is its value
---@param defaults table by name
---@param ... any what the user gave
---@return table
return function(who, names, defaults, ...)
  local given, out = table.pack(...), {}
  while given.n > 0 and given[given.n] == nil do given.n = given.n - 1 end
  local last, named = given[given.n], nil
  if type(last) == "table" and getmetatable(last) == nil and (has_names(last) or (next(last) == nil and given.n > 1)) then
    named = last
    given.n = given.n - 1
    for _, v in ipairs(named) do
      given.n = given.n + 1
      given[given.n] = v
    end
  end
  if given.n > #names then
    error(("%s: takes at most %d arguments (%s), not %d"):format(who, #names, table.concat(names, ", "), given.n), 3)
  end
  for i = 1, given.n do out[names[i]] = given[i] end
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for key, value in next, named or {} do
    if type(key) == "string" then
      if not known[key] then
        local near = nearest(key, known, math.max(1, #key // 3))
        error(('%s: no argument "%s"%s (it has: %s)'):format(who, key, near and ('; did you mean "%s"?'):format(near) or "",
          table.concat(names, ", ")), 3)
      end
      if out[key] ~= nil then error(('%s: argument "%s" is given twice'):format(who, key), 3) end
      out[key] = value
    end
  end
  for i = 1, names.needed or 0 do
    if out[names[i]] == nil then error(('%s: argument "%s" is missing'):format(who, names[i]), 3) end
  end
  for key, value in next, defaults do
    if out[key] == nil then out[key] = value end
    if out[key] == torch.none then out[key] = nil end
  end
  return out
end
