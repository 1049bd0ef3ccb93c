-- Normalisation: BatchNorm, SyncBatchNorm, InstanceNorm, LayerNorm, GroupNorm, RMSNorm, LocalResponseNorm.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F = nn.functional
local layer = require "torch.nn.layer"
local define, list, full = layer.define, layer.list, layer.full

-- Weight, bias and running statistics of one number per feature.
local function per_feature(self, a)
  if a.affine then
    self.weight = full({a.num_features}, 1, a)
    if a.bias then self.bias = full({a.num_features}, 0, a) end
  end
  if a.track_running_stats then
    self:register_buffer("running_mean", full({a.num_features}, 0, a):detach())
    self:register_buffer("running_var", full({a.num_features}, 1, a):detach())
    self:register_buffer("num_batches_tracked", torch.tensor(0, {device = a.device}))
  end
end
local feature_repr = "num_features!, eps, momentum, affine, bias, track_running_stats"

local function check_rank(name, x, least, most)
  if layer.tensor(name, "the input", x).ndim < least or x.ndim > most then
    local wanted = least == most and tostring(least) or most == math.huge and "at least " .. least or ("%d or %d"):format(least, most)
    error(("%s: wants %s dimensions, not shape %s"):format(name, wanted, tostring(x.shape)), 3, "shape")
  end
end

-- Batch normalisation (Ioffe and Szegedy 2015).
local function batch_norm(name, least, most, more)
  define(name, "num_features, eps=1e-5, momentum=0.1, affine=true, track_running_stats=true, bias=true, " .. (more and "process_group=nil, " or "") .. "device=nil, dtype=nil",
    "Brings every " .. (least == 2 and most == 3 and "feature" or "channel") .. " to mean 0 and variance 1 over the batch; running averages serve in evaluation." .. (more and " In training, the batch is that of all ranks together." or ""), {
    repr = feature_repr, init = per_feature, see = more and "nn.BatchNorm2d, nn.parallel.DistributedDataParallel" or "nn.BatchNorm2d, F.batch_norm", rule = "[N, C, ..] -> the same shape",
    forward = function(self, x)
      check_rank(name, x, least, most)
      local training = self.training or self.running_mean == nil
      local momentum = self.momentum
      if self.training then torch._training(name) end
      if self.training and self.track_running_stats then
        self.num_batches_tracked:add_(1)
        momentum = momentum or 1 / self.num_batches_tracked:item()
      end
      if more and self.training and torch.distributed.is_initialized() then
        return torch._sync_batch_norm(self.process_group, x, self.weight, self.bias, self.running_mean, self.running_var, momentum or 0, self.eps)
      end
      return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training, momentum or 0, self.eps)
    end,
  })
end
batch_norm("BatchNorm1d", 2, 3)
batch_norm("BatchNorm2d", 4, 4)
batch_norm("BatchNorm3d", 5, 5)
batch_norm("SyncBatchNorm", 2, math.huge, true)

---Gives a copy of the network's layers in which every BatchNorm is a SyncBatchNorm with the same parameters.
function nn.SyncBatchNorm.convert_sync_batchnorm(module)
  local kinds = {BatchNorm1d = true, BatchNorm2d = true, BatchNorm3d = true}
  if kinds[module._name] then
    local made = nn.SyncBatchNorm {module.num_features, eps = module.eps, affine = false, track_running_stats = false}
    for k, v in next, module do rawset(made, k, v) end
    return made
  end
  for _, pair in ipairs(module:named_children()) do
    local changed = nn.SyncBatchNorm.convert_sync_batchnorm(pair[2])
    if changed ~= pair[2] then module:set_submodule(pair[1], changed) end
  end
  return module
end

for dims = 1, 3 do
  local name = ("InstanceNorm%dd"):format(dims)
  define(name, "num_features, eps=1e-5, momentum=0.1, affine=false, track_running_stats=false, bias=true, device=nil, dtype=nil",
    "Brings every channel of every sample to mean 0 and variance 1.", {
    repr = feature_repr, init = per_feature, see = "F.instance_norm, nn.GroupNorm", rule = "[N, C, ..] -> the same shape",
    example = ("nn.%s(3)(torch.randn(2, 3%s)).shape --> [2, 3%s]"):format(name, (", 4"):rep(dims), (", 4"):rep(dims)),
    forward = function(self, x)
      check_rank(name, x, dims + 1, dims + 2)
      local alone = x.ndim == dims + 1
      if alone then x = x:unsqueeze(1) end
      local y = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
        self.training or not self.track_running_stats, self.momentum or 0, self.eps)
      return alone and y:squeeze(1) or y
    end,
  })
end

define("LayerNorm", "normalized_shape, eps=1e-5, elementwise_affine=true, bias=true, device=nil, dtype=nil",
  "Brings every sample's last dimensions to mean 0 and variance 1.", {
  repr = "normalized_shape!, eps, elementwise_affine, bias",
  init = function(self, a)
    rawset(self, "normalized_shape", list(a.normalized_shape, 1))
    if a.elementwise_affine then
      self.weight = full(self.normalized_shape, 1, a)
      if a.bias then self.bias = full(self.normalized_shape, 0, a) end
    end
  end,
  forward = function(self, x) return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps) end,
})

define("RMSNorm", "normalized_shape, eps=nil, elementwise_affine=true, device=nil, dtype=nil",
  "Divides by the root of the mean square over the last dimensions.", {
  repr = "normalized_shape!, eps, elementwise_affine", see = "F.rms_norm, nn.LayerNorm", rule = "[.., normalized_shape] -> the same shape",
  example = "nn.RMSNorm(4)(torch.randn(2, 4)).shape --> [2, 4]",
  init = function(self, a)
    rawset(self, "normalized_shape", list(a.normalized_shape, 1))
    if a.elementwise_affine then self.weight = full(self.normalized_shape, 1, a) end
  end,
  forward = function(self, x) return F.rms_norm(x, self.normalized_shape, self.weight, self.eps) end,
})

define("GroupNorm", "num_groups, num_channels, eps=1e-5, affine=true, device=nil, dtype=nil",
  "Brings every group of a sample's channels to mean 0 and variance 1.", {
  repr = "num_groups!, num_channels!, eps, affine", see = "F.group_norm, nn.LayerNorm", rule = "[N, C, ..] -> the same shape",
  example = "nn.GroupNorm(2, 4)(torch.randn(3, 4, 5)).shape --> [3, 4, 5]",
  init = function(self, a)
    if a.num_channels % a.num_groups ~= 0 then
      error(("GroupNorm: %d channels do not divide into %d groups"):format(a.num_channels, a.num_groups), 3, "value")
    end
    if a.affine then
      self.weight = full({a.num_channels}, 1, a)
      self.bias = full({a.num_channels}, 0, a)
    end
  end,
  forward = function(self, x) return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps) end,
})

define("LocalResponseNorm", "size, alpha=1e-4, beta=0.75, k=1.0", "Divides by a power of the mean square over neighbouring channels.", {
  repr = "size!, alpha, beta, k", see = "F.local_response_norm", rule = "[N, C, ..] -> the same shape",
  forward = function(self, x) return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k) end,
})
