--# title   The graph: how a result remembers the way it was made
--# see     grad_fn is_leaf retain_grad
--# explains GRAD-3 GRAD GRAD-0 SUM

--# say     `backward` can only go back because each operation leaves a note: what it did, and with what.
--#         All these notes together are the graph. At its end is the result; at its beginnings, the leaves,
--#         are tensors that you made.
a = torch.tensor(2.0, {requires_grad = true})
b = torch.tensor(3.0, {requires_grad = true})
c = a * b
d = c + a
--# predict d:item() --> 8
--# hint    2 * 3 + 2.

--# say     The lens `%graph` draws it: the result on top, what it was made of below.
--# play    Type `%graph d`. Follow the lines from d down to the leaves a and b. Enter goes on.

--# say     `grad_fn` is the last note of a tensor: its name is the operation. A leaf has none: nothing made
--#         it but you.
--# new     grad_fn is_leaf
print(d.grad_fn)
--# predict c.is_leaf --> false
--# wrong   true: c was computed, from a and b.
--# hint    Was c computed?
--# why     The leaves are a and b. a has two ways to d: through the product, and straight into the sum.
print(a.grad_fn)

--# say     Each way gives a share to the slope. d = a * b + a.
d:backward()
--# predict a.grad:item() --> 4
--# wrong   3: That is the share through the product. There is a second way, straight into the sum.
--# wrong   1: That is the share of the sum alone. The other way leads through the product.
--# wrong   5: If a becomes larger by 1, a * b becomes larger by b.
--# hint    Through the product: b. Straight: 1.
--# why     3 + 1: the shares of all ways are added up.

--# say     Gradients are kept in leaves only. What about c, in the middle?
--# predict c.grad == nil --> true
--# wrong   false: It was needed on the way, and then forgotten. Only leaves keep theirs.
--# hint    c is no leaf.
--# why     Otherwise a large network would need twice the memory. `c:retain_grad()`, before backward, keeps it.

--# say     Like this:
--# new     retain_grad
x = torch.tensor(2.0, {requires_grad = true})
m = x * x
m:retain_grad()
y = m * 10
y:backward()
--# predict m.grad:item() --> 10
--# wrong   40: That is y.
--# wrong   4: That is how fast m changes with x. How fast does y change with m?
--# hint    y is m * 10.

--# say     A graph serves for one `backward`: what it had kept for the way back is thrown away afterwards,
--#         to save memory. (`d:backward()` was run above.)
--# predict d:backward() --> error
--# wrong   8: It was used, and thrown away.
--# wrong   4: It was used, and thrown away.
--# hint    The graph of d has been used.
--# why     Compute d again, and there is a new graph. In training this happens by itself: each step
--#         computes its own.

--# say     The graph is made while the program runs, so it is a new one each time. An `if` or a loop in the
--#         program does not stand in it; only the way that was really taken.
function bent(x)
  if x:item() > 0 then return x * 3 end
  return x * x
end
n = torch.tensor(-5.0, {requires_grad = true})
bent(n):backward()
--# predict n.grad:item() --> -10
--# wrong   3: -5 is not greater than 0.
--# wrong   25: That is the value.
--# hint    For -5 it is x * x, with the slope 2 * x.
--# why     The other way left no trace in this graph.

--# say     What does not want a gradient is a plain number for the graph: no way leads there.
k = torch.tensor(7.0)
w = torch.tensor(2.0, {requires_grad = true})
y = k * w
y:backward()
--# predict k.grad == nil --> true
--# wrong   false: k never asked for a gradient.
--# hint    `requires_grad` was not set for k.
print(w.grad)

--# say     A result wants a gradient as soon as one of its inputs does.
--# predict (k * w + k).requires_grad --> true
--# wrong   false: w is in it, and w wants one.
--# hint    One of the inputs wants a gradient.

--# say     And a plain Lua number has no memory at all. `:item()` cuts the graph.
cut = torch.tensor((k * w):item())
--# predict cut.requires_grad --> false
--# wrong   true: It passed through a plain number, 14.0, which knows nothing of w.
--# hint    What does the number 14.0 know of w?
--# why     `cut:backward()` would be an error that says where the graph was cut. For printing a loss
--#         `:item()` is right.

--# say     The memory of a graph lives as long as its result. This is a classic: adding up losses for a report.
--#           total = total + loss           keeps the graphs of all steps
--#           total = total + loss:item()    keeps a number
--# task    Write mean_loss(losses): the mean of the losses in the Lua table `losses`, as a plain number. To
--#         make sure that no graph is kept, the losses of the test are boxes that know `:item()`, and
--#         nothing else.
--# spec    mean_loss(losses)
--#         local total = 0
--#         for _, loss in ipairs(losses) do total = total + loss:item() end
--#         return total / #losses
--# try     n in 2..5
--# try     losses = (function() local t = {} for i = 1, n do local v = torch.rand(1)[1]:item() t[i] = {item = function() return v end} end return t end)()
--# wrong   function mean_loss(losses) local total = 0 for _, loss in ipairs(losses) do total = total + loss
--#         end return total / #losses end: That keeps the graph of every loss. Take `loss:item()`.
--# wrong   function mean_loss(losses) local total = 0 for _, loss in ipairs(losses) do total = total +
--#         loss:item() end return total end: That is the sum.
--# hint    A loop over `losses`, and `:item()` of each.
--# answer
function mean_loss(losses)
  local total = 0
  for _, loss in ipairs(losses) do total = total + loss:item() end
  return total / #losses
end

--# say     Something real: how long is the way back? Below, x goes through 50 layers; the graph has so many
--#         notes, and `backward` visits each once. A small factor in each, and the gradient is gone before
--#         it arrives.
function deep(x, layers, factor)
  for _ = 1, layers do x = x * factor end
  return x
end
g = torch.tensor(1.0, {requires_grad = true})
deep(g, 3, 0.5):backward()
--# predict g.grad:item() --> 0.125
--# wrong   1.5: The factors are multiplied, not added.
--# wrong   0.5: There are three layers.
--# hint    0.5 * 0.5 * 0.5.
--# why     Each layer multiplies by its slope. After 50 layers 0.000000000000001 is left: such a network
--#         does not learn. With 1.5 in place of 0.5 it would explode. Good starting weights keep the
--#         factors near 1.
g.grad = nil
deep(g, 50, 0.5):backward()
print(g.grad:item())
g.grad = nil
deep(g, 50, 1.5):backward()
print(g.grad:item())
