-- Colours by name: `colour(text, "error")` gives the text in the looks of that style where standard
-- output is a terminal that can, and the text alone everywhere else (pipes, TERM=dumb, NO_COLOR).
local colour = {}

-- SGR codes by style. Only the sixteen colours that every terminal's theme defines.
colour.styles = {
  error = "1;31", warning = "33", note = "36", good = "32", bad = "31",
  heading = "1", name = "1", label = "36", faint = "2", prompt = "1;34",
  number = "35", string = "32", keyword = "1;34", comment = "2", ["function"] = "33",
  nan = "1;31", inf = "1;33", match = "7", type = "36",
}

---True where colours may be used; decided when first asked, and again after `colour.reset()`.
---@return boolean
function colour.enabled()
  if colour.on == nil then colour.on = torch._terminal().colours end
  return colour.on
end

---Forgets the decision; `colour.on = true` or `false` forces one.
function colour.reset() colour.on = nil end

---The escape sequences before and after a text of this style; empty ones without colours.
---@param style string
function colour.pair(style)
  local code = colour.styles[style]
  if not code or not colour.enabled() then return "", "" end
  return "\27[" .. code .. "m", "\27[0m"
end

---The text in the looks of a style.
---@param text string
---@param style string
---@return string
function colour.paint(text, style)
  local before, after = colour.pair(style)
  return before == "" and text or before .. text .. after
end

---The text without colours.
function colour.plain(text) return (text:gsub("\27%[[%d;]*m", "")) end

return setmetatable(colour, {__call = function(_, text, style) return colour.paint(text, style) end})
