--# title   What is wrong here? Gradients

--# say     exp keeps its result, for its slope is its result. Here the result is changed behind its back.
--# new     tensor exp add_ sum backward
function change()
  local x = torch.tensor({0.0, 1.0}, {requires_grad = true})
  local y = x:exp()
  y:add_(1)
  y:sum():backward()
  return x.grad
end
--# new     grad
--# predict change() --> error
--# wrong   1 2.718: That would be right for exp(x) + 1. But the kept result is gone, and is not used wrongly.
--# wrong   2 3.718: That would be the slope if nobody noticed.
--# hint    What does exp need for its slope, and is it still there?
--# why     "backward: exp (line ..) needs its own result, but line .. changed it with y:add_(1)".

--# say     Repair it.
--# new     clone requires_grad_
--# new     randn
--# new     detach
--# task    Repair slope(x): the gradient of the sum of exp(x) + 1 with respect to x; x [n] is a plain tensor.
--# spec    slope(x) return x:exp()
--# try     n in 2..5
--# try     x = torch.randn(n)
--# starter
--#         function slope(x)
--#           local w = x:clone():requires_grad_()
--#           local y = w:exp()
--#           y:add_(1)
--#           y:sum():backward()
--#           return w.grad
--#         end
--# wrong   function slope(x) local w = x:clone():requires_grad_() local y = w:exp():detach() y:add_(1)
--#         y:sum():backward() return w.grad end: detach cuts the graph; then there is nothing to go back through.
--# wrong   function slope(x) local w = x:clone():requires_grad_() local y = w:exp() + 1 y:sum():backward() return
--#         w.grad + 1 end: The slope of + 1 is nothing.
--# hint    `y = y + 1` makes a new tensor, and leaves the old one as it was.
--# answer
function slope(x)
  local w = x:clone():requires_grad_()
  local y = w:exp() + 1
  y:sum():backward()
  return w.grad
end

--# say     A step by hand: the weight goes downhill.
--# new     sub_ no_grad
function by_hand()
  local w = torch.tensor({3.0}, {requires_grad = true})
  local loss = (w * w):sum()
  loss:backward()
  w:sub_(0.1 * w.grad)
  return w
end
--# predict by_hand() --> error
--# wrong   2.4: 3 - 0.1 * 6 was meant. But the step itself would become a part of the graph.
--# hint    Is the step something to take a gradient of?
--# why     Steps belong inside `torch.no_grad`, or into an optimiser.

--# say     Repair it; and it walks several steps, so a second mistake is in it.
--# task    Repair descend(w0, steps): the weight [n] after so many steps of w - 0.1 * gradient of the sum of w * w,
--#         from w0, as a plain tensor (without a graph).
--# spec    descend(w0, steps)
--#         local w = w0
--#         for _ = 1, steps do w = w - 0.1 * 2 * w end
--#         return w
--# try     steps in 1..4
--# try     n in 5..7
--# try     w0 = torch.randn(n)
--# starter
--#         function descend(w0, steps)
--#           local w = w0:clone():requires_grad_()
--#           local loss = (w * w):sum()
--#           for _ = 1, steps do
--#             loss:backward()
--#             w:sub_(0.1 * w.grad)
--#           end
--#           return w:detach()
--#         end
--# wrong   function descend(w0, steps) local w = w0:clone():requires_grad_() for _ = 1, steps do local loss = (w *
--#         w):sum() loss:backward() torch.no_grad(function() w:sub_(0.1 * w.grad) end) end return w:detach() end:
--#         The gradients of all steps add up in w.grad. Throw the old one away.
--# wrong   function descend(w0, steps) local w = w0:clone():requires_grad_() for _ = 1, steps do local loss = (w *
--#         w):sum() loss:backward() w = w - 0.1 * w.grad end return w:detach() end: Then w is a result, not the
--#         leaf: it has no .grad in the second step.
--# hint    The loss belongs into the loop: w is another one in each step.
--# hint    In the loop: `w.grad = nil`, loss, backward, and the step inside `torch.no_grad(function() .. end)`.
--# answer
function descend(w0, steps)
  local w = w0:clone():requires_grad_()
  for _ = 1, steps do
    w.grad = nil
    local loss = (w * w):sum()
    loss:backward()
    torch.no_grad(function() w:sub_(0.1 * w.grad) end)
  end
  return w:detach()
end

--# say     The graph of a loss is used up by its backward. What if the loss stands before the loop?
function again()
  local w = torch.tensor({3.0}, {requires_grad = true})
  local loss = w:exp():sum()
  for _ = 1, 2 do loss:backward() end
  return w.grad
end
--# predict again() --> error
--# wrong   40.17: Two times the slope. But the first backward has let the graph go.
--# hint    The first backward lets the graph go.
--# why     `retain_graph = true` makes the message go away, and is wrong here: the loss would be that of the old
--#         weights for ever. The forward pass belongs into the loop.

