-- Transforms of pictures: the same pictures as torchvision makes for the same seed, what passes through them, and what
-- is refused.
local data = torch.utils.data
local T = data.transforms
local fn = T.functional

local bytes = ((torch.arange(3 * 9 * 12):view(3, 9, 12) * 37) % 251):byte()
local floats = bytes:float() / 255

-- Code, the shape it gives, the sum of the elements, their sum with weights 0..16 in turn, and the random number that
-- comes next: from torchvision 0.29, with seed 7.
local expected = {
  {'T.Resize(6)', {3, 6, 8}, 70.2827, 547.203, 0.534923},
  {'T.Resize({5, 20}, {interpolation = "bicubic"})', {3, 5, 20}, 146.5977, 1169.275, 0.534923},
  {'T.CenterCrop {4, 7}', {3, 4, 7}, 41.6196, 313.165, 0.534923},
  {'T.Pad({1, 2}, {padding_mode = "symmetric"})', {3, 13, 14}, 265.2706, 2086.675, 0.534923},
  {'T.RandomCrop(8, {padding = 2})', {3, 8, 8}, 95.2000, 756.529, 0.659212},
  {'T.RandomResizedCrop(6)', {3, 6, 6}, 53.2575, 424.580, 0.232762},
  {'T.RandomHorizontalFlip()', {3, 9, 12}, 157.8784, 1300.251, 0.198803},
  {'T.RandomVerticalFlip(0.9)', {3, 9, 12}, 157.8784, 1269.008, 0.198803},
  {'T.Grayscale()', {1, 9, 12}, 52.7988, 412.608, 0.534923},
  {'T.ColorJitter(0.4, 0.4, 0.4, 0.2)', {3, 9, 12}, 169.3602, 1374.299, 0.629736},
  {'T.ColorJitter {hue = 0.5}', {3, 9, 12}, 158.1650, 1296.799, 0.232762},
  {'T.RandomErasing(1, {value = {1, 2, 3}})', {3, 9, 12}, 193.5529, 1575.690, 0.425061},
  {'T.RandomErasing(1, {value = "random"})', {3, 9, 12}, 151.8327, 1275.553, 0.557507},
  {'T.GaussianBlur({3, 5})', {3, 9, 12}, 159.4386, 1276.171, 0.198803},
  {'T.RandomRotation(40, {interpolation = "bilinear", fill = 1})', {3, 9, 12}, 159.4684, 1300.092, 0.198803},
  {'T.RandomRotation({60, 70}, {expand = true})', {3, 15, 14}, 153.1137, 1238.298, 0.198803},
  {'T.RandomAffine(20, {translate = {0.2, 0.1}, scale = {0.8, 1.2}, shear = 10})', {3, 9, 12}, 147.5843, 1169.839, 0.425061},
  {'T.RandomApply({T.Pad(1)}, {p = 0.6})', {3, 11, 14}, 157.8784, 1231.612, 0.198803},
  {'T.RandomChoice {T.Pad(1), T.Pad(2), T.Pad(3)}', {3, 13, 16}, 157.8784, 1190.392, 0.207086},
  {'T.RandomOrder {T.Pad(1), T.CenterCrop(5)}', {3, 7, 7}, 35.4706, 285.047, 0.198803},
  {'T.RandomInvert()', {3, 9, 12}, 157.8784, 1300.251, 0.198803},
  {'T.RandomGrayscale(0.6)', {3, 9, 12}, 158.3965, 1269.440, 0.198803},
}

