-- Tables, amounts and times as text for the prompt's commands, to fit narrow windows.
local pieces = require("torch.columns").pieces
local screen = require "shell.text"
local T = require("torch.language").text
local columns = {}

---@return integer width of the window
function columns.window()
  local ok, native = pcall(require, "shell.native")
  local wide = ok and native.window and native.window()
  return wide and wide > 0 and wide or tonumber(os.getenv("COLUMNS") or "") or 80
end

columns.width = screen.width

---The text, or its beginning and ".." when it is wider.
function columns.clip(text, width)
  if columns.width(text) <= width then return text end
  return screen.cut(text, math.max(width - 2, 0)) .. ".."
end

---The text as lines of at most `width`, broken at spaces, and inside of words that are longer.
function columns.wrap(text, width)
  local lines, line = {}, nil
  width = math.max(width, 8)
  for word, blanks in pieces(text) do
    while columns.width(word) > width do
      if line then lines[#lines + 1] = line end
      line = nil
      lines[#lines + 1] = screen.cut(word, width)
      word = word:sub(#lines[#lines] + 1)
    end
    if line and columns.width(line) + blanks + columns.width(word) <= width then
      line = line .. (" "):rep(blanks) .. word
    else
      if line then lines[#lines + 1] = line end
      line = word
    end
  end
  lines[#lines + 1] = line or ""
  return lines
end

---Control characters made visible, so that what is shown cannot change the terminal.
function columns.plain(text)
  return (text:gsub("\n", " "):gsub("[%c\127]", function(c) return ("\\x%02x"):format(c:byte()) end))
end

---@param heads table[] {title=, right=true to align right, drop=number: the highest goes first}
---@param rows string[][]
---@return string
function columns.table(heads, rows, width)
  width = width or columns.window()
  local shown = {}
  for i = 1, #heads do shown[i] = i end
  local function widths()
    local out, sum = {}, 0
    for _, i in ipairs(shown) do
      out[i] = columns.width(T(heads[i].title))
      for _, row in ipairs(rows) do out[i] = math.max(out[i], columns.width(row[i] or "")) end
      sum = sum + out[i] + 2
    end
    return out, sum - 2
  end
  -- A column without anything in it goes, then those that matter least.
  for k = #shown, 1, -1 do
    local empty = heads[shown[k]].drop ~= nil
    for _, row in ipairs(rows) do empty = empty and (row[shown[k]] or "") == "" end
    if empty then table.remove(shown, k) end
  end
  local wide, sum = widths()
  while sum > width do
    local worst
    for k, i in ipairs(shown) do
      if heads[i].drop and (not worst or heads[i].drop > heads[shown[worst]].drop) then worst = k end
    end
    if not worst then break end
    -- The last column may rather be cut than go, when there is room for a good part of it.
    local over = sum - width
    if heads[shown[worst]].cut and worst == #shown and wide[shown[worst]] - over >= 12 then break end
    table.remove(shown, worst)
    wide, sum = widths()
  end
  local lines = {}
  local function line(cells)
    local parts = {}
    for k, i in ipairs(shown) do
      local text = cells[i] or ""
      local gap = (" "):rep(wide[i] - columns.width(text))
      parts[k] = heads[i].right and gap .. text or k == #shown and text or text .. gap
    end
    lines[#lines + 1] = columns.clip((table.concat(parts, "  "):gsub("%s+$", "")), width)
  end
  local titles = {}
  for i, head in ipairs(heads) do titles[i] = T(head.title) end
  line(titles)
  for _, row in ipairs(rows) do line(row) end
  return table.concat(lines, "\n")
end

---"33 kB", "1.6 MB", "1.60 GB"
function columns.bytes(n)
  if n < 1000 then return ("%d B"):format(math.tointeger(n) or n // 1 | 0) end
  if n < 9950 then return ("%.1f kB"):format(n / 1e3) end
  if n < 999500 then return ("%.0f kB"):format(n / 1e3) end
  if n < 999.5e6 then return ("%.1f MB"):format(n / 1e6) end
  return ("%.2f GB"):format(n / 1e9)
end

---"1.36 ms"
function columns.seconds(s)
  if s < 1e-6 then return ("%.3g ns"):format(s * 1e9) end
  if s < 1e-3 then return ("%.3g us"):format(s * 1e6) end
  if s < 1 then return ("%.3g ms"):format(s * 1e3) end
  if s < 600 then return ("%.3g s"):format(s) end
  return ("%.1f min"):format(s / 60)
end

---"101 G" for amounts of bytes per second or of arithmetic
function columns.amount(n)
  for _, unit in ipairs {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} do
    if n >= unit[1] then return ("%.3g %s"):format(n / unit[1], unit[2]) end
  end
  return ("%.3g "):format(n)
end

---The short kind and shape of a value, "f32 [3, 4]", "number 3", "table, 2 items": never its values.
function columns.describe(value)
  if torch.is_tensor(value) then
    local look = torch._inspect(value)
    local device = tostring(value.device)
    return ("%s %s%s"):format(look.dtype, tostring(value.shape), device == "cpu" and "" or "  " .. device)
  end
  local kind = type(value)
  if kind == "number" or kind == "boolean" or kind == "nil" then return tostring(value) end
  if kind == "string" then
    return #value > 40 and ("string of %d bytes"):format(#value) or '"' .. columns.plain(value) .. '"'
  end
  if kind == "table" then
    local meta = debug.getmetatable(value)
    if type(meta) == "table" and type(rawget(meta, "__name")) == "string" then return rawget(meta, "__name") end
    local n = 0
    for _ in next, value do
      n = n + 1
      if n > 1000 then return "table, more than 1000 items" end
    end
    return n == 1 and "table, 1 item" or ("table, %d items"):format(n)
  end
  return kind
end

return columns
