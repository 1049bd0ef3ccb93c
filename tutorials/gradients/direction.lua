--# title   Backward from a vector, and why it needs a direction
--# see     backward autograd
--# explains GRAD-1

--# say     So far `backward` began at one number. Here are three results, each with slopes of its own.
x = torch.tensor({1.0, 2.0, 3.0}, {requires_grad = true})
y = x * x
print(y)
--# predict y:backward() --> error
--# wrong   2 4 6: These are the slopes of each by its own. But which of the three results is to be followed back?
--# hint    y holds three numbers. Which of them is to be followed back?
--# why     "How fast does y change with x?" has 9 answers here, 3 results for 3 inputs. A gradient is one
--#         number for each input: something must be said about the results first.

--# say     If their sum is meant, say so.
--# new     sum
s = (x * x):sum()
s:backward()
--# predict x.grad --> 2 4 6
--# wrong   14: That is the sum. The gradient has the shape of x.
--# hint    The sum changes by 2 * x for each element.

--# say     The mean has the same direction, but it is shorter.
--# new     mean
x.grad = nil
m = (x * x):mean()
m:backward()
--# predict x.grad[3]:item() --> 2
--# wrong   6: The mean of 3 numbers changes by a third of what the sum changes.
--# hint    6 from the sum, divided by 3.
--# why     Mean or sum: the choice only changes how long the steps are. That is why a learning rate fits
--#         one of them.

--# say     Or give a weight to each result: the direction. `y:backward(v)` is `(y * v):sum():backward()`.
x.grad = nil
y = x * x
y:backward(torch.tensor{1.0, 0.0, 0.0})
--# predict x.grad --> 2 0 0
--# wrong   2 4 6: The second and the third result have the weight 0.
--# hint    Only the first result counts; it is x[1] * x[1].
--# why     So each row of the 9 answers can be asked for, one at a time.

--# say     Weights other than 0 and 1 are as good.
x.grad = nil
y = x * x
y:backward(torch.tensor{1.0, 10.0, 100.0})
--# predict x.grad --> 2 40 600
--# wrong   2 4 6: Each is multiplied by its weight.
--# hint    2, 4 and 6, each with its weight.

--# say     The weights have the shape of y.
--# new     ones
x.grad = nil
y = x * x
--# predict y:backward(torch.ones(2)) --> error
--# wrong   2 4 6: Two weights for three results?
--# hint    How many results, how many weights?

--# say     Is the direction not what came from above, in the chain rule? It is. If y is only the middle of
--#         a longer way, the gradient that arrives at y is just such a table of weights.
a = torch.tensor({1.0, 2.0}, {requires_grad = true})
b = a * 3
c = (b * torch.tensor{10.0, 20.0}):sum()
c:backward()
--# predict a.grad --> 30 60
--# wrong   10 20: That is what arrives at b. From b to a it is multiplied by 3.
--# wrong   3 3: That is from b to a. What arrives at b?
--# hint    At b arrive 10 and 20; each times 3.
--# why     `b:backward(torch.tensor{10.0, 20.0})` would have given the same.

--# say     All 9 answers in a table are called the Jacobian: row i, column j is how fast result i changes
--#         with input j. For y = x * x each result depends on its own input only.
--# new     autograd
J = torch.autograd.functional.jacobian(function(x) return x * x end, torch.tensor{1.0, 2.0, 3.0})
--# predict J[2] --> 0 4 0
--# wrong   2 4 6: Result 2 depends on input 2 only.
--# wrong   4 4 4: Result 2 depends on input 2 only.
--# hint    How fast does x[2] * x[2] change with x[1]? With x[2]? With x[3]?
print(J)

