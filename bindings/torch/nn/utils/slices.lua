-- The slices of a weight along one dimension, as weight and spectral norm see it.
local torch = torch
local slices = {}

-- All dimensions but one.
function slices.others(w, dim)
  local out = {}
  for d = 1, w.ndim do
    if d ~= dim then out[#out + 1] = d end
  end
  return out
end

-- The length of each slice, or (without a dimension) of the whole.
function slices.length(v, dim)
  if dim == nil then return torch.linalg.vector_norm(v) end
  if v.ndim == 1 then return v:abs() end
  return torch.linalg.vector_norm(v, {ord = 2, dim = slices.others(v, dim), keepdim = true})
end

return slices
