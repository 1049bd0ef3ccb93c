-- torch.distributions: densities against formulas and counts, samples within their range, gradients.
local D = torch.distributions

test("log-probabilities and entropies are those of the formulas", function()
  local n = D.Normal(torch.tensor {0.0, 1.0}, torch.tensor {1.0, 2.0})
  check.close(n:log_prob(torch.tensor {0.0, 1.0}), {-0.9189385, -1.6120857})
  check.close(n:entropy(), {1.4189385, 2.1120857})
  check.close(n:cdf(torch.tensor {0.0, 1.0}), {0.5, 0.5})
  local u = D.Uniform(1, 3)
  check.close(u:log_prob(2.0), math.log(0.5))
  check.equal(D.Uniform {low = 1, high = 3, validate_args = false}:log_prob(torch.tensor {0.0, 3.0}), {-math.huge, -math.huge})
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

test("what a sample has computed keeps its gradient for the entropy and log-probabilities that follow", function()
  local scores = torch.tensor({0.5, -1.0, 2.0}, {requires_grad = true})
  for _, name in ipairs {"Bernoulli", "Categorical", "OneHotCategorical", "Geometric"} do
    local fresh, drawn = D[name] {logits = scores}, D[name] {logits = scores}
    drawn:sample {3}
    local _ = torch.no_grad(function() return drawn.probs end)
    check.equal(torch.autograd.grad(drawn:entropy():sum(), scores), torch.autograd.grad(fresh:entropy():sum(), scores), name)
  end
  local p = torch.tensor({0.5, 0.3, 0.2}, {requires_grad = true})
  local binomial = D.Binomial(5, p)
  binomial:sample()
  check.yes(torch.autograd.grad(binomial:log_prob(torch.tensor {1.0, 2.0, 3.0}):sum(), p):abs():min():item() > 0)
end)

test("divergences are 0 for equals and known for others", function()
  local p, q = D.Normal(torch.tensor {0.0}, torch.tensor {1.0}), D.Normal(torch.tensor {1.0}, torch.tensor {2.0})
  check.close(D.kl_divergence(p, q), {math.log(2) + 2 / 8 - 0.5})
  for _, d in ipairs {p, D.Uniform(0, 1), D.Exponential(3), D.Bernoulli {logits = 0.3}, D.Categorical(torch.tensor {0.2, 0.8})} do
    check.close(D.kl_divergence(d, d):sum(), 0, 1e-6)
  end
  check.raises("argument", "no closed form for Uniform and Cauchy", D.kl_divergence, D.Uniform(0, 1), D.Cauchy(0, 1))
  check.raises("argument", "no closed form for number and Normal", D.kl_divergence, 1, p)
end)

test("wrong parameters are told", function()
  check.raises("value", "scale must be above 0", D.Normal, 0, -1)
  check.raises("value", "above low", D.Uniform, 2, 1)
  check.raises("value", "between 0 and 1", D.Bernoulli, 1.5)
  check.raises("argument", "either probs or logits", D.Categorical)
  check.raises("argument", 'no argument "scal"', D.Normal, {loc = 0, scal = 1})
  check.raises("argument", "Normal", function() local d = D.Norml return d end)
  check.raises("value", "Gamma: concentration must be above 0", D.Gamma, -1, 1)
  check.raises("value", "Poisson: rate must be at least 0", D.Poisson, -1)
  check.raises("value", "Geometric: probs must be above 0, and at most 1", D.Geometric, 0)
  check.raises("value", "total_count must be a whole number", D.Binomial, 2.5, 0.5)
  check.raises("shape", "at least one dimension", D.Dirichlet, torch.tensor(1.0))
  check.raises("argument", "Beta: wants concentration1 and concentration0", D.Beta, 1)
  check.raises("value", "symmetric and positive definite", D.MultivariateNormal, torch.zeros(2), torch.tensor {{1.0, 2.0}, {2.0, 1.0}})
  check.raises("shape", "%[.., 2, 2%]", D.MultivariateNormal, torch.zeros(2), torch.eye(3))
  check.raises("argument", "one of covariance_matrix", D.MultivariateNormal, torch.zeros(2))
  check.raises("value", "fewer trials", D.kl_divergence, D.Binomial(2, 0.5), D.Binomial(3, 0.5))
  check.raises("value", "1 batch dimensions, and 2", D.Independent, D.Normal(torch.zeros(2), 1), 2)
  check.raises("autograd", "Poisson have no gradient", function() D.Poisson(2):rsample() end)
  for _, case in ipairs {{D.Beta(2, 3), 1.5, "between 0 and 1"}, {D.Poisson(2), 1.5, "whole number"}, {D.Normal(0, 1), 0 / 0, "not nan"}, {D.Gamma(1, 1), -1, "at least 0"},
    {D.Uniform(1, 3), 4, "from low to high"}, {D.Bernoulli(0.5), 0.3, "0 or 1"}, {D.Categorical(torch.ones(3)), 4, "positions from 1"}, {D.Binomial(3, 0.5), 4, "0 to total_count"},
    {D.Dirichlet(torch.ones(2)), torch.tensor {0.5, 0.6}, "sum to 1"}, {D.Multinomial(3, torch.ones(2)), torch.tensor {1.0, 1.0}, "sum to total_count"}} do
    check.raises("value", "log_prob: values of " .. case[1]._name .. " must be .*" .. case[3], case[1].log_prob, case[1], case[2])
  end
  check.yes(D.Beta {concentration1 = 2, concentration0 = 3, validate_args = false}:log_prob(1.5):isnan():item())
  check.contains(tostring(D.Gamma(2, torch.ones(3))), "Gamma(concentration = [3], rate = [3])")
  check.contains(tostring(D.Normal(0, 1)), "Normal(loc = 0, scale = 1)")
end)

local values = dofile((debug.getinfo(1, "S").source:sub(2):gsub("_test.lua", "_values.lua")))

local function made(name, parameters, dtype, grad)
  local given, leaves = {}, {}
  for key, v in pairs(parameters) do
    given[key] = v
    if name ~= "Multinomial" or key ~= "total_count" then given[key] = torch.tensor(v, {dtype = dtype}) end
    if grad and key ~= "total_count" then leaves[key] = given[key]:requires_grad_() end
  end
  return D[name](given), leaves
end
-- To so much of the size, and of 1.
local function near(got, want, share, what)
  want = torch.tensor(want, {dtype = "float64"})
  got = got:detach():double()
  check.equal(got.shape, want.shape, what)
  local same = got:eq(want) | (got:isnan() & want:isnan())
  local apart = torch.where(same, 0, (got - want):abs() / (want:abs() + 1))
  check.yes(apart:max():item() <= share, ("%s: %s, not %s"):format(what, tostring(got), tostring(want)))
end

test("every distribution gives PyTorch's densities, gradients, moments and, for a seed, its samples and their gradients", function()
  for _, row in ipairs(values.rows) do
    local name, parameters, value, want = table.unpack(row)
    local d, leaves = made(name, parameters, "float64", true)
    local x = torch.tensor(value, name ~= "Categorical" and {dtype = "float64"} or nil)
    local log = d:log_prob(x)
    near(log, want.log_prob, 1e-7, name .. " log_prob")
    log:sum():backward()
    for key, g in pairs(want.grads) do near(leaves[key].grad, g, 1e-7, name .. " gradient of " .. key) end
    if want.entropy then near(d:entropy(), want.entropy, 1e-7, name .. " entropy") end
    for _, key in ipairs {"mean", "variance", "mode"} do
      if want[key] then near(d[key], want[key], 1e-7, name .. " " .. key) end
    end
    if want.variance then near(d.stddev ^ 2, want.variance, 1e-7, name .. " stddev") end
    if want.cdf then near(d:cdf(x), want.cdf, 1e-7, name .. " cdf") end
    local single, singles = made(name, parameters, "float32", true)
    torch.manual_seed(7)
    local draws = single.has_rsample and single:rsample {2} or single:sample {2}
    near(draws, want.draws, 1e-5, name .. " draws")
    check.equal(draws.shape, torch.Size(D.Distribution and {2, table.unpack(draws.shape, 2)}))
    if want.slopes then
      draws:square():sum():backward()
      -- PyTorch's own slopes of gamma numbers are good to 5e-4.
      for key, g in pairs(want.slopes) do near(singles[key].grad, g, 2e-3, name .. " slope of " .. key) end
    end
    check.equal(d:expand({5, table.unpack(d.batch_shape)}):log_prob(x).shape, torch.Size {5, table.unpack(log.shape)})
  end
end)

test("divergences of all pairs that have one are PyTorch's", function()
  for _, row in ipairs(values.divergences) do
    local p, q = made(row[1], row[2], "float64"), made(row[3], row[4], "float64")
    near(D.kl_divergence(p, q), row[5], 1e-7, row[1] .. " from " .. row[3])
  end
end)

test("independent, mixed and transformed distributions are PyTorch's", function()
  local T = D.transforms
  local b = D.Independent(D.Normal(torch.tensor {{0.0, 1}, {2, 3}}, torch.tensor {1.0, 2}), 1)
  near(b:log_prob(torch.tensor {{0.5, 0.5}, {1, 1}}), {-2.6872742, -3.5310245}, 1e-6, "independent")
  near(b:entropy(), {3.5310245, 3.5310245}, 1e-6, "independent's entropy")
  check.equal({b.batch_shape, b.event_shape}, {torch.Size {2}, torch.Size {2}})
  near(D.kl_divergence(b, D.Independent(D.Normal(torch.zeros(2), 1), 1)), {1.3068528, 7.3068528}, 1e-6, "independent's divergence")
  local m = D.MixtureSameFamily(D.Categorical(torch.tensor {0.3, 0.7}), D.Normal(torch.tensor {-1.0, 2}, torch.tensor {0.5, 1.5}))
  near(m:log_prob(torch.tensor {0.0, 1, 5}), {-2.2170258, -1.9027623, -3.6810787}, 1e-6, "mixture")
  near(m.mean, 1.1, 1e-6, "mixture's mean")
  near(m.variance, 3.54, 1e-6, "mixture's variance")
  torch.manual_seed(3)
  near(m:sample {5}, {-1.2587676, -1.4654453, 1.0517466, -1.4512169, 5.328197}, 1e-5, "mixture's draws")
  m = D.MixtureSameFamily(D.Categorical(torch.tensor {0.3, 0.7}),
    D.Independent(D.Normal(torch.tensor {{-1.0, 2}, {0, 1}}, torch.tensor {{0.5, 1.5}, {1, 1}}), 1))
  near(m:log_prob(torch.tensor {0.0, 1}), -2.134469, 1e-6, "mixture of vectors")
  near(m.mean, {-0.3, 1.3}, 1e-6, "its mean")
  near(m.variance, {0.985, 1.585}, 1e-6, "its variance")
  torch.manual_seed(3)
  near(m:sample {2}, {{-0.95551097, 1.079423}, {-0.83125246, 3.5166738}}, 1e-5, "its draws")
  local t = D.TransformedDistribution(D.Normal(torch.tensor {0.0, 1}, 1), {T.AffineTransform(1, -2), T.SigmoidTransform()})
  near(t:log_prob(torch.tensor {0.2, 0.9}), {-0.49130428, -0.48192072}, 1e-6, "transformed")
  near(t:cdf(torch.tensor {0.2, 0.9}), {0.11640584, 0.9450466}, 1e-6, "transformed cdf")
  torch.manual_seed(3)
  near(t:rsample {2}, {{0.35284609, 0.20592484}, {0.69467002, 0.55661517}}, 1e-5, "transformed draws")
  near(D.TransformedDistribution(D.Normal(0, 1), {T.TanhTransform()}):log_prob(torch.tensor {0.2, -0.9}), {-0.89866674, -0.34192276}, 1e-6, "tanh")
  for _, way in ipairs {{T.SoftplusTransform(), T.PowerTransform(torch.tensor(2.0)), T.ExpTransform()},
    {T.ComposeTransform {T.SoftplusTransform(), T.PowerTransform(2), T.ExpTransform()}}} do
    near(D.TransformedDistribution(D.Normal(3, 1), way):log_prob(torch.tensor {2.0, 9}), {-5.3002014, -5.5211649}, 1e-6, "three transforms")
  end
  near(D.TransformedDistribution(D.Independent(D.Normal(torch.zeros(2), 1), 1), {T.ExpTransform()}):log_prob(torch.tensor {{0.2, 0.9}, {1, 2}}),
    {-1.4237742, -2.7712507}, 1e-6, "of vectors")
  near(D.Multinomial(4, torch.tensor {{0.2, 0.5, 0.3}, {0.1, 0.1, 0.8}}):entropy(), {2.3490841, 1.6010864}, 1e-6, "multinomial's entropy")
  near(D.Binomial(3, torch.tensor {0.2, 0.5}):entropy(), {0.97387338, 1.2554823}, 1e-6, "binomial's entropy")
  check.equal(D.Binomial(3, torch.tensor {0.2, 0.5}):enumerate_support(), {{0.0, 0.0}, {1.0, 1.0}, {2.0, 2.0}, {3.0, 3.0}})
  check.equal(D.Bernoulli(torch.tensor {0.2, 0.5}):enumerate_support(false), {{0.0}, {1.0}})
  check.equal(D.Categorical(torch.ones(2, 3)):enumerate_support(), {{1, 1}, {2, 2}, {3, 3}})
  near(D.Categorical(torch.tensor {0.2, 0.5, 0.3}):perplexity(), 2.8000941, 1e-6, "perplexity")
  torch.manual_seed(3)
  local p = torch.tensor({0.2, 0.5, 0.3}, {requires_grad = true})
  local one_hot = D.OneHotCategoricalStraightThrough(p):rsample {3}
  near(one_hot, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, 1e-6, "straight through")
  local scored = one_hot * torch.tensor {1.0, 2, 4}
  scored:sum():backward()
  check.yes(p.grad:abs():max():item() > 0)
end)

test("gamma numbers, shares and counts of successes are PyTorch's for a seed, in every layout and type", function()
  local shapes = torch.tensor {0.3, 1.0, 4.0, 50.0, 1000.0}
  torch.manual_seed(0)
  near(torch._standard_gamma(shapes), {5.9069516e-06, 0.1189837, 3.9824274, 45.514153, 991.42731}, 1e-6, "gamma")
  near(torch._standard_gamma(shapes:double()), {0.56502641, 0.11877236, 3.9066759, 43.641856, 952.70755}, 1e-7, "gamma of float64")
  near(torch._sample_dirichlet(shapes), {0.0002800166, 0.00056722242, 0.0024340339, 0.038687289, 0.95803142}, 1e-6, "shares")
  check.equal(torch.binomial(torch.full({6}, 40.0), torch.tensor {0.1, 0.2, 0.4, 0.6, 0.9, 1.0}), {6.0, 6.0, 19.0, 21.0, 38.0, 40.0})
  torch.manual_seed(0)
  local counts = torch.binomial(torch.arange(0.0, 2000.0), torch.full({2000}, 0.37))
  check.equal({counts:sum():item(), (counts:double() * torch.arange(2000)):sum():item()}, {740006.0, 986438095.0})
  torch.manual_seed(0)
  local gammas = torch._standard_gamma(torch.linspace(0.01, 30, 3000)):double()
  near(gammas:sum(), 44926.732, 1e-6, "the sum of gamma numbers")
  near((gammas * torch.arange(3000)):sum(), 89925145.0, 1e-6, "their weighted sum")
  local wide = torch.rand(5, 7) * 3 + 0.1
  torch.manual_seed(1)
  local a = torch._standard_gamma(wide:t())
  torch.manual_seed(1)
  check.equal(torch._standard_gamma(wide:t():contiguous()), a)
  torch.manual_seed(1)
  local b = torch.binomial(torch.full({7, 1}, 12.0), wide:t() / 4)
  torch.manual_seed(1)
  check.equal(torch.binomial(torch.full({7, 5}, 12.0), (wide:t() / 4):contiguous()), b)
  check.equal(torch._standard_gamma(torch.zeros(0, 3)).shape, torch.Size {0, 3})
  check.equal(torch._sample_dirichlet(torch.ones(0, 3)).shape, torch.Size {0, 3})
  check.yes(torch._standard_gamma(torch.zeros(3)):gt(0):all():item())  -- the least number, as in PyTorch
  check.raises("value", "shapes of 0 or more, element 2 is -1", torch._standard_gamma, torch.tensor {1.0, -1.0})
  check.raises("value", "element 1 is %-?nan", torch._standard_gamma, torch.tensor {0 / 0})
  check.raises("dtype", "floating", torch._standard_gamma, torch.tensor {1, 2})
  check.raises("dtype", "one type", torch.binomial, torch.ones(2), torch.ones(2):double())
  check.yes(torch.binomial(torch.tensor {5.0, math.huge}, torch.tensor {0 / 0, 0.5}):isnan():all():item())
end)

test("the slopes of gamma and Dirichlet samples are those of their distribution functions", function()
  local function slope(alpha, x)
    local a = torch.tensor(alpha, {dtype = "float64", requires_grad = true})
    torch.manual_seed(0)
    local drawn = torch._standard_gamma(a)
    local _ = x
    drawn:sum():backward()
    return drawn, a.grad
  end
  -- x of shape 1 is -log(1 - u); its slope, by the function of shape 1 + h, is E1's: against differences of a quantile that
  -- bisection finds in the series of the distribution function.
  local function cdf(a, x)
    local term, sum = 1.0, 1.0
    for k = 1, 2000 do
      term = term * x / (a + k)
      sum = sum + term
    end
    return math.exp(a * math.log(x) - x - torch.lgamma(torch.tensor(a + 1, {dtype = "float64"})):item()) * sum
  end
  for _, alpha in ipairs {0.05, 0.5, 1.0, 2.5, 9.0, 40.0} do
    local x, g = slope(alpha)
    x = x:item()
    local p = cdf(alpha, x)
    local function quantile(a)
      local low, high = 0.0, x * 4 + 4
      for _ = 1, 200 do
        local middle = (low + high) / 2
        if cdf(a, middle) < p then low = middle else high = middle end
      end
      return (low + high) / 2
    end
    local h = alpha * 1e-4
    check.close(g, (quantile(alpha + h) - quantile(alpha - h)) / (2 * h), math.max(1e-9, math.abs(g:item()) * 1e-5))
  end
  local c = torch.tensor({0.4, 2.0, 7.0}, {dtype = "float64", requires_grad = true})
  torch.manual_seed(2)
  local y = torch._sample_dirichlet(c)
  local rows = {}
  for i = 1, 3 do rows[i] = torch.autograd.grad(y[i], c, {retain_graph = true}) end
  check.close(torch.stack(rows):sum(1), torch.zeros(3):double(), 1e-12)  -- shares keep their sum
  check.raises("autograd", "second derivative", function()
    local g = torch.autograd.grad(torch._sample_dirichlet(c)[1], c, {create_graph = true})
    g:sum():backward()
  end)
end)
