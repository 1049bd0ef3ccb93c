--# title   Changing in place, and what the way back still needs
--# see     add_ clone no_grad
--# explains GRAD-2 GRAD-4

--# say     A method with `_` at the end changes its tensor: it writes into the cells. The way back reads
--#         some of these cells again. Who has changed them in between has cut the branch on which the
--#         gradient sits. This lesson shows when. For x * x the slope is 2 * x, so the way back needs x.
x = torch.tensor({1.0, 2.0}, {requires_grad = true})
a = x * 1
y = (a * a):sum()
--# predict y:item() --> 5
--# hint    1 + 4.
--# why     The product has kept a, to multiply with it on the way back.

--# say     Now a is changed, after it was used.
--# new     add_
a:add_(10)
--# predict y:backward() --> error
--# wrong   2 4: a is 11 and 12 now; with these the gradient would be wrong.
--# wrong   22 24: That would be the gradient for the new a; y was made of the old one.
--# hint    The slope of a * a is 2 * a. Which a?
--# why     Better an error than a wrong number. It names the operation that needed the value, the one that
--#         changed it, and both lines.

--# say     The cure: make a new tensor. `a = a + 10` leaves the old cells alone.
a = x * 1
y = (a * a):sum()
a = a + 10
y:backward()
--# predict x.grad --> 2 4
--# wrong   22 24: y was made of the old a, which is still there.
--# hint    y was made of the old a, 1 and 2.

--# say     Not every operation needs its input again. A sum does not: its slope is 1, whatever was added.
--# new     mul_
x.grad = nil
b = x * 1
y = b:sum()
b:mul_(100)
y:backward()
--# predict x.grad --> 1 1
--# wrong   error: The sum did not keep its input.
--# wrong   100 100: y was computed before b was changed.
--# hint    How fast does a sum change with its parts?
--# why     No error, and a right gradient: nobody needed the old b.

--# say     Some need their result. exp is its own slope, so it keeps what it gave, not what it got.
--# new     exp
x.grad = nil
e = x:exp()
y = e:sum()
e:add_(1)
--# predict y:backward() --> error
--# wrong   2.7183 7.3891: It would be exp(x); but that stood in e, and e was changed.
--# hint    The slope of exp is its own result. Where does that stand?

--# say     And the input of exp?
--# new     round
x.grad = nil
i = torch.zeros(2) + x
e = i:exp()
y = e:sum()
i:mul_(0)
y:backward()
--# predict x.grad:round() --> 3 7
--# wrong   error: exp kept its result, not its input.
--# wrong   1 1: The result was computed before i was changed.
--# hint    exp kept its result, which nobody has changed: 2.718 and 7.389.

--# say     Leaves: a tensor that you made and that wants its gradient may not be changed while it is
--#         recorded: its gradient would belong to a value that is gone.
w = torch.tensor({1.0, 2.0}, {requires_grad = true})
--# predict w:add_(1) --> error
--# wrong   2 3: Not while it is recorded: inside `torch.no_grad` it is allowed.
--# hint    w is a leaf that wants its gradient.

--# say     An assignment to an element is a change in place, too.
--# predict pcall(function() w[1] = 5 end) --> false
--# ask     Does `w[1] = 5` work? (true or false)
--# wrong   true: It writes into the cells of a leaf.
--# hint    It writes into the cells of w.
torch.no_grad(function() w[1] = 5 end)
print(w)

--# say     What is computed may be written into, and the graph knows: here column 1 is overwritten, so x no
--#         longer matters there.
x = torch.tensor({1.0, 2.0, 3.0}, {requires_grad = true})
c = x * 2
c[1] = 100
y = c:sum()
y:backward()
--# predict x.grad --> 0 2 2
--# wrong   2 2 2: The first element of c does not come from x any more.
--# wrong   error: c is no leaf, and x * 2 does not need its result.
--# hint    Which elements of c still come from x?
--# why     The write is in the graph like any other operation.

--# say     A view shares cells, so a change through a view is a change of the whole.
--# new     view
x = torch.tensor({1.0, 2.0, 3.0, 4.0}, {requires_grad = true})
d = x * 1
y = (d * d):sum()
d:view(2, 2)[1]:mul_(0)
--# predict y:backward() --> error
--# wrong   2 4 6 8: Two cells of d have changed, through the view.
--# hint    Whose cells did `mul_(0)` change?

--# say     A copy has cells of its own. `clone` is in the graph: gradients go through it.
--# new     clone
x = torch.tensor({1.0, 2.0}, {requires_grad = true})
d = x * 1
y = (d * d):sum()
k = d:clone()
k:mul_(0)
y:backward()
--# predict x.grad --> 2 4
--# wrong   error: k has cells of its own; d is as it was.
--# wrong   0 0: y was made of d, not of k.
--# hint    Was d changed?

