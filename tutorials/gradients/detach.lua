--# title   no_grad and detach: what gradients shall not see
--# see     no_grad detach requires_grad_
--# explains GRAD-5

--# say     Not everything that is computed belongs to learning: checking, printing, changing the weights. Inside
--#         `torch.no_grad(function() .. end)` no graph is made.
--# new     no_grad
w = torch.tensor({1.0, 2.0}, {requires_grad = true})
torch.no_grad(function() y = w * 10 end)
--# predict y.requires_grad --> false
--# wrong   true: Outside it would be. Inside no_grad nothing is recorded.
--# hint    Inside no_grad nothing is recorded.
--# why     The values are the same; only the memory of the way is missing. That saves time and space.
print(y)

--# say     So there is no way back.
--# new     sum
--# predict y:sum():backward() --> error
--# wrong   10 10: Without a graph there is no way back from y to w.
--# hint    What does y know of w?
--# why     The message says where the graph was cut, with the line.

--# say     The leaf itself has not changed by being used there.
--# predict w.requires_grad --> true
--# wrong   false: no_grad says what is recorded, it does not change tensors.
--# hint    no_grad does not change tensors.

--# say     The most important use: changing weights. A step is no part of the network, and a leaf cannot be
--#         changed while it is recorded.
--# new     sub_
--# predict w:sub_(1) --> error
--# wrong   0 1: Its gradient would belong to a value that is no longer there.
--# hint    w is a leaf that wants its gradient; this would change it in place.
--# why     Inside no_grad it is allowed: that is what an optimiser does.
torch.no_grad(function() w:sub_(1) end)

--# say     What is w now?
--# predict w --> 0 1
--# wrong   1 2: Inside no_grad it was changed.
--# wrong   -1 0: The first try was an error, and changed nothing.
--# hint    1 was subtracted once.

--# say     `w = w - 0.1 * w.grad` looks like the same, but makes a new tensor, which is computed: not a
--#         leaf any more.
v = torch.tensor(2.0, {requires_grad = true})
v2 = v - 0.5
--# new     is_leaf
--# predict v2.is_leaf --> false
--# wrong   true: v2 was computed from v.
--# hint    v2 was computed.
--# why     Written so in a loop, the graph grows with every step, and `.grad` stays nil. Change in place,
--#         inside no_grad.

--# say     `x:detach()` gives the same values without their past: for the graph a plain number.
--# new     detach
x = torch.tensor(3.0, {requires_grad = true})
k = (x * 2):detach()
z = k * x
z:backward()
--# predict x.grad:item() --> 6
--# wrong   12: That would be with both ways, 2 * x * x. The one through k is cut.
--# wrong   18: That is the value.
--# hint    z = k * x, and k is 6, for the graph a plain number.
--# why     Only the way through the second factor is left.

--# say     Nothing is copied: both look at the same cells, as views do.
a = torch.tensor({1.0, 2.0}, {requires_grad = true})
d = a:detach()
d[1] = 50
--# predict a[1]:item() --> 50
--# wrong   1: detach shares the cells. A copy is `a:detach():clone()`.
--# hint    The cells are the same.

--# say     What is the derivative of x * x when one of the two is detached?
x.grad = nil
z = x * x:detach()
z:backward()
--# predict x.grad:item() --> 3
--# wrong   6: One of the two ways is cut.
--# wrong   9: That is the value.
--# hint    The detached factor is a plain 3.

--# say     `requires_grad_(false)` freezes a leaf: it stays as it is while others learn. So a part of a
--#         network that was trained before is kept.
--# new     requires_grad_
frozen = torch.tensor(4.0, {requires_grad = true})
free = torch.tensor(5.0, {requires_grad = true})
frozen:requires_grad_(false)
out = frozen * free
out:backward()
--# predict frozen.grad == nil --> true
--# wrong   false: It does not want one any more.
--# hint    Frozen ones get none.
print(free.grad)

