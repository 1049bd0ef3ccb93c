-- Layers without weights, as rows: dropout, pooling, padding, layers that only change the shape.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F = nn.functional
local layer = require "torch.nn.layer"
local define, list = layer.define, layer.list

-- --- dropout ---

for _, row in ipairs {
  {"Dropout", "In training, 0 with probability p and else scaled by 1 / (1 - p); in evaluation nothing."},
  {"Dropout1d", "As Dropout, for whole channels of signals."},
  {"Dropout2d", "As Dropout, for whole channels of images."},
  {"Dropout3d", "As Dropout, for whole channels of volumes."},
  {"AlphaDropout", "Dropout that keeps mean and variance, for SELU.", "alpha_dropout"},
  {"FeatureAlphaDropout", "AlphaDropout for whole channels.", "feature_alpha_dropout"},
} do
  local name, doc = row[1], row[2]
  local f = row[3] or name:lower()
  local drop = F[f]
  define(name, "p=0.5, inplace=false", doc, {
    repr = "p, inplace", see = "F." .. f, rule = "any shape -> the same shape",
    init = function(self)
      local p = self.p
      if type(p) ~= "number" or not (p >= 0 and p <= 1) then
        error(("%s: p must be a probability between 0 and 1, not %s"):format(name, tostring(p)), 3, "value")
      end
    end,
    forward = function(self, x)
      if self.training then torch._training(name) end
      return drop(x, self.p, self.training, self.inplace)
    end,
  })
end

-- --- pooling ---

local function own_stride(self)
  if self.stride == nil then rawset(self, "stride", self.kernel_size) end
end
for dims, shape in ipairs {"L", "H, W", "D, H, W"} do
  local rule = ("[.., C, %s] -> [.., C, (n + 2 padding - kernel) // stride + 1 of each]"):format(shape)
  local name = ("MaxPool%dd"):format(dims)
  local max, unpool = F["max_pool" .. dims .. "d"], F["max_unpool" .. dims .. "d"]
  local zeros = "torch.zeros(1, 3" .. (", 8"):rep(dims) .. ")"
  define(name, "kernel_size, stride=nil, padding=0, dilation=1, return_indices=false, ceil_mode=false",
    "The largest element of each window; with return_indices also where it was.", {
    repr = "kernel_size, stride, padding, dilation, ceil_mode", init = own_stride, rule = rule, see = "F.max_pool" .. dims .. "d",
    forward = function(self, x)
      return max(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)
    end})
  define(("MaxUnpool%dd"):format(dims), "kernel_size, stride=nil, padding=0", "Puts back what a max pooling with return_indices took; 0 elsewhere.", {
    repr = "kernel_size, stride, padding", see = "F.max_unpool" .. dims .. "d, nn." .. name,
    init = function(self)
      for _, key in ipairs {"kernel_size", "stride", "padding"} do
        rawset(self, key, layer.sizes(self._name, key, self[key] or self.kernel_size, dims))
      end
    end,
    forward = function(self, x, indices, output_size)
      return unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size)
    end})

  local avg = F["avg_pool" .. dims .. "d"]
  define(("AvgPool%dd"):format(dims), "kernel_size, stride=nil, padding=0, ceil_mode=false, count_include_pad=true" .. (dims > 1 and ", divisor_override=nil" or ""),
    "The mean of each window.", {
    repr = "kernel_size, stride, padding", rule = rule, see = "F.avg_pool" .. dims .. "d",
    init = function(self)
      own_stride(self)
      if dims > 1 then return end
      for _, key in ipairs {"kernel_size", "stride", "padding"} do rawset(self, key, list(self[key], 1)) end
    end,
    forward = function(self, x)
      if dims == 1 then return avg(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad) end
      return avg(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override)
    end})

  local power = F["lp_pool" .. dims .. "d"]
  define(("LPPool%dd"):format(dims), "norm_type, kernel_size, stride=nil, ceil_mode=false", "The p-norm of each window.", {
    repr = "norm_type, kernel_size, stride, ceil_mode", see = "nn.AvgPool" .. dims .. "d", rule = rule,
    forward = function(self, x) return power(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode) end})

  local sizes = dims == 1 and "n" or "{" .. ("n, "):rep(dims - 1) .. "n}"
  for _, row in ipairs {{"Avg", "avg", "The means of as many windows as the result is to have."},
    {"Max", "max", "The largest elements of as many windows as the result is to have."}} do
    local f = F[("adaptive_%s_pool%dd"):format(row[2], dims)]
    local is_max = row[1] == "Max"
    define(("Adaptive%sPool%dd"):format(row[1], dims), "output_size" .. (is_max and ", return_indices=false" or ""), row[3], {
      repr = "output_size", see = ("F.adaptive_%s_pool%dd"):format(row[2], dims), rule = ("[.., C, %s] -> [.., C, %s]"):format(shape, sizes:gsub("[{}]", "")),
      example = ("nn.Adaptive%sPool%dd(2)(%s).shape --> [1, 3%s]"):format(row[1], dims, zeros, (", 2"):rep(dims)),
      forward = function(self, x)
        if is_max then return f(x, self.output_size, self.return_indices) end
        return f(x, self.output_size)
      end})
  end
end

-- --- padding ---

