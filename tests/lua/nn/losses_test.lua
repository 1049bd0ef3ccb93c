-- Losses and normalisations as a user meets them: labels from 1, what wrong calls say, running
-- statistics, layouts. The numbers are PyTorch's.
local F = torch.nn.functional

local logits = torch.tensor{{1., 2., 3.}, {1., 5., 2.}}

test("cross_entropy takes labels from 1", function()
  check.close(F.cross_entropy(logits, torch.tensor{3, 1}), (0.40760596 + 4.06588477) / 2, 1e-6)
  check.close(F.cross_entropy(logits, torch.tensor{3, 1}, {reduction = "none"}), {0.40760596, 4.06588477}, 1e-6)
  check.close(F.cross_entropy(logits, torch.tensor{3, 1}, {ignore_index = 1}), 0.40760596, 1e-6)
  check.close(F.cross_entropy(logits, torch.tensor{3, -100}), 0.40760596, 1e-6)
  check.close(F.cross_entropy(logits, torch.tensor{{0., 0., 1.}, {1., 0., 0.}}), (0.40760596 + 4.06588477) / 2, 1e-6)
end)

test("a label that is no class is an index error that says where", function()
  local x = torch.rand(4, 10)
  local err = check.raises("index", "target[3] = 11 but the logits have 10 classes (valid 1..10; labels start at 1)",
    F.cross_entropy, x, torch.tensor{1, 2, 11, 4})
  check.equal(err.op, "cross_entropy")
  check.raises("index", "target[1] = 0 but", F.cross_entropy, x, torch.tensor{0, 2, 1, 4})
  check.raises("index", "target[2, 3] = 7 but", F.cross_entropy, torch.rand(2, 5, 3), torch.tensor{{1, 2, 3}, {1, 2, 7}})
  check.raises("index", "nll_loss: target[4] = 12", F.nll_loss, x, torch.tensor{1, 2, 3, 12})
  check.raises("index", "multi_margin_loss: target[1] = 11", F.multi_margin_loss, x, torch.tensor{11, 1, 1, 1})
end)

test("labels of a wrong type, shape or number are refused", function()
  local x = torch.rand(4, 10)
  local err = check.raises("dtype", "targets must be class numbers (int64), got float32 [4]", F.cross_entropy, x, torch.rand(4))
  check.contains(err.hint, "y:long()")
  check.contains(err.hint, "[4, 10]")
  check.raises("shape", "need targets of shape [4], got [5]", F.cross_entropy, x, torch.tensor{1, 2, 3, 4, 5})
  check.raises("shape", "each of the 10 classes", F.cross_entropy, x, torch.tensor{1, 2, 3, 4}, torch.rand(3))
  check.raises("argument", "\"mean\", \"sum\" or \"none\"", F.cross_entropy, x, torch.tensor{1, 2, 3, 4}, {reduction = "avg"})
  check.raises("dtype", "floating point", F.binary_cross_entropy, torch.rand(4), torch.tensor{1, 0, 1, 0})
  check.raises("value", "element 2 is 1.5", F.binary_cross_entropy, torch.tensor{.5, 1.5}, torch.rand(2))
  check.raises("broadcast", nil, F.mse_loss, torch.rand(5, 4), torch.rand(5, 5))
  check.raises("value", "delta", F.huber_loss, torch.rand(2), torch.rand(2), {delta = 0})
end)

test("an ignored sample has no gradient, whatever its scores", function()
  local x = torch.tensor({{1., 2.}, {1 / 0, 0.}}, {requires_grad = true})
  F.cross_entropy(x, torch.tensor{1, -100}):backward()
  check.close(x.grad, {{-0.7310586, 0.7310586}, {0, 0}}, 1e-6)
end)

