--# title   Gradients add up: 4 times 16 equals 64
--# see     backward no_grad
--# explains ACC

--# say     `backward` does not write into `.grad`, it adds to it. Run it for two results in turn:
x = torch.tensor(3.0, {requires_grad = true})
y = x * x
y:backward()
z = 5 * x
z:backward()
--# predict x.grad:item() --> 11
--# wrong   5: That is the second alone. It was added to what was there.
--# wrong   6: That is the first alone.
--# wrong   30: They are added.
--# hint    6 from the first, 5 from the second.
--# why     6 + 5, as if `(x * x + 5 * x):backward()` had been run.

--# say     And once more the same?
y = x * x
y:backward()
--# predict x.grad:item() --> 17
--# wrong   6: 11 was there already.
--# wrong   12: 11 was there already.
--# hint    11 was there, 6 are added.

--# say     So before a new step the old gradient has to go: it belongs to a loss of the past. `x.grad =
--#         nil` does it, or an optimiser's `opt:zero_grad()` for all of its parameters.
x.grad = nil
y = x * x
y:backward()
--# predict x.grad:item() --> 6
--# wrong   23: The old gradient was thrown away.
--# hint    It began with nothing.

--# say     Forgetting it is the most frequent mistake of all. Going downhill on x * x with steps of 0.1:
--# new     no_grad sub_
function walk(steps, forget)
  local x = torch.tensor(1.0, {requires_grad = true})
  local way = {}
  for i = 1, steps do
    if not forget then x.grad = nil end
    local y = x * x
    y:backward()
    torch.no_grad(function() x:sub_(0.1 * x.grad) end)
    way[i] = x:item()
  end
  return torch.tensor(way)
end
--# predict walk(2, false)[2]:item() --> 0.64
--# wrong   0.8: That is after the first step.
--# wrong   0.6: The slope at 0.8 is 1.6: a step of 0.16.
--# hint    From 1 with slope 2 to 0.8; there the slope is 1.6.
--# why     Each step keeps 0.8 of what was left.
print(walk(6, false))

--# say     And who forgets it: the first step is the same. In the second the slopes 2 and 1.6 are added.
--# predict walk(2, true)[2]:item() --> 0.44
--# wrong   0.64: The old slope, 2, is still in .grad: 3.6 in all.
--# hint    From 0.8, minus 0.1 times (2 + 1.6).
--# why     It goes on as if rolling: past the lowest point, and back again. `plot(walk(100, true))` shows
--#         the swing.
print(walk(12, true))

--# say     When an optimiser steps on the sum of several gradients by accident, the prompt says so, once:
--#         note ACC. But the sum is also a tool. Suppose that a batch of 64 examples does not fit into
--#         memory. Four parts of 16 do.
--# new     manual_seed randn mean matmul clone
torch.manual_seed(1)
inputs = torch.randn(64, 3)
truth = torch.randn(64)
w = torch.zeros(3, {requires_grad = true})
function loss_of(a, b) return ((inputs[{{a, b}}]:matmul(w) - truth[{{a, b}}]) ^ 2):mean() end
whole = loss_of(1, 64)
whole:backward()
of_64 = w.grad:clone()
print(of_64)
--# play    `of_64` is the gradient of the mean over all 64 examples. Enter goes on.

--# say     Now the four parts: 1 to 16, 17 to 32, 33 to 48, 49 to 64. Each one's loss is a mean over 16 examples.
--# new     round
w.grad = nil
for k = 0, 3 do
  local part = loss_of(16 * k + 1, 16 * k + 16)
  part:backward()
end
print(w.grad)
--# predict (w.grad / of_64):round() --> 4 4 4
--# wrong   1 1 1: Four means were added up. Each is about as large as the mean over all.
--# wrong   16 16 16: There were four parts.
--# wrong   0.25 0.25 0.25: Four means were added up; that is more, not less.
--# hint    Four means were added up, and the mean over all is their mean.
--# why     4 times too large: the sum of four means, where their mean is wanted.