--# say     This function is meant to limit a tensor from below, and breaks the way back of who gave it.
--# new     lt
function at_least(x, low)
  x[x:lt(low)] = low
  return x
end
--# task    Write at_least(x, low) so that it works in any graph: elements below `low` become `low`, x
--#         itself stays as it is.
--# spec    at_least(x, low) return torch.where(x:lt(low), torch.full_like(x, low), x)
--# try     n in 3..6
--# try     x = torch.randn(n)
--# try     low = 0.25
--# wrong   function at_least(x, low) local y = x y[y:lt(low)] = low return y end: y is another name of x:
--#         `=` makes no copy.
--# wrong   function at_least(x, low) return x:clamp(-low, low) end: That limits above as well.
--# hint    Take a copy first; or use an operation that gives a new tensor.
--# hint    `x:clone()` and the assignment; or `x:clamp{min = low}`.
--# answer
function at_least(x, low)
  local y = x:clone()
  y[y:lt(low)] = low
  return y
end

--# say     Something real: an optimiser with momentum, the way most networks are trained. It remembers a
--#         velocity for each weight: v becomes 0.9 * v + gradient, then w becomes w - lr * v. Both must
--#         change in place: the network holds w, and would not notice a new tensor.
--# new     sub_
--# task    Write train(f, start, lr, n): w, a copy of start that wants its gradient, v zeros, then n such
--#         steps for the loss f(w), in place. Return the losses: a Lua table of n plain numbers, each from
--#         before its step.
--# spec    train(f, start, lr, n)
--#         local w, v, losses = start:double(), torch.zeros(#start, {dtype = "float64"}), {}
--#         for i = 1, n do
--#           losses[i] = f(w):item()
--#           v = 0.9 * v + torch.func.grad(f)(w)
--#           w = w - lr * v
--#         end
--#         return losses
--# try     n in 2..5
--# try     k in 6..7
--# try     start = torch.randn(k)
--# try     lr = 0.05
--# try     f = function(w) return ((w - 1) * (w - 1)):sum() end
--# wrong   function train(f, start, lr, n) local w, losses = start:clone():requires_grad_(), {} for i = 1,
--#         n do local loss = f(w) losses[i] = loss:item() w.grad = nil loss:backward()
--#         torch.no_grad(function() w:sub_(lr * w.grad) end) end return losses end: That is downhill
--#         without momentum; v is missing.
--# wrong   function train(f, start, lr, n) local w, v, losses = start:clone():requires_grad_(),
--#         torch.zeros(#start), {} for i = 1, n do local loss = f(w) losses[i] = loss:item()
--#         loss:backward() torch.no_grad(function() v:mul_(0.9):add_(w.grad) w:sub_(lr * v) end) end return
--#         losses end: The gradients add up: `w.grad = nil` in each step. v remembers them already.
--# hint    `local w = start:clone():requires_grad_()`, `local v = torch.zeros(#start)`, `local losses = {}`.
--# hint    In each step: the loss, `losses[i] = loss:item()`, `w.grad = nil`, `loss:backward()`, and then
--#         the changes.
--# hint    Inside `torch.no_grad`: `v:mul_(0.9):add_(w.grad)`, then `w:sub_(lr * v)`.
--# answer
function train(f, start, lr, n)
  local w, v, losses = start:clone():requires_grad_(), torch.zeros(#start), {}
  for i = 1, n do
    local loss = f(w)
    losses[i] = loss:item()
    w.grad = nil
    loss:backward()
    torch.no_grad(function()
      v:mul_(0.9):add_(w.grad)
      w:sub_(lr * v)
    end)
  end
  return losses
end
--# why     `w` and `v` are the same tensors from the first step to the last; only their cells change.

--# say     A long valley, steep in one direction, flat in the other: after 100 steps little of the loss is
--#         left. Without momentum it crawls along the bottom, and most is left.
valley = function(w) return (w * w * torch.tensor{1.0, 300.0}):sum() end
print(train(valley, torch.ones(2), 0.002, 100)[100])
local w = torch.ones(2):requires_grad_()
for i = 1, 99 do
  w.grad = nil
  local loss = valley(w)
  loss:backward()
  torch.no_grad(function() w:sub_(0.002 * w.grad) end)
end
print(valley(w):item())
--# play    Compare the curves: `plot(torch.tensor(train(valley, torch.ones(2), 0.002, 100)))`. Enter ends
--#         the lesson.
