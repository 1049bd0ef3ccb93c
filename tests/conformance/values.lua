-- From the vectors' way of writing values to Lua's: tagged values, tensors with their layout, and the shift of
-- positions by role (Python counts from 0, Lua from 1). Nothing is shifted but what a role names.
local json = require "json"
local torch = torch
local values = {}

local floats = {float64 = true, float32 = true, float16 = true, bfloat16 = true}
function values.is_tensor(x) return type(x) == "userdata" and torch.is_tensor(x) end
function values.is_floating(x) return floats[x.dtype.name or tostring(x.dtype):gsub("^torch%.", "")] or false end

local tagged_floats = {nan = -(0 / 0),  -- 0 / 0 has its sign bit set on x86
  inf = math.huge, ["-inf"] = -math.huge}
-- (Adding 0.0 would lose the sign of a zero.)
function values.float(x) return tagged_floats[x] or (math.type(x) == "float" and x or x + 0.0) end

-- position >= 0 -> position + 1, for numbers, lists and integer tensors
local function shift(x)
  if math.type(x) == "integer" then return x >= 0 and x + 1 or x end
  if values.is_tensor(x) then
    if x.dtype == torch.bool or values.is_floating(x) then return x end
    return torch.no_grad(function() return x + x:ge(0):to(x.dtype) end)
  end
  if type(x) == "table" then
    local out = {}
    for i, v in ipairs(x) do out[i] = shift(v) end
    return out
  end
  return x
end
values.shift = shift

-- One part of an indexing expression.
local function index_part(x)
  if x == nil or x == json.null then return torch.newaxis end
  if type(x) == "table" and x.slice then
    local s = x.slice
    local first, last, step = s[1], s[2], s[3]
    first = first ~= json.null and first or nil
    last = last ~= json.null and last or nil
    step = step ~= json.null and step or nil
    if not first and not last and not step then return {} end
    first = first and (first >= 0 and first + 1 or first) or 1
    last = last and (last >= 0 and last or last - 1) or -1
    return step and {first, last, step} or {first, last}
  end
  if type(x) == "table" and x.ellipsis then return torch.ellipsis end
  return shift(x)
end

-- Splits "3.a0" references out of a decoded JSON value. `make(name, spec)` gives the tensor.
local function decode(v, role, make)
  if type(v) ~= "table" then
    if role == "dim" or role == "index" or role == "cls" then return shift(v) end
    return v
  end
  if v == json.null then return nil end
  if v.f ~= nil then return values.float(v.f) end
  if v.t then
    local t = make(v.t, v)
    if role == "index" or role == "cls" or role == "pyindex" then return shift(t) end
    return t
  end
  if v.l then
    if role == "pyindex" then
      local out = {}
      for i, part in ipairs(v.l) do
        if type(part) == "table" and part.t then
          out[i] = shift(make(part.t, part))
        elseif type(part) == "table" and part.l then
          out[i] = shift(torch.tensor(#part.l > 0 and decode(part, nil, make) or torch.zeros({0}, {dtype = "int64"})))
        else
          out[i] = index_part(part)
        end
      end
      return out
    end
    local out = {}
    for i, part in ipairs(v.l) do
      local one = decode(part, role, make)
      out[i] = one == nil and torch.none or one
    end
    return out
  end
  if v.dtype then return torch[v.dtype] end
  if v.slice or v.ellipsis then return index_part(v) end
  if v.m then
    local out = {}
    for key, part in pairs(v.m) do out[key] = decode(part, nil, make) end
    return out
  end
  if v.memory_format then return v.memory_format end
  error("no rule for this value", 0)
end

---Decodes a value; `role` says whether it is a position. nil stands for None.
function values.decode(v, role, make)
  if role == "pyindex" and not (type(v) == "table" and v.l) then
    if type(v) == "table" and v.t then return shift(make(v.t, v)) end
    local part = index_part(v)
    return type(v) == "table" and {part} or part  -- a range stands in the list of an index
  end
  return decode(v, role, make)
end

-- The same values in a layout of the given strides (elements; 0 = expanded); the tensor itself where several
-- elements would share one place.
function values.strided(t, stride)
  local whole, shape, sizes, need = t, t.shape, {}, 1
  for d = 1, #shape do
    sizes[d] = shape[d]
    if shape[d] == 0 then return t end
    need = need + (shape[d] - 1) * stride[d]
  end
  local buffer = torch.zeros({need}, {dtype = t.dtype})
  local out = torch.as_strided(buffer, sizes, stride)
  local inner = out
  for d = 1, #shape do
    if stride[d] == 0 and shape[d] > 1 then inner, t = inner:narrow(d, 1, 1), t:narrow(d, 1, 1) end
  end
  if not pcall(inner.copy_, inner, t) then return whole:clone() end
  return out
end

-- The same values as a transposed part of a padded buffer: no dimension is contiguous.
function values.scattered(t)
  local rank, sizes, order = t.ndim, {}, {}
  if rank == 0 then
    local buffer = torch.zeros({3}, {dtype = t.dtype})
    buffer[2] = t
    return buffer[2]
  end
  for d = 1, rank do
    sizes[d] = t.shape[rank + 1 - d] + 1
    order[d] = rank + 1 - d
  end
  sizes[rank] = sizes[rank] * 2
  local out = torch.zeros(sizes, {dtype = t.dtype})
  out = rank > 1 and out:permute(order) or out
  for d = 1, rank do
    out = out:narrow(d, 2, t.shape[d] + (d == 1 and t.shape[d] or 0))
    if d == 1 then
      out = t.shape[1] > 0 and out[{{1, -1, 2}}] or out
    end
  end
  out:copy_(t)
  return out
end

return values
