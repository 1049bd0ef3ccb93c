-- Layers with weights: Linear, Bilinear, Embedding, EmbeddingBag, convolutions.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F, init = nn.functional, nn.init
local layer = require "torch.nn.layer"
local define, empty = layer.define, layer.empty

-- As PyTorch's reset_parameters: uniform in 1/sqrt(fan_in).
local function reset(self)
  init.kaiming_uniform_(self.weight, {a = math.sqrt(5)})
  if self.bias then
    local fan_in = init._calculate_fan_in_and_fan_out(self.weight)
    local bound = fan_in > 0 and 1 / math.sqrt(fan_in) or 0
    init.uniform_(self.bias, -bound, bound)
  end
end

define("Identity", "...", "Gives back its input, whatever its arguments.", {forward = function(_, x) return x end,
  rule = "any shape -> the same shape", see = "nn.Sequential"})
function nn.Identity.init() end

define("Linear", "in_features, out_features, bias=true, device=nil, dtype=nil",
  "A layer of weights: x W^T + b over the last dimension, W [out, in].", {
  repr = "in_features, out_features, bias",
  init = function(self, a)
    self.weight = empty({a.out_features, a.in_features}, a)
    if a.bias then self.bias = empty({a.out_features}, a) end
    self:reset_parameters()
  end,
  forward = function(self, x) return F.linear(x, self.weight, self.bias) end,
})
nn.Linear.reset_parameters = reset

define("Bilinear", "in1_features, in2_features, out_features, bias=true, device=nil, dtype=nil",
  "x1 W x2 + b for every output, W [out, in1, in2].", {
  repr = "in1_features, in2_features, out_features, bias", rule = "[.., in1], [.., in2] -> [.., out]", see = "nn.Linear, einsum",
  example = "nn.Bilinear(2, 3, 4)(torch.ones(5, 2), torch.ones(5, 3)).shape --> [5, 4]",
  init = function(self, a)
    self.weight = empty({a.out_features, a.in1_features, a.in2_features}, a)
    if a.bias then self.bias = empty({a.out_features}, a) end
    local bound = 1 / math.sqrt(a.in1_features)
    init.uniform_(self.weight, -bound, bound)
    if self.bias then init.uniform_(self.bias, -bound, bound) end
  end,
  forward = function(self, x1, x2) return F.bilinear(x1, x2, self.weight, self.bias) end,
})

-- --- convolutions ---

