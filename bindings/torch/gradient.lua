-- torch.gradient: derivatives of a sampled function, by differences of second order inside and of first or second order
-- at the edges.
local torch = torch
local error = torch._raise

-- The derivative along one dimension. `h` is the step, or the coordinates of the samples.
local function along(x, dim, h, order)
  local n = x:size(dim)
  local function at(i, count) return x:narrow(dim, i, count or 1) end
  local first, inner, last
  if torch.is_tensor(h) then
    local steps = h:diff()
    local size = {}
    for d = 1, x.ndim do size[d] = d == dim and n - 2 or 1 end
    local before, after = steps:narrow(1, 1, n - 2):reshape(size), steps:narrow(1, 2, n - 2):reshape(size)
    -- The slope of the parabola through three samples, in their middle.
    inner = -after / (before * (before + after)) * at(1, n - 2) + (after - before) / (before * after) * at(2, n - 2) +
      before / (after * (before + after)) * at(3, n - 2)
    if order == 1 then
      first, last = (at(2) - at(1)) / steps[1], (at(n) - at(n - 1)) / steps[n - 1]
    else
      local a, b = steps[1], steps[2]
      first = -(2 * a + b) / (a * (a + b)) * at(1) + (a + b) / (a * b) * at(2) - a / (b * (a + b)) * at(3)
      a, b = steps[n - 2], steps[n - 1]
      last = b / (a * (a + b)) * at(n - 2) - (a + b) / (a * b) * at(n - 1) + (a + 2 * b) / (b * (a + b)) * at(n)
    end
  else
    inner = (at(3, n - 2) - at(1, n - 2)) / (2 * h)
    if order == 1 then
      first, last = (at(2) - at(1)) / h, (at(n) - at(n - 1)) / h
    else
      first = (-1.5 * at(1) + 2 * at(2) - 0.5 * at(3)) / h
      last = (0.5 * at(n - 2) - 2 * at(n - 1) + 1.5 * at(n)) / h
    end
  end
  return torch.cat({first, inner, last}, dim)
end

local names = {spacing = true, dim = true, edge_order = true}

---The derivatives of a sampled function along its dimensions, or those asked for: one tensor for each, shaped as the
---samples. `spacing` is the step between samples, one number or a list of one for each dimension, or a list of tensors
---of coordinates.
---@param input userdata
---@param options? {spacing?: number|table, dim?: integer|integer[], edge_order?: integer} edge_order: 1 (default) or 2
---@return userdata ...
function torch.gradient(input, options, ...)
  if not torch.is_tensor(input) then error(("gradient: wants a tensor, not a %s"):format(type(input)), 2) end
  options = options or {}
  if type(options) ~= "table" or select("#", ...) > 0 or options[1] ~= nil then
    error("gradient: spacing, dim and edge_order are given by name: torch.gradient(x, {spacing = 0.1, dim = 1})", 2)
  end
  for name in next, options do
    if not names[name] then error(('gradient: no argument "%s" (it has: spacing, dim, edge_order)'):format(tostring(name)), 2) end
  end
  local order, spacing = options.edge_order or 1, options.spacing or 1
  if order ~= 1 and order ~= 2 then error(("gradient: edge_order is 1 or 2, not %s"):format(tostring(order)), 2, "value") end
  if input.dtype == torch.uint8 or input.dtype == torch.bool then
    error(("gradient: differences of %s wrap around; convert to another type first"):format(tostring(input.dtype)), 2, "dtype")
  end
  local dims, seen = options.dim, {}
  if dims == nil then
    dims = {}
    for d = 1, input.ndim do dims[d] = d end
  elseif type(dims) ~= "table" then
    dims = {dims}
  end
  local steps = spacing
  if torch.is_tensor(steps) and steps.ndim == 0 then steps = steps:item() end
  if type(steps) == "number" then
    steps = {}
    for i = 1, #dims do steps[i] = torch.is_tensor(spacing) and spacing:item() or spacing end
  elseif type(steps) ~= "table" then
    error("gradient: spacing is a number, or a list with a number or a tensor of coordinates for each dimension", 2)
  end
  if #steps ~= #dims then error(("gradient: spacing has %d elements, for %d dimensions"):format(#steps, #dims), 2, "value") end
  local out = {}
  for i, dim in ipairs(dims) do
    local d = math.type(dim) == "integer" and (dim < 0 and input.ndim + 1 + dim or dim) or 0
    if d < 1 or d > input.ndim then
      error(("gradient: there is no dimension %s in shape %s"):format(tostring(dim), tostring(input.shape)), 2, "dim")
    end
    if seen[d] then error(("gradient: dimension %d is named twice"):format(d), 2, "dim") end
    seen[d] = true
    local n, h = input:size(d), steps[i]
    if n < order + 1 then
      error(("gradient: dimension %d has size %d, and edge_order %d needs at least %d samples"):format(d, n, order, order + 1), 2, "shape")
    end
    if torch.is_tensor(h) and h.ndim == 0 then h = h:item() end
    if torch.is_tensor(h) then
      if h.ndim ~= 1 or h:size(1) ~= n then
        error(("gradient: the coordinates of dimension %d have shape %s, not [%d]"):format(d, tostring(h.shape), n), 2, "shape")
      end
    elseif type(h) ~= "number" then
      error(("gradient: spacing holds a %s; it takes numbers and tensors of coordinates"):format(type(h)), 2)
    end
    out[i] = along(input, d, h, order)
  end
  return table.unpack(out, 1, #dims)
end