local function widths(self, dims) rawset(self, "padding", layer.sizes(self._name, "padding", self.padding, 2 * dims)) end
for dims = 1, 3 do
  local rule = "the last " .. (dims == 1 and "dimension grows" or dims .. " dimensions grow") .. " by the padding"
  for _, row in ipairs {
    {"Reflection", "reflect", "Pads with the mirror image."}, {"Replication", "replicate", "Pads with the elements at the border."},
    {"Circular", "circular", "Pads with the other end."}, {"Zero", "constant", "Pads with zeros."},
  } do
    define(("%sPad%dd"):format(row[1], dims), "padding", row[3], {
      repr = "padding!", init = function(self) widths(self, dims) end, see = "F.pad", rule = rule,
      example = ("nn.%sPad%dd(1)(torch.ones(1, 1%s)).shape --> [1, 1%s]"):format(row[1], dims, (", 3"):rep(dims), (", 5"):rep(dims)),
      forward = function(self, x) return F.pad(x, self.padding, row[2]) end})
  end
  define(("ConstantPad%dd"):format(dims), "padding, value", "Pads with a value.", {
    repr = "padding, value", init = function(self) widths(self, dims) end, see = "F.pad", rule = rule,
    forward = function(self, x) return F.pad(x, self.padding, "constant", self.value) end})
end

-- --- shapes ---

define("Flatten", "start_dim=2, end_dim=-1", "Makes dimensions into one; the first (the batch) stays.", {
  repr = "start_dim@, end_dim@", forward = function(self, x) return torch.flatten(x, self.start_dim, self.end_dim) end})
define("Unflatten", "dim, unflattened_size", "Makes one dimension into several.", {
  repr = "dim@, unflattened_size", see = "unflatten, nn.Flatten", example = "nn.Unflatten(2, {2, 3})(torch.zeros(5, 6)).shape --> [5, 2, 3]",
  forward = function(self, x) return torch.unflatten(x, self.dim, self.unflattened_size) end})
define("PixelShuffle", "upscale_factor", "Makes groups of channels into larger images.", {
  repr = "upscale_factor", see = "F.pixel_shuffle, nn.PixelUnshuffle", rule = "[.., C r r, H, W] -> [.., C, H r, W r]",
  forward = function(self, x) return F.pixel_shuffle(x, self.upscale_factor) end})
define("PixelUnshuffle", "downscale_factor", "Makes images smaller, with more channels.", {
  repr = "downscale_factor", see = "F.pixel_unshuffle, nn.PixelShuffle", rule = "[.., C, H r, W r] -> [.., C r r, H, W]",
  forward = function(self, x) return F.pixel_unshuffle(x, self.downscale_factor) end})
define("ChannelShuffle", "groups", "Deals the channels out to groups in turn.", {
  repr = "groups", see = "F.channel_shuffle", rule = "[.., C, H, W] -> the same shape",
  forward = function(self, x) return F.channel_shuffle(x, self.groups) end})

local function upsample(name, signature, mode, align)
  define(name, signature, "Makes signals, images or volumes larger, to a size or by a factor.", {
    repr = "size?, scale_factor?, mode", see = "F.interpolate",
    init = function(self)
      if mode then rawset(self, "mode", mode) end
      if align ~= nil then rawset(self, "align_corners", align) end
      if type(self.scale_factor) == "number" then rawset(self, "scale_factor", self.scale_factor + 0.0) end
    end,
    forward = function(self, x)
      return F.interpolate(x, {size = self.size, scale_factor = self.scale_factor, mode = self.mode,
        align_corners = self.align_corners, recompute_scale_factor = self.recompute_scale_factor})
    end})
end
upsample("Upsample", 'size=nil, scale_factor=nil, mode="nearest", align_corners=nil, recompute_scale_factor=nil')
upsample("UpsamplingNearest2d", "size=nil, scale_factor=nil", "nearest")
upsample("UpsamplingBilinear2d", "size=nil, scale_factor=nil", "bilinear", true)

define("Unfold", "kernel_size, dilation=1, padding=0, stride=1", "Every window of an image as a column.", {
  repr = "kernel_size, dilation, padding, stride", see = "F.unfold, nn.Fold", rule = "[N, C, H, W] -> [N, C * kernel elements, windows]",
  forward = function(self, x) return F.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride) end})
define("Fold", "output_size, kernel_size, dilation=1, padding=0, stride=1", "Adds columns back into an image: the transpose of Unfold.", {
  repr = "output_size, kernel_size, dilation, padding, stride", see = "F.fold, nn.Unfold", rule = "[N, C * kernel elements, windows] -> [N, C, H, W]",
  forward = function(self, x)
    return F.fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)
  end})

define("CosineSimilarity", "dim=2, eps=1e-8", "The cosine of the angle between vectors along a dimension.", {see = "F.cosine_similarity",
  forward = function(self, a, b) return F.cosine_similarity(a, b, self.dim, self.eps) end})
define("PairwiseDistance", "p=2.0, eps=1e-6, keepdim=false", "The p-norm of the differences of vectors.", {see = "F.pairwise_distance",
  rule = "[N, D], [N, D] -> [N]",
  forward = function(self, a, b) return F.pairwise_distance(a, b, self.p, self.eps, self.keepdim) end})
