-- Pictures as tensors: read_image, write_image, decode_image, encode_image, make_grid, save_image. Named and shaped as
-- torchvision's: uint8 [channels, height, width].
local torch = torch
local error = torch._raise
local arguments = require "torch.utils.arguments"

return function(data)
  local modes = {unchanged = 0, gray = 1, grey = 1, rgb = 3, rgba = 4}
  local most_pixels = 1 << 28

  -- The arguments that the C++ side takes, from mode=, dtype=, max_pixels=.
  local function wanted(who, a)
    local channels = type(a.mode) == "string" and modes[a.mode:lower()]
    if not channels then
      error(('%s: mode is "unchanged", "gray", "rgb" or "rgba", not %s'):format(who, tostring(a.mode)), 3, "value")
    end
    local dtype = tostring(a.dtype):gsub("^torch%.", "")
    if dtype ~= "uint8" and dtype ~= "float32" then
      error(("%s: dtype is uint8 (0 to 255) or float32 (0 to 1), not %s"):format(who, dtype), 3, "dtype")
    end
    if math.type(a.max_pixels) ~= "integer" or a.max_pixels < 1 then
      error(("%s: max_pixels must be a whole number above 0, not %s"):format(who, tostring(a.max_pixels)), 3, "value")
    end
    return channels, dtype == "float32", a.max_pixels
  end

  local function scaled(x, float)
    if not float then return x end
    return x.dtype == torch.uint8 and x:float():div_(255) or x:double():div_(65535):float()
  end

  local defaults = {mode = "unchanged", dtype = "uint8", max_pixels = most_pixels}

  ---Reads a picture (PNG, JPEG, PPM, PGM or PBM, whatever its name) as uint8 [channels, height, width]. `mode` is
  ---"unchanged" (1 to 4 channels, as the file has them; palettes become RGB), "gray", "rgb" or "rgba". Samples of 16 bits
  ---are rounded to 8; with dtype = "float32" all become numbers from 0 to 1 instead. The orientation that a camera notes in
  ---a JPEG is left alone. Pictures above `max_pixels` are refused before memory is taken.
  ---@param path string
  ---@param options? {mode: string, dtype: string, max_pixels: integer}
  ---@return Tensor
  function data.read_image(path, options)
    local a = arguments("read_image", {"path", "mode", "dtype", "max_pixels", needed = 1}, defaults, path, options)
    if type(a.path) ~= "string" then error(("read_image: the path must be a string, not a %s"):format(type(a.path)), 2) end
    local channels, float, most = wanted("read_image", a)
    return scaled(torch._read_image(a.path, channels, float, most), float)
  end

  ---A picture from the bytes of its file: a string or a tensor uint8 [n]; otherwise as read_image.
  ---@param bytes string|Tensor
  ---@param options? {mode: string, dtype: string, max_pixels: integer}
  ---@return Tensor
  function data.decode_image(bytes, options)
    local a = arguments("decode_image", {"bytes", "mode", "dtype", "max_pixels", needed = 1}, defaults, bytes, options)
    local channels, float, most = wanted("decode_image", a)
    return scaled(torch._decode_image(a.bytes, channels, float, most), float)
  end

  local formats = {png = "png", jpg = "jpeg", jpeg = "jpeg", ppm = "pnm", pgm = "pnm", pnm = "pnm"}

  -- A picture as the encoders take it: [height, width, channels] of uint8, or int32 for 16 bits.
  local function prepared(x, who, format, bits, quality)
    if not torch.is_tensor(x) then error(("%s: wants a tensor, not a %s"):format(who, type(x)), 3) end
    local y = x.ndim == 2 and x:unsqueeze(1) or x  -- errors show x
    local channels, most = y.ndim == 3 and y.shape[1] or 0, format == "png" and 4 or 3
    if channels < 1 or channels > most or (channels == 2 and most == 3) or x:numel() == 0 then
      error(("%s: a %s picture is [height, width], [1, ..]%s or [3, ..]%s, not %s"):format(who, format == "pnm" and "PPM" or format:upper(),
        most == 4 and ", [2, ..]" or "", most == 4 and " or [4, height, width]" or "", tostring(x.shape)), 3, "shape")
    end
    if bits ~= 8 and bits ~= 16 then error(("%s: bits is 8 or 16, not %s"):format(who, tostring(bits)), 3, "value") end
    if math.type(quality) ~= "integer" or quality < 1 or quality > 100 then
      error(("%s: quality is a whole number from 1 to 100, not %s"):format(who, tostring(quality)), 3, "value")
    end
    if bits == 16 and format == "jpeg" then error(who .. ": a JPEG has 8 bits; PNG and PPM have 16 too", 3, "value") end
    y = y:detach():cpu():permute(2, 3, 1)
    if y:is_floating_point() then
      local full = bits == 16 and 65535 or 255
      local most = y:nan_to_num(0):max():item()
      if most > 2 then require("torch.notes").tell("WHITE", "picture", {max = ("%.4g"):format(most)}) end
      y = (y:nan_to_num(0) * full + 0.5):clamp(0, full):to(bits == 16 and torch.int32 or torch.uint8)
    elseif y.dtype == torch.uint8 then
      if bits == 16 then y = y:int() * 257 end
    else
      error(("%s: a picture is uint8 (0 to 255) or floating point (0 to 1), not %s; x:byte() makes it so"):format(who, tostring(x.dtype)), 3, "dtype")
    end
    return y:contiguous()
  end

  ---The bytes of a picture's file, as a string: "png", "jpeg" or "ppm". See write_image.
  ---@param x Tensor
  ---@param format string
  ---@param options? {quality: integer, bits: integer}
  ---@return string
  function data.encode_image(x, format, options)
    local a = arguments("encode_image", {"input", "format", "quality", "bits", needed = 2}, {quality = 75, bits = 8}, x, format, options)
    format = formats[a.format]
    if not format then error(('encode_image: format is "png", "jpeg" or "ppm", not %s'):format(tostring(a.format)), 2, "value") end
    return torch._encode_image(prepared(a.input, "encode_image", format, a.bits, a.quality), format, a.quality)
  end

  local grid_names = {"tensor", "nrow", "padding", "normalize", "value_range", "scale_each", "pad_value", needed = 1}
  local grid_defaults = {nrow = 8, padding = 2, normalize = false, scale_each = false, pad_value = 0}
  local write_names = table.move(grid_names, 2, #grid_names, 5, {"input", "path", "quality", "bits", needed = 2})

  local function is_list(v) return type(v) == "table" and getmetatable(v) == nil and torch.is_tensor(v[1]) end

  ---Writes a picture; the end of the name says how: .png, .jpg, .ppm or .pgm. It is uint8, or floating point from 0 to 1, of
  ---shape [height, width], [1, ..] or [3, height, width], in a PNG also [2, ..] (grey, alpha) and [4, ..] (RGB, alpha). Of a
  ---batch [n, channels, height, width], or a list of pictures, it makes one sheet; options are then make_grid's too.
  ---@param x Tensor
  ---@param path string
  ---@param options? {quality: integer, bits: integer, nrow: integer, padding: integer, pad_value: number} quality of a JPEG (75); 8 or 16 bits in PNG and PPM
  function data.write_image(x, path, options)
    if is_list(x) and type(path) == "string" and #x == 1 then x = x[1] end
    local a = arguments("write_image", write_names, {quality = 75, bits = 8}, x, path, options)
    if type(a.input) == "string" and (torch.is_tensor(a.path) or is_list(a.path)) then a.input, a.path = a.path, a.input end
    if is_list(a.input) or torch.is_tensor(a.input) and a.input.ndim == 4 then
      local grid = {}
      for i = 2, #grid_names do grid[grid_names[i]] = a[grid_names[i]] end
      a.input = data.make_grid(a.input, grid)
    else
      for i = 2, #grid_names do
        if a[grid_names[i]] ~= nil then
          error(("write_image: %s is for many pictures; the input is one, of shape %s"):format(grid_names[i],
            torch.is_tensor(a.input) and tostring(a.input.shape) or "a " .. type(a.input)), 2)
        end
      end
    end
    if type(a.path) ~= "string" then error(("write_image: the path must be a string, not a %s"):format(type(a.path)), 2) end
    local ending = a.path:match "%.(%w+)$"
    local format = formats[(ending or ""):lower()]
    if not format then
      error(("write_image: the name must end with .png, .jpg, .ppm or .pgm, not %s"):format(ending and "." .. ending or "without an ending"), 2, "value")
    end
    torch._write_image(prepared(a.input, "write_image", format, a.bits, a.quality), format, a.quality, a.path)
  end

  local function normalized(x, range)
    local low, high
    if range then low, high = range[1], range[2] else low, high = x:min():item(), x:max():item() end
    return (x:clamp(low, high) - low) / math.max(high - low, 1e-5)
  end

  -- A list of pictures as one tensor: grey ones become RGB beside others.
  local function joined(list)
    local channels, first = 1, nil
    for i, x in ipairs(list) do
      if not torch.is_tensor(x) or x.ndim < 2 or x.ndim > 3 then
        error(("make_grid: item %d is no picture [channels, height, width] but %s"):format(i, torch.is_tensor(x) and "of shape " .. tostring(x.shape) or "a " .. type(x)), 3, "shape")
      end
      channels = math.max(channels, x.ndim == 3 and x.shape[1] or 1)
    end
    local out = {}
    for i, x in ipairs(list) do
      if x.ndim == 2 then x = x:unsqueeze(1) end
      if x.shape[1] == 1 and channels > 1 then x = x:expand(channels, -1, -1) end
      first = first or x
      if x.shape[1] ~= first.shape[1] then
        error(("make_grid: pictures have different channels, item 1 %s and item %d %s; data.read_image(path, {mode = \"rgb\"}) reads all alike"):format(
          tostring(first.shape), i, tostring(x.shape)), 3, "shape")
      end
      if x.shape ~= first.shape then
        error(("make_grid: pictures have different sizes, item 1 %s and item %d %s; data.transforms.Resize{64, 64}(picture) gives all one size"):format(
          tostring(first.shape), i, tostring(x.shape)), 3, "shape")
      end
      if x.dtype ~= first.dtype then
        error(("make_grid: pictures have different types, item 1 %s and item %d %s; picture:float() / 255 makes 0 to 1 of bytes"):format(
          tostring(first.dtype), i, tostring(x.dtype)), 3, "dtype")
      end
      out[i] = x
    end
    return torch.stack(out)
  end

  ---Many pictures in one, a contact sheet: rows of `nrow`, with `padding` pixels of `pad_value` around each. `normalize` stretches the values to
  ---0..1, from `value_range` = {low, high} or their own least and largest (of each picture with `scale_each`).
  ---@param tensor Tensor [n, channels, height, width], or a list of [channels, height, width]
  ---@param options? {nrow: integer, padding: integer, normalize: boolean, value_range: number[], scale_each: boolean, pad_value: number}
  ---@return Tensor [channels, height, width]
  function data.make_grid(tensor, options)
    if is_list(tensor) and options == nil and next(tensor, #tensor) ~= nil then  -- make_grid{pictures, nrow = 4}
      local named = {}
      for k, v in pairs(tensor) do
        if type(k) == "string" then named[k] = v end
      end
      options, tensor = named, #tensor == 1 and tensor[1] or table.move(tensor, 1, #tensor, 1, {})
    end
    if is_list(tensor) then tensor = joined(tensor) end
    if type(tensor) == "table" and next(tensor) == nil then error("make_grid: there are no pictures in the list", 2, "shape") end
    local a = arguments("make_grid", grid_names, grid_defaults, tensor, options)
    local x = a.tensor
    if not torch.is_tensor(x) or x.ndim < 2 or x.ndim > 4 then
      error(("make_grid: wants pictures [n, channels, height, width] or a list of them, not %s"):format(
        torch.is_tensor(x) and tostring(x.shape) or "a " .. type(x)), 2, "shape")
    end
    for _, name in ipairs {"nrow", "padding"} do
      if math.type(a[name]) ~= "integer" or a[name] < (name == "nrow" and 1 or 0) then
        error(("make_grid: %s must be a whole number, not %s"):format(name, tostring(a[name])), 2, "value")
      end
    end
    if x.ndim == 2 then x = x:unsqueeze(1) end
    if x.ndim == 3 then x = x:unsqueeze(1) end
    if x:size(2) == 1 then x = x:expand(-1, 3, -1, -1) end
    if a.normalize then
      if not x:is_floating_point() then x = x:float() end
      if a.scale_each then
        local each = {}
        for i = 1, #x do each[i] = normalized(x[i], a.value_range) end
        x = torch.stack(each)
      else
        x = normalized(x, a.value_range)
      end
    end
    local n, channels, height, width = table.unpack(x.shape)
    if n == 0 then error("make_grid: there are no pictures", 2, "shape") end
    if n == 1 then return x[1]:clone() end
    local columns = math.min(a.nrow, n)
    local rows = (n + columns - 1) // columns
    local h, w = height + a.padding, width + a.padding
    local grid = torch.full({channels, h * rows + a.padding, w * columns + a.padding}, a.pad_value, {dtype = x.dtype, device = x.device})
    for i = 0, n - 1 do
      local top, left = i // columns * h + a.padding, i % columns * w + a.padding
      grid[{{}, {top + 1, top + height}, {left + 1, left + width}}] = x[i + 1]
    end
    return grid
  end

  ---Writes one picture or many (as make_grid joins them) to a file; its options are make_grid's.
  ---@param tensor Tensor
  ---@param path string
  ---@param options? table
  function data.save_image(tensor, path, options)
    data.write_image(data.make_grid(tensor, options or {}), path)
  end
end