--# say     Build it yourself, row by row: a direction with a single 1 asks for one row.
--# new     requires_grad_ clone stack
--# task    Write jacobian(f, x): the table [m, n], for f from n numbers to m numbers, with `backward` only.
--# spec    jacobian(f, x) return torch.autograd.functional.jacobian(f, x)
--# try     n in 2..4
--# try     x = torch.randn(n)
--# try     f = function(x) return torch.cat{x * x, x:sum():reshape(1)} end
--# forbid  jacobian jacrev jacfwd autograd func
--# wrong   function jacobian(f, x) x = x:clone():requires_grad_() f(x):sum():backward() return x.grad end:
--#         That is the sum of all rows. Ask for each row alone.
--# wrong   function jacobian(f, x) x = x:clone():requires_grad_() f(x):backward() return x.grad end: f
--#         gives several numbers; say which one, by a direction.
--# hint    How many rows? `#f(x)`. In a loop over them, compute `y = f(x)` anew: a graph serves once.
--# hint    `local v = torch.zeros(#y)`, `v[i] = 1`, `y:backward(v)`; then x.grad is row i. Set it to nil
--#         before the next one.
--# hint    The rows become a table by `torch.stack`.
--# answer
function jacobian(f, x)
  x = x:clone():requires_grad_()
  local rows = {}
  for i = 1, #f(x) do
    x.grad = nil
    local y = f(x)
    local v = torch.zeros(#y)
    v[i] = 1
    y:backward(v)
    rows[i] = x.grad
  end
  return torch.stack(rows)
end

--# say     So a Jacobian with a thousand rows costs a thousand ways back, and is never built in training:
--#         one direction is enough there, that of the loss.
--# new     reshape
z = torch.zeros(1000)
--# predict torch.autograd.functional.jacobian(function(x) return x:sum():reshape(1) end, z).shape --> [1, 1000]
--# wrong   1000 1000: There is one result only.
--# wrong   1000: A row for each result, a column for each input.
--# hint    1 result, 1000 inputs.

--# say     `torch.autograd.grad(y, {x}, {..})` gives gradients back instead of adding them to `.grad`; the
--#         direction is `grad_outputs`.
--# new     grad
p = torch.tensor({2.0, 3.0}, {requires_grad = true})
q = p * p
--# predict torch.autograd.grad(q, {p}, {grad_outputs = torch.tensor{1.0, 1.0}, retain_graph = true}) --> 4 6
--# wrong   10: Each element has its own.
--# hint    2 * p.

--# say     Something real: which points of a picture does an answer look at? The gradient of one score for
--#         the picture says how much each point matters. A classifier has 10 scores; the direction picks
--#         the one that is meant.
--# new     utils data flatten eq matmul round
local set = torch.utils.data.digits()
pictures, labels = set.tensors[1]:flatten(2), set.tensors[2]
three = pictures[labels:eq(4)]:mean(1)
eight = pictures[labels:eq(9)]:mean(1)
templates = torch.stack{three, eight}
function scores(x) return templates:matmul(x) - (templates * templates):sum(2) / 2 end
--# task    Write importance(f, x, k): the gradient of result k of f (which gives several numbers) for x, in
--#         the shape of x.
--# spec    importance(f, x, k) return torch.autograd.functional.jacobian(f, x)[k]
--# try     n in 3..5
--# try     k in 1..2
--# try     x = torch.randn(n)
--# try     f = function(x) return torch.stack{(x * x):sum(), (x * x * x):sum()} end
--# forbid  jacobian
--# wrong   function importance(f, x, k) x = x:clone():requires_grad_() f(x):sum():backward() return x.grad
--#         end: That is for the sum of all results; only result k is meant.
--# wrong   function importance(f, x, k) x = x:clone():requires_grad_() f(x)[1]:backward() return x.grad
--#         end: That is for the first result. Which one is asked for?
--# hint    Make a copy of x that wants its gradient: `x:clone():requires_grad_()`.
--# hint    `f(x)[k]` is one number: `:backward()` needs no direction.
--# answer
function importance(f, x, k)
  x = x:clone():requires_grad_()
  f(x)[k]:backward()
  return x.grad
end
--# why     Below: what speaks for an 8 and against a 3. The light places are the left side of the loops,
--#         which a 3 has not.
difference = importance(scores, pictures[1], 2) - importance(scores, pictures[1], 1)
print((difference:view(8, 8) * 10):round())
