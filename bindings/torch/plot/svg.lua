-- A figure as an SVG file, without any other program.
local torch = torch
local scene = require "torch.plot.scene"
local svg = {}

local Surface = {}
Surface.__index = Surface

local function number(v) return (("%.2f"):format(v):gsub("%.?0+$", "")) end

local escapes = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}
-- XML allows no control characters and no broken UTF-8.
local function escaped(s)
  s = s:gsub("%c", " ")
  if not utf8.len(s) then s = s:gsub("[\128-\255]", "?") end
  return (s:gsub('[&<>"]', escapes))
end

function Surface:add(s) self[#self + 1] = s end
function Surface:line(x0, y0, x1, y1, colour, width)
  self:add(('<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"/>'):format(
    number(x0), number(y0), number(x1), number(y1), colour, number(width)))
end
function Surface:path(points, colour, width)
  local list = {}
  for i = 1, #points, 2 do list[#list + 1] = number(points[i]) .. "," .. number(points[i + 1]) end
  self:add(('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"/>'):format(
    table.concat(list, " "), colour, number(width)))
end
function Surface:dot(x, y, colour)
  self:add(('<circle cx="%s" cy="%s" r="2.5" fill="%s"/>'):format(number(x), number(y), colour))
end
function Surface:box(x, y, w, h, colour)
  self:add(('<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>'):format(number(x), number(y), number(w), number(h), colour))
end
function Surface:text(x, y, s, anchor, colour)
  self:add(('<text x="%s" y="%s" text-anchor="%s"%s>%s</text>'):format(number(x), number(y), anchor, colour and (' fill="%s"'):format(colour) or "", escaped(s)))
end

-- Few cells are rectangles, which stay sharp at any size; many are a picture inside the file.
local most_boxes = 4096
function Surface:cells(x, y, w, h, dots)
  local rows, columns = #dots, #dots[1]
  if rows * columns > most_boxes then
    local plain = {}
    for i, row in ipairs(dots) do
      plain[i] = {}
      for j, c in ipairs(row) do plain[i][j] = {c[1], c[2], c[3]} end
    end
    local pixels = torch.tensor(plain, {dtype = "uint8"})
    self:add(('<image x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,%s"/>'):format(
      number(x), number(y), number(w), number(h), torch._base64(torch._encode_image(pixels, "png", 75))))
    return
  end
  self:add '<g shape-rendering="crispEdges">'
  for i, row in ipairs(dots) do
    local from = 1
    for j = 1, columns do
      local c, after = row[j], row[j + 1]
      if not after or after[1] ~= c[1] or after[2] ~= c[2] or after[3] ~= c[3] then
        self:add(('<rect x="%s" y="%s" width="%s" height="%s" fill="#%02x%02x%02x"/>'):format(number(x + (from - 1) / columns * w),
          number(y + (i - 1) / rows * h), number((j - from + 1) / columns * w), number(h / rows), c[1], c[2], c[3]))
        from = j + 1
      end
    end
  end
  self:add "</g>"
end

---@param figure table
---@param o {width?: integer, height?: integer, font?: string, fontsize?: number, linewidth?: number} in pixels
---@return string
function svg.text(figure, o)
  local size = o.fontsize or 13
  local s = setmetatable({advance = size * 7.5 / 13, line_width = o.linewidth or 2}, Surface)
  local width = o.width or 640
  local height = o.height or scene.height(figure, width, s.advance)
  s:add(('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="%s" font-size="%s" fill="%s">'):format(
    width, height, width, height, escaped(o.font or "sans-serif"), number(size), scene.ink))
  s:add(('<rect width="%d" height="%d" fill="#ffffff"/>'):format(width, height))
  scene.draw(figure, s, width, height)
  s:add "</svg>"
  return table.concat(s, "\n") .. "\n"
end

return svg
