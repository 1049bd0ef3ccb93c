-- x:show(): a matrix as a heat map and an image as a picture, in half blocks of colour (two rows of dots
-- in a line of text), in shades where there are no colours, or by the Kitty graphics protocol.
local torch = torch
local error = torch._raise
local heat = {}

local options = {style = "string", file = "string", width = "integer", low = "number", high = "number", colour = "boolean", title = "string"}
-- What only a file has room for.
local of_file = {height = "integer", xlabel = "string", ylabel = "string", rows = "table", columns = "table", values = "boolean", font = "string",
  fontsize = "number", linewidth = "number"}

-- Colours from the least to the most value: dark blue to yellow, evenly spaced in brightness.
local ramp = {{24, 16, 72}, {58, 44, 140}, {34, 102, 156}, {32, 150, 136}, {108, 192, 88}, {250, 228, 60}}
-- Of values on both sides of zero: blue, white, red.
local both = {{30, 70, 170}, {120, 160, 220}, {240, 240, 240}, {225, 140, 110}, {170, 30, 40}}
local broken = {255, 0, 255}  -- nan and infinities

local function mix(list, t)
  local at = t * (#list - 1)
  local i = math.min(math.floor(at), #list - 2)
  local f, a, b = at - i, list[i + 1], list[i + 2]
  return {math.floor(a[1] + (b[1] - a[1]) * f + 0.5), math.floor(a[2] + (b[2] - a[2]) * f + 0.5), math.floor(a[3] + (b[3] - a[3]) * f + 0.5)}
end

-- --- making it small enough ---

-- A [planes, h, w] float32 copy on the CPU of at most this height and width. Every k-th element comes
-- first, so that no more than a few times the wanted size is ever copied; then means.
local function shrunk(x, height, width)
  local h, w = x.shape[2], x.shape[3]
  local sy, sx = math.max(1, h // (height * 4)), math.max(1, w // (width * 4))
  local y = x[{{}, {1, -1, sy}, {1, -1, sx}}]:cpu():to("float32"):contiguous()
  height, width = math.min(height, y.shape[2]), math.min(width, y.shape[3])
  if y.shape[2] == height and y.shape[3] == width then return y end
  return torch.nn.functional.adaptive_avg_pool2d(y, {height, width})
end

-- --- from values to dots ---

-- What a tensor is: planes [c, h, w], and whether it is an image.
local function planes_of(x)
  local d, s = x.ndim, x.shape
  if d == 0 then return x:reshape(1, 1, 1), false end
  if d == 1 then return x:reshape(1, 1, -1), false end
  if d == 2 then return x:reshape(1, s[1], s[2]), false end
  local function channels(n) return n == 1 or n == 3 or n == 4 end
  if d == 3 and channels(s[1]) then return x, true end
  if d == 3 and channels(s[3]) then return x:permute(3, 1, 2), true end
  if d == 4 and (s[2] == 1 or s[2] == 3) and s[1] > 0 then return torch.utils.data.make_grid(x), true end
  error(("show: draws a vector, a matrix, an image [C, H, W] or [H, W, C] with 1, 3 or 4 channels, or images [n, C, H, W], not shape %s; take a part, as in x[1]:show()"):format(
    tostring(s)), 3, "shape")
end

-- Dots {r, g, b} by row and column, and a remark how values became colours.
local function dots_of(x, image, height, width, o)
  local small = shrunk(x, height, width)
  local s = torch._summary(x)
  -- A heat map of means has the colours of the means: they lie closer together than the values.
  local seen = image and s or torch._summary(small)
  local low, high = o.low or seen.min, o.high or seen.max
  local bytes = x.dtype == torch.uint8
  if image and o.low == nil and o.high == nil then
    if bytes then
      low, high = 0, 255
    elseif low >= 0 and high <= 1 then
      low, high = 0, 1
    end
  end
  local list = small:tolist()
  local h, w = small.shape[2], small.shape[3]
  local function unit(v)
    if v ~= v or v == math.huge or v == -math.huge then return nil end
    if high <= low then return 0.5 end
    return math.max(0, math.min(1, (v - low) / (high - low)))
  end
  local span = ramp
  if not image and low < 0 and high > 0 and not o.low and not o.high then
    span = both
    high = math.max(-low, high)
    low = -high
  end
  local dots = {}
  for i = 1, h do
    local row = {}
    for j = 1, w do
      if not image then
        local t = unit(list[1][i][j])
        row[j] = t and mix(span, t) or broken
        row[j].t = t
      elseif #list == 1 then
        local t = unit(list[1][i][j])
        local v = t and math.floor(t * 255 + 0.5)
        row[j] = v and {v, v, v, t = t} or broken
      else
        local r, g, b = unit(list[1][i][j]), unit(list[2][i][j]), unit(list[3][i][j])
        if r and g and b then
          local a = list[4] and (unit(list[4][i][j]) or 1) or 1
          -- What is transparent lets a middle grey through.
          local function c(v) return math.floor((v * a + 0.5 * (1 - a)) * 255 + 0.5) end
          row[j] = {c(r), c(g), c(b)}
          row[j].t = 0.3 * r + 0.59 * g + 0.11 * b
        else
          row[j] = broken
        end
      end
    end
    dots[i] = row
  end
  return dots, s, low, high, span
end

-- --- drawing ---

-- A colour of the terminal, as it stands in an escape sequence.
local function code(c, deep, layer)
  if deep then return ("%d;2;%d;%d;%d"):format(layer, c[1], c[2], c[3]) end
  -- The 256 colours: a cube of 6 x 6 x 6, and 24 greys.
  local r, g, b = c[1], c[2], c[3]
  if math.abs(r - g) < 10 and math.abs(g - b) < 10 then
    if r < 4 then return layer .. ";5;16" end
    if r > 246 then return layer .. ";5;231" end
    return ("%d;5;%d"):format(layer, 232 + math.min(23, math.max(0, (r - 8 + 5) // 10)))
  end
  local function six(v) return v < 48 and 0 or v < 115 and 1 or (v - 35) // 40 end
  return ("%d;5;%d"):format(layer, 16 + 36 * six(r) + 6 * six(g) + six(b))
end

heat.code = code

local function blocks(dots, deep)
  local lines = {}
  for i = 1, #dots, 2 do
    local out, before = {}, nil
    for j = 1, #dots[i] do
      local upper, lower = dots[i][j], dots[i + 1] and dots[i + 1][j]
      local now = code(upper, deep, 38) .. (lower and ";" .. code(lower, deep, 48) or ";49")
      if now ~= before then out[#out + 1] = "\27[" .. now .. "m" end
      out[#out + 1], before = "▀", now
    end
    lines[#lines + 1] = table.concat(out) .. "\27[0m"
  end
  return table.concat(lines, "\n")
end

local function number(v)
  local s = ("%.3g"):format(v)
  return (s:gsub("e([+-])0*(%d)", function(sign, d) return "e" .. (sign == "-" and "-" or "") .. d end))
end

local shades = {" ", "░", "▒", "▓", "█"}
-- Two characters side by side are about a square.
local function shaded(dots)
  local lines = {}
  for i, row in ipairs(dots) do
    local out = {}
    for j, c in ipairs(row) do
      local s = c.t and shades[math.min(5, math.floor(c.t * 5) + 1)] or "?"
      out[j] = s .. s
    end
    lines[i] = table.concat(out):gsub(" +$", "")
  end
  return table.concat(lines, "\n")
end

local function pixels(dots)
  local out = {}
  for _, row in ipairs(dots) do
    for _, c in ipairs(row) do out[#out + 1] = string.char(c[1], c[2], c[3]) end
  end
  return table.concat(out)
end

-- The picture itself, in pieces of at most 4096 bytes of base64.
local function kitty(dots, columns)
  local text, out, at = torch._base64(pixels(dots)), {}, 1
  local first = ("f=24,s=%d,v=%d,a=T,q=2%s,"):format(#dots[1], #dots, columns and ",c=" .. columns or "")
  while at <= #text do
    local last = math.min(#text, at + 4095)
    out[#out + 1] = ("\27_G%sm=%d;%s\27\\"):format(at == 1 and first or "", last < #text and 1 or 0, text:sub(at, last))
    at = last + 1
  end
  return table.concat(out)
end

-- Every dot k times as large.
local function enlarged(dots, k)
  if k == 1 then return dots end
  local out = {}
  for _, row in ipairs(dots) do
    local wide = {}
    for _, c in ipairs(row) do
      for _ = 1, k do wide[#wide + 1] = c end
    end
    for _ = 1, k do out[#out + 1] = wide end
  end
  return out
end

local function check(o)
  for k, v in pairs(o) do
    local want = options[k] or of_file[k]
    if not want then
      error(('show: no option "%s" (it has: colour, file, high, low, style, title, width, and for files: columns, font, fontsize, height, linewidth, rows, values, xlabel, ylabel)'):format(tostring(k)), 3)
    end
    if of_file[k] and not o.file then error(('show: %s is for a file; give file = "map.svg" too'):format(k), 3) end
    local ok = type(v) == want or (want == "integer" and math.tointeger(v) ~= nil)
    if ok and (want == "integer" or of_file[k] == "number") then ok = v >= 1 and v <= 10000 end
    if not ok then error(("show: %s cannot be %s"):format(k, tostring(v)), 3) end
  end
  if o.style and o.style ~= "kitty" and o.style ~= "blocks" and o.style ~= "shades" then
    error(('show: style must be "blocks", "shades" or "kitty", not "%s"'):format(o.style), 3)
  end
end

local function wanted(x, o)
  o = o or {}
  if type(o) ~= "table" or torch.is_tensor(o) then error('show: wants options in a table, as in x:show{style="kitty"}', 3) end
  check(o)
  if not torch.is_tensor(x) then error("show: wants a tensor, as in x:show()", 3) end
  return o
end

-- The values of few cells as texts.
local function texts_of(planes)
  local whole, out = not planes.dtype.is_floating_point, {}
  for i, row in ipairs(planes[1]:tolist()) do
    out[i] = {}
    for j, v in ipairs(row) do out[i][j] = type(v) == "boolean" and (v and "1" or "0") or (whole and "%d" or "%.2g"):format(v) end
  end
  return out
end

---A tensor as a figure for a file: a matrix with its rows' and columns' numbers or names (rows=, columns=), its values
---where they fit (values = true) and what the colours mean; a picture alone unless it has a title or labels.
function heat.figure(x, o)
  local own = {file = "figure.svg"}
  for k, v in pairs(o) do own[k] = v end
  o = wanted(x, own)
  if x:numel() == 0 then error(("show: there is nothing to draw in a tensor of shape %s"):format(tostring(x.shape)), 3, "shape") end
  return torch.no_grad(function()
    local planes, image = planes_of(x:detach())
    local rows, columns = planes.shape[2], planes.shape[3]
    local shrink = math.max(1, rows / 1024, columns / 1024)
    local dots, _, low, high, span = dots_of(planes, image, math.max(1, math.floor(rows / shrink)), math.max(1, math.floor(columns / shrink)), o)
    local figure = {cells = dots, rows = rows, columns = columns, title = o.title, xlabel = o.xlabel, ylabel = o.ylabel, row_names = o.rows,
      column_names = o.columns, bare = image and not (o.title or o.xlabel or o.ylabel or o.rows or o.columns),
      show = function() heat.show(x, {title = o.title}) end}
    for name, n in pairs {rows = #dots, columns = #dots[1]} do
      if o[name] and #o[name] ~= n then error(("show: %s has %d names for %d %s"):format(name, #o[name], n, name), 4, "value") end
    end
    if not image then
      figure.bar = {low = number(low), high = number(high)}
      for i = 1, 64 do figure.bar[i] = mix(span, (i - 0.5) / 64) end
      if o.values and shrink == 1 and rows * columns <= 10000 then figure.texts = texts_of(planes:cpu()) end
    end
    return figure
  end)
end

---The text that x:show() prints.
function heat.text(x, o)
  o = wanted(x, o)
  local terminal = torch._terminal()
  local style = o.style
  if not style and terminal.terminal and os.getenv "TYCHO_GRAPHICS" == "kitty" then style = "kitty" end
  local coloured = terminal.colours
  if o.colour ~= nil then coloured = o.colour end
  style = style or (coloured and "blocks" or "shades")
  if o.file then
    if not o.file:lower():match "%.png$" and not o.file:lower():match "%.svg$" then
      error(('show: file must end in .svg or .png, not "%s"'):format(o.file), 2)
    end
    local figure = heat.figure(x, o)
    local file_options = {}
    for k, v in pairs(o) do file_options[k] = v end
    -- Pictures have their own size where that can be seen, else every dot is several.
    local wide, high = #figure.cells[1], #figure.cells
    if figure.bare and not o.width then
      file_options.width = wide * math.max(1, math.ceil(256 / math.max(wide, high)))
      if o.height then file_options.width = math.max(1, math.floor(o.height * wide / high + 0.5)) end
    end
    require("torch.plot")._draw("show", figure, file_options)
    return nil
  end
  local head = (o.title and o.title .. "\n" or "") .. torch._show(x, {line = true, values = false, width = 1000})
  if x:numel() == 0 then return head end
  return torch.no_grad(function()
    local planes, image = planes_of(x:detach())
    local columns = o.width or math.min(terminal.columns or 80, 200)
    local rows = math.max(4, (terminal.rows or 40) - 4)
    local h, w = planes.shape[2], planes.shape[3]
    local most_wide, most_high = columns, rows * 2
    if style == "shades" then most_wide, most_high = math.max(1, columns // 2), rows * 2 end
    if style == "kitty" then most_wide, most_high = 1024, 1024 end
    -- Both directions shrink alike, so that pictures keep their form; thin things keep their thickness.
    local shrink = math.max(1, h / most_high, w / most_wide)
    -- Few rows of a matrix, or few columns, stay apart.
    local least = image and 1 or 8
    local height = math.min(h, most_high, math.max(least, math.floor(h / shrink)))
    local width = math.min(w, most_wide, math.max(least, math.floor(w / shrink)))
    local dots, s, low, high = dots_of(planes, image, height, width, o)
    local grow = math.max(1, math.min(4, 32 // math.max(#dots, 1), most_wide // math.max(#dots[1], 1), 32 // math.max(#dots[1], 1)))
    local picture
    if style == "kitty" then
      picture = kitty(enlarged(dots, math.max(1, 128 // math.max(#dots, #dots[1]))))
    elseif style == "blocks" then
      local depth = os.getenv "COLORTERM"
      if #dots == 1 then dots[2] = dots[1] end
      picture = blocks(enlarged(dots, grow), depth == "truecolor" or depth == "24bit")
    else
      picture = shaded(dots)
    end
    local notes = {head, ("%s .. %s"):format(number(low), number(high))}
    if s.nan > 0 then notes[#notes + 1] = s.nan .. " nan" end
    if s.plus + s.minus > 0 then notes[#notes + 1] = (s.plus + s.minus) .. " inf" end
    if shrink > 1 then notes[#notes + 1] = ("shown as %d x %d"):format(#dots, #dots[1]) end
    local line, used = notes[1], #notes[1]
    for i = 2, #notes do
      local fits = used + 2 + #notes[i] <= columns
      line, used = line .. (fits and "  " or "\n  ") .. notes[i], fits and used + 2 + #notes[i] or 2 + #notes[i]
    end
    return line .. "\n" .. picture
  end)
end

---Draws a tensor in the terminal: a matrix or a vector as a heat map, [C, H, W] or [H, W, C] as a
---picture, [n, C, H, W] as a sheet of pictures. Options: style ("blocks", "shades", "kitty"), width, low, high, title, file ("x.svg" or "x.png"); in a file also
---rows and columns (names), values = true, xlabel, ylabel, height, font, fontsize.
function heat.show(x, o)
  if torch._display and torch.is_tensor(x) and x:numel() > 0 and not (o and (o.file or o.style)) then
    local named = {}
    for k, v in pairs(o or {}) do named[k] = v end
    local function plain() return heat.text(x, {colour = false, style = "shades", title = named.title, width = named.width}) end
    local function png()
      local path = os.tmpname()
      named.file = path .. ".png"
      local ok, message = pcall(heat.text, x, named)
      local file = ok and io.open(named.file, "rb")
      local bytes = file and file:read "a"
      if file then file:close() end
      os.remove(path)
      os.remove(named.file)
      if not ok then _G.error(message, 0) end
      return bytes
    end
    if torch._display {png = png, text = plain} then return end
  end
  local text = heat.text(x, o)
  if text then io.stdout:write(text, "\n") end
end

return heat
