--# title   The slope: by hand, then with backward
--# see     backward requires_grad grad

--# say     Learning means: change a number a little, so that the error becomes smaller. To know which way,
--#         one needs the slope: how much does the result change when the number changes a little? Take f(x)
--#         = x * x, at 3.
function f(x) return x * x end
print(f(3), f(4))
--# predict f(4) - f(3) --> 7
--# wrong   1: That is how far x went. How far did f(x) go?
--# hint    4 * 4 - 3 * 3.
--# why     A step of 1 to the right raises f by 7. But 1 is a large step; f is curved.

--# say     The slope is the change of f for each step of x, so the change is divided by the step.
h = 0.5
--# predict (f(3 + h) - f(3)) / h --> 6.5
--# wrong   3.25: That is the change. Divide it by the step, 0.5.
--# hint    3.5 * 3.5 is 12.25. The change is 3.25; divided by 0.5.

--# say     The smaller the step, the better. With 0.1 it is 6.1, with 0.01 it is 6.01. Where does it lead?
for _, step in ipairs{0.1, 0.01, 0.001} do print(step, (f(3 + step) - f(3)) / step) end
--# predict math.floor((f(3 + 1e-6) - f(3)) / 1e-6 + 0.5) --> 6
--# ask     Which number do they come near to?
--# wrong   0: The step goes to 0, the quotient does not.
--# hint    6.1, 6.01, 6.001 ..
--# why     6 is the slope of x * x at 3. In general it is 2 * x: at 5 it would be 10.

--# say     Better still: one step to each side. Then the error on the left and the one on the right cancel out.
--# task    Write slope(f, x): (f(x + h) - f(x - h)) / (2 h), with h = 0.001.
--# spec    slope(f, x) return (f(x + 0.001) - f(x - 0.001)) / 0.002
--# try     x in 1..9
--# try     f = function(x) return x * x * x end
--# wrong   function slope(f, x) return (f(x + 0.001) - f(x)) / 0.001 end: That is one step, to the right only.
--# wrong   function slope(f, x) return (f(x + 0.001) - f(x - 0.001)) / 0.001 end: From x - h to x + h it is
--#         two steps.
--# wrong   function slope(f, x) return f(x + 0.001) - f(x - 0.001) / 0.002 end: Division goes first. Put
--#         brackets around the difference.
--# hint    The step from x - h to x + h is 2 h long.
--# answer
function slope(f, x) return (f(x + 0.001) - f(x - 0.001)) / 0.002 end
--# why     It comes nearer than 6.001, with the same step:
print(slope(f, 3))

--# say     A slope can be negative: f goes down when x goes up. For f(x) = x * x that is so left of 0.
--# predict math.floor(slope(f, -2) + 0.5) --> -4
--# ask     What is the slope at -2?
--# wrong   4: Left of 0 the curve falls.
--# hint    2 * x, at -2.

--# say     By hand, each slope costs two runs of f. A network has millions of numbers: a million slopes,
--#         two million runs. `backward` finds all of them in one. First, tell a tensor that its slopes are
--#         wanted.
--# new     requires_grad
x = torch.tensor(3.0, {requires_grad = true})
y = x * x
print(y)
--# predict y:item() --> 9
--# hint    3 * 3.
--# why     The value is as always. But y remembers how it was made.

--# say     `y:backward()` goes back the way that y was made, and writes the slope of y into `x.grad`.
--# new     backward grad
y:backward()
--# predict x.grad:item() --> 6
--# wrong   9: That is y. The slope is how fast y changes with x.
--# wrong   3: That is x itself.
--# hint    You found it by hand: 2 * x, at 3.
--# why     Exactly 6, without any step size. The slope is called the gradient.
print(x.grad)

--# say     Anything that is made of operations will do, also a function with a loop in it.
function power(x, n)
  local out = 1
  for _ = 1, n do out = out * x end
  return out
end
a = torch.tensor(2.0, {requires_grad = true})
b = power(a, 3)
b:backward()
--# predict a.grad:item() --> 12
--# wrong   8: That is the value, 2 * 2 * 2.
--# wrong   6: The slope of x * x * x is 3 * x * x.
--# hint    The slope of x * x * x is 3 * x * x.

