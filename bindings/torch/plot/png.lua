-- A figure as a PNG file: lines and letters set dot by dot.
local torch = torch
local scene = require "torch.plot.scene"
local font = require "torch.plot.font"
local png = {}

local Surface = {}
Surface.__index = Surface

local function bytes_of(colour)
  return (colour:sub(2):gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
end

local function round(v) return math.floor(v + 0.5) end

function Surface:set(x, y, colour)
  if x >= 0 and y >= 0 and x < self.width and y < self.height then self.dots[y * self.width + x + 1] = colour end
end

function Surface:box(x, y, w, h, colour)
  colour = bytes_of(colour)
  local x0, x1 = math.max(0, round(x)), math.min(self.width, round(x + w)) - 1
  local y0, y1 = math.max(0, round(y)), math.min(self.height, round(y + h)) - 1
  for j = y0, y1 do
    for i = x0, math.max(x0, x1) do self:set(i, j, colour) end
  end
end

function Surface:line(x0, y0, x1, y1, colour, width)
  colour = bytes_of(colour)
  local steps = math.max(1, math.ceil(math.max(math.abs(x1 - x0), math.abs(y1 - y0))))
  local before = (width - 1) // 2
  for i = 0, steps do
    local x, y = round(x0 + (x1 - x0) * i / steps), round(y0 + (y1 - y0) * i / steps)
    for dy = -before, width - 1 - before do
      for dx = -before, width - 1 - before do self:set(x + dx, y + dy, colour) end
    end
  end
end

function Surface:path(points, colour, width)
  for i = 1, #points - 3, 2 do self:line(points[i], points[i + 1], points[i + 2], points[i + 3], colour, width) end
end

function Surface:dot(x, y, colour) self:box(x - 2, y - 2, 4, 4, colour) end

function Surface:cells(x, y, w, h, dots)
  local x0, y0 = round(x), round(y)
  w, h = round(x + w) - x0, round(y + h) - y0
  local rows, columns, bytes = #dots, #dots[1], {}
  for j = 0, h - 1 do
    local row = dots[math.min(rows, j * rows // h + 1)]
    for i = 0, w - 1 do
      local c = row[math.min(columns, i * columns // w + 1)]
      local colour = bytes[c] or string.char(c[1], c[2], c[3])
      bytes[c] = colour
      self:set(x0 + i, y0 + j, colour)
    end
  end
end

function Surface:text(x, y, s, anchor, colour)
  local codes, scale = {}, self.scale
  colour = bytes_of(colour or scene.ink)
  for c in s:gmatch(utf8.charpattern) do codes[#codes + 1] = #c == 1 and c:byte() or 63 end
  local wide = #codes * self.advance
  x = round(x - (anchor == "middle" and wide / 2 or anchor == "end" and wide or 0))
  y = round(y) - 7 * scale
  for i, code in ipairs(codes) do
    local glyph = font[code] or font[63]
    for row = 0, 7 * scale - 1 do
      local bits = glyph[row // scale + 1]
      for column = 0, 5 * scale - 1 do
        if bits & (16 >> (column // scale)) ~= 0 then self:set(x + (i - 1) * self.advance + column, y + row, colour) end
      end
    end
  end
end

---@param figure table
---@param o {file: string, width?: integer, height?: integer, fontsize?: number, linewidth?: number} in pixels
function png.write(figure, o)
  local scale = math.max(1, round((o.fontsize or 13) / 6.5))  -- of the font, whose letters are 5 x 7
  local width = o.width or 640
  local height = o.height or scene.height(figure, width, 6 * scale)
  local s = setmetatable({width = width, height = height, dots = {}, scale = scale, advance = 6 * scale,
    line_width = math.max(1, round(o.linewidth or 2))}, Surface)
  local white = "\255\255\255"
  for i = 1, width * height do s.dots[i] = white end
  scene.draw(figure, s, width, height)
  torch._write_png(o.file, width, height, 3, table.concat(s.dots))
end

return png
