-- Losses of torch.nn as modules, as rows: name, function, signature, sentence, and maybe an example's arguments and
-- its value.
local torch = torch
local nn = rawget(torch, "nn")
local F = nn.functional
local layer = require "torch.nn.layer"

local rows = {
  {"CrossEntropyLoss", "cross_entropy", 'weight=nil, ignore_index=-100, reduction="mean", label_smoothing=0.0', "-log softmax(scores) at the labels (from 1)."},
  {"NLLLoss", "nll_loss", 'weight=nil, ignore_index=-100, reduction="mean"', "Minus the log-probability at the labels (from 1)."},
  {"MSELoss", "mse_loss", 'reduction="mean"', "The mean of (input - target)^2."},
  {"L1Loss", "l1_loss", 'reduction="mean"', "The mean of |input - target|."},
  {"SmoothL1Loss", "smooth_l1_loss", 'reduction="mean", beta=1.0', "L1Loss with a parabola near 0."},
  {"HuberLoss", "huber_loss", 'reduction="mean", delta=1.0', "Half the squared difference, and linear where it is larger than delta."},
  {"BCELoss", "binary_cross_entropy", 'weight=nil, reduction="mean"', "Cross entropy of probabilities and targets in [0, 1]."},
  {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits", 'weight=nil, reduction="mean", pos_weight=nil', "Cross entropy of sigmoid(input) and targets in [0, 1], without overflow."},
  {"KLDivLoss", "kl_div", 'reduction="mean", log_target=false', "Kullback-Leibler divergence; the input holds log-probabilities."},
  {"PoissonNLLLoss", "poisson_nll_loss", 'log_input=true, full=false, eps=1e-8, reduction="mean"', "Minus the log-likelihood of counts; the input is the logarithm of the rate."},
  {"GaussianNLLLoss", "gaussian_nll_loss", 'full=false, eps=1e-6, reduction="mean"', "Minus the log-likelihood of normal numbers: loss(mean, target, variance)."},
  {"SoftMarginLoss", "soft_margin_loss", 'reduction="mean"', "log(1 + exp(-target input)), targets 1 or -1."},
  {"HingeEmbeddingLoss", "hinge_embedding_loss", 'margin=1.0, reduction="mean"', "The distance where the target is 1, max(0, margin - distance) where it is -1."},
  {"MarginRankingLoss", "margin_ranking_loss", 'margin=0.0, reduction="mean"', "max(0, -target (x1 - x2) + margin): which of two is to be larger."},
  {"CosineEmbeddingLoss", "cosine_embedding_loss", 'margin=0.0, reduction="mean"', "1 - cos for pairs with target 1, max(0, cos - margin) for target -1."},
  {"MultiMarginLoss", "multi_margin_loss", 'p=1, margin=1.0, weight=nil, reduction="mean"', "A margin between the label's score (labels from 1) and all others."},
  {"MultiLabelMarginLoss", "multilabel_margin_loss", 'reduction="mean"', "A margin between the scores of several labels (from 1, ended by -1) and all others."},
  {"MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", 'weight=nil, reduction="mean"', "The mean over classes of BCEWithLogitsLoss."},
  {"TripletMarginLoss", "triplet_margin_loss", 'margin=1.0, p=2.0, eps=1e-6, swap=false, reduction="mean"', "The anchor is to be nearer to the positive than to the negative, by a margin."},
  {"CTCLoss", "ctc_loss", 'blank=1, reduction="mean", zero_infinity=false', "Alignment-free loss of sequences: loss(log_probs, targets, input_lengths, target_lengths); classes from 1, the blank is 1."},
}
for _, row in ipairs(rows) do
  local name, f, signature, doc = table.unpack(row)
  local names = {}
  local Loss = layer.define(name, signature, doc, {see = "F." .. f,
    init = function(self, a)
      -- Tensors move with the module; the rest is handed on as it was given.
      for _, key in ipairs {"weight", "pos_weight"} do
        if torch.is_tensor(a[key]) then
          self:register_buffer(key, a[key])
        elseif a[key] ~= nil then
          torch._raise(("%s: %s must be a tensor, not a %s"):format(name, key, type(a[key])), 3)
        end
      end
    end,
    forward = function(self, ...)
      local options
      for _, n in ipairs(names) do
        local v = self[n]
        if v ~= nil and v ~= self._spec.default[n] then
          options = options or {}
          options[n] = v
        end
      end
      if not options then return F[f](...) end
      local given = table.pack(...)
      given[given.n + 1] = options
      return F[f](table.unpack(given, 1, given.n + 1))
    end})
  for i, n in ipairs(Loss._spec.names) do names[i] = n end
end

-- Lengths may also come as plain lists.
local ctc = nn.CTCLoss.forward
function nn.CTCLoss:forward(log_probs, targets, input_lengths, target_lengths)
  local function lengths(v) return type(v) == "table" and torch.tensor(v, {dtype = "int64"}) or v end
  return ctc(self, log_probs, targets, lengths(input_lengths), lengths(target_lengths))
end

layer.define("TripletMarginWithDistanceLoss", 'distance_function=nil, margin=1.0, swap=false, reduction="mean"',
  "TripletMarginLoss with a distance of one's own (a function of two tensors).", {see = "nn.TripletMarginLoss",
  forward = function(self, anchor, positive, negative)
    return F.triplet_margin_with_distance_loss(anchor, positive, negative, {distance_function = self.distance_function,
      margin = self.margin, swap = self.swap, reduction = self.reduction})
  end})
