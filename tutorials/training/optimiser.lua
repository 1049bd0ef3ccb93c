--# title   The same with an optimiser
--# see     optim backward
--# explains MODULE-1 LRS

--# say     The step of the last lesson, `w = w - lr * slope` for every knob, is the same in every program.
--#         An optimiser does it for a list of tensors.
--# new     optim
x = torch.tensor{0.0, 1.0, 2.0, 3.0}
y = torch.tensor{1.0, 3.0, 5.0, 7.0}
w = torch.tensor(0.0, {requires_grad = true})
b = torch.tensor(0.0, {requires_grad = true})
opt = torch.optim.SGD({w, b}, {lr = 0.1})
function loss_of() return ((w * x + b - y) ^ 2):mean() end
--# predict loss_of():item() --> 21
--# wrong   16: The mean of 1, 3, 5, 7 squared. Square first.
--# wrong   84: That is the sum; there are 4 points.
--# hint    (1 + 9 + 25 + 49) / 4.

--# say     `backward` finds the slopes: -17 for w, -8 for b. `opt:step()` then takes the step, in place.
loss = loss_of()
loss:backward()
opt:step()
--# predict w:item() --> 1.7
--# wrong   -1.7: Against the slope: 0 - 0.1 * -17.
--# wrong   17: The rate is 0.1.
--# wrong   0: step has changed w itself.
--# hint    0 - 0.1 * -17.
print(w, b)

--# say     Nothing has thrown the slopes away. They are still in `.grad`, and the next `backward` would add
--#         to them.
--# predict w.grad:item() --> -17
--# wrong   0: A step reads .grad, it does not clear it.
--# hint    A step only reads .grad.

--# say     `opt:zero_grad()` clears them, for all its tensors. So a step has three lines, always in this
--#         order: zero_grad, backward, step.
opt:zero_grad()
--# predict w.grad == nil --> true
--# wrong   false: Cleared means: there is none, until the next backward.
--# hint    Cleared.

--# say     Write the loop.
--# task    Write train(steps, lr): new w and b, both 0.0, a new SGD with lr, so many steps; return w and b
--#         as numbers. The points are x and y from above.
--# spec    train(steps, lr)
--#         local w, b = 0.0, 0.0
--#         for i = 1, steps do
--#           local d = w * x + b - y
--#           w, b = w - lr * (2 * d * x):mean():item(), b - lr * (2 * d):mean():item()
--#         end
--#         return w, b
--# try     steps in 1..8
--# try     lr = 0.05
--# wrong   function train(steps, lr) local w, b = torch.tensor(0.0, {requires_grad = true}),
--#         torch.tensor(0.0, {requires_grad = true}) local opt = torch.optim.SGD({w, b}, {lr = lr}) for i =
--#         1, steps do local loss = ((w * x + b - y) ^ 2):mean() loss:backward() opt:step() end return
--#         w:item(), b:item() end: The slopes of all steps add up: `opt:zero_grad()` first.
--# wrong   function train(steps, lr) local w, b = torch.tensor(0.0, {requires_grad = true}),
--#         torch.tensor(0.0, {requires_grad = true}) local opt = torch.optim.SGD({w, b}, {lr = lr}) for i =
--#         1, steps do local loss = ((w * x + b - y) ^ 2):mean() loss:backward() opt:zero_grad() opt:step()
--#         end return w:item(), b:item() end: Cleared between backward and step, there is nothing left to
--#         step along.
--# wrong   function train(steps, lr) local w, b = torch.tensor(0.0, {requires_grad = true}),
--#         torch.tensor(0.0, {requires_grad = true}) local opt = torch.optim.SGD({w}, {lr = lr}) for i = 1,
--#         steps do opt:zero_grad() local loss = ((w * x + b - y) ^ 2):mean() loss:backward() opt:step()
--#         end return w:item(), b:item() end: b is not in the optimiser's list, so it never moves.
--# hint    `local w = torch.tensor(0.0, {requires_grad = true})`, b alike, then `local opt =
--#         torch.optim.SGD({w, b}, {lr = lr})`.
--# hint    In the loop: `opt:zero_grad()`, `local loss = ..`, `loss:backward()`, `opt:step()`.
--# answer
function train(steps, lr)
  local w = torch.tensor(0.0, {requires_grad = true})
  local b = torch.tensor(0.0, {requires_grad = true})
  local opt = torch.optim.SGD({w, b}, {lr = lr})
  for i = 1, steps do
    opt:zero_grad()
    local loss = ((w * x + b - y) ^ 2):mean()
    loss:backward()
    opt:step()
  end
  return w:item(), b:item()
end
print(train(200, 0.1))

