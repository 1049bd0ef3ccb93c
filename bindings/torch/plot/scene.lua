-- A figure drawn on a surface of pixels that can do lines, boxes and text: SVG and PNG are two.
-- A surface has line(x0, y0, x1, y1, colour, width), path(points, colour, width), dot(x, y, colour),
-- box(x, y, w, h, colour), text(x, y, s, anchor) ("start", "middle", "end"; y is the baseline), and
-- `advance`, the columns of pixels that one character takes.
local axes = require "torch.plot.axes"
local scene = {}

scene.colours = {"#1f5fa8", "#d9822b", "#2b8a3e", "#c92a2a", "#862e9c", "#0b7285", "#5c3d2e", "#868e96"}
scene.ink, scene.grid = "#222222", "#dddddd"

function scene.colour_of(k) return scene.colours[(k - 1) % #scene.colours + 1] end

---@param figure table
---@param s table a surface
function scene.draw(figure, s, width, height)
  local advance, line = s.advance, math.floor(s.advance * 1.8)
  if figure.title then s:text(width / 2, line + 2, figure.title, "middle") end
  if figure.empty then
    s:text(width / 2, height / 2, "nothing to draw" .. (figure.remark and ": " .. figure.remark or ""), "middle")
    return
  end
  local top = line * (figure.title and 2 or 1) + (figure.ylabel and line or 0)
  local legend = {}
  for k, series in ipairs(figure.series or {}) do
    if series.label and series.label ~= "" then legend[#legend + 1] = {k, series.label} end
  end
  local bottom = height - line * 2 - (figure.xlabel and line or 0) - (#legend > 0 and line or 0) - (figure.remark and line or 0)
  local y_marks = axes.labelled(figure.y0, figure.y1, math.max(2, (bottom - top) // 50), figure.ylog)
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
      if h > 0 then s:box(a, y_of(h), b - a - gap, bottom - y_of(h), scene.colour_of(1)) end
    end
  end
  for k, series in ipairs(figure.series or {}) do
    local colour, path = scene.colour_of(k), {}
    local function flush()
      if #path >= 4 then s:path(path, colour, 2) elseif #path == 2 then s:dot(path[1], path[2], colour) end
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
  if #legend > 0 then
    local x = left
    for _, entry in ipairs(legend) do
      s:line(x, y - advance * 0.5, x + 2 * advance, y - advance * 0.5, scene.colour_of(entry[1]), 3)
      s:text(x + 3 * advance, y, entry[2], "start")
      x = x + (5 + (utf8.len(entry[2]) or #entry[2])) * advance
    end
    y = y + line
  end
  if figure.remark then s:text(left, y, figure.remark, "start") end
end

return scene
