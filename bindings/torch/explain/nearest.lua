-- The one name that a misspelt one stands nearest to; explain/names.lua gives several.
local torch = torch

---The nearest of some names, the first of the alphabet where several are.
---@param name string
---@param known table its keys are the names
---@param most integer edits, case not counted
---@param fits? fun(known_name: string): boolean
---@return string?
return function(name, known, most, fits)
  local best, least
  for key, d in next, torch._near(name, known, most) do
    if (not least or d < least or d == least and key < best) and (not fits or fits(key)) then best, least = key, d end
  end
  return best
end