test("for the same seed, pictures and draws are torchvision's", function()
  local env = setmetatable({T = T}, {__index = _G})
  for _, row in ipairs(expected) do
    local t = load("return " .. row[1], row[1], "t", env)()
    torch.manual_seed(7)
    local y = t(floats)
    check.close(torch.rand(1):item(), row[5], 1e-6, row[1] .. " draws")
    check.shape(y, row[2], row[1])
    local weights = (torch.arange(y:numel()) % 17):double():view(y.shape)
    check.close(y:double():sum():item(), row[3], 2e-3, row[1])
    check.close((y:double() * weights):sum():item(), row[4], 2e-2, row[1])
    -- Bytes become bytes of the same picture; cubics leave their range between two steps.
    if not row[1]:find "value" and not row[1]:find "bicubic" and not row[1]:find "fill" then
      torch.manual_seed(7)
      local whole = t(bytes)
      check.dtype(whole, "uint8", row[1])
      check.yes((whole:double() - y:double():clamp(0, 1) * 255):abs():max():item() < 3.5, row[1])
    end
  end
end)

test("Compose calls one after the other; labels and samples pass through", function()
  local t = T.Compose {T.CenterCrop(4), T.ToDtype(torch.float32, {scale = true}), function(x) return x * 2 end, T.Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})}
  local x, label = t(bytes, 3)
  check.shape(x, {3, 4, 4})
  check.equal(label, 3)
  check.close(x, (floats[{{}, {3, 6}, {5, 8}}] * 2 - 0.5) / 0.5, 1e-6)
  local sample = t {bytes, 5}
  check.equal(sample[2], 5)
  check.close(sample[1], x)
  check.contains(tostring(t), "CenterCrop(size = 4)")
  check.shape(T.Compose(T.Pad(1), T.Pad {1, 2})(bytes), {3, 15, 16})
  local Mine = T.class("Mine")
  function Mine:init(k) self.k = k end
  function Mine:forward(y) return y + self.k end
  check.equal(T.Compose {Mine(1), Mine(2)}(torch.zeros(1, 1, 1)), {{{3}}})
  check.equal(T.Lambda(function(y) return y:sum() end)(torch.ones(1, 2, 2)):item(), 4)
end)

test("batches and single channels are pictures, too", function()
  check.shape(T.Resize {4, 6}(torch.rand(5, 3, 8, 8)), {5, 3, 4, 6})
  check.shape(T.Resize {4, 6}(torch.rand(2, 5, 1, 8, 8)), {2, 5, 1, 4, 6})
  check.shape(T.ColorJitter(0.5, 0.5, 0.5, 0.5)(torch.rand(1, 8, 8)), {1, 8, 8})
  check.shape(T.GaussianBlur(3)(torch.rand(2, 3, 8, 8)), {2, 3, 8, 8})
  check.shape(fn.rotate(torch.rand(2, 3, 8, 8), 90), {2, 3, 8, 8})
end)

test("a quarter turn moves every pixel to its place, and turns of colour come back", function()
  local x = torch.arange(16):float():view(1, 4, 4)
  check.equal(fn.rotate(x, 90)[1], x[1]:rot90(1):tolist())
  check.equal(fn.rotate(x, 180)[1], x[1]:rot90(2):tolist())
  check.equal(fn.affine(x, {translate = {1, 0}})[{1, 1}], {0, 0, 1, 2})
  local y = torch.rand(3, 6, 6)
  check.close(fn.adjust_hue(fn.adjust_hue(y, 0.3), -0.3), y, 1e-5)
  check.close(fn.adjust_hue(torch.tensor {{{1.0}}, {{0.0}}, {{0.0}}}, 1 / 3):flatten(), {0, 1, 0}, 1e-5)
  check.close(fn.adjust_saturation(y, 0)[1], fn.rgb_to_grayscale(y)[1], 1e-6)
end)

test("crop fills with 0 outside, and erase leaves its input alone", function()
  local x = torch.arange(1, 10):view(1, 3, 3)
  check.equal(fn.crop(x, 0, 0, 2, 3), {{{0, 0, 0}, {0, 1, 2}}})
  check.equal(fn.crop(x, 3, 2, 2, 3), {{{8, 9, 0}, {0, 0, 0}}})
  check.equal(fn.crop(x, 5, 5, 1, 1), {{{0}}})
  check.equal(fn.erase(x, 1, 1, 2, 2, 0), {{{0, 0, 3}, {0, 0, 6}, {7, 8, 9}}})
  check.equal(x[{1, 1, 1}]:item(), 1)
end)

