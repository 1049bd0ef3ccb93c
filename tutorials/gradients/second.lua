--# title   Second derivatives: the slope of the slope
--# see     autograd func

--# say     A car: where it is, x(t). The slope of that is how fast it goes. The slope of the speed is how
--#         much it accelerates: the slope of a slope, the second derivative. For x(t) = t ^ 3 the speed is
--#         3 * t ^ 2.
--# predict 6 * 2 --> 12
--# ask     The speed is 3 * t ^ 2. How fast does the speed change, at t = 2?
--# wrong   24: The slope of 3 * t ^ 2 is 6 * t.
--# hint    The slope of t ^ 2 is 2 * t, so that of 3 * t ^ 2 is 6 * t.
--# why     6 * t, at 2.

--# say     `torch.autograd.grad(y, {x})` gives the gradient of y for x back, and leaves `.grad` alone. With
--#         `create_graph = true` the gradient is itself computed within a graph, so that one can go back
--#         from it once more.
--# new     autograd grad
t = torch.tensor(2.0, {requires_grad = true})
x = t ^ 3
speed = torch.autograd.grad(x, {t}, {create_graph = true})
print(speed)
--# predict speed:item() --> 12
--# wrong   8: That is where it is. The speed is 3 * t ^ 2.
--# hint    3 * 2 ^ 2.

--# say     And once more, from the speed:
--# predict torch.autograd.grad(speed, {t}, {retain_graph = true}):item() --> 12
--# wrong   6: It is 6 * t, and t is 2.
--# hint    6 * t.
--# why     That both are 12 at t = 2 is an accident: at t = 3 they are 27 and 18.

--# say     Without `create_graph` the gradient has no past.
plain = torch.autograd.grad(t ^ 3, {t})
--# predict plain.requires_grad --> false
--# wrong   true: Only `create_graph = true` records how the gradient was made.
--# hint    Was it told to make a graph?

--# say     Write it for any function.
--# task    Write second(f, x): the second derivative of f at the number x, as a plain number.
--# spec    second(f, x)
--#         local h = 1e-3
--#         local function at(v) return f(torch.tensor(v, {dtype = "float64"})):item() end
--#         return (at(x + h) - 2 * at(x) + at(x - h)) / h ^ 2
--# try     k in 1..4
--# try     x = k / 2
--# try     f = function(t) return t * t * t + t * t end
--# wrong   function second(f, x) local t = torch.tensor(x, {requires_grad = true}) return
--#         torch.autograd.grad(f(t), {t}):item() end: That is the first one.
--# wrong   function second(f, x) local t = torch.tensor(x, {requires_grad = true}) local g =
--#         torch.autograd.grad(f(t), {t}) return torch.autograd.grad(g, {t}):item() end: g has no past:
--#         `create_graph = true` is missing.
--# hint    First `local g = torch.autograd.grad(f(t), {t}, {create_graph = true})`.
--# hint    Then the gradient of g, and `:item()`.
--# answer
function second(f, x)
  local t = torch.tensor(x, {requires_grad = true})
  local g = torch.autograd.grad(f(t), {t}, {create_graph = true})
  return torch.autograd.grad(g, {t}):item()
end

--# say     What does the sign say? Where the second derivative is positive, the curve is bent up, like a
--#         bowl; there a slope of 0 is a lowest point. Where it is negative, it is a hill top.
--# predict second(function(t) return t ^ 3 - 3 * t end, 1.0) --> 6
--# wrong   0: That is the first derivative at 1: 3 * t ^ 2 - 3.
--# hint    The first is 3 * t ^ 2 - 3, the second 6 * t.
--# why     At 1 the slope is 0, and 6 is positive: a lowest point. At -1 it would be -6, a highest one.

--# say     For several inputs there is a table of second derivatives, the Hessian: row i, column j is how
--#         fast the slope for input i changes with input j.
--# new     func
function f(v) return v[1] * v[1] * v[2] end
H = torch.func.hessian(f)(torch.tensor{3.0, 5.0})
print(H)
--# predict H[{1, 2}]:item() --> 6
--# wrong   10: That is [{1, 1}]: 2 * v[2].
--# wrong   0: That is [{2, 2}].
--# hint    The slope for v[1] is 2 * v[1] * v[2]. How fast does it change with v[2]?
--# why     2 * v[1]. Asked the other way round, [{2, 1}], it is the same: the table is symmetric.

--# say     For n inputs it has n times n entries. How many for a small network with 1,000 weights?
--# predict 1000 * 1000 --> 1000000
--# ask     How many entries has the Hessian of a function of 1,000 numbers?
--# hint    A row and a column for each.
--# why     A million. For large networks it is never written down; but its product with one direction costs
--#         little more than two ways back.

