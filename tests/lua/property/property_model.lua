-- The plain model of a view that the property tests compare with: {shape=, cells=}, where cells lists, in order,
-- the positions in the first tensor of the elements that the view shows.
local property = ...
local count = property.count

-- Calls f(index) for every multi-index of a shape, last dimension fastest.
local function each(shape, f)
  local rank, index = #shape, {}
  if count(shape) == 0 then return end
  for d = 1, rank do index[d] = 1 end
  while true do
    f(index)
    local d = rank
    while d >= 1 and index[d] == shape[d] do
      index[d] = 1
      d = d - 1
    end
    if d < 1 then return end
    index[d] = index[d] + 1
  end
end

local function offset(shape, index)
  local at = 0
  for d = 1, #shape do at = at * shape[d] + index[d] - 1 end
  return at + 1
end

-- A view of `model` with that shape whose element at an index is the model's element at f(index).
local function remap(model, shape, f)
  local cells, n = {}, 0
  each(shape, function(index)
    n = n + 1
    cells[n] = model.cells[offset(model.shape, f(index))]
  end)
  return {shape = shape, cells = cells}
end

-- What the view shows when the first tensor holds these values.
local function seen(model, values)
  local out = {}
  for k, cell in ipairs(model.cells) do out[k] = values[cell] end
  return out
end

local function all_different(cells)
  local had = {}
  for _, c in ipairs(cells) do
    if had[c] then return false end
    had[c] = true
  end
  return true
end

property.model = {each = each, offset = offset, remap = remap, seen = seen, all_different = all_different}
