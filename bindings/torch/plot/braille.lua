-- A figure as text: dots in braille cells (2 x 4 each), axes with round marks, a legend. Several
-- curves differ by colour, or where there are no colours by a letter per curve.
local torch = torch
local axes = require "torch.plot.axes"
local columns_of, clipped = require("torch.columns").of, require("torch.columns").clipped
local braille = {}

local bits = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}
local colours = {"34", "33", "32", "31", "35", "36"}
local letters = {"*", "o", "+", "x", "#", "@"}

-- A series' own colour: whole, or the nearest of 256.
local function terminal_colour(hex)
  local r, g, b = require("torch.plot.colours").parts(hex)
  local depth = os.getenv "COLORTERM"
  return require("torch.plot.heat").code({r, g, b}, depth == "truecolor" or depth == "24bit", 38)
end

-- --- a canvas of dots ---

local Canvas = {}
Canvas.__index = Canvas

local function canvas(columns, rows)
  return setmetatable({columns = columns, rows = rows, cells = {}, owner = {}}, Canvas)
end

-- A dot, counted from the upper left corner from 0.
function Canvas:dot(x, y, who)
  if x < 0 or y < 0 or x >= self.columns * 2 or y >= self.rows * 4 then return end
  local at = (y // 4) * self.columns + x // 2
  self.cells[at] = (self.cells[at] or 0) | bits[y % 4 + 1][x % 2 + 1]
  self.owner[at] = who
end

function Canvas:line(x0, y0, x1, y1, who)
  local steps = math.max(math.abs(x1 - x0), math.abs(y1 - y0))
  for i = 0, steps do
    local t = steps == 0 and 0 or i / steps
    self:dot(math.floor(x0 + (x1 - x0) * t + 0.5), math.floor(y0 + (y1 - y0) * t + 0.5), who)
  end
end

function Canvas:row(r, paint, letter)
  local out = {}
  for c = 0, self.columns - 1 do
    local at = r * self.columns + c
    local cell, who = self.cells[at], self.owner[at]
    if not cell then out[#out + 1] = " "
    elseif letter then out[#out + 1] = letters[(who - 1) % #letters + 1]
    else out[#out + 1] = paint(utf8.char(0x2800 + cell), who) end
  end
  return (table.concat(out):gsub(" +$", ""))
end

local function centred(s, columns)
  s = clipped(s, columns)
  return (" "):rep((columns - columns_of(s)) // 2) .. s
end

-- The line below the axis: marks where they do not run into each other.
local function below(marks, place, columns, left)
  local line, last = {}, 0
  for _, m in ipairs(marks) do
    local start = math.max(1, place(m.value) - #m.text // 2)
    start = math.min(start, columns - #m.text + 1)
    if start > last + 1 or (last == 0 and start >= 1) then
      line[#line + 1] = (" "):rep(start - last - 1) .. m.text
      last = start + #m.text - 1
    end
  end
  return (" "):rep(left) .. table.concat(line)
end

---@param figure table
---@param o {width?: integer, height?: integer, colour?: boolean}
---@return string
function braille.text(figure, o)
  local terminal = torch._terminal()
  local width = o.width or math.max(20, math.min(terminal.columns or 80, 200))
  local rows = o.height or math.max(4, math.min(15, (terminal.rows or 24) - 6))
  local coloured = terminal.colours
  if o.colour ~= nil then coloured = o.colour end
  local out = {}
  if figure.title then out[#out + 1] = centred(figure.title, width) end
  if figure.empty then
    out[#out + 1] = "nothing to draw" .. (figure.remark and ": " .. figure.remark or "")
    return table.concat(out, "\n")
  end
  if figure.ylabel then out[#out + 1] = clipped(figure.ylabel, width) end

  local y_marks = axes.labelled(figure.y0, figure.y1, math.max(2, rows // 3), figure.ylog)
  y_marks = axes.with_ends(y_marks, figure.y0, figure.y1, function() return 1.2 / rows end, figure.ylog)
  local left = 0
  for _, m in ipairs(y_marks) do left = math.max(left, #m.text) end
  left = left + 2
  local columns = math.max(6, width - left)
  local c = canvas(columns, rows)
  local wide, tall = columns * 2 - 1, rows * 4 - 1
  local function x_of(v) return math.floor((v - figure.x0) / (figure.x1 - figure.x0) * wide + 0.5) end
  local function y_of(v) return tall - math.floor((v - figure.y0) / (figure.y1 - figure.y0) * tall + 0.5) end

  local series = figure.series or {}
  if figure.bars then
    local n = #figure.heights
    for i, h in ipairs(figure.heights) do
      local a, b = math.floor((i - 1) / n * (wide + 1) + 0.5), math.floor(i / n * (wide + 1) + 0.5) - 1
      -- A gap between bars where they are wide enough.
      if b - a >= 3 then b = b - 1 end
      if h > 0 then
        for x = a, math.max(a, b) do
          for y = math.min(tall, y_of(h)), tall do c:dot(x, y, 1) end
        end
      end
    end
  end
  for k, s in ipairs(series) do
    local px, py
    for i = 1, #s.x do
      local x, y = s.x[i], s.y[i]
      if x ~= x then
        px = nil
      else
        x, y = x_of(x), y_of(y)
        if px and not figure.points then c:line(px, py, x, y, k) else c:dot(x, y, k) end
        px, py = x, y
      end
    end
  end

  local letter = #series > 1 and not coloured
  local function paint(s, who)
    local own = series[who] and series[who].colour
    if not coloured or #series < 2 and not own then return s end
    if own then return "\27[" .. terminal_colour(own) .. "m" .. s .. "\27[0m" end
    return "\27[" .. colours[(who - 1) % #colours + 1] .. "m" .. s .. "\27[0m"
  end
  local at_row = {}
  for _, m in ipairs(y_marks) do at_row[y_of(m.value) // 4] = m.text end
  for r = 0, rows - 1 do
    local mark = at_row[r]
    out[#out + 1] = (" "):rep(left - 2 - #(mark or "")) .. (mark or "") .. (mark and " ┤" or " │") .. c:row(r, paint, letter)
  end
  local per_mark = figure.whole_x and #("%.0f"):format(figure.x1) + 7 or 10
  local x_marks = axes.labelled(figure.x0, figure.x1, math.max(2, columns // per_mark), figure.xlog, figure.whole_x and 1)
  x_marks = axes.with_ends(x_marks, figure.x0, figure.x1, function(text) return (1.5 * #text + 2) / columns end, figure.xlog, figure.whole_x)
  local axis = {}
  for i = 1, columns do axis[i] = "─" end
  local function column_of(v) return x_of(v) // 2 + 1 end
  for _, m in ipairs(x_marks) do axis[math.max(1, math.min(columns, column_of(m.value)))] = "┬" end
  out[#out + 1] = (" "):rep(left - 1) .. "└" .. table.concat(axis)
  out[#out + 1] = below(x_marks, column_of, columns, left)
  if figure.xlabel then out[#out + 1] = (" "):rep(left) .. centred(figure.xlabel, columns) end
  local line, used = nil, 0
  for k, s in ipairs(series) do
    if s.label and s.label ~= "" or letter then
      local name = clipped(s.label and s.label ~= "" and s.label or "curve " .. k, columns - 3)
      local entry = (letter and letters[(k - 1) % #letters + 1] or paint("──", k)) .. " " .. name
      local takes = columns_of(name) + (letter and 2 or 3)
      if line and used + 3 + takes > columns then
        out[#out + 1], line = line, nil
      end
      line, used = line and line .. "   " .. entry or (" "):rep(left) .. entry, line and used + 3 + takes or takes
    end
  end
  out[#out + 1] = line
  if figure.remark then out[#out + 1] = clipped(figure.remark, width) end
  return table.concat(out, "\n")
end

return braille
