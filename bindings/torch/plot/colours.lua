-- The colours of series: those that they get in turn, and those that have names.
local torch = torch
local error = torch._raise
local colours = {}

colours.turn = {"#1f5fa8", "#d9822b", "#2b8a3e", "#c92a2a", "#862e9c", "#0b7285", "#5c3d2e", "#868e96"}
local named = {blue = "#1f5fa8", orange = "#d9822b", green = "#2b8a3e", red = "#c92a2a", purple = "#862e9c", teal = "#0b7285", brown = "#5c3d2e",
  grey = "#868e96", gray = "#868e96", black = "#222222", pink = "#d6336c", cyan = "#15aabf", yellow = "#e6b800", olive = "#7a7a1f",
  navy = "#1b2a6b", b = "#1f5fa8", r = "#c92a2a", g = "#2b8a3e", k = "#222222", c = "#15aabf", m = "#862e9c", y = "#e6b800"}

---A colour as "#rrggbb", from its name or "#rrggbb".
---@param who string
---@param v any
---@return string
function colours.parse(who, v)
  local hex = type(v) == "string" and (named[v:lower()] or v:lower():match "^#%x%x%x%x%x%x$")
  if hex then return hex end
  local names = {}
  for name in pairs(named) do
    if #name > 1 then names[#names + 1] = name end
  end
  table.sort(names)
  error(('%s: a colour is "#rrggbb" or one of %s; not %s'):format(who, table.concat(names, ", "), tostring(v)), 4, "value")
end

---Gives the series without a colour those that no other has.
function colours.others(list)
  local taken, at = {}, 0
  for _, series in ipairs(list) do
    if series.colour then taken[series.colour] = true end
  end
  for _, series in ipairs(list) do
    if not series.colour then
      for _ = 1, #colours.turn do
        at = at + 1
        if not taken[colours.turn[(at - 1) % #colours.turn + 1]] then break end
      end
      series.colour = colours.turn[(at - 1) % #colours.turn + 1]
    end
  end
end

---The colour of series k.
function colours.of(series, k) return series and series.colour or colours.turn[(k - 1) % #colours.turn + 1] end

---The three parts of "#rrggbb", from 0 to 255.
---@return integer, integer, integer
function colours.parts(hex)
  return tonumber(hex:sub(2, 3), 16), tonumber(hex:sub(4, 5), 16), tonumber(hex:sub(6, 7), 16)
end

return colours
