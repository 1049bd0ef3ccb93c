--# title   What is wrong here? Training loops

--# say     A training that goes nowhere says nothing. Here each loop has one mistake. `quietly` keeps the notes away
--#         that you would get. The first: w shall go to the lowest point of w * w, from 1, with steps of 0.1.
--# new     notes tensor optim sum backward item
optim = torch.optim
function quietly(code, f, ...)
  local was = torch.notes()[code]
  torch.notes(code, "off")
  local result = f(...)
  torch.notes(code, was)
  return result
end
function rolling(steps)
  local w = torch.tensor({1.0}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.1})
  for _ = 1, steps do
    local loss = (w * w):sum()
    loss:backward()
    opt:step()
  end
  return w:item()
end
--# predict quietly("ACC", rolling, 2) --> 0.44
--# wrong   0.64: That was meant: 0.8 of what is left, twice. But the first gradient, 2, is still there in the second
--#         step.
--# hint    1 - 0.1 * 2 = 0.8, and then 0.8 - 0.1 * (2 + 1.6).
--# why     zero_grad is missing. Note ACC says so.

--# say     The second: a weight for each row is learned, and the gradient is asked for.
--# new     grad ones
function asked()
  local x = torch.ones(3, {requires_grad = true}):to("float64")
  local loss = (x * x):sum()
  loss:backward()
  return x.grad
end
--# new     to
--# predict quietly("GRAD", asked) == nil --> true
--# wrong   false: x is what `to` made; the leaf is the tensor before it, which has no name any more.
--# hint    Which tensor is the leaf?
--# why     Make it what it shall be first, then say requires_grad: `torch.ones(3, {dtype = "float64", requires_grad =
--#         true})`. Optimisers refuse such a tensor.

--# say     Repair the next one: it has three mistakes of this kind.
--# new     clone requires_grad_ no_grad sub_ mean detach matmul randn
--# new     zeros size t
--# task    Repair fit(x, y, steps): w [m] after so many steps of SGD with lr = 0.1 on the mean of (x:matmul(w) - y) ^ 2,
--#         from zeros; without a graph. x is [n, m], y [n].
--# spec    fit(x, y, steps)
--#         local w = torch.zeros(x:size(2))
--#         for _ = 1, steps do w = w - 0.1 * 2 / #x * x:t():matmul(x:matmul(w) - y) end
--#         return w
--# try     steps in 1..4
--# try     n in 5..7
--# try     x = torch.randn(n, 3)
--# try     y = torch.randn(n)
--# starter
--#         function fit(x, y, steps)
--#           local w = torch.zeros(x:size(2), {requires_grad = true})
--#           local opt = optim.SGD({w}, {lr = 0.1})
--#           local prediction = x:matmul(w)
--#           for _ = 1, steps do
--#             local loss = ((prediction - y) ^ 2):mean():item()
--#             torch.tensor(loss):backward()
--#             opt:step()
--#           end
--#           return w:detach()
--#         end
--# wrong   function fit(x, y, steps) local w = torch.zeros(x:size(2), {requires_grad = true}) local opt = optim.SGD({w},
--#         {lr = 0.1}) for _ = 1, steps do local loss = ((x:matmul(w) - y) ^ 2):mean() loss:backward() opt:step() end
--#         return w:detach() end: Nearly: the gradients of all steps add up.
--# wrong   function fit(x, y, steps) local w = torch.zeros(x:size(2), {requires_grad = true}) local opt = optim.SGD({w},
--#         {lr = 0.1}) local p = x:matmul(w) for _ = 1, steps do opt:zero_grad() local loss = ((p - y) ^ 2):mean()
--#         loss:backward() opt:step() end return w:detach() end: The prediction is that of the first w; make it in the
--#         loop.
--# hint    `item()` makes a plain number, which has no graph.
--# hint    In the loop: zero_grad, prediction, loss, backward, step.
--# answer
function fit(x, y, steps)
  local w = torch.zeros(x:size(2), {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.1})
  for _ = 1, steps do
    opt:zero_grad()
    local loss = ((x:matmul(w) - y) ^ 2):mean()
    loss:backward()
    opt:step()
  end
  return w:detach()
end

--# say     A mean loss over an epoch is wanted, and the losses are added up. Each loss carries the graph of its step;
--#         does their sum?
--# new     requires_grad
function epoch()
  local w = torch.ones(1, {requires_grad = true})
  local total = 0
  for i = 1, 3 do
    local loss = (w * i):sum()
    total = total + loss
  end
  return total
end
--# predict epoch().requires_grad --> true
--# wrong   false: A sum of results is a result, with all their graphs.
--# hint    Is there a way back from the total to w?
--# why     And so the graphs of all steps stay in memory, and more from step to step. Note SUM says so; the cure is
--#         `total = total + loss:item()`.

