-- Property tests: random shapes, layouts, dtypes and values against slow models and laws. 20,000 cases; more with
--   tycho tests/lua/run.lua tests/lua/property_test.lua --cases 1000000 --seed 7 [--only "part of a sentence"]
-- A failure prints the smallest failing case as Lua to paste, its number and its seed. The properties are in
-- property_*.lua, the library is property.lua.
local here = (arg and arg[0] or "tests/lua/run.lua"):match("^(.*)/") or "."
local property = dofile(here .. "/property.lua")
for _, part in ipairs {"model", "views", "index", "numbers"} do
  assert(loadfile(("%s/property_%s.lua"):format(here, part)))(property)
end

local options = check.options or {}
local cases, seed = options.cases or 20000, options.seed or 1
local total = 0
for _, p in ipairs(property.list) do total = total + p.weight end

for _, p in ipairs(property.list) do
  test(p.name, function()
    local report = property.run(p.name, p.body, math.max(1, cases * p.weight // total), seed)
    check.yes(report == nil, report and "\n" .. report)
  end)
end
