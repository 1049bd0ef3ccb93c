--# title   Overfitting, seen
--# see     nn plot

--# say     Eight measurements of a gentle curve, each a little off. What is wanted is not a curve through
--#         these eight points, but one that is right at other places. How many knobs should it have?
--# new     manual_seed linspace sin randn plot
torch.manual_seed(5)
function nature(x) return (3 * x):sin() end
x = torch.linspace(-1, 1, 8)
y = nature(x) + torch.randn(8) * 0.2
torch.plot(x, y, {points = true, width = 60, height = 8})
--# predict #x --> 8
--# hint    Eight measurements.

--# say     The curves: a number, plus a number times x, plus a number times x ^ 2, and so on up to x ^ d.
--#         Each x becomes a row of its powers; then a curve is a weighted sum of columns.
--# new     stack double
--# task    Write powers(x, d): for x [n] the table [n, d + 1] of x ^ 0, x ^ 1, .. x ^ d, as float64
--#         (`x:double()`).
--# spec    powers(x, d)
--#         local out = torch.zeros(#x, d + 1, {dtype = "float64"})
--#         for i = 1, #x do for k = 0, d do out[{i, k + 1}] = x[i]:item() ^ k end end
--#         return out
--# try     n in 5..8
--# try     d in 0..3
--# try     x = torch.randn(n)
--# wrong   function powers(x, d) local c = {} for k = 1, d do c[k] = x:double() ^ k end return torch.stack(c,
--#         2) end: It begins with x ^ 0, a column of ones.
--# wrong   function powers(x, d) local c = {} for k = 0, d do c[k + 1] = x:double() ^ k end return
--#         torch.stack(c) end: Each x has a row: the powers are columns. torch.stack(list, 2).
--# wrong   function powers(x, d) local c = {} for k = 0, d do c[k + 1] = x ^ k end return torch.stack(c, 2)
--#         end: As float64: `x:double()`.
--# hint    A list of columns: `columns[k + 1] = x:double() ^ k` for k from 0 to d.
--# hint    `torch.stack(columns, 2)` puts columns side by side.
--# answer
function powers(x, d)
  local columns = {}
  for k = 0, d do columns[k + 1] = x:double() ^ k end
  return torch.stack(columns, 2)
end
print(powers(torch.tensor{1.0, 2.0, 3.0}, 2))

