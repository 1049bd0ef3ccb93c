--# title   Mixed precision, and when the scale halves
--# see     amp autocast

--# say     A number with 16 bits takes half the memory of one with 32, and cards compute several times faster
--#         with it. There are two kinds. float16 has 11 binary digits, about three decimal ones, and ends
--#         at 65504. bfloat16 has 8 binary digits, about two, but the range of float32.
--# new     tensor half bfloat16 isinf
--# predict torch.tensor(70000.0):half():isinf():item() --> true
--# ask     Does 70000 become infinite as a float16? (true or false)
--# wrong   false: The largest float16 is 65504.
--# hint    The largest float16 is 65504.
print(torch.tensor(70000.0):half(), torch.tensor(70000.0):bfloat16())

--# say     And the digits: with 11 of them, whole numbers are exact up to 2 ^ 11.
--# predict torch.tensor(2049.0):half():item() --> 2048
--# wrong   2049: That needs 12 binary digits.
--# wrong   2050: Halfway between 2048 and 2050; the even one is taken.
--# hint    2 ^ 11 is 2048. One more needs 12 digits.

--# say     bfloat16 has 8: it cannot tell 256 from
--# predict torch.tensor(257.0):bfloat16():item() --> 256
--# wrong   257: That needs 9 binary digits.
--# wrong   258: Halfway between 256 and 258; the even one is taken.
--# hint    2 ^ 8 is 256. One more needs 9 digits.

--# say     That is bad for weights: a step is often less than a thousandth of the weight. A weight of 1, and
--#         steps of 0.001 against it, as bfloat16. The neighbours of 1 are 0.996 and 1.008.
w = torch.tensor(1.0):bfloat16()
for i = 1, 100 do w = w - 0.001 end
--# predict w:item() --> 1
--# ask     100 steps of 0.001 were subtracted. What is w?
--# wrong   0.9: 1 - 0.001 is nearer to 1 than to 0.996: it is rounded to 1, each time.
--# wrong   0.996: It never gets there: each step alone is rounded away.
--# hint    1 - 0.001 is rounded to the nearest number that there is.
--# why     So the weights stay float32, and only the computing is done with 16 bits: mixed precision.

--# say     `torch.autocast` does this for a function: products of matrices and convolutions take their
--#         arguments as 16 bits, whatever they are. What needs digits, such as sums, softmax and losses,
--#         stays float32.
--# new     nn autocast
net = torch.nn.Linear(4, 2)
x = torch.ones(3, 4)
function low(f) return torch.autocast("cpu", {dtype = torch.bfloat16}, f) end
--# predict low(function() return net(x) end).dtype --> bfloat16
--# wrong   float32: A Linear is a product of matrices: it is computed with 16 bits.
--# hint    A Linear is a product of matrices.

--# say     And the weights, after that?
--# predict net.weight.dtype --> float32
--# wrong   bfloat16: A copy was made for the product. The weights stay.
--# hint    They must be able to take small steps.

--# say     A loss inside?
--# new     exp softmax
--# predict low(function() return torch.nn.functional.cross_entropy(net(x), torch.tensor{1, 2, 1}) end).dtype --> float32
--# wrong   bfloat16: Its exp and log need the digits.
--# hint    Losses stay float32.

--# say     With float16 there is one more trouble: gradients are small, and the smallest float16 is 0.00000006.
--#         1e-8 becomes
--# predict torch.tensor(1e-8):half():item() --> 0
--# wrong   1: The sign is kept, but the size is smaller than the smallest float16.
--# hint    It is smaller than the smallest.
--# why     Gradients that are 0 teach nothing. bfloat16 has no such trouble: it has float32's range.

--# say     The cure: multiply the loss by a large number, the scale. By the chain rule all gradients are
--#         multiplied by it, and stay above the smallest. Before the step they are divided again, as
--#         float32. What is 1e-8, scaled by 65536 on its way through float16?
--# new     round
--# predict ((torch.tensor(1e-8) * 65536):half():float() / 65536 * 1e10):round():item() --> 100
--# ask     ... times 1e10 and rounded?
--# wrong   0: 0.00065 is no trouble for a float16.
--# hint    It survives: 1e-8 times 1e10.

