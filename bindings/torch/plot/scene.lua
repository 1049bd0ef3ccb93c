-- A figure drawn on a surface of pixels that can do lines, boxes and text: SVG and PNG are two.
-- A surface has line(x0, y0, x1, y1, colour, width), path(points, colour, width), dot(x, y, colour),
-- box(x, y, w, h, colour), text(x, y, s, anchor) ("start", "middle", "end"; y is the baseline), and
-- `advance`, the columns of pixels that one character takes. cells(x, y, w, h, dots) paints a rectangle with rows of
-- {r, g, b}.
local axes = require "torch.plot.axes"
local colours = require "torch.plot.colours"
local scene = {}

scene.ink, scene.grid = "#222222", "#dddddd"

-- The surface as seen from another corner.
local function moved(s, dx, dy)
  return {
    advance = s.advance, line_width = s.line_width,
    line = function(_, x0, y0, x1, y1, ...) s:line(x0 + dx, y0 + dy, x1 + dx, y1 + dy, ...) end,
    dot = function(_, x, y, ...) s:dot(x + dx, y + dy, ...) end,
    box = function(_, x, y, ...) s:box(x + dx, y + dy, ...) end,
    cells = function(_, x, y, ...) s:cells(x + dx, y + dy, ...) end,
    text = function(_, x, y, ...) s:text(x + dx, y + dy, ...) end,
    path = function(_, points, ...)
      local out = {}
      for i = 1, #points, 2 do out[i], out[i + 1] = points[i] + dx, points[i + 1] + dy end
      s:path(out, ...)
    end,
  }
end

-- Several figures, one below the other.
local function panels(figure, s, width, height)
  local title = figure.title and math.floor(s.advance * 2.5) or 0
  if figure.title then s:text(width / 2, math.floor(s.advance * 1.8) + 2, figure.title, "middle") end
  local each = (height - title) / #figure.panels
  for i, panel in ipairs(figure.panels) do
    scene.draw(panel, moved(s, 0, title + (i - 1) * each), width, math.floor(each))
  end
end

-- The names of the series in rows that fit: {k, label, x} of each, from 0.
local function legend_rows(figure, advance, room)
  local rows, x = {}, math.huge
  for k, series in ipairs(figure.series or {}) do
    if series.label and series.label ~= "" then
      local takes = (5 + (utf8.len(series.label) or #series.label)) * advance
      if x > 0 and x + takes > room + 2 * advance then
        rows[#rows + 1], x = {}, 0
      end
      table.insert(rows[#rows], {k, series.label, x})
      x = x + takes
    end
  end
  return rows
end

---How high a figure of this width is unless told.
---@return integer
function scene.height(figure, width, advance)
  if figure.panels then
    local sum = 0
    for _, panel in ipairs(figure.panels) do sum = sum + scene.height(panel, width, advance) end
    return sum
  end
  return figure.cells and require("torch.plot.cells").height(figure, width, advance) or math.floor(width * 5 / 8)
end

---@param figure table
---@param s table a surface
function scene.draw(figure, s, width, height)
  if figure.panels then return panels(figure, s, width, height) end
  if figure.cells then return require("torch.plot.cells").draw(figure, s, width, height) end
  local advance, line = s.advance, math.floor(s.advance * 1.8)
  if figure.title then s:text(width / 2, line + 2, figure.title, "middle") end
  if figure.empty then
    s:text(width / 2, height / 2, "nothing to draw" .. (figure.remark and ": " .. figure.remark or ""), "middle")
    return
  end
  local top = line * (figure.title and 2 or 1) + (figure.ylabel and line or 0)
  local legend = legend_rows(figure, advance, width - 10 * advance)
  local bottom = height - line * 2 - (figure.xlabel and line or 0) - #legend * line - (figure.remark and line or 0)
  local y_marks = axes.labelled(figure.y0, figure.y1, math.max(2, (bottom - top) // 50), figure.ylog)
  y_marks = axes.with_ends(y_marks, figure.y0, figure.y1, function() return line / (bottom - top) end, figure.ylog)
  local left = 0
  for _, m in ipairs(y_marks) do left = math.max(left, #m.text) end
  left = left * advance + 14
  local right = width - 2 * advance
  if right - left < 20 or bottom - top < 20 then
    left, right, top, bottom = 4, width - 4, 4, height - 4
    y_marks = {}
  end
  local function x_of(v) return left + (v - figure.x0) / (figure.x1 - figure.x0) * (right - left) end
  local function y_of(v) return bottom - (v - figure.y0) / (figure.y1 - figure.y0) * (bottom - top) end

  local x_marks = axes.labelled(figure.x0, figure.x1, math.max(2, (right - left) // (9 * advance)), figure.xlog, figure.whole_x and 1)
  x_marks = axes.with_ends(x_marks, figure.x0, figure.x1, function(text) return (#text + 2) * advance / (right - left) end, figure.xlog, figure.whole_x)
  for _, m in ipairs(y_marks) do
    s:line(left, y_of(m.value), right, y_of(m.value), scene.grid, 1)
    s:text(left - 8, y_of(m.value) + advance * 0.5, m.text, "end")
  end
  for _, m in ipairs(x_marks) do
    s:line(x_of(m.value), top, x_of(m.value), bottom, scene.grid, 1)
    s:text(x_of(m.value), bottom + line, m.text, "middle")
  end
  if figure.bars then
    local n = #figure.heights
    for i, h in ipairs(figure.heights) do
      local a = left + (i - 1) / n * (right - left)
      local b = left + i / n * (right - left)
      local gap = b - a > 4 and 1 or 0
      if h > 0 then s:box(a, y_of(h), b - a - gap, bottom - y_of(h), colours.of(figure.series and figure.series[1], 1)) end
    end
  end
  for k, series in ipairs(figure.series or {}) do
    local colour, path = colours.of(series, k), {}
    local function flush()
      if #path >= 4 then s:path(path, colour, s.line_width) elseif #path == 2 then s:dot(path[1], path[2], colour) end
      path = {}
    end
    for i = 1, #series.x do
      local x, y = series.x[i], series.y[i]
      if x ~= x then
        flush()
      elseif figure.points then
        s:dot(x_of(x), y_of(y), colour)
      else
        path[#path + 1], path[#path + 2] = x_of(x), y_of(y)
      end
    end
    flush()
  end
  s:line(left, top, left, bottom, scene.ink, 1)
  s:line(left, bottom, right, bottom, scene.ink, 1)
  if figure.ylabel then s:text(8, top - advance, figure.ylabel, "start") end
  local y = bottom + line * 2
  if figure.xlabel then
    s:text((left + right) / 2, y, figure.xlabel, "middle")
    y = y + line
  end
  for _, row in ipairs(legend) do
    for _, entry in ipairs(row) do
      local x = left + entry[3]
      s:line(x, y - advance * 0.5, x + 2 * advance, y - advance * 0.5, colours.of(figure.series[entry[1]], entry[1]), 3)
      s:text(x + 3 * advance, y, entry[2], "start")
    end
    y = y + line
  end
  if figure.remark then s:text(left, y, figure.remark, "start") end
end

return scene