--# say     Repair it. (A plain number is wanted.)
--# task    Repair mean_loss(w, xs): the mean of (w * xs[i]) ^ 2 over i, as a Lua number; w is a tensor [] that may
--#         require grad.
--# spec    mean_loss(w, xs)
--#         local total = 0
--#         for i = 1, #xs do total = total + (w:item() * xs[i]:item()) ^ 2 end
--#         return total / #xs
--# try     n in 2..5
--# try     w = torch.randn(1)[1]
--# try     xs = torch.randn(n)
--# starter
--#         function mean_loss(w, xs)
--#           local total = 0
--#           for i = 1, #xs do total = total + (w * xs[i]) ^ 2 end
--#           return total
--#         end
--# wrong   function mean_loss(w, xs) local total = 0 for i = 1, #xs do total = total + ((w * xs[i]) ^ 2):item() end
--#         return total end: The sum; divide by their number.
--# hint    `:item()` of each loss.
--# hint    At the end `/ #xs`.
--# answer
function mean_loss(w, xs)
  local total = 0
  for i = 1, #xs do total = total + ((w * xs[i]) ^ 2):item() end
  return total / #xs
end

--# say     A scheduler halves the rate after each epoch. How large is it in the first epoch here?
function rates(first)
  local w = torch.ones(1, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.8})
  local halve = optim.lr_scheduler.StepLR(opt, {step_size = 1, gamma = 0.5})
  local list = {}
  for i = 1, 3 do
    if first == "scheduler" then halve:step() end
    list[i] = opt.param_groups[1].lr
    opt:step()
    if first == "optimiser" then halve:step() end
  end
  return list
end
--# predict quietly("LRS", rates, "scheduler") --> 0.4 0.2 0.1
--# wrong   0.8 0.4 0.2: The scheduler goes first here, and halves before the first step.
--# hint    It is halved before the first step.
--# why     The rate 0.8 is never used. Note LRS: first opt:step(), then scheduler:step().

--# say     And in the right order?
--# predict quietly("LRS", rates, "optimiser") --> 0.8 0.4 0.2
--# wrong   0.4 0.2 0.1: The first step is taken with 0.8.
--# hint    The first step is taken with 0.8.

--# say     Uphill: somebody writes `lr = -0.1`, because "minus the gradient" is wanted.
--# predict optim.SGD({torch.ones(1, {requires_grad = true})}, {lr = -0.1}) --> error
--# wrong   0: The optimiser subtracts by itself; a negative rate would climb, and is refused.
--# hint    The optimiser subtracts by itself.

--# say     By hand nobody refuses it: from 1, on w * w, two steps of w + 0.1 * slope.
--# predict (1 + 0.2) * (1 + 0.2) --> 1.44
--# ask     Where is w after the two steps?
--# wrong   0.64: That is downhill.
--# wrong   1.4: The slope at 1.2 is 2.4.
--# hint    1 + 0.1 * 2 = 1.2, and then the slope is 2.4.
--# why     A loss that grows by the same factor in each step: look at the sign, or at a rate that is too high.

--# say     Something real: a loop that has run for a week and learned nothing, with four mistakes of this lesson.
--# task    Repair train(x, y, epochs): SGD with lr = 0.1, halved after each epoch (one step in each), on the mean of
--#         (x * w - y) ^ 2, w [] from 0. It gives w as a number. x and y are [n].
--# spec    train(x, y, epochs)
--#         local w, lr = 0, 0.1
--#         for _ = 1, epochs do
--#           local g = 0
--#           for i = 1, #x do g = g + 2 * (x[i]:item() * w - y[i]:item()) * x[i]:item() / #x end
--#           w, lr = w - lr * g, lr / 2
--#         end
--#         return w
--# try     epochs in 1..5
--# try     n in 6..8
--# try     x = torch.randn(n)
--# try     y = torch.randn(n)
--# starter
--#         function train(x, y, epochs)
--#           local w = torch.tensor(0.0, {requires_grad = true})
--#           local opt = optim.SGD({w}, {lr = 0.1})
--#           local halve = optim.lr_scheduler.StepLR(opt, {step_size = 1, gamma = 0.5})
--#           for _ = 1, epochs do
--#             halve:step()
--#             local loss = ((x * w - y) ^ 2):sum()
--#             loss:backward()
--#             opt:step()
--#           end
--#           return w
--#         end
--# wrong   function train(x, y, epochs) local w = torch.tensor(0.0, {requires_grad = true}) local opt = optim.SGD({w}, {lr
--#         = 0.1}) local halve = optim.lr_scheduler.StepLR(opt, {step_size = 1, gamma = 0.5}) for _ = 1, epochs do
--#         opt:zero_grad() local loss = ((x * w - y) ^ 2):sum() loss:backward() opt:step() halve:step() end return
--#         w:item() end: The mean was asked for: with the sum, the step grows with the number of examples.
--# wrong   function train(x, y, epochs) local w = torch.tensor(0.0, {requires_grad = true}) local opt = optim.SGD({w}, {lr
--#         = 0.1}) for _ = 1, epochs do opt:zero_grad() local loss = ((x * w - y) ^ 2):mean() loss:backward() opt:step()
--#         end return w:item() end: The scheduler belongs in there, after the step.
--# hint    zero_grad, loss (a mean), backward, opt:step(), halve:step().
--# hint    `w:item()` is the number.
--# answer
function train(x, y, epochs)
  local w = torch.tensor(0.0, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.1})
  local halve = optim.lr_scheduler.StepLR(opt, {step_size = 1, gamma = 0.5})
  for _ = 1, epochs do
    opt:zero_grad()
    local loss = ((x * w - y) ^ 2):mean()
    loss:backward()
    opt:step()
    halve:step()
  end
  return w:item()
end
print(train(torch.tensor{1.0, 2.0}, torch.tensor{2.0, 4.0}, 20))
