-- The group `special_values`: infinities, nan, signed zeros, extremes; every row alone and inside a long vector, so
-- that the vector lanes are tested as well as the scalar path.
local compare = require "compare"
local data = require "data"
local reader = require "reader"
local resolve = require "resolve"
local values = require "values"
local torch = torch
local group = {}

local named = {
  div_floor = function(a, b) return torch.div(a, b, {rounding_mode = "floor"}) end,
  div_trunc = function(a, b) return torch.div(a, b, {rounding_mode = "trunc"}) end,
  div_true = function(a, b) return torch.div(a, b) end,
}

local function number(v, float)
  if type(v) == "boolean" then return v end
  return float and values.float(v) or v
end

-- The sign of a zero counts.
local function check(got, want)
  if type(want) == "boolean" or math.type(want) == "integer" then
    return got ~= want and ("%s, expected %s"):format(tostring(got), tostring(want)) or nil
  end
  if want == 0 and got == 0 and 1 / want ~= 1 / got then return ("%s, expected %s"):format(got, want) end
  return compare.values(got, want)
end

local function run_row(op, arguments, want, dtype)
  local f = named[op] or resolve.fn(op)
  if not f then error("missing " .. op, 0) end
  for _, n in ipairs {1, 67} do
    local inputs = {}
    for i, v in ipairs(arguments) do inputs[i] = torch.full({n}, v, {dtype = dtype}) end
    local out = f(table.unpack(inputs))
    local why = check(out[n]:item(), want)
    if why then return ("%s(%s): %s"):format(op, table.concat(arguments, ", "), why) end
  end
end

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/special_values.json")
  for i, r in ipairs(rows.unary) do
    data.row(report, ("special_values:%s:%d"):format(r[1], i), run_row, r[1], {number(r[2], true)}, number(r[3], true), "float64")
  end
  for i, r in ipairs(rows.binary) do
    data.row(report, ("special_values:%s:b%d"):format(r[1], i), run_row, r[1], {number(r[2], true), number(r[3], true)}, number(r[4], true), "float64")
  end
  for i, r in ipairs(rows.integer) do
    data.row(report, ("special_values:%s:i%d"):format(r[1], i), function()
      if type(r[4]) == "table" and r[4].error then
        local ok = pcall(run_row, r[1], {r[2], r[3]}, 0, "int64")
        return ok and "must fail" or nil
      end
      return run_row(r[1], {r[2], r[3]}, math.type(r[4]) == "float" and r[1] ~= "div_true" and r[4] or r[4], "int64")
    end)
  end
  local overflow = {
    int8_wrap_127_plus_1 = function() return (torch.tensor({127}, {dtype = "int8"}) + 1)[1]:item() end,
    uint8_wrap_0_minus_1 = function() return (torch.tensor({0}, {dtype = "uint8"}) - 1)[1]:item() end,
    int64_wrap = function() return (torch.tensor({math.maxinteger}) + 1)[1]:item() end,
  }
  for name, want in pairs(rows.overflow) do
    data.row(report, "special_values:overflow:" .. name, function() return compare.values(overflow[name](), want) end)
  end
end

return group
