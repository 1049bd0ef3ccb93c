-- What the transforms compute, as plain functions of pictures [.., channels, height, width], uint8 from 0 to 255 or
-- floating point from 0 to 1. Names and results are those of torchvision.transforms.v2.functional.
local torch = torch
local error = torch._raise
local F = torch.nn.functional
local arguments = require "torch.utils.arguments"
local functional = {}

-- --- help for all ---

local function picture(who, x)
  if not torch.is_tensor(x) then
    error(("%s: wants a picture, a tensor [.., channels, height, width], not a %s"):format(who, type(x)), 3)
  end
  if x.ndim < 3 then
    error(("%s: a picture is [.., channels, height, width], not %s; x:unsqueeze(1) adds the channel"):format(who, tostring(x.shape)), 3, "shape")
  end
  return x
end

local function number(who, name, v, least, most)
  if type(v) ~= "number" or v ~= v or v < least or v > (most or math.huge) then
    error(("%s: %s must be a number %s, not %s"):format(who, name, most and ("from %g to %g"):format(least, most) or ("from %g"):format(least), tostring(v)), 3, "value")
  end
  return v
end

-- A value in a message.
local function shown(v)
  if type(v) ~= "table" or getmetatable(v) then return torch.is_tensor(v) and "a tensor" or tostring(v) end
  local parts = {}
  for i, one in ipairs(v) do parts[i] = type(one) == "table" and "{..}" or torch.is_tensor(one) and "a tensor" or tostring(one) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- Two numbers {x, y}; nil stays nil.
local function point(who, name, v)
  if v == nil then return nil end
  if type(v) ~= "table" or type(v[1]) ~= "number" or type(v[2]) ~= "number" then
    error(("%s: %s is {x, y}, two numbers, not %s"):format(who, name, shown(v)), 3, "value")
  end
  return v
end

-- One whole number or {height, width}.
local function pair(who, name, v, least)
  local list = type(v) == "table" and v or {v, v}
  if #list == 1 then list = {list[1], list[1]} end
  for i = 1, 2 do
    if math.type(list[i]) ~= "integer" or list[i] < least or #list ~= 2 then
      error(("%s: %s must be a whole number or {height, width} from %d, not %s"):format(who, name, least,
        shown(v)), 3, "value")
    end
  end
  return list[1], list[2]
end
functional._pair, functional._picture, functional._number, functional._point = pair, picture, number, point

-- The nearest whole number, halves to the even one.
local function round(x)
  local low = math.floor(x)
  local rest = x - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then low = low + 1 end
  return math.tointeger(low)
end
functional._round = round

