-- A heat map or a picture in a file: cells with their rows' and columns' names or numbers, what the colours mean, and the
-- values where they fit.
local axes = require "torch.plot.axes"
local cells = {}

-- Positions to mark along n cells that stand for `all` rows (more where several were joined), with their names.
local function marks_of(names, n, all, room, each)
  local out = {}
  if names then
    local step = math.max(1, math.ceil(each * n / room))
    for i = 1, n, step do out[#out + 1] = {value = i - 0.5, text = tostring(names[i])} end
    return out
  end
  for _, m in ipairs(axes.labelled(1, math.max(all, 2), math.max(2, room // (each * 3)), false, 1)) do
    if m.value <= all then out[#out + 1] = {value = (m.value - 0.5) / all * n, text = m.text} end
  end
  return out
end

local function longest(marks)
  local n = 0
  for _, m in ipairs(marks) do n = math.max(n, utf8.len(m.text) or #m.text) end
  return n
end

---The height of a figure of this width whose cells are squares, within reason.
---@return integer
function cells.height(figure, width, advance)
  if figure.bare then return math.floor(width * #figure.cells / #figure.cells[1] + 0.5) end
  local inner = math.max(60, width - 16 * advance)
  local form = math.max(0.1, math.min(3, #figure.cells / #figure.cells[1]))
  return math.floor(inner * form + 0.5) + math.floor(advance * 1.8) * 5
end

---@param figure table cells: rows of {r, g, b}; row_names, column_names, rows and columns (how many there are), texts (rows
---of the cells' values), bar {{r, g, b}.., low =, high =}; bare: the picture alone
---@param s table a surface
function cells.draw(figure, s, width, height)
  local h, w = #figure.cells, #figure.cells[1]
  if figure.bare then return s:cells(0, 0, width, height, figure.cells) end
  local advance, line = s.advance, math.floor(s.advance * 1.8)
  if figure.title then s:text(width / 2, line + 2, figure.title, "middle") end
  local top = line * (figure.title and 2 or 1) + (figure.ylabel and line or 0)
  local bottom = height - line * 2 - (figure.xlabel and line or 0)
  local y_marks = marks_of(figure.row_names, h, figure.rows, bottom - top, line)
  local left = longest(y_marks) * advance + 14
  local bar = figure.bar and math.max(#figure.bar.low, #figure.bar.high) * advance + 40 or 0
  local right = width - 2 * advance - bar
  local x_marks = marks_of(figure.column_names, w, figure.columns, right - left, (longest(marks_of(figure.column_names, w, figure.columns, right - left, 1)) + 1) * advance)
  if right - left < 20 or bottom - top < 20 then return s:cells(0, 0, width, height, figure.cells) end
  local one_x, one_y = (right - left) / w, (bottom - top) / h
  s:cells(left, top, right - left, bottom - top, figure.cells)
  for _, m in ipairs(y_marks) do s:text(left - 8, top + m.value * one_y + advance * 0.6, m.text, "end") end
  for _, m in ipairs(x_marks) do s:text(left + m.value * one_x, bottom + line, m.text, "middle") end
  local most = 0
  for _, row in ipairs(figure.texts or {}) do
    for _, text in ipairs(row) do most = math.max(most, #text) end
  end
  if figure.texts and one_x > (most + 0.5) * advance and one_y > line then
    for i, row in ipairs(figure.texts) do
      for j, text in ipairs(row) do
        local c = figure.cells[i][j]
        local dark = 0.3 * c[1] + 0.59 * c[2] + 0.11 * c[3] < 140
        s:text(left + (j - 0.5) * one_x, top + (i - 0.5) * one_y + advance * 0.6, text, "middle", dark and "#ffffff" or nil)
      end
    end
  end
  if figure.bar then
    local column = {}
    for i = #figure.bar, 1, -1 do column[#column + 1] = {figure.bar[i]} end
    local x = right + 14
    s:cells(x, top, 12, bottom - top, column)
    s:text(x + 18, top + advance, figure.bar.high, "start")
    s:text(x + 18, bottom, figure.bar.low, "start")
  end
  if figure.ylabel then s:text(8, top - advance, figure.ylabel, "start") end
  if figure.xlabel then s:text((left + right) / 2, bottom + line * 2, figure.xlabel, "middle") end
end

return cells