--# say     So each part's loss is divided by the number of parts.
--# new     allclose
--# task    Write accumulate(parts): w.grad afterwards is that of the mean over all 64 examples, from so
--#         many equal parts; return it. (64 can be divided by `parts`.)
--# spec    accumulate(parts)
--#         local v = torch.zeros(3, {requires_grad = true})
--#         local loss = ((inputs:matmul(v) - truth) ^ 2):mean()
--#         loss:backward()
--#         return v.grad
--# try     k in 1..5
--# try     parts = ({1, 2, 4, 8, 16})[k]
--# wrong   function accumulate(parts) w.grad = nil local n = 64 // parts for k = 0, parts - 1 do loss_of(n
--#         * k + 1, n * k + n):backward() end return w.grad end: The sum of the means: divide each loss by
--#         `parts`.
--# wrong   function accumulate(parts) local n = 64 // parts for k = 0, parts - 1 do (loss_of(n * k + 1, n *
--#         k + n) / parts):backward() end return w.grad end: The gradient of the last call is still in
--#         there. Begin with `w.grad = nil`.
--# wrong   function accumulate(parts) w.grad = nil local n = 64 // parts for k = 0, parts - 1 do (loss_of(n
--#         * k + 1, n * k + n) / 64):backward() end return w.grad end: Each loss is a mean already. There
--#         are `parts` of them, not 64.
--# hint    Begin with `w.grad = nil`; `local n = 64 // parts` examples are in each part.
--# hint    In the loop: `local loss = loss_of(n * k + 1, n * k + n) / parts`, for k from 0 to parts - 1.
--# why     4 times 16 equals 64, and 16 times 4 as well. Only the memory differs: one part at a time.
--# answer
function accumulate(parts)
  w.grad = nil
  local n = 64 // parts
  for k = 0, parts - 1 do
    local loss = loss_of(n * k + 1, n * k + n) / parts
    loss:backward()
  end
  return w.grad
end

--# say     With parts of different size the mean of means is wrong: 60 examples and 4 examples must not
--#         count alike. Then each part is weighted with its share of the examples.
first = loss_of(1, 60)
second = loss_of(61, 64)
--# predict torch.allclose(first * 60 / 64 + second * 4 / 64, whole) --> true
--# wrong   false: Each loss times its number of examples is a sum; both sums, divided by 64, are the mean.
--# hint    60 times the mean of 60 is their sum.
--# why     This is what to look at in the last batch of an epoch, which is often smaller.

--# say     It is the same with several processes: each computes the gradient of its part of the batch, and
--#         the mean of these gradients is that of the whole. So four processes with 16 examples take the
--#         same step as one with 64.
--# predict torch.allclose(accumulate(4), of_64) --> true
--# wrong   false: That was the task.
--# hint    4 times 16 equals 64.

--# say     Something real: a line through 64 points, learned in parts that fit into a small memory.
--# new     linspace
points = torch.linspace(-1, 1, 64)
line = 2 * points - 1
--# task    Write fit(parts): begin with a and b at 0 (tensors that want their gradients), and take 100
--#         steps: gradients of the mean of (a * x + b - y) ^ 2 over all points, accumulated over so many
--#         equal parts, then a and b minus 0.2 times theirs. Return the numbers a and b.
--# spec    fit(parts)
--#         local a, b = 0.0, 0.0
--#         local x, y = points:double(), line:double()
--#         for i = 1, 100 do
--#           local e = a * x + b - y
--#           a, b = a - 0.2 * (2 * e * x):mean():item(), b - 0.2 * (2 * e):mean():item()
--#         end
--#         return a, b
--# try     k in 1..3
--# try     parts = ({1, 4, 16})[k]
--# wrong   function fit(parts) return 2, 1 end: b is negative.
--# wrong   function fit(parts) local a, b = torch.tensor(0.0, {requires_grad = true}), torch.tensor(0.0,
--#         {requires_grad = true}) for i = 1, 100 do for k = 1, parts do local n = 64 // parts local x, y =
--#         points[{{n * k - n + 1, n * k}}], line[{{n * k - n + 1, n * k}}] local loss = ((a * x + b - y) ^
--#         2):mean() / parts loss:backward() end torch.no_grad(function() a:sub_(0.2 * a.grad) b:sub_(0.2 *
--#         b.grad) end) end return a:item(), b:item() end: The gradients of all steps add up: a.grad = nil
--#         and b.grad = nil belong at the beginning of each step.
--# hint    `local a = torch.tensor(0.0, {requires_grad = true})`, and b alike. Two loops: 100 steps, in
--#         each the parts.
--# hint    Before the parts `a.grad, b.grad = nil, nil`; after them, inside `torch.no_grad(function() ..
--#         end)`, `a:sub_(0.2 * a.grad)`.
--# hint    Part k holds the points n * (k - 1) + 1 to n * k, with n = 64 // parts.
--# answer
function fit(parts)
  local a = torch.tensor(0.0, {requires_grad = true})
  local b = torch.tensor(0.0, {requires_grad = true})
  local n = 64 // parts
  for step = 1, 100 do
    a.grad, b.grad = nil, nil
    for k = 1, parts do
      local x, y = points[{{n * (k - 1) + 1, n * k}}], line[{{n * (k - 1) + 1, n * k}}]
      local loss = ((a * x + b - y) ^ 2):mean() / parts
      loss:backward()
    end
    torch.no_grad(function()
      a:sub_(0.2 * a.grad)
      b:sub_(0.2 * b.grad)
    end)
  end
  return a:item(), b:item()
end
--# why     The line was 2 x - 1, and it was found in parts of 16:
print(fit(4))
