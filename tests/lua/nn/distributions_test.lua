-- torch.distributions: densities against formulas and counts, samples within their range, gradients.
local D = torch.distributions

test("log-probabilities and entropies are those of the formulas", function()
  local n = D.Normal(torch.tensor {0.0, 1.0}, torch.tensor {1.0, 2.0})
  check.close(n:log_prob(torch.tensor {0.0, 1.0}), {-0.9189385, -1.6120857})
  check.close(n:entropy(), {1.4189385, 2.1120857})
  check.close(n:cdf(torch.tensor {0.0, 1.0}), {0.5, 0.5})
  local u = D.Uniform(1, 3)
  check.close(u:log_prob(2.0), math.log(0.5))
  check.equal(u:log_prob(torch.tensor {0.0, 3.0}), {-math.huge, -math.huge})
  check.close(u.mean, 2)
  check.close(D.Exponential(2):log_prob(1.0), math.log(2) - 2)
  local b = D.Bernoulli {probs = torch.tensor {0.25, 0.5}}
  check.close(b:log_prob(torch.tensor {1.0, 0.0}), {math.log(0.25), math.log(0.5)})
  check.close(b:entropy()[2], math.log(2))
  local c = D.Categorical {logits = torch.tensor {{0.0, 0.0}, {math.log(3), 0.0}}}
  check.close(c:log_prob(torch.tensor {1, 1}), {math.log(0.5), math.log(0.75)})
  check.close(c:entropy()[1], math.log(2))
  check.equal(c:log_prob(torch.tensor {{1, 1}, {2, 2}, {1, 2}}).shape, torch.Size {3, 2})
end)

test("samples have their shapes and ranges, and positions count from 1", function()
  torch.manual_seed(1)
  local c = D.Categorical(torch.tensor {{0.0, 1.0, 0.0}, {0.5, 0.0, 0.5}})
  local s = c:sample {100}
  check.equal(s.shape, torch.Size {100, 2})
  check.equal(s:select(2, 1), torch.full({100}, 2))
  check.equal(s:select(2, 2):unique(), {1, 3})
  check.equal(D.Normal(0, 1):sample().shape, torch.Size {})
  check.equal(D.Normal(torch.zeros(3), 1):sample {2}.shape, torch.Size {2, 3})
  local u = D.Uniform(torch.tensor {0.0, 10.0}, torch.tensor {1.0, 11.0}):sample {50}
  check.yes((u:ge(torch.tensor {0.0, 10.0}) & u:lt(torch.tensor {1.0, 11.0})):all():item())
  check.close(D.Normal(3, 0.5):sample {4000}:mean(), 3, 0.02)
  check.equal(D.Bernoulli(torch.tensor {0.0, 1.0}):sample(), {0.0, 1.0})
end)

test("rsample carries gradients, sample does not, and the score function's gradient is there", function()
  local loc, scale = torch.zeros(2, {requires_grad = true}), torch.ones(2, {requires_grad = true})
  D.Normal(loc, scale):rsample():sum():backward()
  check.equal(loc.grad, {1.0, 1.0})
  check.no(D.Normal(loc, scale):sample().requires_grad)
  local logits = torch.zeros(1, 3, {requires_grad = true})
  local m = D.Categorical {logits = logits}
  local loss = -m:log_prob(torch.tensor {2}):sum()
  loss:backward()
  check.close(logits.grad, {{1 / 3, -2 / 3, 1 / 3}})
  check.raises("autograd", "use sample and log_prob", m.rsample, m)
end)

test("divergences are 0 for equals and known for others", function()
  local p, q = D.Normal(torch.tensor {0.0}, torch.tensor {1.0}), D.Normal(torch.tensor {1.0}, torch.tensor {2.0})
  check.close(D.kl_divergence(p, q), {math.log(2) + 2 / 8 - 0.5})
  for _, d in ipairs {p, D.Uniform(0, 1), D.Exponential(3), D.Bernoulli {logits = 0.3}, D.Categorical(torch.tensor {0.2, 0.8})} do
    check.close(D.kl_divergence(d, d):sum(), 0, 1e-6)
  end
  check.raises("argument", "of one kind, not Normal and Uniform", D.kl_divergence, p, D.Uniform(0, 1))
end)

test("wrong parameters are told", function()
  check.raises("value", "scale must be above 0", D.Normal, 0, -1)
  check.raises("value", "above low", D.Uniform, 2, 1)
  check.raises("value", "between 0 and 1", D.Bernoulli, 1.5)
  check.raises("argument", "either probs or logits", D.Categorical)
  check.raises("argument", 'no argument "scal"', D.Normal, {loc = 0, scal = 1})
  check.raises("argument", "Normal", function() local d = D.Norml return d end)
  check.contains(tostring(D.Normal(0, 1)), "Normal(loc = 0, scale = 1)")
end)