test("label smoothing gives every class its share, beside each other or along places, with gradients", function()
  torch.manual_seed(21)
  for _, dtype in ipairs {torch.float32, torch.float64} do
    for _, shape in ipairs {{1, 1}, {5, 3}, {7, 26}, {3, 1000}, {2, 4, 3}, {3, 5, 70}, {2, 3, 40, 30}, {1, 2, 1030}} do
      for kind = 1, 4 do
        local classes, of = shape[2], {table.unpack(shape)}
        table.remove(of, 2)
        local x = (torch.randn(shape, {dtype = dtype}) * 3 + (kind == 4 and 1000 or 0)):requires_grad_()
        local y = torch.randint(1, classes + 1, of)
        local weight = kind == 2 and torch.rand(classes, {dtype = dtype}) or nil
        if kind == 3 then y:reshape(-1)[1] = -100 end
        local got = F.cross_entropy(x, y, {weight = weight, label_smoothing = 0.2, reduction = "none"})
        local kept = y:ne(-100):to(torch.float64)
        local wide = x:detach():to(torch.float64):requires_grad_()
        local minus = -F.log_softmax(wide, {dim = 2})
        local w = (weight or torch.ones(classes, {dtype = dtype})):to(torch.float64)
        local along = w:view(1, classes, table.unpack(torch.ones(#shape - 2, {dtype = torch.int64}):tolist()))
        local at = y:clamp(1):unsqueeze(2)
        local want = (0.8 * (minus * along):gather(2, at):squeeze(2) + 0.2 / classes * (minus * along):sum(2)) * kept
        local near = dtype == torch.float64 and 1e-9 or kind == 4 and 2e-3 or 1e-5
        check.close(got:detach():to(torch.float64), want:detach(), near, near)
        local g = torch.randn(of, {dtype = dtype})
        got:backward(g)
        want:backward(g:to(torch.float64))
        check.close(x.grad:to(torch.float64), wide.grad, near, near)
      end
    end
  end
end)

test("losses of a prediction and a target", function()
  local x, y = torch.tensor{1., 2., 4.}, torch.tensor{1., 0., 1.}
  check.close(F.mse_loss(x, y), 13 / 3)
  check.close(F.mse_loss(x, y, {reduction = "sum"}), 13)
  check.close(F.l1_loss(x, y), 5 / 3)
  check.close(F.smooth_l1_loss(x, y), (1.5 + 2.5) / 3)
  check.close(F.huber_loss(x, y, {delta = 2., reduction = "none"}), {0, 2, 4})
  check.close(F.binary_cross_entropy_with_logits(torch.tensor{0., 100., -100.}, torch.tensor{1., 1., 0.}), 0.6931472 / 3)
  check.close(F.kl_div(torch.tensor{{-1., -2.}}, torch.tensor{{0., 1.}}, {reduction = "batchmean"}), 2)
end)

test("batch_norm updates the running statistics in training, and uses them else", function()
  local x = torch.tensor{{1., 10.}, {3., 30.}}
  local mean, var = torch.tensor{0., 0.}, torch.tensor{1., 1.}
  local y = F.batch_norm(x, mean, var, {training = true, momentum = 0.5})
  check.close(y, {{-0.999995, -1}, {0.999995, 1}}, 1e-5)
  check.close(mean, {1, 10})
  check.close(var, {1.5, 100.5})
  check.close(F.batch_norm(x, mean, var, nil, nil, false, 0.1, 0.0), {{0, 0}, {2 / math.sqrt(1.5), 20 / math.sqrt(100.5)}}, 1e-5)
  check.close(mean, {1, 10})
end)

test("batch_norm of one sample says what to do", function()
  local err = check.raises("shape", "training needs at least 2 values per channel, this batch has 1 sample",
    F.batch_norm, torch.rand(1, 3), nil, nil, {training = true})
  check.contains(err.hint, "model:eval()")
  check.raises("argument", "running_mean", F.batch_norm, torch.rand(4, 3))
  check.raises("shape", "each of the 3 channels", F.batch_norm, torch.rand(4, 3), nil, nil, torch.rand(2), nil, true)
end)

test("batch_norm keeps the layout of its input, and its numbers do not depend on it", function()
  torch.manual_seed(1)
  local outside = torch.rand(2, 5, 3, 4)
  local inside = outside:permute(1, 3, 4, 2):contiguous():permute(1, 4, 2, 3)
  local weight = torch.rand(5)
  local function run(x)
    x:requires_grad_()
    local y = F.batch_norm(x, nil, nil, weight, nil, true)
    ;(y * y * y):sum():backward()
    return y, x.grad
  end
  local y1, g1 = run(outside)
  local y2, g2 = run(inside)
  check.equal(y2:stride(), inside:stride())
  check.close(y2:detach(), y1:detach(), 1e-5)
  check.close(g2, g1, 1e-5)
end)

test("layer, group, instance and rms norm", function()
  local x = torch.tensor{{1., 2., 3., 4.}}
  local d = math.sqrt(1.25 + 1e-5)
  check.close(F.layer_norm(x, {4}), {{-1.5 / d, -0.5 / d, 0.5 / d, 1.5 / d}})
  check.close(F.layer_norm(x, {4}, torch.tensor{1., 1., 2., 2.}, torch.tensor{0., 0., 0., 1.}), {{-1.5 / d, -0.5 / d, 1 / d, 3 / d + 1}})
  local e = math.sqrt(0.25 + 1e-5)
  check.close(F.group_norm(x, 2), {{-0.5 / e, 0.5 / e, -0.5 / e, 0.5 / e}})
  check.close(F.instance_norm(torch.tensor{{{1., 2.}, {3., 4.}}}), {{{-0.5 / e, 0.5 / e}, {-0.5 / e, 0.5 / e}}})
  check.close(F.rms_norm(x, {4}), {{1 / math.sqrt(7.5), 2 / math.sqrt(7.5), 3 / math.sqrt(7.5), 4 / math.sqrt(7.5)}})
  check.raises("shape", "does not end in normalized_shape [3]", F.layer_norm, x, {3})
  check.raises("shape", "do not divide into 3 groups", F.group_norm, x, 3)
  check.raises("shape", "at least 2 values per channel", F.instance_norm, torch.rand(1, 2, 1))
end)

-- At 10000 the mean itself is rounded by up to 0.0005.
test("a large mean costs no digits of the variance", function()
  torch.manual_seed(2)
  local x = torch.randn(64, 8) + 10000
  local exact = F.layer_norm(x:to("float64"), {8})
  check.close(F.layer_norm(x, {8}):to("float64"), exact, 2e-3)
  local y = F.batch_norm(x, nil, nil, {training = true}):to("float64")
  check.close(y, F.batch_norm(x:to("float64"), nil, nil, {training = true}), 2e-3)
end)

test("normalize, distances and cosines", function()
  check.close(F.normalize(torch.tensor{{3., 4.}}), {{0.6, 0.8}})
  check.close(F.cosine_similarity(torch.tensor{{1., 0.}, {1., 1.}}, torch.tensor{{0., 1.}, {2., 2.}}), {0, 1})
  check.close(torch.cdist(torch.tensor{{0., 0.}}, torch.tensor{{3., 4.}, {0., 1.}}), {{5, 1}})
  check.close(F.pairwise_distance(torch.tensor{{0., 0.}}, torch.tensor{{3., 4.}}), {5}, 1e-4)
end)

test("ctc_loss has no second derivative, and says so", function()
  local F = torch.nn.functional
  local x = torch.randn(4, 1, 3):requires_grad_()
  local function loss() return F.ctc_loss(x:log_softmax(3), torch.tensor {{2, 3}}, torch.tensor {4}, torch.tensor {2}) end
  check.raises("autograd", "second derivative", function() return torch.autograd.grad(loss(), {x}, {create_graph = true}) end)
  loss():backward {retain_graph = true}
  check.yes(x.grad:isfinite():all():item())
end)

-- The loss by all ways to stretch the labels over the steps, with a graph that makes the gradient.
local function ctc_by_definition(x, labels)
  local states = {1}
  for _, l in ipairs(labels) do
    states[#states + 1] = l
    states[#states + 1] = 1
  end
  local ways = {}
  local function go(t, s, sum)
    sum = sum + x[{t, states[s]}]
    if t == x.shape[1] then
      if s >= #states - 1 then ways[#ways + 1] = sum end
      return
    end
    go(t + 1, s, sum)
    if s + 1 <= #states then go(t + 1, s + 1, sum) end
    if s + 2 <= #states and states[s + 2] ~= 1 and states[s + 2] ~= states[s] then go(t + 1, s + 2, sum) end
  end
  go(1, 1, torch.zeros({}, {dtype = x.dtype}))
  if #states > 1 then go(1, 2, torch.zeros({}, {dtype = x.dtype})) end
  return -torch.stack(ways):logsumexp(1)
end

test("ctc_loss and its gradient are those of all ways through the steps, also where one is sure", function()
  local F = torch.nn.functional
  torch.manual_seed(3)
  for _, c in ipairs {{5, {2, 3}}, {6, {2, 2, 3}}, {7, {4, 3, 4}}, {4, {}}, {1, {2}}, {3, {3, 2, 3}}} do
    for _, peak in ipairs {1, 30} do
      local x = (torch.randn(c[1], 4):double() * peak):requires_grad_()
      local a, b = x:detach():clone():requires_grad_(), x:detach():clone():requires_grad_()
      local lengths = {torch.tensor {c[1]}, torch.tensor {#c[2]}}
      local target = #c[2] > 0 and torch.tensor {c[2]} or torch.ones(1, 0):long()
      local got = F.ctc_loss(a:log_softmax(2):unsqueeze(2), target, lengths[1], lengths[2], {reduction = "sum"})
      local want = ctc_by_definition(b:log_softmax(2), c[2])
      got:backward()
      want:backward()
      check.close(got:item(), want:item(), 1e-9)
      check.close(a.grad:flatten():tolist(), b.grad:flatten():tolist(), 1e-9)
    end
  end
end)

test("ctc_loss of labels that do not fit into the steps is inf, and with zero_infinity nothing", function()
  local F = torch.nn.functional
  local function run(zero)
    local x = torch.zeros(2, 1, 4):requires_grad_()
    local y = F.ctc_loss(x, torch.tensor {{2, 2, 3}}, torch.tensor {2}, torch.tensor {3}, {reduction = "sum", zero_infinity = zero})
    y:backward()
    return y:item(), x.grad
  end
  local y, g = run(false)
  check.equal(y, math.huge)
  check.yes(g:isnan():all():item())
  y, g = run(true)
  check.equal(y, 0.0)
  check.equal(g:abs():max():item(), 0.0)
end)
