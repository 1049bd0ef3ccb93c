--# title   The chain rule, written as Lua and compared
--# see     backward exp sigmoid

--# say     A gear wheel with 30 teeth drives one with 10, so the second turns 3 times as fast; it drives a
--#         third one that turns 2 times as fast as the second. How fast is the third, for each turn of the
--#         first?
--# predict 3 * 2 --> 6
--# ask     How many turns of the third wheel for each turn of the first?
--# wrong   5: The second makes 3 turns; for each of them the third makes 2.
--# hint    The second makes 3 turns. For each of these the third makes 2.
--# why     Along a chain, rates are multiplied. That is the whole chain rule.

--# say     The slope is such a rate. Here x goes through two functions, `u = 3 * x` and `y = u * u`.
x = torch.tensor(2.0, {requires_grad = true})
u = 3 * x
y = u * u
print(u:item(), y:item())
--# predict 2 * u:item() --> 12
--# ask     How fast does y change with u? (The slope of u * u, at this u.)
--# wrong   4: u is 6 here.
--# wrong   36: That is y.
--# hint    2 * u, and u is 6.

--# say     And u changes 3 times as fast as x. So how fast does y change with x?
y:backward()
--# predict x.grad:item() --> 36
--# wrong   15: They are multiplied, not added.
--# wrong   12: That is how fast y changes with u. u changes 3 times as fast as x.
--# hint    12 for each step of u; 3 steps of u for each step of x.
--# why     12 * 3. `backward` went from y to u with 12, then from u to x with 12 * 3.

--# say     The prompt can walk this way with you, one operation after the other.
--# play    Type `x.grad = nil`, then `z = (3 * x) * (3 * x)`, and `%backstep z`. Enter goes on.

--# say     So each operation needs to know one thing only: how fast its own result changes with its own inputs.
--#         It gets the gradient of its result, multiplies, and hands it on. Some of them:
--#           y = a + b     to a: g        to b: g
--#           y = a * b     to a: g * b    to b: g * a
--#           y = exp(a)    to a: g * y
--#           y = 1 / a     to a: -g / a ^ 2
--# task    Write back_mul(g, a, b): what the product hands to a and to b, two results, when its own
--#         gradient is g.
--# spec    back_mul(g, a, b) return g * b, g * a
--# try     g in 1..9
--# try     a in -9..9
--# try     b in -9..9
--# wrong   function back_mul(g, a, b) return g * a, g * b end: If a becomes larger by 1, a * b becomes
--#         larger by b.
--# wrong   function back_mul(g, a, b) return b, a end: That is how fast the product changes. It is
--#         multiplied with g, which comes from above.
--# hint    How fast does a * b change with a? Times g.
--# answer
function back_mul(g, a, b) return g * b, g * a end

--# say     A longer chain: the logistic curve, 1 / (1 + exp(-x)). Many networks end with it: it makes a
--#         probability of any number. Its steps, with their slopes:
--#           m = -x            slope -1
--#           e = exp(m)        slope e
--#           s = 1 + e         slope 1
--#           y = 1 / s         slope -1 / s ^ 2
--# new     sigmoid
--# task    Write logistic_slope(x): for a plain number x, the product of the four slopes, as Lua (`math.exp`).
--# spec    logistic_slope(x)
--#         local t = torch.tensor(x, {dtype = "float64", requires_grad = true})
--#         torch.sigmoid(t):backward()
--#         return t.grad:item()
--# try     k in -4..4
--# try     x = k / 2
--# forbid  sigmoid backward
--# wrong   function logistic_slope(x) return 1 / (1 + math.exp(-x)) end: That is the value of the curve.
--#         Its slope is wanted.
--# wrong   function logistic_slope(x) local e = math.exp(-x) return -e / (1 + e) ^ 2 end: A sign is
--#         missing: the slope of m = -x is -1.
--# wrong   function logistic_slope(x) local e = math.exp(-x) return e / (1 + e) end: The last slope is -1 /
--#         s ^ 2, with the square.
--# hint    Go forward first: `local e = math.exp(-x)`, `local s = 1 + e`.
--# hint    Then multiply: -1, e, 1 and -1 / s ^ 2.
--# answer
function logistic_slope(x)
  local e = math.exp(-x)
  local s = 1 + e
  return -1 * e * 1 * (-1 / s ^ 2)
end
--# why     At 0 it is steepest:
print(logistic_slope(0))

