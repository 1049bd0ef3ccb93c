-- torch.utils.data.transforms: changes of pictures [.., channels, height, width] on their way into training, alone or
-- one after the other. Named as torchvision.transforms.v2; drawn from torch's random numbers in the same order, so that the
-- same seed gives the same pictures. They are plain tables, which cross into the workers of a DataLoader.
local torch = torch
local error = torch._raise
local data = require "torch.utils.data"
local arguments = require "torch.utils.arguments"
local functional = require "torch.utils.transforms.functional"
local transforms = {functional = functional, make_grid = data.make_grid, save_image = data.save_image}  -- torchvision.utils

-- --- the base ---

local function shown(v)
  if type(v) ~= "table" or getmetatable(v) then return type(v) == "string" and ("%q"):format(v) or type(v) == "function" and "function" or tostring(v) end
  local parts = {}
  for i, one in ipairs(v) do parts[i] = shown(one) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function describe(self)
  local list = rawget(self, "transforms")
  local parts = {}
  if list then
    for i, t in ipairs(list) do parts[i] = (shown(t):gsub("\n", "\n  ")) end
    if self.p then parts[#parts + 1] = "p = " .. shown(self.p) end
    return self._name .. "(\n  " .. table.concat(parts, "\n  ") .. ")"
  end
  for key, v in next, self do
    if key:sub(1, 1) ~= "_" then parts[#parts + 1] = key .. " = " .. shown(v) end
  end
  table.sort(parts)
  return ("%s(%s)"):format(self._name, table.concat(parts, ", "))
end

---The base of transforms. To write one: local Mine = transforms.class("Mine"), function Mine:init(..), function Mine:forward(x). It is called
---with a picture; further arguments (labels) pass as they are, and of a sample {x, y} the first part is changed.
transforms.Transform = data._class("Transform")
transforms.Transform.__tostring = describe
function transforms.Transform:forward()
  error(("%s has no forward(x): define function %s:forward(x)"):format(self._name, self._name), 3)
end
transforms.Transform.__call = function(self, x, ...)
  if type(x) == "table" and getmetatable(x) == nil and torch.is_tensor(x[1]) then
    local sample = {}
    for key, v in next, x do sample[key] = v end
    sample[1] = self:forward(x[1])
    return sample
  end
  return self:forward(x), ...
end

---A class of transforms of one's own; define init(..) and forward(x).
---@param name string
---@param base? table
---@return table
function transforms.class(name, base) return data._class(name, base or transforms.Transform) end

-- A class whose objects hold their arguments; `check` looks at them.
local function define(name, names, defaults, check, forward)
  local c = transforms.class(name)
  c._names = names
  function c:init(...)
    local a = arguments(name, names, defaults, ...)
    for key, value in next, a do self[key] = value end
    if check then check(self) end
  end
  c.forward = forward
  transforms[name] = c
  return c
end

-- --- draws, in torchvision's order ---

local function uniform(low, high) return torch.empty(1):uniform_(low, high):item() end
local function chance(p) return torch.rand(1):item() < p end
local function whole(n) return torch.randint(0, n, {1}):item() end  -- 0 to n - 1

local function probability(self)
  if type(self.p) ~= "number" or not (self.p >= 0 and self.p <= 1) then
    error(("%s: p is a probability from 0 to 1, not %s"):format(self._name, tostring(self.p)), 4, "value")
  end
end

-- A field as {low, high}.
local function range(self, name, least, most)
  local v = self[name]
  if type(v) ~= "table" or #v ~= 2 or type(v[1]) ~= "number" or type(v[2]) ~= "number" or not (v[1] <= v[2]) or v[1] < least or v[2] > (most or math.huge) then
    error(("%s: %s is {low, high}%s, not %s"):format(self._name, name, most and (" within %g and %g"):format(least, most) or (" from %g on"):format(least), shown(v)), 4, "value")
  end
end

local function size_of(self) functional._pair(self._name, "size", self.size, 1) end
local function interpolated(self)
  local known = {bilinear = true, bicubic = true, nearest = true, ["nearest-exact"] = true}
  if not known[self.interpolation] then
    error(('%s: interpolation is "bilinear", "bicubic", "nearest" or "nearest-exact", not %s'):format(self._name, shown(self.interpolation)), 4, "value")
  end
end

-- --- one after the other ---

local function callables(self)
  local list = self.transforms
  if type(list) ~= "table" then error(("%s: wants a list of transforms"):format(self._name), 4) end
  for i = 1, #list do
    local t = list[i]
    local meta = type(t) == "table" and getmetatable(t)
    if type(t) ~= "function" and not (meta and meta.__call and rawget(t, "__index") == nil) then
      error(("%s: item %d is no transform but %s%s"):format(self._name, i, type(t) == "table" and rawget(t, "_name") and "the class " .. t._name or "a " .. type(t),
        type(t) == "table" and rawget(t, "_name") and ("; call it: %s()"):format(t._name) or ""), 4)
    end
  end
end

-- The list is the first argument, or all arguments are transforms.
local function listed(c)
  local init = c.init
  function c:init(first, ...)
    local meta = type(first) == "table" and getmetatable(first)
    if type(first) == "function" or (meta and meta.__call) then return init(self, {first, ...}) end
    if type(first) == "table" and first.transforms == nil and #first > 0 then
      local list, named = {}, {}
      for key, v in next, first do
        if type(key) == "string" then named[key] = v else list[key] = v end
      end
      if next(named) then return init(self, list, named) end
    end
    return init(self, first, ...)
  end
end

local function each(self, x, ...)
  for _, t in ipairs(self.transforms) do x = t(x) end
  return x
end
listed(define("Compose", {"transforms", needed = 1, list = true}, {}, callables, each))
---Several transforms, one after the other; labels pass through.
transforms.Compose.__call = transforms.Transform.__call

listed(define("RandomApply", {"transforms", "p", needed = 1, list = true}, {p = 0.5}, function(self)
  callables(self)
  probability(self)
end, function(self, x)
  if not chance(self.p) then return x end
  return each(self, x)
end))

listed(define("RandomChoice", {"transforms", "p", needed = 1, list = true}, {}, function(self)
  callables(self)
  if self.p and (type(self.p) ~= "table" or #self.p ~= #self.transforms) then error("RandomChoice: p has one probability for each transform", 4, "value") end
end, function(self, x)
  local weights = self.p and torch.tensor(self.p):double() or torch.ones(#self.transforms, {dtype = torch.float64})
  return self.transforms[torch.multinomial(weights, 1):item()](x)
end))

listed(define("RandomOrder", {"transforms", needed = 1, list = true}, {}, callables, function(self, x)
  for _, i in ipairs(torch.randperm(#self.transforms):tolist()) do x = self.transforms[i](x) end
  return x
end))

define("Lambda", {"lambd", needed = 1}, {}, function(self)
  if type(self.lambd) ~= "function" then error("Lambda: wants a function", 4) end
end, function(self, x) return self.lambd(x) end)

define("Identity", {}, {}, nil, function(_, x) return x end)

-- --- sizes and places ---

define("Resize", {"size", "interpolation", "max_size", "antialias", needed = 1, list = true}, {interpolation = "bilinear", antialias = true}, function(self)
  size_of(self)
  interpolated(self)
end, function(self, x)
  return functional.resize(x, self.size, {interpolation = self.interpolation, max_size = self.max_size, antialias = self.antialias})
end)

define("CenterCrop", {"size", needed = 1, list = true}, {}, size_of, function(self, x) return functional.center_crop(x, self.size) end)

define("Pad", {"padding", "fill", "padding_mode", needed = 1, list = true}, {fill = 0, padding_mode = "constant"}, function(self)
  functional._margins("Pad", self.padding)
end, function(self, x) return functional.pad(x, self.padding, {fill = self.fill, padding_mode = self.padding_mode}) end)

define("RandomCrop", {"size", "padding", "pad_if_needed", "fill", "padding_mode", needed = 1, list = true},
  {pad_if_needed = false, fill = 0, padding_mode = "constant"}, function(self)
    size_of(self)
    if self.padding ~= nil then functional._margins("RandomCrop", self.padding) end
  end, function(self, x)
    local h, w = functional._pair("RandomCrop", "size", self.size, 1)
    functional._picture("RandomCrop", x)
    local function padded(padding) x = functional.pad(x, padding, {fill = self.fill, padding_mode = self.padding_mode}) end
    if self.padding then padded(self.padding) end
    if self.pad_if_needed then
      local dy, dx = math.max(0, h - x:size(-2)), math.max(0, w - x:size(-1))
      if dy > 0 or dx > 0 then padded {dx, dy, dx, dy} end
    end
    local height, width = x:size(-2), x:size(-1)
    if height < h or width < w then
      error(("RandomCrop: %d x %d does not fit a picture of %d x %d; pad_if_needed = true pads it"):format(h, w, height, width), 2, "shape")
    end
    local top = height > h and whole(height - h + 1) or 0
    local left = width > w and whole(width - w + 1) or 0
    return functional.crop(x, top + 1, left + 1, h, w)
  end)

define("RandomResizedCrop", {"size", "scale", "ratio", "interpolation", "antialias", needed = 1, list = true},
  {scale = {0.08, 1.0}, ratio = {3 / 4, 4 / 3}, interpolation = "bilinear", antialias = true}, function(self)
    size_of(self)
    range(self, "scale", 0)
    range(self, "ratio", 1e-9)
    interpolated(self)
  end, function(self, x)
    functional._picture("RandomResizedCrop", x)
    local height, width = x:size(-2), x:size(-1)
    local size = {functional._pair("RandomResizedCrop", "size", self.size, 1)}
    local log_ratio = torch.tensor(self.ratio, {dtype = torch.float32}):log():tolist()
    local top, left, h, w
    for _ = 1, 10 do
      local area = height * width * uniform(self.scale[1], self.scale[2])
      local aspect = torch.empty(1):uniform_(log_ratio[1], log_ratio[2]):exp():item()
      w, h = functional._round(math.sqrt(area * aspect)), functional._round(math.sqrt(area / aspect))
      if w > 0 and w <= width and h > 0 and h <= height then
        top = whole(height - h + 1)
        left = whole(width - w + 1)
        break
      end
    end
    if not top then  -- the middle, as far as the ratio allows
      local ratio = width / height
      w, h = width, height
      if ratio < self.ratio[1] then
        h = math.max(1, functional._round(width / self.ratio[1]))
      elseif ratio > self.ratio[2] then
        w = math.max(1, functional._round(height * self.ratio[2]))
      end
      top, left = (height - h) // 2, (width - w) // 2
    end
    return functional.resized_crop(x, top + 1, left + 1, h, w, size, {interpolation = self.interpolation, antialias = self.antialias})
  end)

define("RandomHorizontalFlip", {"p"}, {p = 0.5}, probability, function(self, x) return chance(self.p) and functional.hflip(x) or x end)
define("RandomVerticalFlip", {"p"}, {p = 0.5}, probability, function(self, x) return chance(self.p) and functional.vflip(x) or x end)

-- degrees as {low, high}: one number means as far to both sides.
local function both_sides(self, name)
  local v = self[name]
  if type(v) == "number" then
    if v < 0 then error(("%s: %s = %g must not be negative; {low, high} says both ends"):format(self._name, name, v), 5, "value") end
    self[name] = {-v, v}
  end
  range(self, name, -math.huge)
end

define("RandomRotation", {"degrees", "interpolation", "expand", "center", "fill", needed = 1, list = true}, {interpolation = "nearest", expand = false, fill = 0}, function(self)
  both_sides(self, "degrees")
  functional._point("RandomRotation", "center", self.center)
end, function(self, x)
  return functional.rotate(x, uniform(self.degrees[1], self.degrees[2]), {interpolation = self.interpolation, expand = self.expand, center = self.center, fill = self.fill})
end)

define("RandomAffine", {"degrees", "translate", "scale", "shear", "interpolation", "fill", "center", needed = 1, list = true}, {interpolation = "nearest", fill = 0}, function(self)
  both_sides(self, "degrees")
  if self.translate then
    for i = 1, 2 do functional._number("RandomAffine", "translate", type(self.translate) == "table" and self.translate[i] or nil, 0, 1) end
  end
  if self.scale then range(self, "scale", 1e-9) end
  functional._point("RandomAffine", "center", self.center)
  if type(self.shear) == "table" and #self.shear == 4 then return end
  if self.shear then both_sides(self, "shear") end
end, function(self, x)
  functional._picture("RandomAffine", x)
  local angle = uniform(self.degrees[1], self.degrees[2])
  local translate, scale, shear = {0, 0}, 1, {0, 0}
  if self.translate then
    local dx, dy = self.translate[1] * x:size(-1), self.translate[2] * x:size(-2)
    translate = {functional._round(uniform(-dx, dx))}
    translate[2] = functional._round(uniform(-dy, dy))
  end
  if self.scale then scale = uniform(self.scale[1], self.scale[2]) end
  if self.shear then
    shear[1] = uniform(self.shear[1], self.shear[2])
    if #self.shear == 4 then shear[2] = uniform(self.shear[3], self.shear[4]) end
  end
  return functional.affine(x, angle, translate, scale, shear, {interpolation = self.interpolation, fill = self.fill, center = self.center})
end)

-- --- values ---

define("ToDtype", {"dtype", "scale"}, {scale = false}, nil, function(self, x) return functional.to_dtype(x, self.dtype, self.scale) end)
define("ConvertImageDtype", {"dtype"}, {}, nil, function(self, x) return functional.to_dtype(x, self.dtype, true) end)
---Pictures as float32 from 0 to 1.
define("ToTensor", {}, {}, nil, function(_, x) return functional.to_dtype(x, torch.float32, true) end)

define("Normalize", {"mean", "std", needed = 2}, {}, nil, function(self, x) return functional.normalize(x, self.mean, self.std) end)
define("Grayscale", {"num_output_channels"}, {num_output_channels = 1}, nil, function(self, x) return functional.rgb_to_grayscale(x, self.num_output_channels) end)
define("RandomGrayscale", {"p"}, {p = 0.1}, probability, function(self, x)
  functional._picture("RandomGrayscale", x)
  if not chance(self.p) then return x end
  return functional.rgb_to_grayscale(x, x:size(-3))
end)
define("RandomInvert", {"p"}, {p = 0.5}, probability, function(self, x) return chance(self.p) and functional.invert(x) or x end)

local jitters = {
  {"brightness", functional.adjust_brightness}, {"contrast", functional.adjust_contrast}, {"saturation", functional.adjust_saturation},
  {"hue", functional.adjust_hue},
}
define("ColorJitter", {"brightness", "contrast", "saturation", "hue"}, {}, function(self)
  for _, row in ipairs(jitters) do
    local name = row[1]
    local v = self[name]
    local center = name == "hue" and 0 or 1
    if type(v) == "number" then
      if v < 0 then error(("ColorJitter: %s = %g must not be negative; {low, high} says both ends"):format(name, v), 4, "value") end
      self[name] = {name == "hue" and -v or math.max(0, 1 - v), center + v}
    end
    if self[name] ~= nil then
      range(self, name, name == "hue" and -0.5 or 0, name == "hue" and 0.5 or nil)
      if self[name][1] == center and self[name][2] == center then self[name] = nil end
    end
  end
end, function(self, x)
  local order, factor = torch.randperm(4):tolist(), {}
  for i, row in ipairs(jitters) do
    local v = self[row[1]]
    if v then factor[i] = uniform(v[1], v[2]) end
  end
  for _, i in ipairs(order) do
    if factor[i] then x = jitters[i][2](x, factor[i]) end
  end
  return x
end)

define("GaussianBlur", {"kernel_size", "sigma", needed = 1, list = true}, {sigma = {0.1, 2.0}}, function(self)
  local a, b = functional._pair("GaussianBlur", "kernel_size", self.kernel_size, 1)
  if a % 2 == 0 or b % 2 == 0 then error("GaussianBlur: kernel_size must be odd", 4, "value") end
  if type(self.sigma) == "number" then self.sigma = {self.sigma, self.sigma} end
  range(self, "sigma", 1e-9)
end, function(self, x) return functional.gaussian_blur(x, self.kernel_size, uniform(self.sigma[1], self.sigma[2])) end)

define("RandomErasing", {"p", "scale", "ratio", "value"}, {p = 0.5, scale = {0.02, 0.33}, ratio = {0.3, 3.3}, value = 0}, function(self)
  probability(self)
  range(self, "scale", 0, 1)
  range(self, "ratio", 1e-9)
end, function(self, x)
  functional._picture("RandomErasing", x)
  if not chance(self.p) then return x end
  local channels, height, width = x:size(-3), x:size(-2), x:size(-1)
  local log_ratio = torch.tensor(self.ratio, {dtype = torch.float32}):log():tolist()
  for _ = 1, 10 do
    local area = height * width * uniform(self.scale[1], self.scale[2])
    local aspect = torch.empty(1):uniform_(log_ratio[1], log_ratio[2]):exp():item()
    local h, w = functional._round(math.sqrt(area * aspect)), functional._round(math.sqrt(area / aspect))
    if h > 0 and w > 0 and h < height and w < width then
      local value
      if self.value == "random" then
        value = torch.randn(channels, h, w):to(x.dtype)
      else
        local list = type(self.value) == "table" and self.value or {self.value}
        if #list ~= 1 and #list ~= channels then
          error(("RandomErasing: value is one number, one for each of the %d channels, or \"random\""):format(channels), 2, "value")
        end
        value = torch.tensor(list):to(x.dtype):view(-1, 1, 1)
      end
      local top = whole(height - h + 1)
      local left = whole(width - w + 1)
      return functional.erase(x, top + 1, left + 1, h, w, value:to(x.device))
    end
  end
  return x
end)

torch._strict(functional, "torch.utils.data.transforms.functional")
return torch._strict(transforms, "torch.utils.data.transforms")