--# say     Which scale? As large as possible, but so that no gradient becomes infinite. Nobody knows it, and
--#         it changes. So `GradScaler` tries: when some gradient is inf or nan, it leaves out the step, and
--#         halves the scale. After growth_interval good steps in a row it doubles it. Here: 1024, and 3.
--# new     amp optim
p = torch.tensor(1.0, {requires_grad = true})
opt = torch.optim.SGD({p}, {lr = 0.1})
scaler = torch.amp.GradScaler{init_scale = 1024, growth_interval = 3}
function step(slope)
  opt:zero_grad()
  local loss = p * slope
  scaler:scale(loss):backward()
  scaler:step(opt)
  scaler:update()
  return scaler:get_scale()
end
--# predict step(1) --> 1024
--# wrong   2048: After three good steps.
--# wrong   512: The gradient was fine.
--# hint    A good step, the first of three.

--# say     p was 1, its slope is 1, the rate 0.1. The gradient in `.grad` was 1024, and p is now
--# predict p:item() --> 0.9
--# wrong   -101.4: scaler:step has divided by the scale first.
--# wrong   1: The step was taken.
--# hint    scaler:step divides by the scale before the step.

--# say     Now a slope that is infinite.
--# predict step(math.huge) --> 512
--# wrong   1024: A gradient that is inf halves it.
--# wrong   2048: A gradient that is inf halves it.
--# hint    When does the scale halve?

--# say     And p?
--# predict p:item() --> 0.9
--# wrong   0.8: The step was left out.
--# wrong   -inf: The step was left out.
--# hint    What happens to the step?
--# why     One lost step of thousands does no harm; one inf in the weights would be the end.

--# say     Three good steps follow.
step(1)
step(1)
--# predict step(1) --> 1024
--# wrong   512: That was the third good one.
--# hint    The third good one in a row.

--# say     Be the scaler yourself.
--# task    Write scales(start, interval, good): the scale after each step, a table. `good` is a table of
--#         booleans: whether all gradients of step i were finite. A bad step halves the scale, and counting
--#         begins anew; `interval` good steps in a row double it, and counting begins anew.
--# spec    scales(start, interval, good)
--#         local p = torch.tensor(1.0, {requires_grad = true})
--#         local o = torch.optim.SGD({p}, {lr = 0.1})
--#         local s, out = torch.amp.GradScaler{init_scale = start, growth_interval = interval}, {}
--#         for i, g in ipairs(good) do
--#           p.grad = nil
--#           s:scale(p * (g and 1 or math.huge)):backward()
--#           s:step(o)
--#           s:update()
--#           out[i] = s:get_scale()
--#         end
--#         return out
--# try     k in 1..9
--# try     start = 1024.0
--# try     interval in 2..3
--# try     good = (function() local t = {} for i = 1, 12 do t[i] = (i * k) % 7 > 1 end return t end)()
--# wrong   function scales(start, interval, good) local out, n = {}, 0 for i, g in ipairs(good) do if g then n
--#         = n + 1 if n == interval then start, n = start * 2, 0 end else start = start / 2 end out[i] =
--#         start end return out end: After a bad step counting begins anew: n = 0.
--# wrong   function scales(start, interval, good) local out, n = {}, 0 for i, g in ipairs(good) do if g then n
--#         = n + 1 if n >= interval then start = start * 2 end else start, n = start / 2, 0 end out[i] =
--#         start end return out end: After doubling, counting begins anew, too.
--# hint    A counter n of good steps. Good: n + 1; where n is `interval`, double, and n = 0.
--# hint    Bad: halve, and n = 0. Then out[i] is the scale.
--# answer
function scales(start, interval, good)
  local out, n = {}, 0
  for i, fine in ipairs(good) do
    if fine then
      n = n + 1
      if n == interval then start, n = start * 2, 0 end
    else
      start, n = start / 2, 0
    end
    out[i] = start
  end
  return out