-- As a batch of four dimensions, in floating point (or bytes as they are); `back` undoes both, rounding whole numbers.
local function batched(x, keep_bytes)
  local shape, dtype = x.shape, x.dtype
  local y = x.ndim == 4 and x or x:reshape(-1, shape[#shape - 2], shape[#shape - 1], shape[#shape])
  if not x:is_floating_point() and not (keep_bytes and dtype == torch.uint8) then y = y:float() end
  return y, function(out)
    if out.dtype ~= dtype then out = out:round():clamp(0, 255):to(dtype) end
    if x.ndim == 4 then return out end
    local sizes = {}
    for i = 1, #shape - 3 do sizes[i] = shape[i] end
    for i = 2, 4 do sizes[#sizes + 1] = out:size(i) end
    return out:reshape(sizes)
  end
end

-- --- sizes and places ---

---Resized: to {height, width}, or with one number the shorter side to it. `interpolation` is "bilinear", "bicubic", "nearest" or
---"nearest-exact"; `max_size` bounds the longer side.
---@param x Tensor
---@param size integer|integer[]
---@return Tensor
function functional.resize(x, size, interpolation, max_size, antialias)
  local a = arguments("resize", {"x", "size", "interpolation", "max_size", "antialias", needed = 2}, {interpolation = "bilinear", antialias = true}, x, size, interpolation, max_size, antialias)
  x, size = picture("resize", a.x), a.size
  local height, width = x:size(-2), x:size(-1)
  if type(size) == "table" and #size == 1 then size = size[1] end
  local h, w
  if type(size) == "table" then
    if a.max_size then error("resize: max_size is for one size, which the shorter side gets", 2, "value") end
    h, w = pair("resize", "size", size, 1)
  else
    pair("resize", "size", size, 1)
    local short, long = math.min(height, width), math.max(height, width)
    if short == 0 then error(("resize: the picture is empty: %s"):format(tostring(x.shape)), 2, "shape") end
    local new_short, new_long = size, math.tointeger(size * long // short)
    if a.max_size then
      if math.type(a.max_size) ~= "integer" or a.max_size <= size then
        error(("resize: max_size = %s must be a whole number above size = %d"):format(tostring(a.max_size), size), 2, "value")
      end
      if new_long > a.max_size then new_short, new_long = a.max_size * new_short // new_long, a.max_size end
    end
    if width <= height then h, w = new_long, new_short else h, w = new_short, new_long end
  end
  if h == height and w == width then return x end
  local y, back = batched(x, true)
  local smooth = a.interpolation == "bilinear" or a.interpolation == "bicubic"
  if not smooth and a.interpolation ~= "nearest" and a.interpolation ~= "nearest-exact" then
    error(('resize: interpolation is "bilinear", "bicubic", "nearest" or "nearest-exact", not %s'):format(tostring(a.interpolation)), 2, "value")
  end
  local function interpolated(rows, columns)
    return F.interpolate(y, {size = {rows, columns}, mode = a.interpolation, antialias = smooth and a.antialias ~= false})
  end
  if smooth and x.dtype == torch.uint8 and w ~= width then  -- whole numbers between the two steps, as Pillow
    y = interpolated(height, w)
  end
  return back(interpolated(h, w))
end

-- left, top, right, bottom from one number, {horizontal, vertical} or all four.
local function margins(who, padding)
  local p = type(padding) == "table" and padding or {padding}
  for i = 1, #p do
    if math.type(p[i]) ~= "integer" then error(("%s: padding is counted in whole pixels, not %s"):format(who, tostring(p[i])), 4, "value") end
  end
  if #p == 1 then return p[1], p[1], p[1], p[1] end
  if #p == 2 then return p[1], p[2], p[1], p[2] end
  if #p == 4 then return p[1], p[2], p[3], p[4] end
  error(("%s: padding is one number, {left and right, top and bottom} or {left, top, right, bottom}"):format(who), 4, "value")
end
functional._margins = margins

-- One number, or one for each channel, as what broadcasts against a picture; nil for none.
local function filling(who, fill, x)
  if fill == nil then return nil end
  if type(fill) == "number" then return fill end
  if type(fill) ~= "table" or (#fill ~= 1 and #fill ~= x:size(-3)) then
    error(("%s: fill is one number or one for each of the %d channels"):format(who, x:size(-3)), 4, "value")
  end
  return torch.tensor(fill):to(x.device):view(#fill, 1, 1)
end

local modes = {constant = "constant", edge = "replicate", replicate = "replicate", reflect = "reflect", symmetric = "symmetric"}

---With margins around: padding is one number, {left and right, top and bottom} or {left, top, right, bottom}; they hold `fill`, or what
---padding_mode says: "edge", "reflect" or "symmetric".
---@param x Tensor
---@param padding integer|integer[]
---@return Tensor
function functional.pad(x, padding, fill, padding_mode)
  local a = arguments("pad", {"x", "padding", "fill", "padding_mode", needed = 2}, {fill = 0, padding_mode = "constant"}, x, padding, fill, padding_mode)
  x = picture("pad", a.x)
  local left, top, right, bottom = margins("pad", a.padding)
  local mode = modes[a.padding_mode]
  if not mode then error(('pad: padding_mode is "constant", "edge", "reflect" or "symmetric", not %s'):format(tostring(a.padding_mode)), 2, "value") end
  if left == 0 and top == 0 and right == 0 and bottom == 0 then return x end
  fill = filling("pad", a.fill, x)
  if mode == "symmetric" then
    local function places(before, n, after)
      if before > n or after > n or before < 0 or after < 0 then
        error(("pad: symmetric padding of %d and %d does not fit %d pixels"):format(before, after, n), 3, "shape")
      end
      local list = {}
      for i = before, 1, -1 do list[#list + 1] = i end
      for i = 1, n do list[#list + 1] = i end
      for i = n, n - after + 1, -1 do list[#list + 1] = i end
      return torch.tensor(list):to(x.device)
    end
    return x:index_select(-2, places(top, x:size(-2), bottom)):index_select(-1, places(left, x:size(-1), right))
  end
  local one = mode == "constant" and type(fill) == "number"
  if one then return F.pad(x, {left, right, top, bottom}, "constant", fill) end
  if mode == "constant" then
    local kept = F.pad(torch.ones(x:size(-2), x:size(-1), {dtype = "bool", device = x.device}), {left, right, top, bottom}, "constant", 0)
    return torch.where(kept, F.pad(x, {left, right, top, bottom}), fill:to(x.dtype))
  end
  local y, back = batched(x)
  return back(F.pad(y, {left, right, top, bottom}, mode))
end

-- Raises unless these are whole numbers, and the size above 0.
function functional._places(who, top, left, height, width)
  for i, row in ipairs {{"top", top}, {"left", left}, {"height", height}, {"width", width}} do
    local v = row[2]
    if math.type(v) ~= "integer" or v > 1 << 40 or v < -(1 << 40) or (i > 2 and v < 1) then
      error(("%s: %s must be a whole number%s, not %s"):format(who, row[1], i > 2 and " above 0" or "", shown(v)), 3, "value")
    end
  end
end

---The part from row `top` and column `left` on (both from 1), of this height and width; what lies outside is 0.
---@param x Tensor
---@param top integer
---@param left integer
---@param height integer
---@param width integer
---@return Tensor
function functional.crop(x, top, left, height, width)
  picture("crop", x)
  functional._places("crop", top, left, height, width)
  local bottom, right, h, w = top + height - 1, left + width - 1, x:size(-2), x:size(-1)
  if top < 1 or left < 1 or bottom > h or right > w then
    local y = x
    local before_y, before_x = math.max(0, 1 - top), math.max(0, 1 - left)
    y = F.pad(y, {before_x, math.max(0, right - w), before_y, math.max(0, bottom - h)})
    return y[{torch.ellipsis, {top + before_y, bottom + before_y}, {left + before_x, right + before_x}}]
  end
  return x[{torch.ellipsis, {top, bottom}, {left, right}}]
end

---The middle of a picture; where it is too small, with a margin of 0.
---@param x Tensor
---@param size integer|integer[]
---@return Tensor
function functional.center_crop(x, size)
  picture("center_crop", x)
  local h, w = pair("center_crop", "size", size, 1)
  local height, width = x:size(-2), x:size(-1)
  if h > height or w > width then
    local dy, dx = math.max(0, h - height), math.max(0, w - width)
    x = F.pad(x, {dx // 2, (dx + 1) // 2, dy // 2, (dy + 1) // 2})
    height, width = x:size(-2), x:size(-1)
  end
  return functional.crop(x, round((height - h) / 2) + 1, round((width - w) / 2) + 1, h, w)
end

---A part (as crop takes it), resized.
---@return Tensor
function functional.resized_crop(x, top, left, height, width, size, options)
  return functional.resize(functional.crop(x, top, left, height, width), size, options or {})
end

---Left and right exchanged.
---@return Tensor
function functional.hflip(x) return picture("hflip", x):flip(-1) end
---Top and bottom exchanged.
---@return Tensor
function functional.vflip(x) return picture("vflip", x):flip(-2) end

require "torch.utils.transforms.values"(functional)

local function gauss(size, sigma, like)
  local x = torch.arange(size):double() - (size - 1) / 2
  local k = (-(x / sigma) ^ 2 / 2):exp()
  return (k / k:sum()):to(like.dtype):to(like.device)
end

---Blurred by a bell of this size and width; pixels beyond the border are mirrored.
---@param x Tensor
---@param kernel_size integer|integer[] odd; {width, height} as in torchvision
---@param sigma? number|number[] 0.3 ((size - 1) / 2 - 1) + 0.8 unless given
---@return Tensor
function functional.gaussian_blur(x, kernel_size, sigma)
  picture("gaussian_blur", x)
  local kx, ky = pair("gaussian_blur", "kernel_size", kernel_size, 1)
  if kx % 2 == 0 or ky % 2 == 0 then error(("gaussian_blur: kernel_size must be odd, not %d x %d"):format(kx, ky), 2, "value") end
  local function width(i, size)
    local s = type(sigma) == "table" and (sigma[i] or sigma[1]) or sigma
    return s or 0.3 * ((size - 1) * 0.5 - 1) + 0.8
  end
  local sx, sy = width(1, kx), width(2, ky)
  if type(sx) ~= "number" or type(sy) ~= "number" then error(("gaussian_blur: sigma is a number or two, not %s"):format(shown(sigma)), 2, "value") end
  if not (sx > 0 and sy > 0) then error(("gaussian_blur: sigma must be above 0, not %s"):format(tostring(sx > 0 and sy or sx)), 2, "value") end
  if kx // 2 >= x:size(-1) or ky // 2 >= x:size(-2) then
    error(("gaussian_blur: a kernel of %d x %d does not fit a picture of %s"):format(kx, ky, tostring(x.shape)), 2, "shape")
  end
  local y, back = batched(x)
  local n, channels, height, breadth = table.unpack(y.shape)
  y = F.pad(y, {kx // 2, kx // 2, ky // 2, ky // 2}, "reflect"):view(n * channels, 1, height + ky - 1, breadth + kx - 1)
  y = F.conv2d(F.conv2d(y, gauss(kx, sx, y):view(1, 1, 1, kx)), gauss(ky, sy, y):view(1, 1, ky, 1))
  return back(y:view(n, channels, height, breadth))
end

-- --- turned and sheared ---

-- The inverse of: shear, turn and scale about `center`, then move; six numbers that lead from the result's pixels to
-- the picture's.
local function inverse_matrix(angle, translate, scale, shear, center)
  local rot, sx, sy = math.rad(angle), math.rad(shear[1]), math.rad(shear[2])
  local a = math.cos(rot - sy) / math.cos(sy)
  local b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
  local c = math.sin(rot - sy) / math.cos(sy)
  local d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
  local m = {d / scale, -b / scale, 0, -c / scale, a / scale, 0}
  local x, y = -center[1] - translate[1], -center[2] - translate[2]
  m[3], m[6] = m[1] * x + m[2] * y + center[1], m[4] * x + m[5] * y + center[2]
  return m
end

local function sampled(who, x, m, height, width, interpolation, fill)
  if interpolation ~= "nearest" and interpolation ~= "bilinear" then
    error(('%s: interpolation is "nearest" or "bilinear", not %s'):format(who, tostring(interpolation)), 4, "value")
  end
  local y, back = batched(x)
  local h, w = x:size(-2), x:size(-1)
  local px = (torch.arange(width):double() + 0.5 - width / 2):view(1, width)
  local py = (torch.arange(height):double() + 0.5 - height / 2):view(height, 1)
  local grid = torch.stack({(px * m[1] + py * m[2] + m[3]) / (w / 2), (px * m[4] + py * m[5] + m[6]) / (h / 2)}, -1)
  grid = grid:to(y.dtype):to(y.device):unsqueeze(1)
  local value = filling(who, fill, x)
  local flat = value ~= nil and torch.cat({y, torch.ones_like(y[{{}, {1, 1}}])}, 2) or y
  local out = F.grid_sample(flat, grid:expand(#y, -1, -1, -1), {mode = interpolation, padding_mode = "zeros", align_corners = false})
  if value ~= nil then
    local inside = out[{{}, {-1, -1}}]
    out = out[{{}, {1, -2}}]
    if interpolation == "nearest" then inside = inside:ge(0.5):to(y.dtype) end
    out = out * inside + (1 - inside) * value
  end
  return back(out)
end

---Turned by `angle` degrees against the clock; with `expand` large enough to hold all of it; `fill` (0) is what appears at the border;
---`center` is {x, y} from the upper left corner (the middle unless given).
---@param x Tensor
---@param angle number
---@return Tensor
function functional.rotate(x, angle, interpolation, expand, center, fill)
  local a = arguments("rotate", {"x", "angle", "interpolation", "expand", "center", "fill", needed = 2}, {interpolation = "nearest", expand = false}, x, angle, interpolation, expand, center, fill)
  x = picture("rotate", a.x)
  number("rotate", "angle", a.angle, -1e9, 1e9)
  point("rotate", "center", a.center)
  local height, width = x:size(-2), x:size(-1)
  local angle = a.angle % 360
  local center = a.center and {a.center[1] - width / 2, a.center[2] - height / 2} or {0, 0}
  local m = inverse_matrix(-angle, {0, 0}, 1, {0, 0}, center)
  local h, w = height, width
  if a.expand then  -- the box around the turned corners
    local c, s = math.abs(math.cos(math.rad(angle))), math.abs(math.sin(math.rad(angle)))
    local function whole_pixels(size, half)  -- hairs of 1e-4 do not count
      local function cut(v) return (v < 0 and math.ceil or math.floor)(v / 1e-4) * 1e-4 end
      return math.tointeger(math.ceil(cut(size + half)) - math.floor(cut(half - size)))
    end
    w, h = whole_pixels((width * c + height * s) / 2, width / 2), whole_pixels((width * s + height * c) / 2, height / 2)
  end
  return sampled("rotate", x, m, h, w, a.interpolation, a.fill)
end

---Turned by `angle` degrees with the clock, moved by `translate` = {x, y} pixels, scaled and sheared ({x, y} degrees), about `center`.
---@param x Tensor
---@param angle number
---@param translate number[]
---@param scale number
---@param shear number|number[]
---@return Tensor
function functional.affine(x, angle, translate, scale, shear, interpolation, fill, center)
  local a = arguments("affine", {"x", "angle", "translate", "scale", "shear", "interpolation", "fill", "center", needed = 1},
    {angle = 0, translate = {0, 0}, scale = 1, shear = {0, 0}, interpolation = "nearest"}, x, angle, translate, scale, shear, interpolation, fill, center)
  x = picture("affine", a.x)
  number("affine", "angle", a.angle, -1e9, 1e9)
  point("affine", "center", a.center)
  point("affine", "translate", a.translate)
  for _, v in ipairs(type(a.shear) == "table" and a.shear or {a.shear}) do number("affine", "shear", v, -1e9, 1e9) end
  if type(a.scale) ~= "number" or not (a.scale > 0) then error(("affine: scale must be above 0, not %s"):format(tostring(a.scale)), 2, "value") end
  local shear = type(a.shear) == "table" and {a.shear[1] or 0, a.shear[2] or 0} or {a.shear, 0}
  local height, width = x:size(-2), x:size(-1)
  local center = a.center and {a.center[1] - width / 2, a.center[2] - height / 2} or {0, 0}
  return sampled("affine", x, inverse_matrix(a.angle, a.translate, a.scale, shear, center), height, width, a.interpolation, a.fill)
end

return functional
