-- A figure as an SVG file, without any other program.
local scene = require "torch.plot.scene"
local svg = {}

local Surface = {advance = 7.5}
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
  self:add(('<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%d"/>'):format(
    number(x0), number(y0), number(x1), number(y1), colour, width))
end
function Surface:path(points, colour, width)
  local list = {}
  for i = 1, #points, 2 do list[#list + 1] = number(points[i]) .. "," .. number(points[i + 1]) end
  self:add(('<polyline points="%s" fill="none" stroke="%s" stroke-width="%d" stroke-linejoin="round"/>'):format(
    table.concat(list, " "), colour, width))
end
function Surface:dot(x, y, colour)
  self:add(('<circle cx="%s" cy="%s" r="2.5" fill="%s"/>'):format(number(x), number(y), colour))
end
function Surface:box(x, y, w, h, colour)
  self:add(('<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>'):format(number(x), number(y), number(w), number(h), colour))
end
function Surface:text(x, y, s, anchor)
  self:add(('<text x="%s" y="%s" text-anchor="%s">%s</text>'):format(number(x), number(y), anchor, escaped(s)))
end

---@param figure table
---@param o {width?: integer, height?: integer} in pixels
---@return string
function svg.text(figure, o)
  local width, height = o.width or 640, o.height or 400
  local s = setmetatable({}, Surface)
  s:add(('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="%s">'):format(
    width, height, width, height, scene.ink))
  s:add(('<rect width="%d" height="%d" fill="#ffffff"/>'):format(width, height))
  scene.draw(figure, s, width, height)
  s:add "</svg>"
  return table.concat(s, "\n") .. "\n"
end

return svg
