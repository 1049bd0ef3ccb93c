-- Losses of torch.nn as modules: name, function, and the names and defaults of its options.
local torch = torch
local nn = rawget(torch, "nn")
local F = nn.functional

local rows = {
  {"CrossEntropyLoss", "cross_entropy", {"weight", "ignore_index", "reduction", "label_smoothing"}},
  {"NLLLoss", "nll_loss", {"weight", "ignore_index", "reduction"}},
  {"MSELoss", "mse_loss", {"reduction"}},
  {"L1Loss", "l1_loss", {"reduction"}},
  {"SmoothL1Loss", "smooth_l1_loss", {"reduction", "beta"}},
  {"HuberLoss", "huber_loss", {"reduction", "delta"}},
  {"BCELoss", "binary_cross_entropy", {"weight", "reduction"}},
  {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits", {"weight", "reduction", "pos_weight"}},
  {"KLDivLoss", "kl_div", {"reduction", "log_target"}},
}
for _, row in ipairs(rows) do
  local name, f, names = table.unpack(row)
  local Loss = nn.class(name)
  nn[name] = Loss
  function Loss:init(...)
    local none = {}
    for _, n in ipairs(names) do none[n] = torch.none end
    local options = {}
    for k, v in pairs(nn._args(name, names, none, ...)) do
      if v ~= torch.none then options[k] = v end
    end
    rawset(self, "options", options)
    if torch.is_tensor(options.weight) then self:register_buffer("weight", options.weight) end
  end
  function Loss:forward(input, target)
    if next(self.options) then return F[f](input, target, self.options) end
    return F[f](input, target)
  end
end
