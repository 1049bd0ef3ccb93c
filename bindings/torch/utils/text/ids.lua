-- Token ids as a list of numbers: from a tensor with at most one dimension, a list, or one id.
local torch = torch
local error = torch._raise

return function(ids, who)
  if torch.is_tensor(ids) then
    if ids.ndim > 1 then error(("%s: wants ids with one dimension, not shape %s; decode row by row: ids[1]"):format(who, tostring(ids.shape)), 3, "shape") end
    if ids.dtype.is_floating_point or ids.dtype == torch.bool then error(("%s: ids are integers, not %s"):format(who, tostring(ids.dtype)), 3, "dtype") end
    return ids:reshape(-1):tolist()
  end
  if math.type(ids) == "integer" then return {ids} end
  if type(ids) ~= "table" then error(("%s: wants a tensor or a list of ids, not a %s"):format(who, type(ids)), 3) end
  return ids
end