--# say     Compare it with `backward`. At 0 the curve is steepest.
t = torch.tensor(0.0, {requires_grad = true})
v = torch.sigmoid(t)
v:backward()
--# predict t.grad:item() --> 0.25
--# wrong   0.5: That is the value at 0. The slope is e / s ^ 2 with e = 1 and s = 2.
--# hint    At 0, e is 1 and s is 2.
--# why     The same as by hand. It is also y * (1 - y): 0.5 * 0.5.

--# say     Far from 0 the curve is flat.
--# new     lt
t = torch.tensor(10.0, {requires_grad = true})
v = torch.sigmoid(t)
v:backward()
--# predict t.grad:lt(0.001):item() --> true
--# wrong   false: At 10 the value is 0.99995; it can hardly rise any more.
--# hint    The value is 0.99995. How fast can it still rise?
--# why     0.000045. A chain of several such curves multiplies several such numbers: gradients vanish. That
--#         is why networks prefer `relu` between their layers, whose slope is 1.
print(t.grad:item())

--# say     `relu(x)` is x above 0, and 0 below. Its slope?
--# new     relu
r = torch.tensor({-2.0, 3.0}, {requires_grad = true})
z = r:relu():sum()
z:backward()
--# predict r.grad --> 0 1
--# wrong   0 3: These are the values. How fast do they change?
--# wrong   1 1: Below 0 nothing changes.
--# wrong   -1 1: Below 0 the value is 0, and stays so.
--# hint    Below 0 the value is always 0. Above, it is x.

--# say     Where a value is used twice, it has two ways to the end. The shares of both are added up.
a = torch.tensor(3.0, {requires_grad = true})
b = a * a + 5 * a
b:backward()
--# predict a.grad:item() --> 11
--# wrong   30: 6 and 5 are added, not multiplied: these are two ways, not one after the other.
--# wrong   6: That is the share of a * a.
--# wrong   8: The slope of a * a is 2 * a.
--# hint    2 * a from the square, 5 from the other.
--# why     Along a way multiply, over ways add. There is no more to it.

--# say     Something real: one neuron that learns. Its input is x, its answer y = sigmoid(w * x + b), what
--#         it should say is t, and its error is (y - t) ^ 2. The chain, from the end:
--#           error to y:       2 * (y - t)
--#           y to w * x + b:   y * (1 - y)
--#           that to w:        x          and to b: 1
--# task    Write neuron_gradients(w, b, x, t): the gradients of the error for w and for b, two plain
--#         numbers, by hand.
--# spec    neuron_gradients(w, b, x, t)
--#         local W = torch.tensor(w, {dtype = "float64", requires_grad = true})
--#         local B = torch.tensor(b, {dtype = "float64", requires_grad = true})
--#         local error = (torch.sigmoid(W * x + B) - t) ^ 2
--#         error:backward()
--#         return W.grad:item(), B.grad:item()
--# try     i in -3..3
--# try     j in 1..4
--# try     w = i / 2 + 0.25
--# try     b = j / 4
--# try     x = j - 1.5
--# try     t in 0..1
--# forbid  sigmoid backward
--# wrong   function neuron_gradients(w, b, x, t) local y = 1 / (1 + math.exp(-(w * x + b))) local g = 2 *
--#         (y - t) return g * x, g end: The slope of the curve is missing: y * (1 - y).
--# wrong   function neuron_gradients(w, b, x, t) local y = 1 / (1 + math.exp(-(w * x + b))) local g = (y -
--#         t) * y * (1 - y) return g * x, g end: The slope of the square has a 2 in front.
--# hint    Forward: `local y = 1 / (1 + math.exp(-(w * x + b)))`.
--# hint    `local g = 2 * (y - t) * y * (1 - y)` is what both share.
--# hint    For w it is g * x, for b it is g.
--# why     You have done by hand what `backward` does for a network, operation by operation.
--# answer
function neuron_gradients(w, b, x, t)
  local y = 1 / (1 + math.exp(-(w * x + b)))
  local g = 2 * (y - t) * y * (1 - y)
  return g * x, g
end

--# say     And with them it learns: after 2,000 small steps it says yes (1) to 3, and no (0) to -1.
w, b = 0.0, 0.0
for step = 1, 2000 do
  for _, pair in ipairs{{3, 1}, {-1, 0}} do
    local dw, db = neuron_gradients(w, b, pair[1], pair[2])
    w, b = w - 0.5 * dw, b - 0.5 * db
  end
end
function neuron(x) return 1 / (1 + math.exp(-(w * x + b))) end
--# predict neuron(3) > 0.9 and neuron(-1) < 0.1 --> true
--# wrong   false: It has learned: see what it says.
--# hint    It took 4,000 steps downhill.
print(neuron(3), neuron(-1))