--# say     That product: the gradient of (gradient times direction).
--# task    Write hessian_times(f, x, v): the Hessian of f at x times v, [n], without building the Hessian.
--# spec    hessian_times(f, x, v) return torch.func.hessian(f)(x):matmul(v)
--# try     n in 2..4
--# try     x = torch.randn(n)
--# try     v = torch.randn(n)
--# try     f = function(x) return (x * x * x):sum() + x[1] * x[2] end
--# forbid  hessian jacobian hvp vhp jacrev jacfwd
--# wrong   function hessian_times(f, x, v) x = x:clone():requires_grad_() local g =
--#         torch.autograd.grad(f(x), {x}, {create_graph = true}) return g * v end: That is the gradient,
--#         element by element with v. Go back once more.
--# wrong   function hessian_times(f, x, v) x = x:clone():requires_grad_() local g =
--#         torch.autograd.grad(f(x), {x}, {create_graph = true}) return torch.autograd.grad(g:sum(), {x}) *
--#         v end: The direction belongs before the second way back: `g:dot(v)`.
--# hint    `local g = torch.autograd.grad(f(x), {x}, {create_graph = true})`, for a copy of x that wants
--#         its gradient.
--# hint    `g:dot(v)` is one number. Its gradient for x is what is wanted.
--# answer
function hessian_times(f, x, v)
  x = x:clone():requires_grad_()
  local g = torch.autograd.grad(f(x), {x}, {create_graph = true})
  return torch.autograd.grad(g:dot(v), {x})
end

--# say     A use: Newton's way downhill. The slope says which way, the second derivative how far: x minus
--#         slope / second. For a parabola one step is enough.
function newton(f, x)
  local t = torch.tensor(x, {requires_grad = true})
  local g = torch.autograd.grad(f(t), {t}, {create_graph = true})
  return x - (g / torch.autograd.grad(g, {t}, {retain_graph = true})):item()
end
--# predict newton(function(t) return (t - 7) * (t - 7) end, 0.0) --> 7
--# wrong   14: The slope is -14, the second derivative 2.
--# wrong   -7: Minus the slope: 0 - (-14 / 2).
--# hint    The slope at 0 is -14, the second derivative is 2.
--# why     Straight to the lowest point, from anywhere.

--# say     Other functions take a few steps. Roots, for example: where is t ^ 3 / 3 - 2 * t lowest? Where t
--#         * t = 2.
root = 1.0
for step = 1, 5 do
  root = newton(function(t) return t ^ 3 / 3 - 2 * t end, root)
  print(step, root)
end
--# predict math.floor(root * 10000 + 0.5) / 10000 --> 1.4142
--# wrong   2: t * t is 2 there.
--# hint    The number whose square is 2.

--# say     Third derivatives, fourth ones: the same again. `torch.func.grad` makes a function of a
--#         function, so it can be nested.
g = torch.func.grad
--# predict g(g(g(function(t) return t ^ 3 end)))(torch.tensor(2.0)):item() --> 6
--# wrong   12: That is the second: 6 * t.
--# wrong   0: That is the fourth.
--# hint    3 * t ^ 2, then 6 * t, then ..

--# say     Something real: a network that is told how steep it may be. Some training (WGAN-GP, physics)
--#         punishes gradients: the loss contains a gradient, so learning needs the gradient of a gradient.
--# task    Write penalty(f, x): the mean over the rows of x [n, d] of (length of the gradient of f for that
--#         row, minus 1) ^ 2. f takes [n, d] and gives [n], each from its own row. The result must have a
--#         graph, so that it can be learned from.
--# spec    penalty(f, x)
--#         local total = 0
--#         for i = 1, #x do
--#           local g = torch.func.grad(function(r) return f(r:unsqueeze(1))[1] end)(x[i])
--#           total = total + ((g * g):sum():sqrt() - 1) ^ 2
--#         end
--#         return total / #x
--# try     n in 2..3
--# try     d in 4..5
--# try     x = torch.randn(n, d)
--# try     f = function(x) return (x * x * x):sum(2) end
--# forbid  for while repeat
--# wrong   function penalty(f, x) x = x:clone():requires_grad_() local g = torch.autograd.grad(f(x):sum(),
--#         {x}, {create_graph = true}) return ((g * g):sum():sqrt() - 1) ^ 2 end: That is the length of all
--#         rows together. Each row has its own.
--# wrong   function penalty(f, x) x = x:clone():requires_grad_() local g = torch.autograd.grad(f(x):sum(),
--#         {x}, {create_graph = true}) return (((g * g):sum(2) - 1) ^ 2):mean() end: That is the length
--#         squared: the root is missing.
--# hint    Each result depends on its own row only, so the gradient of their sum holds all rows' gradients:
--#         `f(x):sum()`.
--# hint    `(g * g):sum(2):sqrt()` are the lengths.
--# answer
function penalty(f, x)
  x = x:clone():requires_grad_()
  local g = torch.autograd.grad(f(x):sum(), {x}, {create_graph = true})
  return (((g * g):sum(2):sqrt() - 1) ^ 2):mean()
end

--# say     Let it teach: w decides how steep f is; the penalty wants a gradient of length 1.
w = torch.tensor({3.0, -2.0}, {requires_grad = true})
for step = 1, 200 do
  w.grad = nil
  local loss = penalty(function(x) return x:matmul(w) end, torch.randn(4, 2))
  loss:backward()
  torch.no_grad(function() w:sub_(0.05 * w.grad) end)
end
--# predict math.floor((w * w):sum():sqrt():item() * 100 + 0.5) / 100 --> 1
--# ask     How long is w now (the root of the sum of its squares)?
--# wrong   3.61: So long it was before.
--# hint    The gradient of x . w for x is w. How long should it become?
--# why     The direction of w is as before; its length was learned, through the gradient of a gradient.
print(w)
