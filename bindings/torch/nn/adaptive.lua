-- AdaptiveLogSoftmaxWithLoss (Grave et al. 2017): rare classes in clusters with smaller layers.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F = nn.functional
local define = require("torch.nn.layer").define

local function check_cutoffs(self)
  local last = 0
  for i, c in ipairs(self.cutoffs) do
    if math.type(c) ~= "integer" or c <= last or c >= self.n_classes then
      error(("AdaptiveLogSoftmaxWithLoss: cutoffs must be whole numbers that rise and lie below n_classes=%d; number %d is %s"):format(
        self.n_classes, i, tostring(c)), 4, "value")
    end
    last = c
  end
  if last == 0 then error("AdaptiveLogSoftmaxWithLoss: wants at least one cutoff", 4, "value") end
end

local Adaptive = define("AdaptiveLogSoftmaxWithLoss", "in_features, n_classes, cutoffs, div_value=4.0, head_bias=false, device=nil, dtype=nil",
  "Log-probabilities of very many classes, sorted by how frequent they are: `output, loss = layer(x, labels)`, labels from 1; log_prob(x), predict(x).", {
  rule = "[N, in_features], labels [N] -> [N] and []", see = "nn.CrossEntropyLoss",
  example = "y, loss = nn.AdaptiveLogSoftmaxWithLoss(8, 20, {4, 10})(torch.ones(3, 8), torch.tensor{1, 7, 20})\ny.shape --> [3]",
  init = function(self, a)
    if type(a.cutoffs) ~= "table" then error("AdaptiveLogSoftmaxWithLoss: cutoffs must be a list", 3) end
    check_cutoffs(self)
    local ends = table.move(a.cutoffs, 1, #a.cutoffs, 1, {})
    ends[#ends + 1] = a.n_classes
    rawset(self, "cutoffs", ends)
    rawset(self, "shortlist_size", ends[1])
    rawset(self, "n_clusters", #ends - 1)
    local function linear(from, to, bias) return nn.Linear {from, to, bias = bias, device = a.device, dtype = a.dtype} end
    self.head = linear(a.in_features, ends[1] + #ends - 1, a.head_bias)
    self.tail = nn.ModuleList()
    for i = 1, #ends - 1 do
      local hidden = math.floor(a.in_features // a.div_value ^ i)
      self.tail:append(nn.Sequential(linear(a.in_features, hidden, false), linear(hidden, ends[i + 1] - ends[i], false)))
    end
  end,
  forward = function(self, x, labels)
    local alone = labels.ndim == 0
    if alone then x, labels = x:unsqueeze(1), labels:unsqueeze(1) end
    if labels:numel() ~= x:size(1) then
      error(("AdaptiveLogSoftmaxWithLoss: %d labels for %d inputs"):format(labels:numel(), x:size(1)), 2, "shape")
    end
    if labels:numel() > 0 and (labels:min():item() < 1 or labels:max():item() > self.n_classes) then
      error(("AdaptiveLogSoftmaxWithLoss: labels must lie in 1..%d"):format(self.n_classes), 2, "index")
    end
    local low, place = self.shortlist_size, labels
    local parts, rows = {}, {}
    for i = 1, self.n_clusters do
      local high = self.cutoffs[i + 1]
      local inside = labels:gt(low) & labels:le(high)
      local at = inside:nonzero():squeeze(2)
      if at:numel() > 0 then
        local scores = F.log_softmax(self.tail[i](x:index_select(1, at)), 2)
        parts[#parts + 1] = scores:gather(2, (labels:index_select(1, at) - low):unsqueeze(2)):squeeze(2)
        rows[#rows + 1] = at
        place = torch.where(inside, torch.full_like(labels, self.shortlist_size + i), place)
      end
      low = high
    end
    local out = F.log_softmax(self.head(x), 2):gather(2, place:unsqueeze(2)):squeeze(2)
    for i, at in ipairs(rows) do out = out:index_add(1, at, parts[i]) end
    local loss = -out:mean()
    if alone then out = out:squeeze(1) end
    return out, loss
  end,
})

---The log-probabilities of all classes, [N, n_classes].
function Adaptive:log_prob(x)
  local head = F.log_softmax(self.head(x), 2)
  local parts = {head:narrow(2, 1, self.shortlist_size)}
  for i = 1, self.n_clusters do
    parts[i + 1] = F.log_softmax(self.tail[i](x), 2) + head:narrow(2, self.shortlist_size + i, 1)
  end
  return torch.cat(parts, 2)
end
---The likeliest class of each input, from 1.
function Adaptive:predict(x) return self:log_prob(x):argmax(2) end
