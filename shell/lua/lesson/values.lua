-- Values as answers: what is right, how a value is said in a word, how it is shown.
local T = require("torch.language").text
local values = {}

--- Whether v is a tensor.
function values.is_tensor(v)
  return type(v) == "userdata" and select(2, pcall(torch.is_tensor, v)) == true
end
local is_tensor = values.is_tensor

local SIZE = getmetatable(torch.zeros(1).shape)
local DTYPE = getmetatable(torch.float32)

--- tensor, shape, dtype, number, boolean, string, table, nil, function, error
function values.kind(v)
  if is_tensor(v) then return "tensor" end
  local meta = type(v) == "table" and getmetatable(v)
  if meta and meta == SIZE then return "shape" end
  if meta and meta == DTYPE or type(v) == "userdata" and getmetatable(v) == DTYPE then return "dtype" end
  return type(v)
end

--- "[2, 3]"
function values.shape_text(sizes)
  local parts = {}
  for i = 1, #sizes do parts[i] = tostring(sizes[i]) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

--- "f32" for torch.float32.
function values.dtype_text(dtype)
  return tostring(torch.zeros(0, {dtype = dtype})):match("^(%S+)")
end

--- Same shape?
function values.same_sizes(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- Values of two tensors of one shape agree, whatever their dtypes.
function values.close(a, b)
  if not values.same_sizes(a.shape, b.shape) then return false end
  if a:numel() == 0 then return true end
  return torch.allclose(a:double(), b:double(), {rtol = 1e-4, atol = 1e-6, equal_nan = true})
end

local function numbers_agree(a, b)
  return a == b or (a ~= a and b ~= b) or math.abs(a - b) <= 1e-6 + 1e-4 * math.abs(b)
end

--- Whether `got` is as good as `wanted`: dtype, shape and values of tensors; a 0-d tensor and a Lua
--- number of the same value stand for each other.
function values.same(got, wanted)
  local a, b = values.kind(got), values.kind(wanted)
  if a == "tensor" and b == "tensor" then
    return got.dtype == wanted.dtype and values.close(got:detach(), wanted:detach())
  elseif a == "tensor" and b == "number" or a == "number" and b == "tensor" then
    local t, n = a == "tensor" and got or wanted, a == "number" and got or wanted
    return t.ndim == 0 and type(t:item()) == "number" and numbers_agree(n, t:item())
  elseif a == "number" and b == "number" then
    return numbers_agree(got, wanted)
  elseif a == "shape" and (b == "shape" or b == "table") or b == "shape" and a == "table" then
    return values.same_sizes(got, wanted)
  elseif a == "table" and b == "table" then
    if #got ~= #wanted then return false end
    for k, v in pairs(wanted) do
      if not values.same(rawget(got, k), v) then return false end
    end
    return true
  end
  return a == b and rawequal(got, wanted) or a == b and a ~= "tensor" and got == wanted
end

-- A number in few digits.
local function short(x)
  if math.type(x) == "float" and x == x and math.abs(x) ~= math.huge then return ("%.5g"):format(x) end
  return tostring(x)
end

--- In a word: "[5]" for a tensor's shape, the number itself, "nothing".
function values.brief(v)
  local kind = values.kind(v)
  if kind == "tensor" then
    if v.ndim == 0 then return short(v:item()) end
    return values.shape_text(v.shape)
  elseif kind == "shape" then
    return values.shape_text(v)
  elseif kind == "dtype" then
    return values.dtype_text(v)
  elseif kind == "nil" then
    return T"nothing"
  elseif kind == "number" or kind == "boolean" then
    return short(v)
  elseif kind == "string" then
    return ("%q"):format(#v > 40 and v:sub(1, 40) .. ".." or v)
  end
  return "a " .. kind
end

--- "an f32 tensor of shape [2, 3]", "the number 3", "nothing"
function values.what(v)
  local kind = values.kind(v)
  if kind == "tensor" then
    return T("a tensor %s of shape %s"):format(values.dtype_text(v.dtype), values.shape_text(v.shape))
  elseif kind == "number" then
    return T("the number %s"):format(short(v))
  end
  return values.brief(v)
end

-- How all numbers of a tensor are written: three places where that tells them apart.
local function format_of(v)
  if not v.dtype.is_floating_point or v:numel() == 0 then return nil end
  local sizes = v:abs():double()
  local whole = values.close(v:double(), v:double():round())
  if whole and sizes:max():item() < 1e6 then return "%.0f" end
  local small = sizes[sizes:gt(0)]
  if sizes:max():item() < 1e4 and (small:numel() == 0 or small:min():item() >= 0.01) then return "%.3f" end
  return "%.4g"
end

local function number_text(x, format)
  if math.type(x) ~= "float" then return tostring(x) end
  return (format or "%.4g"):format(x)
end

--- Rows of text that show a small value, at most `rows`; a tensor of one dimension is one row.
function values.rows(v, rows)
  rows = rows or 6
  if not is_tensor(v) then return {values.brief(v)} end
  local flat = v:detach()
  if v.ndim == 0 then return {short(v:item())} end
  local format = format_of(flat)
  if v.ndim > 2 or v:numel() == 0 then return {tostring(v):match("^[^\n]*")} end
  local matrix = v.ndim == 1 and {flat:tolist()} or flat:tolist()
  local cells, widths = {}, {}
  local columns = #matrix[1]
  for i = 1, math.min(#matrix, rows) do
    cells[i] = {}
    for j = 1, math.min(columns, 10) do
      cells[i][j] = number_text(matrix[i][j], format)
      widths[j] = math.max(widths[j] or 0, #cells[i][j])
    end
  end
  local out = {}
  for i, line in ipairs(cells) do
    for j, cell in ipairs(line) do line[j] = (" "):rep(widths[j] - #cell) .. cell end
    out[i] = table.concat(line, " ") .. (columns > 10 and " .." or "")
  end
  if #matrix > rows then out[#out + 1] = ".." end
  return out
end

return values
