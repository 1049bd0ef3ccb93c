-- Activations of torch.nn, as rows.
local torch = torch
local error = torch._raise
local nn = rawget(torch, "nn")
local F = nn.functional
local layer = require "torch.nn.layer"
local define, full = layer.define, layer.full

-- Name, signature, arguments of the function, sentence, pattern of the text, and the function where it is not called
-- as the layer in small letters.
local activations = {
  {"ReLU", "inplace=false", {}, "Each element, or 0 where it is negative."},
  {"ReLU6", "inplace=false", {}, "Each element, held between 0 and 6."},
  {"Sigmoid", "", {}, "1 / (1 + exp(-x))."},
  {"Tanh", "", {}, "Hyperbolic tangent."},
  {"GELU", 'approximate="none"', {"approximate"}, "x times the normal distribution's Phi(x).", "approximate"},
  {"SiLU", "inplace=false", {}, "x * sigmoid(x)."},
  {"Mish", "inplace=false", {}, "x * tanh(softplus(x))."},
  {"LeakyReLU", "negative_slope=0.01, inplace=false", {"negative_slope"}, "Each element, times a slope where negative.", "negative_slope", "leaky_relu"},
  {"ELU", "alpha=1.0, inplace=false", {"alpha"}, "Each element, or alpha * (exp(x) - 1) where negative.", "alpha"},
  {"CELU", "alpha=1.0, inplace=false", {"alpha"}, "Each element, or alpha * (exp(x / alpha) - 1) where negative.", "alpha"},
  {"SELU", "inplace=false", {}, "ELU scaled so that activations keep mean 0 and variance 1."},
  {"Hardtanh", "min_val=-1.0, max_val=1.0, inplace=false", {"min_val", "max_val"}, "Each element, held between two bounds.", "min_val, max_val"},
  {"Hardsigmoid", "inplace=false", {}, "Three straight pieces in the place of sigmoid."},
  {"Hardswish", "inplace=false", {}, "x times Hardsigmoid of x."},
  {"Hardshrink", "lambd=0.5", {"lambd"}, "0 where |x| <= lambd, else x.", "lambd!"},
  {"Softshrink", "lambd=0.5", {"lambd"}, "Moves every element by lambd towards 0.", "lambd!"},
  {"Tanhshrink", "", {}, "x - tanh(x)."},
  {"Softsign", "", {}, "x / (1 + |x|)."},
  {"LogSigmoid", "", {}, "The logarithm of sigmoid."},
  {"Softplus", "beta=1.0, threshold=20.0", {"beta", "threshold"}, "log(1 + exp(beta x)) / beta.", "beta, threshold"},
  {"Softmax", "dim=-1", {"dim"}, "Positive numbers along a dimension that add up to 1.", "dim@"},
  {"Softmin", "dim=-1", {"dim"}, "Softmax of -x.", "dim@"},
  {"LogSoftmax", "dim=-1", {"dim"}, "The logarithm of softmax.", "dim@", "log_softmax"},
}
for _, row in ipairs(activations) do
  local name, signature, passed, doc, repr, f = table.unpack(row)
  f = f or name:lower()
  local can_inplace = signature:find "inplace"
  local plain, inplace = F[f] or torch[f], can_inplace and F[f .. "_"]
  local first, second = passed[1], passed[2]
  define(name, signature, doc, {
    repr = (repr or "") .. (can_inplace and " inplace?" or ""), see = "F." .. f, rule = "any shape -> the same shape",
    forward = function(self, x)
      local g = can_inplace and self.inplace and inplace or plain
      if second then return g(x, self[first], self[second]) end
      if f == "gelu" then return g(x, {approximate = self.approximate}) end
      if first then return g(x, self[first]) end
      return g(x)
    end,
  })
end

define("Softmax2d", "", "Softmax over the channels of images.", {see = "F.softmax", rule = "[.., C, H, W] -> the same shape",
  forward = function(_, x)
    if x.ndim ~= 3 and x.ndim ~= 4 then error("Softmax2d: wants 3 or 4 dimensions, not shape " .. tostring(x.shape), 2, "shape") end
    return F.softmax(x, -3)
  end})
define("Threshold", "threshold, value, inplace=false", "Each element, or a value where it is not above the threshold.", {
  repr = "threshold, value, inplace?", see = "F.threshold", rule = "any shape -> the same shape",
  forward = function(self, x) return (self.inplace and F.threshold_ or F.threshold)(x, self.threshold, self.value) end})
define("RReLU", "lower=0.125, upper=0.3333333333333333, inplace=false", "Each element, times a random slope where negative (in evaluation the mean slope).", {
  repr = "lower, upper, inplace?", see = "F.rrelu", rule = "any shape -> the same shape",
  forward = function(self, x) return F.rrelu(x, self.lower, self.upper, self.training, self.inplace) end})
define("GLU", "dim=-1", "The first half times sigmoid of the second half.", {repr = "dim@", see = "F.glu", rule = "[.., 2 n] -> [.., n]",
  forward = function(self, x) return F.glu(x, self.dim) end})
define("PReLU", "num_parameters=1, init=0.25, device=nil, dtype=nil", "Each element, times a trained slope where negative.", {
  repr = "num_parameters", see = "F.prelu, nn.LeakyReLU", rule = "any shape -> the same shape",
  init = function(self, a)
    rawset(self, "init", nil)
    self.weight = full({a.num_parameters}, a.init, a)
  end,
  forward = function(self, x) return F.prelu(x, self.weight) end})
