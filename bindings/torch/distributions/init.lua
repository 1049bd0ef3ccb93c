-- torch.distributions: probability distributions that are sampled, and whose log-probabilities have gradients.
local torch = torch
local distributions = require("torch.distributions.base").made
require "torch.distributions.continuous"
require "torch.distributions.gamma"
require "torch.distributions.discrete"
require "torch.distributions.composed"
distributions.transforms = require("torch.distributions.transforms").classes
for name, transform in pairs(distributions.transforms) do distributions[name] = transform end
distributions.kl_divergence = require "torch.distributions.divergences"

return torch._strict(distributions, "torch.distributions")
