-- Values as a notebook shows them: text as at the prompt, and for vectors and matrices a table as well.
local bundle = {}

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}
local function escaped(s) return (s:gsub('[&<>"]', escapes)) end

-- A tensor's table, read off the text that the prompt shows: a line of dtype and shape, then the rows.
---@param x any
---@param text string
---@return string|nil
function bundle.table(x, text)
  if not torch.is_tensor(x) or x.ndim ~= 2 or x:numel() == 0 then return nil end
  local head, rows, wide = nil, {}, nil
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if not head then
      head = line
    else
      local cells = {}
      for cell in line:gmatch "%S+" do cells[#cells + 1] = cell end
      if #cells == 1 and cells[1] == ".." then cells = nil end
      if cells and wide and #cells ~= wide then return nil end  -- labels, blocks of columns: the text says it better
      wide = wide or cells and #cells
      rows[#rows + 1] = cells or false
    end
  end
  if not head or #rows == 0 or not wide then return nil end
  local out = {'<table class="tycho-tensor">', ('<caption style="caption-side:top;text-align:left">%s</caption>'):format(escaped(head))}
  for _, row in ipairs(rows) do
    local cells = {}
    for i = 1, wide do cells[i] = ('<td style="text-align:right">%s</td>'):format(row and escaped(row[i]) or "&#8942;") end
    out[#out + 1] = "<tr>" .. table.concat(cells) .. "</tr>"
  end
  out[#out + 1] = "</table>"
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