--# say     Two inputs: each has a slope of its own, the change of y when this one changes and the other does not.
p = torch.tensor(4.0, {requires_grad = true})
q = torch.tensor(5.0, {requires_grad = true})
r = p * q + p
r:backward()
--# predict p.grad:item() --> 6
--# wrong   5: p is added once more at the end.
--# wrong   4: If p becomes larger by 1, p * q becomes larger by 5.
--# hint    If p becomes 5: 5 * 5 + 5 = 30. It was 24.
--# why     5 from the product, 1 from the sum.

--# say     And the other?
--# predict q.grad:item() --> 4
--# wrong   5: If q becomes larger by 1, p * q becomes larger by 4.
--# hint    If q becomes 6: 4 * 6 + 4 = 28. It was 24.

--# say     A whole tensor at once: each element has its slope. The result has to be one number.
--# new     sum
v = torch.tensor({1.0, 2.0, 3.0}, {requires_grad = true})
total = (v * v):sum()
total:backward()
--# predict v.grad --> 2 4 6
--# wrong   14: That is the sum of the squares. The gradient has the shape of v.
--# wrong   6: Each element has its own slope.
--# wrong   1 4 9: These are the squares. The slope of each is twice the element.
--# hint    2 * v, element by element.
--# why     The gradient always has the shape of what it belongs to.
print(v.grad)

--# say     Only numbers with a point have slopes: whole numbers cannot change a little.
--# predict torch.tensor({1, 2}, {requires_grad = true}) --> error
--# wrong   1 2: These are i64. Can a whole number change a little?
--# hint    1 and 2 are whole numbers, i64.
--# why     Write 1.0, and it works.

--# say     Is a gradient right? Compare it with the slope by hand; that is how every operation of this
--#         program is tested.
--# new     tensor item
--# task    Write gradient(f, x): the slope of f at the number x by `backward`, as a plain number. f takes a
--#         tensor.
--# spec    gradient(f, x) return (f(torch.tensor(x + 1e-3, {dtype = "float64"})) -
--#         f(torch.tensor(x - 1e-3, {dtype = "float64"}))):item() / 2e-3
--# try     k in 1..4
--# try     x = k + 0.5
--# try     f = function(x) return x * x + 3 * x end
--# wrong   function gradient(f, x) local t = torch.tensor(x, {requires_grad = true}) return f(t):item()
--#         end: That is the value of f. `backward` is missing.
--# wrong   function gradient(f, x) local t = torch.tensor(x) f(t):backward() return t.grad:item() end: t
--#         did not ask for its gradient: `{requires_grad = true}`.
--# hint    Make a tensor of x that wants its gradient.
--# hint    `f(t):backward()`, then `t.grad:item()`.
--# answer
function gradient(f, x)
  local t = torch.tensor(x, {requires_grad = true})
  f(t):backward()
  return t.grad:item()
end

--# say     The prompt's `%check` does the comparison for you, for any function.
--# play    Type `%check function(x) return (x * x * x):sum() end, {torch.rand(3)}`. Enter goes on.

--# say     Something real: going downhill. This is all that learning does: look at the slope, and take a
--#         step against it. Where is (x - 2) * (x - 2) + 1 smallest? Begin somewhere; the new x is x minus
--#         0.1 times the slope.
--# task    Write lowest(f, x): begin at the number x, do so 100 times, and return where you are.
--# spec    lowest(f, x)
--#         for i = 1, 100 do x = x - 0.1 * (f(x + 1e-5) - f(x - 1e-5)) / 2e-5 end
--#         return x
--# try     x in -4..4
--# try     c in 1..9
--# try     f = function(x) return (x - c) * (x - c) + 1 end
--# wrong   function lowest(f, x) return x - 0.1 * gradient(f, x) end: That is one step of the hundred.
--# wrong   function lowest(f, x) for i = 1, 100 do x = x + 0.1 * gradient(f, x) end return x end: That is
--#         uphill: the step must go against the slope.
--# hint    A loop of 100 turns; in it `x = x - 0.1 * gradient(f, x)`.
--# hint    Positions may be whole numbers at the beginning: `x + 0.0` makes a number with a point.
--# answer
function lowest(f, x)
  x = x + 0.0
  for i = 1, 100 do x = x - 0.1 * gradient(f, x) end
  return x
end
--# why     It stops near c, the lowest point, from wherever it began. Put a network's error in place of f, and a
--#         million weights in place of x: that is training.
print(lowest(function(x) return (x - 2) * (x - 2) + 1 end, 9))
