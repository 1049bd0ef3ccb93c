-- Pictures: what is written is read again; every form of PNG, JPEG and PPM; damaged and hostile files.
local data = torch.utils.data

local function file(name, bytes)
  local path = check.temp(name)
  local f = assert(io.open(path, "wb"))
  f:write(bytes)
  f:close()
  return path
end
local function bytes_of(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read("a")
  f:close()
  return text
end
local function random_picture(...) return torch.randint(0, 256, {...}):byte() end

test("PNG and PPM give back every pixel, of all channels and both depths", function()
  torch.manual_seed(1)
  for _, channels in ipairs {1, 2, 3, 4} do
    local x = random_picture(channels, 5, 7)
    for _, ending in ipairs(channels % 2 == 1 and {"png", "ppm"} or {"png"}) do
      local path = check.temp("a." .. ending)
      data.write_image(x, path)
      check.equal(torch.equal(data.read_image(path), x), true, ending)
      data.write_image(x:double() / 255, path, {bits = 16})
      check.equal(torch.equal(data.read_image(path), x), true, ending .. " of 16 bits")
      check.close(data.read_image(path, {dtype = "float32"}), x:float() / 255, 1e-6)
    end
  end
  local fine = torch.linspace(0, 1, 1000):view(10, 100)
  data.write_image(fine, check.temp "fine.png", {bits = 16})
  check.close(data.read_image(check.temp "fine.png", {dtype = "float32"})[1], fine, 1e-5)
end)

test("a JPEG is near what was written, the nearer the higher its quality", function()
  local y, x = torch.arange(40):view(40, 1) * 4, torch.arange(30) * 5
  local picture = torch.stack {y + x * 0, x + y * 0, (x + y) // 2}:byte()
  local path = check.temp("a.jpg")
  local gap = {}
  for i, quality in ipairs {95, 20} do
    data.write_image(picture, path, {quality = quality})
    local back = data.read_image(path)
    check.shape(back, {3, 40, 30})
    check.dtype(back, "uint8")
    gap[i] = (back:float() - picture:float()):abs():mean():item()
  end
  check.yes(gap[1] < 3 and gap[1] < gap[2], gap[1])
  check.shape(data.read_image(path, {mode = "gray"}), {1, 40, 30})
  data.write_image(picture[1], path)
  check.shape(data.read_image(path), {1, 40, 30})
end)

test("mode makes grey, RGB and RGBA of any picture", function()
  local rgb = torch.tensor({{{10}}, {{20}}, {{30}}}, {dtype = "uint8"})
  data.write_image(rgb, check.temp "a.png")
  local function read(mode) return data.read_image(check.temp "a.png", {mode = mode}):flatten() end
  check.equal(read "rgba", {10, 20, 30, 255})
  check.equal(read "gray", {18})
  data.write_image(rgb[{{1, 2}}], check.temp "a.png")
  check.equal(read "rgb", {10, 10, 10})
  check.equal(read "rgba", {10, 10, 10, 20})
  check.equal(read "unchanged", {10, 20})
  check.raises("value", 'mode is "unchanged"', read, "cmyk")
end)

test("pictures are decoded from strings and tensors, and encoded into strings", function()
  local x = random_picture(3, 4, 4)
  local bytes = data.encode_image(x, "png")
  check.equal(torch.equal(data.decode_image(bytes), x), true)
  check.equal(torch.equal(data.decode_image(torch.tensor({bytes:byte(1, -1)}, {dtype = "uint8"})), x), true)
  check.equal(data.encode_image(torch.zeros(1, 1, 2), "ppm"), "P5\n2 1\n255\n\0\0")
  check.raises("dtype", "uint8 [n]", data.decode_image, torch.zeros(3))
  check.raises("value", "format is", data.encode_image, x, "gif")
end)

test("text and bit maps are read", function()
  check.equal(data.decode_image("P2 # grey\n3 1\n# c\n100\n0 50 100\n"), {{{0, 128, 255}}})
  check.equal(data.decode_image("P1\n3 2\n101\n0 1 0"), {{{0, 255, 0}, {255, 0, 255}}})
  check.equal(data.decode_image("P4\n10 1\n\x80\x40"), {{{0, 255, 255, 255, 255, 255, 255, 255, 255, 0}}})
  check.equal(data.decode_image("P3 1 1 65535 65535 0 32768"), {{{255}}, {{0}}, {{128}}})
end)

-- A PNG from its parts, with checksums.
local function crc(s)
  local c = 0xffffffff
  for i = 1, #s do
    c = c ~ s:byte(i)
    for _ = 1, 8 do c = c & 1 == 1 and (c >> 1) ~ 0xedb88320 or c >> 1 end
  end
  return ~c & 0xffffffff
end
local function chunk(kind, text) return (">I4"):pack(#text) .. kind .. text .. (">I4"):pack(crc(kind .. text)) end
local function stored(raw)  -- deflate without compression
  local a, b = 1, 0
  for i = 1, #raw do
    a = (a + raw:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return "\x78\x01\x01" .. ("<I2I2"):pack(#raw, ~#raw & 0xffff) .. raw .. (">I2I2"):pack(b, a)
end
local function png(width, height, depth, kind, raw, interlace, more)
  return "\x89PNG\r\n\x1a\n" .. chunk("IHDR", (">I4I4BBBBB"):pack(width, height, depth, kind, 0, 0, interlace or 0)) .. (more or "") ..
    chunk("IDAT", stored(raw)) .. chunk("IEND", "")
end

test("palettes, transparent colours, few bits and interlaced rows become plain pixels", function()
  check.equal(data.decode_image(png(2, 1, 8, 3, "\0\1\0", 0, chunk("PLTE", "\1\2\3\4\5\6"))), {{{4, 1}}, {{5, 2}}, {{6, 3}}})
  check.equal(data.decode_image(png(2, 1, 8, 3, "\0\1\0", 0, chunk("PLTE", "\1\2\3\4\5\6") .. chunk("tRNS", "\9")))[4], {{255, 9}})
  check.equal(data.decode_image(png(4, 1, 2, 0, "\0\x1b")), {{{0, 85, 170, 255}}})
  -- Adam7 of 3 x 3: the corner, then columns and rows between.
  check.equal(data.decode_image(png(3, 3, 8, 0, "\0\1" .. "\0\3" .. "\0\7\9" .. "\0\2" .. "\0\8" .. "\0\4\5\6", 1)),
    {{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}})
end)

test("sizes are checked before memory is taken", function()
  local err = check.raises("io", "has 60000 x 60000 pixels, for which", data.decode_image,
    png(60000, 60000, 8, 2, "\0\1\2\3"))
  check.contains(err.message, "damaged")
  check.raises("io", "damaged", data.decode_image, "P6 1000000 1000000 255 abc")
  check.raises("io", "damaged", data.decode_image, "P5 99999999999 1 255 abc")
  local path = check.temp "limit.png"
  data.write_image(torch.zeros(20, 20), path)
  check.raises("io", "20 x 20 pixels, more than the 100", data.read_image, path, {max_pixels = 100})
  check.shape(data.read_image(path, {max_pixels = 400}), {1, 20, 20})
  local jpeg = data.encode_image(torch.zeros(16, 16), "jpeg")
  local at = jpeg:find("\xff\xc0", 1, true)
  check.raises("io", "too few", data.decode_image, jpeg:sub(1, at + 4) .. "\xff\xdc\xff\xdc" .. jpeg:sub(at + 9))
end)

test("what cannot be read or written says why", function()
  check.raises("io", "is no PNG, JPEG or PPM picture", data.read_image, file("x.png", "hello"))
  check.raises("io", "is empty", data.read_image, file("x.png", ""))
  check.raises("io", "No such file", data.read_image, "/nowhere.png")
  check.raises("value", "must end with .png", data.write_image, torch.zeros(2, 2), check.temp "x.gif")
  check.raises("shape", "[5, 2, 2]", data.write_image, torch.zeros(5, 2, 2), check.temp "x.png")
  check.raises("shape", "JPEG", data.write_image, torch.zeros(4, 2, 2), check.temp "x.jpg")
  check.raises("shape", "[3, 0, 2]", data.write_image, torch.zeros(3, 0, 2), check.temp "x.png")
  check.raises("dtype", "x:byte()", data.write_image, torch.zeros(2, 2):long(), check.temp "x.png")
  check.raises("value", "1 to 100", data.write_image, torch.zeros(2, 2), check.temp "x.jpg", {quality = 0})
  check.raises("value", "8 bits", data.write_image, torch.zeros(2, 2), check.temp "x.jpg", {bits = 16})
  check.raises("argument", '"path" is missing', data.write_image, torch.zeros(2, 2))
end)

test("pictures cut anywhere are io errors", function()
  torch.manual_seed(2)
  local x = random_picture(3, 9, 11)
  for _, format in ipairs {"png", "jpeg", "ppm"} do
    local whole = data.encode_image(x, format)
    for n = 0, #whole - 1 do check.raises("io", nil, data.decode_image, whole:sub(1, n)) end
  end
end)

test("mutated pictures are read or refused, thousands of ways", function()
  math.randomseed(5)
  local x = random_picture(3, 16, 24)
  local function mutate(whole, n, first)
    for _ = 1, n do
      local s = whole
      for _ = 1, math.random(4) do
        local at = math.random(first or 1, #s)
        s = s:sub(1, at - 1) .. string.char(math.random(0, 255)) .. s:sub(at + 1)
      end
      local ok, err = pcall(data.decode_image, s)
      if not ok and (err.kind ~= "io" or not err.message:find("the picture", 1, true)) then error(err, 0) end
    end
  end
  for _, format in ipairs {"png", "jpeg", "ppm"} do mutate(data.encode_image(x, format), 2000) end
  mutate(data.encode_image(x, "jpeg", {quality = 100}), 2000, 160)
  mutate("P3\n# text\n4 2\n255\n" .. ("1 22 255 "):rep(8), 1000)
  -- With the right checksums, wrong values reach the reader itself.
  for _ = 1, 1500 do
    local function any(list) return list[math.random(#list)] end
    local s = png(any {1, 3, 8, 0, 70000}, any {1, 2, 9, 0x7fffffff}, any {1, 2, 4, 8, 16, 3}, any {0, 2, 3, 4, 6, 1}, ("\0\1\2\3\4"):rep(math.random(30)),
      any {0, 0, 1, 2}, any {"", chunk("PLTE", ("abc"):rep(math.random(0, 300))), chunk("tRNS", ("\1"):rep(math.random(0, 9))), chunk("gAMA", "\0\0\0\0"), chunk("zTXt", "a\0\0junk")})
    local ok, err = pcall(data.decode_image, s)
    if not ok and err.kind ~= "io" then error(err, 0) end
  end
end)

test("make_grid lays pictures out in rows, and save_image writes them", function()
  local x = torch.arange(1, 4):float():view(3, 1, 1, 1):expand(3, 3, 2, 2)
  local grid = data.make_grid(x, {nrow = 2, padding = 1, pad_value = 9})
  check.shape(grid, {3, 7, 7})
  check.equal(grid[1], {{9, 9, 9, 9, 9, 9, 9}, {9, 1, 1, 9, 2, 2, 9}, {9, 1, 1, 9, 2, 2, 9}, {9, 9, 9, 9, 9, 9, 9},
    {9, 3, 3, 9, 9, 9, 9}, {9, 3, 3, 9, 9, 9, 9}, {9, 9, 9, 9, 9, 9, 9}})
  check.shape(data.make_grid({torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)}), {3, 8, 14})
  check.close(data.make_grid(x, {normalize = true})[1]:max(), 1)
  check.equal(data.make_grid(torch.zeros(1, 2, 2), {padding = 3}).shape, {3, 2, 2})
  data.save_image(torch.rand(10, 1, 8, 8), check.temp "grid.png", {nrow = 5})
  check.shape(data.read_image(check.temp "grid.png"), {3, 22, 52})
  check.raises("shape", "make_grid", data.make_grid, torch.zeros(3))
end)

test("write_image makes one sheet of a batch or a list, and pictures that do not go together are named", function()
  local path = check.temp "sheet.png"
  data.write_image(torch.rand(10, 3, 8, 8), path, {nrow = 5, padding = 1})
  check.equal(data.read_image(path).shape, {3, 19, 46})
  data.write_image({torch.rand(3, 8, 8), torch.rand(8, 8)}, path)
  check.equal(data.read_image(path).shape, {3, 12, 22})
  data.write_image({torch.rand(3, 8, 6)}, path)
  check.equal(data.read_image(path).shape, {3, 8, 6})
  check.equal(data.make_grid {torch.rand(10, 3, 8, 8), nrow = 2}.shape, {3, 52, 22})
  check.equal(data.transforms.make_grid(torch.rand(4, 1, 8, 8)).shape, {3, 12, 42})
  check.raises("shape", "different sizes, item 1 [3, 4, 4] and item 2 [3, 5, 4]", data.make_grid, {torch.zeros(3, 4, 4), torch.zeros(3, 5, 4)})
  check.raises("dtype", "different types", data.make_grid, {torch.zeros(3, 4, 4), torch.zeros(3, 4, 4):byte()})
  check.raises("shape", 'data.read_image(path, {mode = "rgb"})', data.make_grid, {torch.zeros(4, 4, 4), torch.zeros(3, 4, 4)})
  check.raises("shape", "item 2 is no picture", data.make_grid, {torch.zeros(3, 4, 4), torch.zeros(3)})
  check.raises("shape", "no pictures in the list", data.make_grid, {})
  check.raises("argument", "nrow is for many pictures", data.write_image, torch.zeros(3, 4, 4), path, {nrow = 3})
end)

test("a picture of numbers far above 1 gets a note, once", function()
  local path = check.temp "white.lua"
  local file = assert(io.open(path, "w"))
  file:write(("for _ = 1, 2 do torch.utils.data.write_image(torch.ones(3, 4, 4) * 255, %q) end"):format(check.temp "white.png"))
  file:close()
  check.contains(check.tycho({path}).err, "^note WHITE: .* goes up to 255.*\n   if it goes to 255: x / 255, or x:byte%(%)\n$")
end)
