-- The group `broadcast`: which shapes line up, and the shapes of matrix products.
local data = require "data"
local reader = require "reader"
local torch = torch
local group = {}

local function check(f, r, what)
  local a, b = torch.zeros({table.unpack(r[1])}), torch.zeros({table.unpack(r[2])})
  local ok, out = pcall(f, a, b)
  if r[3].error then
    if ok then return what .. " must fail: " .. r[3].error end
    local kinds = {broadcast = true, shape = true, argument = true}
    return not (type(out) == "table" and kinds[out.kind]) and "wrong error: " .. tostring(out) or nil
  end
  if not ok then return tostring(out) end
  local want = "[" .. table.concat(r[3], ", ") .. "]"
  if tostring(out.shape) ~= want then return ("%s gives %s, expected %s"):format(what, tostring(out.shape), want) end
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/broadcast.json")
  for i, r in ipairs(rows.pairs) do
    data.row(report, "broadcast:pair:" .. i, check, function(a, b) return a + b end, r, "a + b")
  end
  for i, r in ipairs(rows.matmul) do
    data.row(report, "broadcast:matmul:" .. i, check, function(a, b) return a:matmul(b) end, r, "a:matmul(b)")
  end
end

return group