end
print(table.concat(scales(1024.0, 3, {true, false, true, true, true}), " "))

--# say     Clipping gradients needs their real size: `scaler:unscale_(opt)` divides them before, and the step
--#         then knows. What is p.grad after it, with a slope of 3?
opt:zero_grad()
scaler:scale(p * 3):backward()
scaler:unscale_(opt)
--# predict p.grad:item() --> 3
--# wrong   3072: That was before unscale_.
--# hint    As if there were no scale.
scaler:step(opt)
scaler:update()

--# say     Something real: a network for digits in float32 and in bfloat16. Half the memory for what is
--#         computed on the way; does it still learn?
--# new     manual_seed utils flatten argmax eq float mean detach
local set = torch.utils.data.digits()
rows, labels = set.tensors[1]:flatten(2), set.tensors[2]
F = torch.nn.functional
--# predict rows["1:1000"].shape --> [1000, 64]
--# hint    1,000 pictures of 8 x 8 points.

--# say     Train it both ways.
--# task    Write train(enabled, steps): torch.manual_seed(0); a Sequential of Linear(64, 32), ReLU, Linear(32,
--#         10); Adam with lr 0.01; in each step the loss of rows["1:1000"] and labels["1:1000"],
--#         cross_entropy, computed inside torch.autocast("cpu", {dtype = torch.bfloat16, enabled =
--#         enabled}, ..). Return the scores of rows["1001:"], without autocast, detached.
--# spec    train(enabled, steps)
--#         torch.manual_seed(0)
--#         local net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
--#         local opt = torch.optim.Adam(net:parameters(), {lr = 0.01})
--#         for i = 1, steps do
--#           for _, p in ipairs(net:parameters()) do p.grad = nil end
--#           local z = torch.autocast("cpu", {dtype = torch.bfloat16, enabled = enabled}, function() return net(rows["1:1000"]) end)
--#           F.cross_entropy(z:float(), labels["1:1000"]):backward()
--#           opt:step()
--#         end
--#         return net(rows["1001:"]):detach()
--# try     k in 0..1
--# try     enabled = k == 1
--# try     steps in 20..24
--# wrong   function train(enabled, steps) torch.manual_seed(0) local net =
--#         torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)) local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.01}) for i = 1, steps do local loss =
--#         torch.autocast("cpu", {dtype = torch.bfloat16, enabled = enabled}, function() return
--#         F.cross_entropy(net(rows["1:1000"]), labels["1:1000"]) end) loss:backward() opt:step() end return
--#         net(rows["1001:"]):detach() end: zero_grad is missing.
--# wrong   function train(enabled, steps) torch.manual_seed(0) local net =
--#         torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)) local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.1}) for i = 1, steps do opt:zero_grad() local loss =
--#         F.cross_entropy(net(rows["1:1000"]), labels["1:1000"]) loss:backward() opt:step() end return
--#         net(rows["1001:"]):detach() end: The loss is to be computed inside torch.autocast, and lr is 0.01.
--# hint    `local loss = torch.autocast("cpu", {dtype = torch.bfloat16, enabled = enabled}, function() return
--#         F.cross_entropy(net(rows["1:1000"]), labels["1:1000"]) end)`.
--# hint    zero_grad before it; backward and step after it, outside.
--# answer
function train(enabled, steps)
  torch.manual_seed(0)
  local net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
  local opt = torch.optim.Adam(net:parameters(), {lr = 0.01})
  for i = 1, steps do
    opt:zero_grad()
    local loss = torch.autocast("cpu", {dtype = torch.bfloat16, enabled = enabled}, function()
      return F.cross_entropy(net(rows["1:1000"]), labels["1:1000"])
    end)
    loss:backward()
    opt:step()
  end
  return net(rows["1001:"]):detach()
end
--# why     The share of 797 fresh digits read correctly, with float32 and with bfloat16:
print(train(false, 60):argmax(2):eq(labels["1001:"]):float():mean())
print(train(true, 60):argmax(2):eq(labels["1001:"]):float():mean())