-- The padding on both sides of each dimension, last dimension first, as F.pad takes it.
local function pad_widths(self, dims)
  local out = {}
  for d = dims, 1, -1 do
    local low, high
    if self.padding == "same" then
      local total = self.dilation[d] * (self.kernel_size[d] - 1)
      low, high = total // 2, total - total // 2
    else
      low = type(self.padding) == "table" and self.padding[d] or 0
      high = low
    end
    out[#out + 1], out[#out + 2] = low, high
  end
  return out
end

local function check_groups(name, a)
  if a.in_channels % a.groups ~= 0 or a.out_channels % a.groups ~= 0 then
    error(("%s: %d input and %d output channels do not divide into %d groups"):format(name, a.in_channels, a.out_channels,
      a.groups), 4, "shape")
  end
end

local modes = {zeros = "constant", reflect = "reflect", replicate = "replicate", circular = "circular"}

local function conv_init(self, a, name, dims, transposed)
  check_groups(name, a)
  if not modes[a.padding_mode] then
    error(('%s: padding_mode must be "zeros", "reflect", "replicate" or "circular", not %q'):format(name, tostring(a.padding_mode)), 4, "value")
  end
  for _, key in ipairs {"kernel_size", "stride", "dilation", "padding", "output_padding"} do
    local word = key == "padding" and not transposed and (a.padding == "same" or a.padding == "valid")
    if a[key] ~= nil and not word then rawset(self, key, layer.sizes(name, key, a[key], dims)) end
  end
  local shape = transposed and {a.in_channels, a.out_channels // a.groups} or {a.out_channels, a.in_channels // a.groups}
  for _, k in ipairs(self.kernel_size) do shape[#shape + 1] = k end
  self.weight = empty(shape, a)
  if a.bias then self.bias = empty({a.out_channels}, a) end
  self:reset_parameters()
end

for dims, what in ipairs {"signals", "images", "volumes"} do
  local name, f = ("Conv%dd"):format(dims), F[("conv%dd"):format(dims)]
  define(name, 'in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=true, padding_mode="zeros", device=nil, dtype=nil',
    "Convolution of " .. what .. ".", {
    repr = "in_channels!, out_channels!, kernel_size, stride, padding?$, dilation?, groups?, bias?, padding_mode?$",
    init = function(self, a) conv_init(self, a, name, dims) end,
    forward = function(self, x)
      if self.padding_mode ~= "zeros" then
        x = F.pad(x, pad_widths(self, dims), modes[self.padding_mode])
        return f(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
      end
      return f(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
    end,
  })
  nn[name].reset_parameters = reset

  local transposed = ("ConvTranspose%dd"):format(dims)
  local g = F[("conv_transpose%dd"):format(dims)]
  define(transposed, 'in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=true, dilation=1, padding_mode="zeros", device=nil, dtype=nil',
    "Transposed convolution of " .. what .. ": spreads each input over a window, to make things larger.", {
    rule = "each size n -> (n - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1", see = "F.conv_transpose" .. dims .. "d, nn." .. name,
    example = ("nn.%s(2, 3, 2, {stride=2})(torch.ones(1, 2%s)).shape --> [1, 3%s]"):format(transposed, (", 4"):rep(dims), (", 8"):rep(dims)),
    repr = "in_channels!, out_channels!, kernel_size, stride, padding?$, dilation?, output_padding?, groups?, bias?, padding_mode?$",
    init = function(self, a) conv_init(self, a, transposed, dims, true) end,
    forward = function(self, x, output_size)
      local extra = self.output_padding
      if output_size then
        local given = type(output_size) == "table" and #output_size
        if not given or (given ~= dims and given ~= dims + 2) then
          error(("%s: output_size must be a list of %d sizes"):format(transposed, dims), 2)
        end
        extra = {}
        local from, skip = x.ndim - dims, #output_size - dims
        for d = 1, dims do
          local least = (x:size(from + d) - 1) * self.stride[d] - 2 * self.padding[d] + self.dilation[d] * (self.kernel_size[d] - 1) + 1
          extra[d] = output_size[skip + d] - least
          if extra[d] < 0 or extra[d] >= math.max(self.stride[d], self.dilation[d]) then
            error(("%s: output_size %d of dimension %d is not between %d and %d"):format(transposed, output_size[skip + d], d, least, least + self.stride[d] - 1), 2, "shape")
          end
        end
      end
      return g(x, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)
    end,
  })
  nn[transposed].reset_parameters = reset
end

-- --- tables of vectors ---

local function fill_table(self, a)
  if a._weight then
    if a._weight:size(1) ~= a.num_embeddings or a._weight:size(2) ~= a.embedding_dim then
      error(("%s: the given weight is %s, not [%d, %d]"):format(self._name, tostring(a._weight.shape), a.num_embeddings, a.embedding_dim), 4, "shape")
    end
    self.weight = nn.Parameter(a._weight)
    return
  end
  self.weight = empty({a.num_embeddings, a.embedding_dim}, a)
  init.normal_(self.weight)
  if a.padding_idx then torch.no_grad(function() self.weight[a.padding_idx]:zero_() end) end
end

define("Embedding", "num_embeddings, embedding_dim, padding_idx=nil, max_norm=nil, norm_type=2.0, scale_grad_by_freq=false, sparse=false, _weight=nil, device=nil, dtype=nil",
  "A table of trained rows, found by id (from 1).", {
  repr = "num_embeddings!, embedding_dim!, padding_idx?@, max_norm?, norm_type?, scale_grad_by_freq?, sparse?",
  init = function(self, a)
    rawset(self, "_weight", nil)
    if a.padding_idx and (math.type(a.padding_idx) ~= "integer" or a.padding_idx == 0 or math.abs(a.padding_idx) > a.num_embeddings) then
      error(("Embedding: padding_idx %s is out of range for %d rows (1..%d)"):format(tostring(a.padding_idx), a.num_embeddings, a.num_embeddings), 3, "index")
    end
    if a.padding_idx and a.padding_idx < 0 then
      a.padding_idx = a.num_embeddings + 1 + a.padding_idx
      rawset(self, "padding_idx", a.padding_idx)
    end
    fill_table(self, a)
  end,
  forward = function(self, ids)
    return F.embedding(ids, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)
  end,
})

define("EmbeddingBag", 'num_embeddings, embedding_dim, max_norm=nil, norm_type=2.0, scale_grad_by_freq=false, mode="mean", sparse=false, _weight=nil, include_last_offset=false, padding_idx=nil, device=nil, dtype=nil',
  "Sums, means or maxima over bags of a table's rows: ids [bags, n], or ids in one line and where each bag begins (from 1).", {
  repr = "num_embeddings!, embedding_dim!, max_norm?, norm_type?, scale_grad_by_freq?, mode, padding_idx?@", see = "nn.Embedding, F.embedding_bag",
  rule = "ids [bags, n] -> [bags, embedding_dim]", example = 'nn.EmbeddingBag(5, 3, {mode="sum"})(torch.tensor{{1, 2}, {3, 5}}).shape --> [2, 3]',
  init = function(self, a)
    rawset(self, "_weight", nil)
    fill_table(self, a)
  end,
  forward = function(self, ids, offsets, per_sample_weights)
    return F.embedding_bag(ids, self.weight, {offsets = offsets, max_norm = self.max_norm, norm_type = self.norm_type,
      scale_grad_by_freq = self.scale_grad_by_freq, mode = self.mode, per_sample_weights = per_sample_weights,
      include_last_offset = self.include_last_offset, padding_idx = self.padding_idx})
  end,
})

for _, name in ipairs {"Embedding", "EmbeddingBag"} do
  ---Makes a table from a given tensor [rows, size]; frozen unless {freeze=false}.
  nn[name].from_pretrained = function(weight, options)
    if layer.tensor(name, "the weight", weight).ndim ~= 2 then
      error(("%s: the weight must be [rows, size], not %s"):format(name, tostring(weight.shape)), 2, "shape")
    end
    local o = {}
    for k, v in pairs(options or {}) do o[k] = v end
    local freeze = o.freeze
    o.freeze, o._weight = nil, weight
    local made = nn[name](weight:size(1), weight:size(2), o)
    made.weight.requires_grad = freeze == false
    return made
  end
end
