-- The {dtype, shape, data} blocks of the semantics files as tensors, and back to what comparing wants.
local json = require "json"
local values = require "values"
local torch = torch
local data = {}

-- Every number of nested lists, as floats where `floating`, in order.
local function flatten(v, floating, out)
  if type(v) == "table" and v ~= json.null then
    for _, one in ipairs(v) do flatten(one, floating, out) end
  else
    out[#out + 1] = floating and (type(v) == "boolean" and (v and 1.0 or 0.0) or values.float(v)) or v
  end
  return out
end

---A tensor from a block; positions stay as they are.
function data.tensor(block)
  local floating = block.dtype:find("float") ~= nil
  local sizes = {table.unpack(block.shape)}
  if block.arange then
    local n = 1
    for _, s in ipairs(sizes) do n = n * s end
    return torch.arange(n):to(torch[block.dtype]):reshape(sizes)
  end
  local flat = flatten(block.data, floating, {})
  if #flat == 0 then return torch.zeros(sizes, {dtype = block.dtype}) end
  return torch.tensor(flat, {dtype = floating and "float64" or block.dtype}):to(torch[block.dtype]):reshape(sizes)
end

---Runs one row; `report` gets passed, failed or missing.
function data.row(report, id, f, ...)
  local ok, why = pcall(f, ...)
  if ok and not why then return report(id, "passed") end
  local text = tostring(why)
  report(id, text:find("^missing ") and "missing" or "failed", "row", text)
end

return data
