-- Prints random calls of every operation and what they give, one of each to a line, for property_test.lua to compare
-- the lane levels of this processor: TYCHO_CPU_LEVEL=x86_64 tycho tests/lua/property/property_lanes.lua COUNT SEED
local here = arg[0]:match("^(.*)/") or "."
local property = dofile(here .. "/property.lua")
for _, part in ipairs {"model", "ops"} do
  assert(loadfile(("%s/property_%s.lua"):format(here, part)))(property)
end

local function body(case)
  case.wide = true
  local row = case:pick(property.all_ops)
  if property.free[row.name] then return end
  local dtype = case:pick {"float32", case:pick(property.dtypes)}
  local words = property.arguments(case, row, case:shape(3, 4), dtype)
  local ok, list = case:try("{" .. property.call(row, words) .. "}")
  print(table.concat(case.lines, " "), ok)
  local out = {}
  for _, x in ipairs(ok and list or {}) do
    if type(x) == "userdata" then
      for _, v in ipairs(property.flat(x)) do out[#out + 1] = ("%.9g"):format(v) end
    end
  end
  print("= " .. table.concat(out, " "))
end

property.run("lanes", body, tonumber(arg[1]), tonumber(arg[2]))