--# say     All together: going downhill in place. `start` is a plain tensor that belongs to the caller.
--# new     clone
--# task    Write descend(f, start, lr, n): take a copy of start that wants its gradient, and do n steps:
--#         the gradient of f(w), then w minus lr times it, in place, then throw the gradient away. Return w
--#         without any graph (`detach`).
--# spec    descend(f, start, lr, n)
--#         local w = start:double()
--#         for i = 1, n do w = w - lr * torch.func.grad(f)(w) end
--#         return w:float()
--# try     n in 1..4
--# try     lr = 0.25
--# try     m in 5..6
--# try     start = torch.randn(m)
--# try     f = function(w) return ((w - 1) * (w - 1)):sum() end
--# wrong   function descend(f, start, lr, n) local w = start:clone():requires_grad_() for i = 1, n do
--#         f(w):backward() torch.no_grad(function() w:sub_(lr * w.grad) end) end return w:detach() end: The
--#         gradients add up. Throw each away after its step: `w.grad = nil`.
--# wrong   function descend(f, start, lr, n) local w = start:clone():requires_grad_() for i = 1, n do
--#         f(w):backward() w:sub_(lr * w.grad) w.grad = nil end return w:detach() end: A leaf is changed
--#         inside `torch.no_grad`.
--# wrong   function descend(f, start, lr, n) local w = start:requires_grad_() for i = 1, n do
--#         f(w):backward() torch.no_grad(function() w:sub_(lr * w.grad) end) w.grad = nil end return
--#         w:detach() end: The tensor of the caller has changed. Take a copy first: `start:clone()`.
--# hint    `local w = start:clone():requires_grad_()`.
--# hint    In the loop: `f(w):backward()`, then `w:sub_(lr * w.grad)` inside `torch.no_grad(function() ..
--#         end)`, then `w.grad = nil`.
--# answer
function descend(f, start, lr, n)
  local w = start:clone():requires_grad_()
  for i = 1, n do
    f(w):backward()
    torch.no_grad(function() w:sub_(lr * w.grad) end)
    w.grad = nil
  end
  return w:detach()
end
--# why     Half of the way to 1 is left after each step:
print(descend(function(w) return ((w - 1) * (w - 1)):sum() end, torch.zeros(3), 0.25, 5))

--# say     Something real: learning on top of a frozen layer. 64 points of a digit go through 100 random
--#         weights that never learn; on what comes out, 100 numbers for each picture, one more layer learns
--#         to tell a 3 from a 5. What is frozen needs to be computed only once, without a graph.
--# new     utils data flatten logical_or eq relu float
local set = torch.utils.data.digits()
local all, labels = set.tensors[1]:flatten(2), set.tensors[2]
local chosen = labels:eq(4):logical_or(labels:eq(6))
torch.manual_seed(2)
frozen = torch.randn(64, 100)
features = torch.no_grad(function() return (all[chosen]:matmul(frozen)):relu() / 10 end)
truth = labels[chosen]:eq(6):float()
print(features.shape, features.requires_grad)
--# predict truth.shape --> [365]
--# ask     There are 183 threes and 182 fives. What shape is `truth`?
--# wrong   2: One truth for each picture, 0 or 1.
--# hint    183 + 182.

--# say     The answer for a picture is sigmoid(features . w). 300 pictures to learn from, 65 to test.
--# new     sigmoid manual_seed randn matmul mean
--# task    Write learn(n): descend from 100 zeros, with a rate of 1, n steps, the mean of (answer - truth)
--#         ^ 2 over the first 300 pictures. Return the 100 weights.
--# spec    learn(n)
--#         local x, y = features["1:300"]:double(), truth["1:300"]:double()
--#         local w = torch.zeros(100, {dtype = "float64"})
--#         for i = 1, n do
--#           local p = torch.sigmoid(x:matmul(w))
--#           w = w - (2 * (p - y) * p * (1 - p)):matmul(x) / 300
--#         end
--#         return w:float()
--# try     n in 1..12
--# wrong   function learn(n) return descend(function(w) return ((torch.sigmoid(features:matmul(w)) - truth)
--#         ^ 2):mean() end, torch.zeros(100), 1, n) end: These are all 365 pictures; the last 65 are for
--#         the test.
--# wrong   function learn(n) return descend(function(w) return ((features["1:300"]:matmul(w) -
--#         truth["1:300"]) ^ 2):mean() end, torch.zeros(100), 1, n) end: The sigmoid is missing.
--# hint    `descend` does it all; what is f?
--# hint    `function(w) return ((torch.sigmoid(features["1:300"]:matmul(w)) - truth["1:300"]) ^ 2):mean() end`
--# answer
function learn(n)
  local x, y = features["1:300"], truth["1:300"]
  return descend(function(w) return ((torch.sigmoid(x:matmul(w)) - y) ^ 2):mean() end, torch.zeros(100), 1, n)
end
--# why     300 steps of 100 weights. On the 65 pictures that it never saw:
w = learn(300)
print(torch.sigmoid(features["301:"]:matmul(w)):gt(0.5):eq(truth["301:"]:bool()):float():mean())

--# say     That share of 65 new pictures is told right, though most of the network never learned anything:
--#         it was only frozen.
--# play    Try `learn(3)` in place of `learn(300)`. Enter ends the lesson.
