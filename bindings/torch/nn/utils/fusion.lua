-- Layers followed by a batch normalisation as one layer, for evaluation; layers made without their first values.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")

return function(utils)
  local function statistics(bn_mean, bn_var, bn_eps, bn_w, bn_b)
    bn_w = bn_w or torch.ones_like(bn_mean)
    bn_b = bn_b or torch.zeros_like(bn_mean)
    return bn_w * torch.rsqrt(bn_var + bn_eps), bn_b
  end

  ---Weight and bias of a convolution that does what it and a batch normalisation after it do.
  function utils.fuse_conv_bn_weights(conv_w, conv_b, bn_mean, bn_var, bn_eps, bn_w, bn_b, transpose)
    local factor, shift = statistics(bn_mean, bn_var, bn_eps, bn_w, bn_b)
    local shape = {}
    for d = 1, conv_w.ndim do shape[d] = 1 end
    shape[transpose and 2 or 1] = -1
    local bias = conv_b or torch.zeros_like(bn_mean)
    return nn.Parameter(conv_w * factor:reshape(shape):to(conv_w.dtype), conv_w.requires_grad),
      nn.Parameter((bias - bn_mean) * factor + shift, (conv_b or conv_w).requires_grad)
  end
  ---Weight and bias of a linear layer that does what it and a batch normalisation after it do.
  function utils.fuse_linear_bn_weights(linear_w, linear_b, bn_mean, bn_var, bn_eps, bn_w, bn_b)
    return utils.fuse_conv_bn_weights(linear_w, linear_b, bn_mean, bn_var, bn_eps, bn_w, bn_b)
  end

  local function fuse(what, layer, bn, transpose)
    if type(layer) ~= "table" or type(bn) ~= "table" or not torch.is_tensor(bn.running_mean) then
      error(what .. ": wants a layer and the batch normalisation after it", 3)
    end
    if layer.training or bn.training then error(what .. ": both must be in evaluation: net:eval()", 3, "value") end
    local fused = layer:clone()
    fused.weight, fused.bias = utils.fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose)
    return fused
  end
  ---A convolution that does what it and a batch normalisation after it do; both in evaluation.
  function utils.fuse_conv_bn_eval(conv, bn, transpose) return fuse("fuse_conv_bn_eval", conv, bn, transpose) end
  ---A linear layer that does what it and a batch normalisation after it do; both in evaluation.
  function utils.fuse_linear_bn_eval(linear, bn) return fuse("fuse_linear_bn_eval", linear, bn) end

  ---Makes a layer whose parameters are not filled: skip_init(nn.Linear, 784, 10). Random numbers are not used up.
  ---@param class table
  function utils.skip_init(class, ...)
    if type(class) ~= "table" or not class._name then error("skip_init: wants a class of modules first, as nn.Linear", 2) end
    local seed = torch.get_rng_state()
    local made = class(...)
    torch.set_rng_state(seed)
    return made
  end

  ---Scales gradients by a norm found before, as clip_grad_norm_ does.
  ---@param parameters table
  ---@param max_norm number
  ---@param total_norm userdata
  function utils.clip_grads_with_norm_(parameters, max_norm, total_norm)
    torch.no_grad(function()
      local factor = (max_norm / (total_norm + 1e-6)):clamp_max(1.0)
      for _, p in ipairs(torch.is_tensor(parameters) and {parameters} or parameters) do
        if p.grad then p.grad:mul_(factor:to(p.grad.device)) end
      end
    end)
  end
  ---The older name of clip_grad_norm_.
  utils.clip_grad_norm = utils.clip_grad_norm_
end
