-- Text by the columns that it takes in a terminal.
local columns = {}

---How many columns a text takes. Characters from Hangul on are taken as two columns wide, which East Asian ones and
---emoji are.
---@param s string
---@return integer
function columns.of(s)
  if not utf8.len(s) then return #s end
  local n = 0
  for _, c in utf8.codes(s) do n = n + (c >= 0x1100 and (c < 0x2000 or c >= 0x2e80) and 2 or 1) end
  return n
end

---A text in at most so many columns; where something is left out it ends with "…".
---@param s string
---@param most integer
---@return string
function columns.clipped(s, most)
  s = s:gsub("%c", " ")
  if columns.of(s) <= most then return s end
  if not utf8.len(s) then return s:sub(1, most) end
  local out, n = {}, 0
  for _, c in utf8.codes(s) do
    local one = utf8.char(c)
    n = n + columns.of(one)
    if n > most - 1 then break end
    out[#out + 1] = one
  end
  return table.concat(out) .. "…"
end

return columns
