-- Values as a notebook shows them: text as at the prompt, and for vectors and matrices a table as well.
local bundle = {}

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}
local function escaped(s) return (s:gsub('[&<>"]', escapes)) end

local words = {nan = true, inf = true, ["-inf"] = true, ["true"] = true, ["false"] = true, [".."] = true}

-- The cells of a line that holds nothing but values; nil of any other line.
local function cells_of(line)
  local cells = {}
  for cell in line:gmatch "%S+" do
    if not words[cell] and not tonumber(cell) then return nil end
    cells[#cells + 1] = cell
  end
  return #cells > 0 and cells or nil
end

-- A matrix as a table, read off the text that the prompt shows: what stands above the rows (dtype and shape, and
-- of large ones a summary) is its caption, what stands below follows.
---@param x any
---@param text string
---@return string|nil
function bundle.table(x, text)
  if not torch.is_tensor(x) or x.ndim ~= 2 or x:numel() == 0 then return nil end
  local above, rows, below = {}, {}, {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local cells = #above > 0 and cells_of(line)
    if cells then
      if #below > 0 or rows[1] and #rows[1] ~= #cells then return nil end  -- blocks of columns: the text says it better
      rows[#rows + 1] = cells
    else
      table.insert(#rows > 0 and below or above, escaped(line:match "^%s*(.-)%s*$"))
    end
  end
  if #rows == 0 then return nil end
  local out = {('<table class="tycho-tensor"><caption style="caption-side:top;text-align:left">%s</caption>'):format(table.concat(above, "<br>"))}
  for _, row in ipairs(rows) do
    out[#out + 1] = '<tr><td style="text-align:right">' .. table.concat(row, '</td><td style="text-align:right">') .. "</td></tr>"
  end
  out[#out + 1] = "</table>"
  if #below > 0 then out[#out + 1] = "<p>" .. table.concat(below, "<br>") .. "</p>" end
  return table.concat(out)
end

---What an entry's values look like: {["text/plain"] = .., ["text/html"] = ..}.
---@param values {n: integer}
---@param name? string the variable that the entry consists of
---@return table<string, string>
function bundle.of(values, name)
  local text = require("shell.show").values(values, {name = name, colour = false})
  return {["text/plain"] = text, ["text/html"] = values.n == 1 and bundle.table(values[1], text) or nil}
end

return bundle
