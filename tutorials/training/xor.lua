--# title   XOR: why there must be a bend
--# see     nn

--# say     A lamp in a corridor has two switches: it burns when exactly one of them is up. Four cases, and
--#         the truth. This is "exclusive or", XOR.
x = torch.tensor{{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}
truth = torch.tensor{0.0, 1.0, 1.0, 0.0}
--# predict truth:mean():item() --> 0.5
--# hint    Two of four.

--# say     A weighted sum p * a + q * b + c is a plane over the four corners. For the corners (0, 0) and
--#         (1, 1) it is c and p + q + c; for the other two p + c and q + c. Add each pair:
function plane(p, q, c) return p * x[{{}, 1}] + q * x[{{}, 2}] + c end
out = plane(3, -7, 2)
print(out)
--# predict (out[1] + out[4]):item() - (out[2] + out[3]):item() --> 0
--# wrong   -4: c + (p + q + c), minus (p + c) + (q + c).
--# hint    c + (p + q + c) against (p + c) + (q + c).
--# why     Always 0, whatever p, q and c are. But XOR wants 0 for the one pair and 2 for the other: no
--#         plane can do it.

--# say     So the best that a plane can do with the squared error is to say 0.5 everywhere.
--# predict ((plane(0, 0, 0.5) - truth) ^ 2):mean():item() --> 0.25
--# wrong   0.5: Squared.
--# wrong   0: It is wrong by 0.5 in each case.
--# hint    Each is wrong by 0.5.

--# say     Do two layers help? The first gives h = A x, the second B h. Both together are (B A) x: one layer
--#         again.
--# new     allclose matmul
A = torch.tensor{{1.0, 2.0}, {3.0, 4.0}}
B = torch.tensor{{1.0, 0.0}, {1.0, 1.0}}
v = torch.tensor{5.0, 6.0}
--# predict torch.allclose(B:matmul(A:matmul(v)), B:matmul(A):matmul(v)) --> true
--# wrong   false: Brackets do not matter in products of matrices.
--# hint    Brackets do not matter in products.
--# why     A thousand layers without a bend between them are one layer.

--# say     A bend: `relu` lets positive numbers through, and makes 0 of negative ones.
--# new     relu
--# predict torch.tensor{-2.0, 0.0, 3.0}:relu() --> 0 0 3
--# wrong   2 0 3: Negative ones become 0.
--# wrong   -2 0 3: Negative ones become 0.
--# hint    Negative numbers become 0.

--# say     With two bends XOR can be made by hand. Let s = a + b count the switches that are up: 0, 1, 1,
--#         2. Wanted are 0, 1, 1, 0.
s = x:sum(2)
--# predict (s - 1):relu() --> 0 0 0 1
--# wrong   -1 0 0 1: relu makes 0 of -1.
--# hint    s - 1 is -1 0 0 1.

--# say     So relu(s - 1) finds the case with both up.
--# task    Write lamp(x): for rows x [n, 2] of zeros and ones, 1 where exactly one is 1, else 0, [n]; with
--#         sums, relu and multiples only.
--# spec    lamp(x)
--#         local out = torch.zeros(#x)
--#         for i = 1, #x do out[i] = x[{i, 1}]:item() ~= x[{i, 2}]:item() and 1 or 0 end
--#         return out
--# try     n in 4..9
--# try     x = torch.randint(0, 2, {n, 2}):float()
--# allow   x sum relu + - *
--# wrong   function lamp(x) return x:sum(2) - (x:sum(2) - 1):relu() end: With both up this is 2 - 1 = 1. Take
--#         more away.
--# wrong   function lamp(x) return (x:sum(2) - 1):relu() end: That is 1 where both are up.
--# hint    s is right but for the last case, where it is 2 and should be 0.
--# hint    Where both are up, relu(s - 1) is 1. Take it away twice.
--# answer
function lamp(x) return x:sum(2) - 2 * (x:sum(2) - 1):relu() end
print(lamp(x))

--# say     That was two hidden numbers, relu, and a sum: a network of two layers, with knobs set by hand.
--#         Now it shall find them. Yes-or-no answers are scored with `sigmoid`, which presses any number
--#         between 0 and 1: a probability.
--# new     sigmoid
--# predict torch.tensor(0.0):sigmoid():item() --> 0.5
--# wrong   0: Large negative numbers become 0. 0 is in the middle.
--# wrong   1: Large positive numbers become 1. 0 is in the middle.
--# hint    Halfway between no and yes.

--# say     The loss for probabilities is the surprise: -log of what was given to the truth. Who says "yes,
--#         0.5" and it is yes, is surprised by -log(0.5) = 0.693. `F.binary_cross_entropy_with_logits`
--#         takes the numbers before the sigmoid, and does both in one.
F = torch.nn.functional
--# predict F.binary_cross_entropy_with_logits(torch.zeros(4), truth):item() --> 0.6931
--# wrong   0.5: 0 becomes the probability 0.5, and the surprise is -log(0.5).
--# wrong   0: No is no answer: 0 becomes 0.5.
--# hint    Each 0 becomes 0.5. What surprise is that?
--# why     0.693 is the loss of who knows nothing, in every yes-or-no task. Above it, something is wrong.

--# say     Train it.
--# new     manual_seed nn optim squeeze detach
--# task    Write learn(seed, steps): the seed; a Sequential of Linear(2, 8), Tanh, Linear(8, 1); Adam with
--#         lr 0.05; the loss binary_cross_entropy_with_logits of the answers, squeezed to [4], and `truth`.
--#         Return the probabilities that it gives to the four cases after so many steps, [4], detached.
--# spec    learn(seed, steps)
--#         torch.manual_seed(seed)
--#         local l, m = torch.nn.Linear(2, 8), torch.nn.Linear(8, 1)
--#         local opt = torch.optim.Adam({l.weight, l.bias, m.weight, m.bias}, {lr = 0.05})
--#         for i = 1, steps do
--#           for _, p in ipairs{l.weight, l.bias, m.weight, m.bias} do p.grad = nil end
--#           local z = m(l(x):tanh()):flatten()
--#           local loss = F.softplus(z):mean() - (z * truth):mean()
--#           loss:backward()
--#           opt:step()
--#         end
--#         return m(l(x):tanh()):flatten():sigmoid():detach()
--# try     seed in 1..3
--# try     steps in 10..14
--# wrong   function learn(seed, steps) torch.manual_seed(seed) local net =
--#         torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)) local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.05}) for i = 1, steps do opt:zero_grad() local loss =
--#         F.binary_cross_entropy_with_logits(net(x):squeeze(2), truth) loss:backward() opt:step() end
--#         return net(x):squeeze(2):detach() end: These are the numbers before the sigmoid.
--# wrong   function learn(seed, steps) torch.manual_seed(seed) local net =
--#         torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Linear(8, 1)) local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.05}) for i = 1, steps do opt:zero_grad() local loss =
--#         F.binary_cross_entropy_with_logits(net(x):squeeze(2), truth) loss:backward() opt:step() end
--#         return net(x):squeeze(2):sigmoid():detach() end: Without the bend it cannot be learned: Tanh.
--# wrong   function learn(seed, steps) torch.manual_seed(seed) local net =
--#         torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)) local opt =
--#         torch.optim.Adam(net:parameters(), {lr = 0.05}) for i = 1, steps do opt:zero_grad() local loss =
--#         F.binary_cross_entropy_with_logits(net(x):squeeze(2):sigmoid(), truth) loss:backward()
--#         opt:step() end return net(x):squeeze(2):sigmoid():detach() end: This loss applies the sigmoid
--#         itself; twice is too much.
--# hint    `torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))`.
--# hint    The loss: `F.binary_cross_entropy_with_logits(net(x):squeeze(2), truth)`.
--# hint    At the end `net(x):squeeze(2):sigmoid():detach()`.
--# answer
function learn(seed, steps)
  torch.manual_seed(seed)
  local net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
  local opt = torch.optim.Adam(net:parameters(), {lr = 0.05})
  for i = 1, steps do
    opt:zero_grad()
    local loss = F.binary_cross_entropy_with_logits(net(x):squeeze(2), truth)
    loss:backward()
    opt:step()
  end
  return net(x):squeeze(2):sigmoid():detach()
end

--# say     300 steps. What does it say to the four cases, rounded?
--# new     round
--# predict learn(1, 300):round() --> 0 1 1 0
--# wrong   0 0 0 0: It has learned it.
--# wrong   0.5 0.5 0.5 0.5: That is the best that it could do without the bend.
--# hint    It has learned what `truth` says.
print(learn(1, 300))

--# say     The loss is for learning; people ask for the share of right answers. An answer is "yes" where
--#         the number before the sigmoid is above 0.
--# new     gt eq float mean
--# task    Write accuracy(z, t): for answers z [n], before the sigmoid, and truth t [n] of zeros and ones,
--#         the share of right ones, a number.
--# spec    accuracy(z, t)
--#         local right = 0
--#         for i = 1, #z do if (z[i]:item() > 0) == (t[i]:item() == 1) then right = right + 1 end end
--#         return right / #z
--# try     n in 5..9
--# try     z = torch.randn(n)
--# try     t = torch.randint(0, 2, {n}):float()
--# forbid  for while repeat
--# wrong   function accuracy(z, t) return z:gt(0):float():mean():item() end: That is the share of "yes".
--#         How many of all answers agree with t?
--# wrong   function accuracy(z, t) return z:round():eq(t):float():mean():item() end: Rounding is for
--#         probabilities. Before the sigmoid the border is 0.
--# wrong   function accuracy(z, t) return z:gt(0.5):eq(t:gt(0.5)):float():mean():item() end: 0.5 is the
--#         border of probabilities. Before the sigmoid it is 0.
--# hint    `z:gt(0)` says where the answer is yes; `:float()` makes zeros and ones of it.
--# hint    `:eq(t)` says where they agree. The mean of zeros and ones is a share.
--# answer
function accuracy(z, t) return z:gt(0):float():eq(t):float():mean():item() end
print(accuracy(torch.tensor{-3.0, 2.0, 0.1, 5.0}, truth))

--# say     Something real: the shore of a lake. 200 drillings, at places between -1 and 1 east and north;
--#         each has found water or not. The lake is round; a straight line would not do.
torch.manual_seed(3)
places = torch.rand(200, 2) * 2 - 1
water = (places ^ 2):sum(2):lt(0.5):float()
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
opt = torch.optim.Adam(net:parameters(), {lr = 0.05})
for i = 1, 300 do
  opt:zero_grad()
  local loss = F.binary_cross_entropy_with_logits(net(places):squeeze(2), water)
  loss:backward()
  opt:step()
end
print(accuracy(net(places):squeeze(2), water))
--# predict net(torch.tensor{{0.0, 0.0}}):sigmoid():round():item() --> 1
--# ask     What does it say to the middle of the lake, 0 0: 1 for water, or 0?
--# wrong   0: The middle is deep in the lake.
--# hint    Is there water in the middle?

--# say     And a map, drawn by asking at every place: `#` is water.
--# task    Write map(f, n): a text of n lines of n letters, from north to south, west to east. The letter at
--#         row i and column j is "#" where f(east, north) > 0, else ".", with east = 2 * j / n - 1 and north
--#         = 1 - 2 * i / n. Lines end with "\n".
--# spec    map(f, n)
--#         local text = ""
--#         for at = 0, n * n - 1 do
--#           local i, j = at // n + 1, at % n + 1
--#           text = text .. (f(2 * j / n - 1, 1 - 2 * i / n) > 0 and "#" or ".") .. (j == n and "\n" or "")
--#         end
--#         return text
--# try     n in 3..8
--# try     k in 1..2
--# try     f = ({function(e, m) return e + 2 * m - 0.3 end, function(e, m) return 0.4 - e * e - m end})[k]
--# wrong   function map(f, n) local t = "" for i = 1, n do for j = 1, n do t = t .. (f(2 * j / n - 1, 1 - 2
--#         * i / n) > 0 and "#" or ".") end end return t end: Each row ends with "\n".
--# wrong   function map(f, n) local t = "" for i = 1, n do for j = 1, n do t = t .. (f(2 * j / n - 1, 2 * i
--#         / n - 1) > 0 and "#" or ".") end t = t .. "\n" end return t end: The first row is the north: 1 - 2
--#         * i / n.
--# hint    Two loops, i over rows and j over columns; text grows by a letter in the inner one.
--# hint    `text = text .. (f(..) > 0 and "#" or ".")`, and behind the inner loop `text = text .. "\n"`.
--# answer
function map(f, n)
  local text = ""
  for i = 1, n do
    for j = 1, n do
      text = text .. (f(2 * j / n - 1, 1 - 2 * i / n) > 0 and "#" or ".")
    end
    text = text .. "\n"
  end
  return text
end
--# why     The network has never seen a circle, only 200 places:
print(map(function(east, north) return net(torch.tensor{{east, north}}):item() end, 20))