--# say     A memory that is carried from step to step (as in a network that reads a text word by word) ties all
--#         steps into one graph. The second backward would have to go through the first step again.
--# new     item
--# task    Repair carry(w0, xs): h = h * w + xs[i] from h = 0, for i = 1 .. #xs; after each step the gradient of h with
--#         respect to w is added, but only through that step. Give w.grad at the end, a tensor [].
--# spec    carry(w0, xs)
--#         local h, g = 0, 0
--#         for i = 1, #xs do
--#           g = g + h
--#           h = h * w0:item() + xs[i]:item()
--#         end
--#         return torch.tensor(g)
--# try     n in 2..5
--# try     w0 = torch.randn(1)[1]
--# try     xs = torch.randn(n)
--# starter
--#         function carry(w0, xs)
--#           local w, h = w0:clone():requires_grad_(), torch.tensor(0.0)
--#           for i = 1, #xs do
--#             h = h * w + xs[i]
--#             h:backward()
--#           end
--#           return w.grad
--#         end
--# wrong   function carry(w0, xs) local w, h = w0:clone():requires_grad_(), torch.tensor(0.0) for i = 1, #xs do h = h * w
--#         + xs[i] h:backward{retain_graph = true} end return w.grad end: That goes back through all steps each time;
--#         only the last one is wanted.
--# hint    Before each step: forget where h came from, and keep its value.
--# hint    `h = h:detach() * w + xs[i]`.
--# answer
function carry(w0, xs)
  local w, h = w0:clone():requires_grad_(), torch.tensor(0.0)
  for i = 1, #xs do
    h = h:detach() * w + xs[i]
    h:backward()
  end
  return w.grad
end

--# say     A gradient is that of one number.
--# new     mean ones
function many()
  local x = torch.ones(4, {requires_grad = true})
  local y = x * 3
  y:backward()
  return x.grad
end
--# predict many() --> error
--# wrong   3 3 3 3: That is what y:sum():backward() gives.
--# hint    The slope of which of the four numbers?
--# why     Say which: the sum, the mean, or a direction. They differ, as you see next.

--# say     With `y:mean():backward()` instead?
function of_mean()
  local x = torch.ones(4, {requires_grad = true})
  local y = (x * 3):mean()
  y:backward()
  return x.grad
end
--# predict of_mean() --> 0.75 0.75 0.75 0.75
--# wrong   3 3 3 3: That is the sum; a mean of four counts each a quarter.
--# hint    A quarter of 3.

--# say     Roots and logarithms: sqrt has an infinite slope at 0. Somebody keeps the 0 out, with where, which takes
--#         sqrt only where x > 0. The gradient at x = 0?
--# new     where gt sqrt zeros
function guarded()
  local x = torch.tensor({0.0, 4.0}, {requires_grad = true})
  local y = torch.where(x:gt(0), x:sqrt(), torch.zeros(2)):sum()
  y:backward()
  return x.grad
end
--# predict guarded()[1] --> nan
--# wrong   0: That was meant. But the slope there is 0 (not chosen) times infinity.
--# wrong   inf: It is not chosen, so infinity is multiplied by 0.
--# hint    0 times infinity.
--# why     where chooses among results that are there already. The bad number must not come to be: clamp before.

--# say     Something real: the distance of two points, whose gradient is nan where they are equal, and so the whole
--#         network's.
--# new     clamp
--# task    Repair pull(a, b): the gradient, with respect to a, of the distance sqrt(sum of (a - b) ^ 2); a and b are [n].
--#         Where they are equal it shall be 0: take the root of at least 1e-12.
--# spec    pull(a, b)
--#         local d = ((a - b) ^ 2):sum():sqrt():item()
--#         if d < 1e-6 then return torch.zeros(#a) end
--#         return (a - b) / d
--# try     n in 2..5
--# try     k in 0..1
--# try     a = torch.randn(n)
--# try     b = k == 0 and a or torch.randn(n)
--# starter
--#         function pull(a, b)
--#           local p = a:clone():requires_grad_()
--#           local d = ((p - b) ^ 2):sum():sqrt()
--#           d:backward()
--#           return p.grad
--#         end
--# wrong   function pull(a, b) local p = a:clone():requires_grad_() local d = ((p - b) ^ 2):sum():sqrt():clamp(1e-6)
--#         d:backward() return p.grad end: Too late: the root's slope is infinite before the clamp comes.
--# wrong   function pull(a, b) return (a - b) / ((a - b) ^ 2):sum():sqrt() end: 0 / 0 is nan, too.
--# hint    clamp between the sum and the root.
--# hint    `:sum():clamp(1e-12):sqrt()`.
--# answer
function pull(a, b)
  local p = a:clone():requires_grad_()
  local d = ((p - b) ^ 2):sum():clamp(1e-12):sqrt()
  d:backward()
  return p.grad
end
print(pull(torch.tensor{3.0, 4.0}, torch.zeros(2)), pull(torch.ones(2), torch.ones(2)))