--# say     `torch.linalg.lstsq` finds the weights with the least squared error, without any steps. A curve
--#         with d + 1 = 8 weights meets 8 points: there are as many knobs as points.
--# new     linalg unsqueeze matmul flatten
function fit(x, y, d) return (torch.linalg.lstsq(powers(x, d), y:double():unsqueeze(2))) end
function at(w, x) return powers(x, #w - 1):matmul(w):flatten() end
function off(w, x, y) return ((at(w, x) - y) ^ 2):mean():item() end
seven = fit(x, y, 7)
--# predict off(seven, x, y) < 1e-20 --> true
--# ask     Does it run through all eight points (error below 1e-20)? (true or false)
--# wrong   false: 8 knobs, 8 equations: all can be met.
--# hint    8 knobs, 8 equations.

--# say     An error of 0. Is it a good curve? Ask at 50 fresh places, measured in the same way.
fresh_x = torch.linspace(-0.95, 0.95, 50)
fresh_y = nature(fresh_x) + torch.randn(50) * 0.2
three = fit(x, y, 3)
print(off(three, x, y), off(seven, x, y))
--# predict off(three, fresh_x, fresh_y) < off(seven, fresh_x, fresh_y) --> true
--# ask     d = 3 is off by 0.038 at its eight points, d = 7 by nothing. Is d = 3 better at the fresh ones? (true or false)
--# wrong   false: d = 7 has learned the noise by heart, and it swings between the points.
--# hint    What has d = 7 used its many knobs for?
print(off(three, fresh_x, fresh_y), off(seven, fresh_x, fresh_y))
torch.plot(fresh_x, nature(fresh_x), at(seven, fresh_x):float(), {labels = {"nature", "d = 7"}, width = 60, height = 9})

--# say     So the error at the learned points says nothing about quality. All d, from 0 to 7, at both:
--# new     tensor argmin
learned, fresh = {}, {}
for d = 0, 7 do
  local w = fit(x, y, d)
  learned[d + 1], fresh[d + 1] = off(w, x, y), off(w, fresh_x, fresh_y)
end
torch.plot{learned = torch.tensor(learned), fresh = torch.tensor(fresh), width = 60, height = 9}
--# predict torch.tensor(fresh):argmin(1):item() - 1 --> 3
--# ask     The curve of the fresh ones falls and climbs again (place 1 is d = 0). Which d is the best?
--# wrong   7: That is the best at the learned points only.
--# wrong   4: The places count from 1: place 4 is d = 3.
--# hint    The lowest place of "fresh"; place 1 is d = 0.
--# why     Below it the curve is too stiff: underfitting, both errors are large. Above it learns the noise:
--#         overfitting, the learned error falls and the fresh one climbs. This pair of curves is what to
--#         look at in every training.

--# say     That was chosen by looking at the fresh points. So they are not fresh any more: an honest number
--#         needs a third set, looked at once. Learn, choose, test.
--# predict 1797 - 1000 - 400 --> 397
--# ask     Of 1,797 digits 1,000 are for learning, 400 for choosing. How many are left for the test?
--# hint    1797 - 1400.

--# say     Instead of taking knobs away one can hold them small: add lambda times the sum of all squared
--#         weights to the loss. This is weight decay. With its slope, 2 * lambda * w, a step multiplies
--#         each weight by 1 - lr * 2 * lambda. A weight 10 that the data does not care about, with lr 0.1
--#         and lambda 0.5, is after one step
--# predict 10 * (1 - 0.1 * 2 * 0.5) --> 9
--# wrong   9.5: The slope of a square is 2 * w.
--# wrong   1: It is multiplied by 0.9.
--# hint    Times 1 - 0.1.

--# say     For our curves the answer can be written down: solve (P' P + lambda I) w = P' y, P' being P turned.
--# new     eye t
--# task    Write ridge(x, y, d, lambda): with P = powers(x, d), the weights [d + 1, 1] that solve (P:t()
--#         times P plus lambda times eye) w = P:t() times y as a column. `torch.linalg.solve(A, b)` solves;
--#         all is float64.
--# spec    ridge(x, y, d, lambda)
--#         local P = powers(x, d)
--#         local more = torch.cat{P, (lambda ^ 0.5) * torch.eye(d + 1, {dtype = "float64"})}
--#         local goal = torch.cat{y:double(), torch.zeros(d + 1, {dtype = "float64"})}
--#         return (torch.linalg.lstsq(more, goal:unsqueeze(2)))
--# try     n in 6..9
--# try     d in 2..4
--# try     x = torch.linspace(-1, 1, n)
--# try     y = torch.randn(n)
--# try     lambda = 0.25
--# wrong   function ridge(x, y, d, lambda) local P = powers(x, d) return
--#         torch.linalg.solve(P:t():matmul(P), P:t():matmul(y:double():unsqueeze(2))) end: lambda times eye is
--#         missing.
--# wrong   function ridge(x, y, d, lambda) local P = powers(x, d) return
--#         torch.linalg.solve(P:t():matmul(P) + lambda, P:t():matmul(y:double():unsqueeze(2))) end: A number
--#         is added to every element; eye puts it on the diagonal only.
--# hint    `torch.eye(d + 1, {dtype = "float64"})` has ones on the diagonal.
--# hint    `torch.linalg.solve(P:t():matmul(P) + lambda * eye, P:t():matmul(y:double():unsqueeze(2)))`.
--# answer
function ridge(x, y, d, lambda)
  local P = powers(x, d)
  local eye = torch.eye(d + 1, {dtype = "float64"})
  return torch.linalg.solve(P:t():matmul(P) + lambda * eye, P:t():matmul(y:double():unsqueeze(2)))
end
--# why     The eight weights of d = 7 again, held small. At fresh places, for several lambdas:
for _, lambda in ipairs{0, 0.0001, 0.01, 0.1, 10} do print(lambda, off(ridge(x, y, 7, lambda), fresh_x, fresh_y)) end

--# say     A little lambda made d = 7 as good as d = 3; too much makes it stiff. In an optimiser it is the
--#         option `weight_decay`. A third way: stop in time. Something real: 100 digits, and 30 of their
--#         labels were written down carelessly, at random. The network learns the good ones first.
--# new     utils nn optim rand lt randint clone
local set = torch.utils.data.digits()
rows, labels = set.tensors[1]:flatten(2), set.tensors[2]
F = torch.nn.functional
torch.manual_seed(0)
careless = torch.rand(100):lt(0.3)
few = labels["1:100"]:clone()
few[careless] = torch.randint(1, 11, {100})[careless]
--# predict few.shape --> [100]
--# hint    100 labels, good ones and careless ones.

--# say     100 steps, with three numbers for each: the loss on the 100 learned ones, that on the 797 fresh
--#         ones, and the share of fresh ones that is read correctly.
function train(decay)
  torch.manual_seed(0)
  local net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
  local opt = torch.optim.AdamW(net:parameters(), {lr = 0.01, weight_decay = decay})
  local learned, fresh, right = {}, {}, {}
  for i = 1, 100 do
    opt:zero_grad()
    local loss = F.cross_entropy(net(rows["1:100"]), few)
    loss:backward()
    opt:step()
    learned[i] = loss:item()
    local scores = net(rows["1001:"]):detach()
    fresh[i] = F.cross_entropy(scores, labels["1001:"]):item()
    right[i] = scores:argmax(2):eq(labels["1001:"]):float():mean():item()
  end
  return torch.tensor(learned), torch.tensor(fresh), torch.tensor(right)
end
--# play    Now it is drawn. Enter goes on.

--# say     Both losses, without weight decay:
learned, fresh, right = train(0)
torch.plot{learned = learned, fresh = fresh, width = 60, height = 8}
--# predict fresh:argmin(1):item() < 50 --> true
--# ask     Where was the fresh loss the smallest: in the first half of the 100 steps? (true or false)
--# wrong   false: Look at "fresh": it falls for a short while, then climbs and climbs.
--# hint    Where is "fresh" lowest?
--# why     The learned loss goes to 0: in the end it knows even the careless labels by heart.

--# say     Early stopping: the step with the smallest loss so far is kept, and when there has been nothing
--#         better for `patience` steps, one stops.
--# task    Write stop_at(losses, patience): for a tensor of losses [n] the place of the best one at the time
--#         when it stops: it stops as soon as `patience` steps have gone by without a new smallest one, or
--#         at the end.
--# spec    stop_at(losses, patience)
--#         local best, where = math.huge, 0
--#         for i, v in ipairs(losses:tolist()) do
--#           if v < best then best, where = v, i end
--#           if i - where >= patience then break end
--#         end
--#         return where
--# try     n in 6..15
--# try     losses = torch.rand(n)
--# try     patience in 1..4
--# wrong   function stop_at(losses, patience) return losses:argmin(1):item() end: That is the best of all
--#         steps; it may come after the stop.
--# wrong   function stop_at(losses, patience) for i = 2, #losses do if losses[i]:item() > losses[i -
--#         1]:item() then return i - 1 end end return #losses end: It is patient: not after one worse step,
--#         but after `patience` steps without a new best.
--# hint    Keep `best` and `where` in a loop over all steps; a smaller loss replaces both.
--# hint    Stop where i - where >= patience.
--# answer
function stop_at(losses, patience)
  local best, where = math.huge, 0
  for i = 1, #losses do
    local loss = losses[i]:item()
    if loss < best then best, where = loss, i end
    if i - where >= patience then break end
  end
  return where
end
--# why     With patience it stops here; the share of fresh digits read correctly there, and at the end:
best = stop_at(fresh, 10)
print(best, right[best]:item(), right[100]:item())
--# play    `learned, fresh, right = train(3)`, then `right[100]`: weight decay instead. Enter ends the
--#         lesson.
