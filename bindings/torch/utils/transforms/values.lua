-- What the transforms compute with the values of pixels: types, colours, brightness. Part of functional.lua.
local torch = torch
local error = torch._raise

return function(functional)
  local picture, number = functional._picture, functional._number

  local function colours(who, x)
    picture(who, x)
    local channels = x:size(-3)
    if channels ~= 1 and channels ~= 3 then
      error(("%s: wants pictures of 1 or 3 channels, not %s"):format(who, tostring(x.shape)), 3, "shape")
    end
    return channels
  end

  local function bound(x) return x:is_floating_point() and 1 or 255 end

  ---In another dtype; with `scale` values are scaled, too: 0..255 of uint8 and 0..1 of floating point mean the same.
  ---@param x Tensor
  ---@param dtype any
  ---@param scale? boolean
  ---@return Tensor
  function functional.to_dtype(x, dtype, scale)
    if type(dtype) == "table" then dtype, scale = dtype.dtype, dtype.scale end
    if type(scale) == "table" then scale = scale.scale end
    if not torch.is_tensor(x) then error(("to_dtype: wants a tensor, not a %s"):format(type(x)), 2) end
    dtype = dtype or torch.float32
    local y = scale and x or x:to(dtype)
    if not scale then return y end
    local to_float = torch.empty(0, {dtype = dtype}):is_floating_point()
    if x:is_floating_point() == to_float then return x:to(dtype) end
    if to_float then return x:to(dtype):div(255) end
    return (x * (255 + 1 - 1e-3)):clamp(0, 255):to(dtype)
  end

  ---(x - mean) / std of each channel.
  ---@param x Tensor floating point
  ---@param mean number[]
  ---@param std number[]
  ---@return Tensor
  function functional.normalize(x, mean, std)
    picture("normalize", x)
    if not x:is_floating_point() then
      error(("normalize: wants floating point, not %s; ToDtype(torch.float32, {scale = true}) comes before"):format(tostring(x.dtype)), 2, "dtype")
    end
    local function column(name, v)
      if not torch.is_tensor(v) then v = torch.tensor(type(v) == "table" and v or {v}) end
      if v.ndim ~= 1 or (#v ~= 1 and #v ~= x:size(-3)) then
        error(("normalize: %s must have 1 or %d numbers, one for each channel, not %s"):format(name, x:size(-3), tostring(v.shape)), 3, "shape")
      end
      return v:to(x.dtype):to(x.device):view(-1, 1, 1)
    end
    local deviation = column("std", std)
    if deviation:eq(0):any():item() then error("normalize: std holds 0, which nothing can be divided by", 2, "value") end
    return (x - column("mean", mean)) / deviation
  end

  local function brightness_of(x)
    if x:size(-3) == 1 then return x:is_floating_point() and x or x:float() end
    local r, g, b = x:unbind(-3)
    return (r * 0.2989 + g * 0.587 + b * 0.114):unsqueeze(-3)
  end

  ---Grey: 0.2989 red + 0.587 green + 0.114 blue, in one channel or in three alike.
  ---@param x Tensor
  ---@param num_output_channels? integer
  ---@return Tensor
  function functional.rgb_to_grayscale(x, num_output_channels)
    colours("rgb_to_grayscale", x)
    local n = num_output_channels or 1
    if n ~= 1 and n ~= 3 then error(("rgb_to_grayscale: num_output_channels is 1 or 3, not %s"):format(tostring(n)), 2, "value") end
    local y = x:size(-3) == 1 and x or brightness_of(x):to(x.dtype)
    if n == 1 then return y end
    return torch.cat({y, y, y}, -3)
  end

  local function blended(x, other, ratio)
    local y = (x * ratio + other * (1 - ratio)):clamp(0, bound(x))
    return x:is_floating_point() and y or y:to(x.dtype)
  end

  ---Times brightness_factor.
  ---@return Tensor
  function functional.adjust_brightness(x, brightness_factor)
    colours("adjust_brightness", x)
    number("adjust_brightness", "brightness_factor", brightness_factor, 0)
    return (x * (brightness_factor + 0.0)):clamp(0, bound(x)):to(x.dtype)
  end

  ---Away from the mean brightness (factor above 1) or towards it (below).
  ---@return Tensor
  function functional.adjust_contrast(x, contrast_factor)
    local channels = colours("adjust_contrast", x)
    number("adjust_contrast", "contrast_factor", contrast_factor, 0)
    local grey = brightness_of(x)
    if channels == 3 and not x:is_floating_point() then grey = grey:floor() end
    return blended(x, grey:mean({-3, -2, -1}, {keepdim = true}), contrast_factor)
  end

  ---Away from grey (factor above 1) or towards it (below).
  ---@return Tensor
  function functional.adjust_saturation(x, saturation_factor)
    local channels = colours("adjust_saturation", x)
    number("adjust_saturation", "saturation_factor", saturation_factor, 0)
    if channels == 1 then return x end
    local grey = brightness_of(x)
    return blended(x, x:is_floating_point() and grey or grey:floor(), saturation_factor)
  end

  ---Colours turned on their wheel: by hue_factor of it, from -0.5 to 0.5.
  ---@return Tensor
  function functional.adjust_hue(x, hue_factor)
    local channels = colours("adjust_hue", x)
    number("adjust_hue", "hue_factor", hue_factor, -0.5, 0.5)
    if channels == 1 or x:numel() == 0 then return x end
    local y = functional.to_dtype(x, torch.float32, true)
    local r, g, b = y:unbind(-3)
    local most, least = y:amax(-3), y:amin(-3)
    local range = most - least
    local grey = range:eq(0)
    local divisor = torch.where(grey, torch.ones_like(range), range)
    local saturation = range / torch.where(grey, torch.ones_like(most), most)
    local is_r = most:eq(r)
    local is_g = most:eq(g) & ~is_r
    -- Where on the wheel, in sixths: from red, green or blue, whichever is the strongest.
    local hue = torch.where(is_r, (g - b) / divisor, torch.where(is_g, (b - r) / divisor + 2, (r - g) / divisor + 4))
    hue = ((hue / 6) % 1 + hue_factor) % 1
    local sixths = hue * 6
    local part = {}
    for i, offset in ipairs {5, 3, 1} do
      local k = (sixths + offset) % 6
      part[i] = most - most * saturation * torch.minimum(k, 4 - k):clamp(0, 1)
    end
    return functional.to_dtype(torch.stack(part, -3):clamp(0, 1), x.dtype, true)
  end

  ---The negative.
  ---@return Tensor
  function functional.invert(x) return bound(picture("invert", x)) - x end

  ---A rectangle (from row `top` and column `left`, from 1) replaced by `value`.
  ---@return Tensor
  function functional.erase(x, top, left, height, width, value)
    picture("erase", x)
    functional._places("erase", top, left, height, width)
    if type(value) ~= "number" and not torch.is_tensor(value) then error(("erase: value is a number or a tensor, not %s"):format(tostring(value)), 2) end
    local y = x:clone()
    y[{torch.ellipsis, {top, top + height - 1}, {left, left + width - 1}}] = value
    return y
  end
end
