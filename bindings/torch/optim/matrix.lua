-- Optimisers that look at weights as matrices: Adafactor (Shazeer and Stern 2018) and Muon (Jordan and others 2024), in
-- PyTorch's forms.
local torch = torch
local error = torch._raise
local base = require "torch.optim.optimizer"
local at_least = base.at_least

base.class("Adafactor", "lr beta2_decay eps d weight_decay",
  {lr = 1e-2, beta2_decay = -0.8, eps = {torch.none, 1e-3}, d = 1.0, weight_decay = 0.0, maximize = false},
  function(g, name)
    at_least(g, name, "lr", 0)
    at_least(g, name, "weight_decay", 0)
    at_least(g, name, "d", 1)
    if type(g.beta2_decay) ~= "number" or g.beta2_decay > 0 then
      error(("%s: beta2_decay must be a number of at most 0, not %s"):format(name, tostring(g.beta2_decay)), 5, "value")
    end
    local function small(v) return type(v) == "number" and v >= 0 end
    if type(g.eps) ~= "table" or not (g.eps[1] == torch.none or small(g.eps[1])) or not small(g.eps[2]) then
      error(name .. ": eps must be two numbers from 0, the first may be torch.none: {torch.none, 1e-3}", 5, "value")
    end
  end,
  function(self, g)
    torch.no_grad(function()
      local params, grads, states, n = base.active(self, g, function(p, grad)
        if p.ndim < 2 then return {step = 0, variance = torch.zeros_like(grad)} end
        return {step = 0, row_var = torch.zeros_like(grad:narrow(-1, 1, 1)), col_var = torch.zeros_like(grad:narrow(-2, 1, 1))}
      end)
      for i = 1, n do
        local p, grad, s = params[i], grads[i], states[i]
        if g.maximize then grad = -grad end
        s.step = s.step + 1
        local eps1 = g.eps[1] == torch.none and torch.finfo(p.dtype).eps or g.eps[1]
        local weight = s.step ^ g.beta2_decay
        local root = math.sqrt(p:numel())
        local alpha = math.max(g.eps[2], p:norm():item() / root) * math.min(g.lr, 1 / math.sqrt(s.step))
        if g.weight_decay ~= 0 then p:mul_(1 - g.lr * g.weight_decay) end
        local variance
        if p.ndim > 1 then
          local square = grad * grad
          s.row_var:lerp_(square:mean({-1}, true), weight)
          s.col_var:lerp_(square:mean({-2}, true), weight)
          variance = s.row_var:matmul(s.col_var) / s.row_var:mean({-2}, true):clamp_min(eps1)
        else
          s.variance:lerp_(grad * grad, weight)
          variance = s.variance:clone()
        end
        local update = variance:clamp_min(eps1 * eps1):rsqrt() * grad
        p:add_(update, {alpha = -alpha / math.max(1, update:norm():item() / (root * g.d))})
      end
    end)
  end)

-- A matrix with the same directions and singular values near 1, by steps of Newton and Schulz that are rounded to
-- bfloat16, once each.
local function evened(grad, c, steps, eps)
  local tall = grad:size(1) > grad:size(2)
  local function low(t) return t:to(torch.bfloat16):to(torch.float32) end
  local x = low(tall and grad.T or grad)
  x = low(x / low(x:norm()):clamp_min(eps))
  for _ = 1, steps do
    local gram = low(x:matmul(x.T))
    local update = low(torch.addmm(gram, gram, gram, {beta = c[2], alpha = c[3]}))
    x = low(torch.addmm(x, update, x, {beta = c[1]}))
  end
  return tall and x.T or x
end

local ratios = {
  original = function(rows, columns) return math.sqrt(math.max(1, rows / columns)) end,
  match_rms_adamw = function(rows, columns) return 0.2 * math.sqrt(math.max(rows, columns)) end,
  spectral_unclamped = function(rows, columns) return math.sqrt(rows / columns) end,
}

base.class("Muon", "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn",
  {lr = 1e-3, weight_decay = 0.1, momentum = 0.95, nesterov = true, ns_coefficients = {3.4445, -4.7750, 2.0315},
  eps = 1e-7, ns_steps = 5, adjust_lr_fn = "original"},
  function(g, name)
    for _, key in ipairs {"lr", "weight_decay", "momentum", "eps"} do at_least(g, name, key, 0) end
    if not ratios[g.adjust_lr_fn] then
      error(('%s: adjust_lr_fn must be "original", "match_rms_adamw" or "spectral_unclamped", not %s'):format(name, tostring(g.adjust_lr_fn)), 5, "value")
    end
    if math.type(g.ns_steps) ~= "integer" or g.ns_steps < 0 or g.ns_steps >= 100 then
      error(("%s: ns_steps must be an integer below 100, not %s"):format(name, tostring(g.ns_steps)), 5, "value")
    end
    for i, p in ipairs(g.params) do
      if p.ndim ~= 2 then
        error(("%s: takes matrices alone; parameter %d has shape %s (biases and embeddings belong to AdamW)"):format(name, i, tostring(p.shape)), 5, "shape")
      end
    end
  end,
  function(self, g)
    torch.no_grad(function()
      local params, grads, states, n = base.active(self, g, function(_, grad) return {momentum_buffer = torch.zeros_like(grad)} end)
      for i = 1, n do
        local p, grad, buffer = params[i], grads[i], states[i].momentum_buffer
        buffer:lerp_(grad, 1 - g.momentum)
        local update = evened(g.nesterov and grad:lerp(buffer, g.momentum) or buffer, g.ns_coefficients, g.ns_steps, g.eps)
        p:mul_(1 - g.lr * g.weight_decay)
        p:add_(update:to(p.dtype), {alpha = -g.lr * ratios[g.adjust_lr_fn](p:size(1), p:size(2))})
      end
    end)
  end)

return base.optim