--# say     An optimiser moves what is in its list, and nothing else. What if the list is empty?
--# predict torch.optim.SGD({}, {lr = 0.1}) --> error
--# wrong   0: It could do nothing, silently; that is never what somebody wants.
--# hint    What could such an optimiser be good for?

--# say     Momentum: a ball, not a walker. The step is 0.9 of the last step plus the new slope. On a slope
--#         that stays -1, with lr 1 and momentum 0.9, the first step is 1, and the second?
--# new     sum
p = torch.tensor(0.0, {requires_grad = true})
ball = torch.optim.SGD({p}, {lr = 1.0, momentum = 0.9})
function roll()
  ball:zero_grad()
  local loss = -p
  loss:backward()
  ball:step()
  return p:item()
end
roll()
--# predict roll() --> 2.9
--# ask     Where is p after the second step?
--# wrong   2: That is without momentum: 0.9 of the first step comes on top.
--# wrong   1.9: That is the second step alone; the first had reached 1.
--# wrong   1.9 2.9: Where is it? One number.
--# hint    At 1, plus 1 + 0.9 * 1.
--# why     The steps become 1, 1.9, 2.71, .. and up to 10: on a long even slope it is ten times faster.

--# say     In a narrow valley that is worth much. Here the slope across is 50 times the slope along.
--# new     abs
function valley(make, steps)
  local p = torch.tensor({1.0, 1.0}, {requires_grad = true})
  local opt = make(p)
  local scale = torch.tensor{1.0, 50.0}
  for i = 1, steps do
    opt:zero_grad()
    local loss = (scale * p * p):sum() / 2
    loss:backward()
    opt:step()
  end
  return p:detach()
end
function plain(p) return torch.optim.SGD({p}, {lr = 0.02}) end
function heavy(p) return torch.optim.SGD({p}, {lr = 0.02, momentum = 0.8}) end
--# predict valley(plain, 1) --> 0.98 0
--# wrong   0 0.98: The second has the large slope: 50.
--# wrong   0.98 0.98: The slopes are 1 and 50.
--# hint    1 - 0.02 * 1, and 1 - 0.02 * 50.
--# why     Across it is there at once, and along it creeps. A larger rate would throw it over the edge.
print(valley(plain, 60))
print(valley(heavy, 60))

--# say     Adam gives each knob a rate of its own: it divides the slope by the size that the slope has had
--#         of late. So its first step is lr, whatever the slope is.
function adam(p) return torch.optim.Adam({p}, {lr = 0.1}) end
--# predict valley(adam, 1) --> 0.9 0.9
--# wrong   0.9 -4: The size of the slope is divided out: only its sign is left in the first step.
--# wrong   0.98 0: That was SGD with 0.02.
--# hint    Both move by lr, against the sign of their slope.
--# why     Steep or flat, each knob moves at its own pace. That is why Adam often works untuned.
print(valley(adam, 60))

--# say     Adam's smaller sister keeps nothing but the sign.
--# new     sign
--# task    Write signed(p, g, lr): where knobs at p [n] are after one step in which each moves by lr
--#         against the sign of its slope g [n]. `g:sign()` is -1, 0 or 1.
--# spec    signed(p, g, lr)
--#         local out = p:clone()
--#         for i = 1, #p do
--#           local s = g[i]:item()
--#           out[i] = p[i] - (s > 0 and lr or s < 0 and -lr or 0)
--#         end
--#         return out
--# try     n in 3..6
--# try     p = torch.randn(n)
--# try     g = torch.randn(n)
--# try     lr = 0.25
--# forbid  for while repeat
--# wrong   function signed(p, g, lr) return p - lr * g end: Only the sign of the slope counts.
--# wrong   function signed(p, g, lr) return p + lr * g:sign() end: Against the slope.
--# wrong   function signed(p, g, lr) return p - lr * p:sign() end: The sign of the slope, not of the knob.
--# hint    Like a plain step, `p - lr * g`, with `g:sign()`.
--# answer
function signed(p, g, lr) return p - lr * g:sign() end
print(signed(torch.tensor{1.0, 1.0}, torch.tensor{1.0, 50.0}, 0.1))

--# say     With a fixed rate a knob that is nearly right goes on jumping over its goal. So rates fall while
--#         one trains: a schedule. `StepLR` with step_size 2 and gamma 0.5 halves the rate after every 2
--#         epochs. Its `step` comes at the end of an epoch, after the optimiser's.
p = torch.tensor(0.0, {requires_grad = true})
opt = torch.optim.SGD({p}, {lr = 0.8})
schedule = torch.optim.lr_scheduler.StepLR(opt, {step_size = 2, gamma = 0.5})
rates = {}
for epoch = 1, 6 do
  rates[epoch] = opt.param_groups[1].lr
  opt:zero_grad()
  local loss = p * p
  loss:backward()
  opt:step()
  schedule:step()