test("resizing with antialias takes all pixels into account; gradients follow", function()
  local F = torch.nn.functional
  local x = torch.zeros(1, 1, 1, 8)
  x[{1, 1, 1, 3}] = 1
  check.close(F.interpolate(x, {size = {1, 2}, mode = "bilinear", antialias = true})[{1, 1, 1}], {0.25, 0.03571}, 2e-2)
  check.close(F.interpolate(x, {size = {1, 2}, mode = "bilinear", antialias = true}):sum() * 4, F.interpolate(x, {size = {1, 2}, mode = "area"}):sum() * 4, 0.2)
  check.close(F.interpolate(torch.ones(1, 1, 30, 30), {size = {7, 4}, mode = "bicubic", antialias = true}), torch.ones(1, 1, 7, 4), 1e-5)
  check.yes(torch.autograd.gradcheck(function(y) return F.interpolate(y, {size = {3, 4}, mode = "bilinear", antialias = true}) end,
    {torch.rand(1, 1, 7, 6, {dtype = "float64", requires_grad = true})}))
  local bytes8 = F.interpolate((torch.arange(8) * 30):byte():view(1, 1, 1, 8), {size = {1, 4}, mode = "bilinear", antialias = true})
  check.dtype(bytes8, "uint8")
  check.equal(bytes8:flatten(), {21, 75, 135, 189})
  check.raises("dtype", "x:float() makes it so", F.interpolate, x:long(), {size = {1, 2}, mode = "bilinear"})
  check.raises("value", "antialias", F.interpolate, x, {size = {1, 2}, mode = "nearest", antialias = true})
end)

test("wrong arguments and pictures are said when a transform is made or called", function()
  for _, row in ipairs {
    {"argument", '"size" is missing', function() T.Resize() end},
    {"argument", 'no argument "interpolate"; did you mean "interpolation"?', function() T.Resize(4, {interpolate = "bilinear"}) end},
    {"value", "interpolation is", function() T.Resize(4, {interpolation = "cubic"}) end},
    {"value", "size must be", function() T.CenterCrop(0) end},
    {"value", "size must be", function() T.RandomCrop {1, 2, 3} end},
    {"value", "p is a probability", function() T.RandomHorizontalFlip(2) end},
    {"value", "brightness", function() T.ColorJitter(-1) end},
    {"value", "hue", function() T.ColorJitter {hue = 0.7} end},
    {"value", "odd", function() T.GaussianBlur(4) end},
    {"value", "scale is {low, high}", function() T.RandomErasing(0.5, {scale = {2, 1}}) end},
    {"argument", "item 2 is no transform but the class Pad; call it: Pad()", function() T.Compose {T.CenterCrop(2), T.Pad} end},
    {"argument", "item 1 is no transform but a number", function() T.Compose {3} end},
    {"shape", "x:unsqueeze(1)", function() T.Resize(4)(torch.rand(3, 3)) end},
    {"argument", "not a string", function() T.RandomCrop(4)("x.png") end},
    {"shape", "pad_if_needed", function() T.RandomCrop(40)(bytes) end},
    {"dtype", "ToDtype", function() T.Normalize({0.5}, {0.5})(bytes) end},
    {"shape", "1 or 3 numbers", function() T.Normalize({0.5, 0.5}, {0.5, 0.5})(floats) end},
    {"value", "divided by", function() T.Normalize({0}, {0})(floats) end},
    {"shape", "1 or 3 channels", function() T.Grayscale()(torch.rand(2, 4, 4)) end},
    {"value", "padding", function() T.Pad {1, 2, 3} end},
    {"shape", "symmetric padding of 99", function() T.Pad(99, {padding_mode = "symmetric"})(bytes) end},
  } do
    check.raises(row[1], row[2], row[3])
  end
end)