end
--# predict torch.tensor(rates) --> 0.8 0.8 0.4 0.4 0.2 0.2
--# wrong   0.8 0.4 0.2 0.1 0.05 0.025: Halved after every second epoch only.
--# wrong   0.8 0.4 0.4 0.2 0.2 0.1: The first two epochs have the first rate.
--# hint    Two epochs with each rate.
--# why     Were `schedule:step()` called before `opt:step()`, the first rate would come one epoch short;
--#         note LRS tells you.

--# say     Something real: when can one drink the tea? It was poured at 80 degrees into a room of 20, and
--#         measured every 2 minutes. Tea cools as 20 + a * exp(-k * minutes); a and k are not known.
--# new     exp
minutes = torch.tensor{0.0, 2.0, 4.0, 6.0, 8.0}
degrees = torch.tensor{80.3, 69.0, 60.4, 52.9, 46.8}
function tea(a, k, t) return 20 + a * (-k * t):exp() end
--# predict tea(60, 0, minutes)[5]:item() --> 80
--# wrong   60: And the room's 20 on top.
--# wrong   20: With k = 0 it never cools.
--# hint    exp(0) is 1.

--# say     Neither knob is on a straight line, and a is 600 times as large as k. Adam does not mind.
--# task    Write cooling(steps): a begins with 50.0, k with 0.2; Adam over {a, k} with lr 0.02; the loss is
--#         the mean of (tea(a, k, minutes) - degrees) ^ 2; return a and k as numbers after so many steps.
--# spec    cooling(steps)
--#         local v = {torch.tensor(50.0, {requires_grad = true}), torch.tensor(0.2, {requires_grad = true})}
--#         local opt = torch.optim.Adam(v, {lr = 0.02})
--#         for i = 1, steps do
--#           for _, p in ipairs(v) do p.grad = nil end
--#           local loss = torch.nn.functional.mse_loss(20 + v[1] * (-v[2] * minutes):exp(), degrees)
--#           loss:backward()
--#           opt:step()
--#         end
--#         return v[1]:item(), v[2]:item()
--# try     steps in 3..9
--# wrong   function cooling(steps) local a, k = torch.tensor(50.0, {requires_grad = true}),
--#         torch.tensor(0.2, {requires_grad = true}) local opt = torch.optim.SGD({a, k}, {lr = 0.02}) for i
--#         = 1, steps do opt:zero_grad() local loss = ((tea(a, k, minutes) - degrees) ^ 2):mean()
--#         loss:backward() opt:step() end return a:item(), k:item() end: That is SGD. k's slope is
--#         hundreds of times a's, and throws it far away.
--# wrong   function cooling(steps) local a, k = torch.tensor(50.0, {requires_grad = true}),
--#         torch.tensor(0.2, {requires_grad = true}) local opt = torch.optim.Adam({a, k}, {lr = 0.02}) for i
--#         = 1, steps do local loss = ((tea(a, k, minutes) - degrees) ^ 2):mean() loss:backward() opt:step()
--#         end return a:item(), k:item() end: `opt:zero_grad()` first, in each step.
--# hint    Like `train` above, with `torch.optim.Adam({a, k}, {lr = 0.02})`.
--# hint    The loss: `((tea(a, k, minutes) - degrees) ^ 2):mean()`.
--# answer
function cooling(steps)
  local a = torch.tensor(50.0, {requires_grad = true})
  local k = torch.tensor(0.2, {requires_grad = true})
  local opt = torch.optim.Adam({a, k}, {lr = 0.02})
  for i = 1, steps do
    opt:zero_grad()
    local loss = ((tea(a, k, minutes) - degrees) ^ 2):mean()
    loss:backward()
    opt:step()
  end
  return a:item(), k:item()
end
a, k = cooling(1500)
print(a, k)

--# say     The tea is drinkable at 40 degrees: 20 + a * exp(-k * t) = 40, so t is log(a / 20) / k.
--# predict math.floor(math.log(a / 20) / k + 0.5) --> 11
--# ask     After how many minutes, in whole ones? It had 46.8 degrees after 8, and loses 3 a minute, less
--#         and less.
--# wrong   10: Near. It cools more slowly than before.
--# hint    From 46.8 to 40 in a little more than 2 minutes.
--# why     Three lines, `zero_grad`, `backward`, `step`, and any formula can be fitted to what was measured.
print(math.log(a / 20) / k)
