--# title   A line, by hand
--# see     backward sub_

--# say     To learn is to turn knobs until the answers fit. Two knobs make a line: y = w * x + b. Here are
--#         four points. They lie on the line 2 * x + 1, but suppose that nobody told us.
--# new     tensor
x = torch.tensor{0.0, 1.0, 2.0, 3.0}
y = torch.tensor{1.0, 3.0, 5.0, 7.0}
function line(w, b) return w * x + b end
--# predict line(1, 0) --> 0 1 2 3
--# wrong   1 3 5 7: These are the points. The line with w = 1 and b = 0 does not fit them.
--# wrong   1 2 3 4: That is w = 1 with b = 1.
--# hint    With w = 1 and b = 0 the answer is x itself.

--# say     How wrong is it? Take the differences, square them so that no sign is left, and average: the
--#         mean squared error, a single number, the loss.
function loss_of(w, b) return ((line(w, b) - y) ^ 2):mean() end
--# predict line(1, 0) - y --> -1 -2 -3 -4
--# wrong   1 2 3 4: The line is below the points: its differences are negative.
--# hint    0 - 1, 1 - 3, 2 - 5, 3 - 7.
print(line(1, 0) - y)

--# say     And their squares, averaged?
--# predict loss_of(1, 0):item() --> 7.5
--# wrong   30: That is the sum of the squares. There are 4 of them.
--# wrong   -2.5: The differences are squared first.
--# wrong   6.25: The squares are averaged, not the average squared.
--# hint    (1 + 4 + 9 + 16) / 4.

--# say     And the best that can be?
--# predict loss_of(2, 1):item() --> 0
--# wrong   7.5: With w = 2 and b = 1 the line runs through all four points.
--# hint    What is left between 2 * x + 1 and the points?

--# say     Which way should w be turned? Ask for the slope of the loss. For each point it is twice the
--#         difference times x, and for b twice the difference; the means of these.
w = torch.tensor(1.0, {requires_grad = true})
b = torch.tensor(0.0, {requires_grad = true})
loss = loss_of(w, b)
loss:backward()
--# predict w.grad:item() --> -10
--# wrong   -20: 2 * (-1 * 0 - 2 * 1 - 3 * 2 - 4 * 3) is -40; there are 4 points.
--# wrong   10: The differences are negative: a larger w makes the loss smaller.
--# wrong   -5: Squares have the slope 2 * difference.
--# hint    The differences times x: 0, -2, -6, -12. Twice their mean.
--# why     Negative: when w grows, the loss falls. So w has to grow.

--# say     And for b?
--# predict b.grad:item() --> -5
--# wrong   -2.5: Twice the mean of the differences.
--# wrong   -10: That is w's. For b the differences are not multiplied by x.
--# hint    Twice the mean of -1, -2, -3, -4.

--# say     A step: each knob minus a little of its slope. How little is the learning rate, here 0.1.
--# predict (w - 0.1 * w.grad):item() --> 2
--# wrong   0: Minus 0.1 times -10 is plus 1.
--# wrong   11: Only a tenth of the slope.
--# hint    1 - 0.1 * -10.
--# why     And b becomes 0 - 0.1 * -5 = 0.5. One step, and the line is nearly right:
print(loss_of(2, 0.5):item(), "was 7.5")

--# say     That is the whole art: loss, slope, step, and again. Without autograd first, to see that there
--#         is nothing hidden.
--# task    Write slopes(w, b): two numbers, how fast the mean squared error of `line(w, b)` changes with
--#         w, and how fast with b. No backward.
--# spec    slopes(w, b)
--#         local v = torch.tensor({w, b}, {dtype = "float64", requires_grad = true})
--#         local loss = ((v[1] * x + v[2] - y) ^ 2):mean()
--#         loss:backward()
--#         return v.grad[1]:item(), v.grad[2]:item()
--# try     w in -3..3
--# try     b in -2..5
--# forbid  backward
--# wrong   function slopes(w, b) local d = line(w, b) - y return (d * x):mean():item(), d:mean():item()
--#         end: The slope of a square is twice the difference.
--# wrong   function slopes(w, b) local d = line(w, b) - y return (2 * d * x):sum():item(), (2 *
--#         d):sum():item() end: The loss is a mean: so are its slopes.
--# wrong   function slopes(w, b) local d = y - line(w, b) return (2 * d * x):mean():item(), (2 *
--#         d):mean():item() end: The signs: the line minus the points, not the other way round.
--# hint    `local d = line(w, b) - y` are the differences.
--# hint    For w the mean of 2 * d * x; for b the mean of 2 * d. `:mean():item()` makes numbers.
--# answer
function slopes(w, b)
  local d = line(w, b) - y
  return (2 * d * x):mean():item(), (2 * d):mean():item()
end
print(slopes(1, 0))

--# say     Now walk.
--# task    Write walk(steps, lr): begin with w = 0 and b = 0, take so many steps against `slopes(w, b)`
--#         with the learning rate lr, and return w and b, two numbers.
--# spec    walk(steps, lr)
--#         local v = torch.zeros(2, {dtype = "float64"})
--#         for i = 1, steps do
--#           local p = v:clone():requires_grad_()
--#           local loss = ((p[1] * x + p[2] - y) ^ 2):mean()
--#           loss:backward()
--#           v = v - lr * p.grad
--#         end
--#         return v[1]:item(), v[2]:item()
--# try     steps in 1..7
--# try     lr = 0.05
--# wrong   function walk(steps, lr) local w, b = 0, 0 for i = 1, steps do local p, q = slopes(w, b) w, b =
--#         w + lr * p, b + lr * q end return w, b end: That climbs. Downhill is minus.
--# wrong   function walk(steps, lr) local w, b = 0, 0 for i = 1, steps do w = w - lr * slopes(w, b) b = b -
--#         lr * select(2, slopes(w, b)) end return w, b end: Here b's slope is asked for after w has
--#         moved. Take both slopes at one place, then both steps.
--# wrong   function walk(steps, lr) local w, b = 0, 0 local p, q = slopes(w, b) for i = 1, steps do w, b =
--#         w - lr * p, b - lr * q end return w, b end: The slopes change on the way: ask again in each
--#         step.
--# hint    `local w, b = 0, 0`, and a loop over the steps.
--# hint    In the loop: `local p, q = slopes(w, b)`, then `w, b = w - lr * p, b - lr * q`.
--# answer
function walk(steps, lr)
  local w, b = 0, 0
  for i = 1, steps do
    local p, q = slopes(w, b)
    w, b = w - lr * p, b - lr * q
  end
  return w, b
end
--# why     Few steps, and many:
print(walk(5, 0.1))
print(walk(200, 0.1))

--# say     A larger rate is faster, up to a point. With the rate 0.1 the first step from (0, 0) moves w by
--#         1.7, to 1.7. Where does w come to with the rate 0.3?
p, q = slopes(0, 0)
--# predict (walk(1, 0.3)) --> 5.1
--# ask     walk(1, 0.3): what is w after the step?
--# wrong   1.7: The step is three times as long.
--# wrong   2: It steps over the goal, which is at 2.
--# hint    The slope is -17 at the beginning.
--# why     Far too far: the goal is at 2. The next step goes back, and further; then forth, and further:
for i = 1, 4 do print(i, (walk(i, 0.3))) end

--# say     Between too small and too large there is a border, and one can find it by trying.
--# task    Write best(rates): of a list of rates, the one with which 20 steps of `walk` leave the smallest
--#         loss. (`loss_of(w, b):item()` is a number; nan and inf are never smaller.)
--# spec    best(rates)
--#         local found, least
--#         for k, lr in ipairs(rates) do
--#           local e = loss_of(walk(20, lr)):item()
--#           if k == 1 or e < least then found, least = lr, e end
--#         end
--#         return found
--# try     k in 1..4
--# try     rates = ({{0.01, 0.05, 0.15}, {0.15, 0.05, 0.01}, {0.02, 0.3, 0.001}, {0.1, 0.22, 0.16}})[k]
--# wrong   function best(rates) return rates[1] end: Try each of them.
--# wrong   function best(rates) return math.max(table.unpack(rates)) end: The largest may be too large.
--# wrong   function best(rates) local f, l = nil, 1e9 for _, r in ipairs(rates) do local e = loss_of(walk(1,
--#         r)):item() if e > l or l == 1e9 then f, l = r, e end end return f end: The smallest loss is
--#         wanted, after 20 steps.
--# hint    A loop over the rates that keeps the best so far: `local found, least = nil, math.huge`.
--# hint    `local e = loss_of(walk(20, lr)):item()`; where e < least, keep lr and e.
--# answer
function best(rates)
  local found, least = nil, math.huge
  for _, lr in ipairs(rates) do
    local e = loss_of(walk(20, lr)):item()
    if e < least then found, least = lr, e end
  end
  return found
end
print(best{0.001, 0.01, 0.1, 0.2, 0.3})

--# say     Something real: a scale that shows letters. Weights of 1, 2, 3 and 4 kg were put on a spring;
--#         it was 14.1, 18.0, 22.0 and 25.9 cm long. Nobody measured how long it is with nothing on it, and
--#         the line knows: it is b.
x = torch.tensor{1.0, 2.0, 3.0, 4.0}
y = torch.tensor{14.1, 18.0, 22.0, 25.9}
w, b = walk(2000, 0.05)
--# predict math.floor(b + 0.5) --> 10
--# ask     How long is the spring with nothing on it, in whole centimetres?
--# wrong   14: That is with 1 kg on it.
--# wrong   4: That is how much each kilogram adds.
--# hint    Each kilogram adds about 4 cm. Go back one from 14.1.
--# why     b is the length with nothing on it, w what each kilogram adds:
print(w, b)

--# say     Now it can weigh.
--# task    Write kilograms(cm): what hangs on the spring when it is so long, by the line with w and b.
--# spec    kilograms(cm) return (cm - b) / w
--# try     cm in 12..26
--# wrong   function kilograms(cm) return w * cm + b end: That is the other way: from kilograms to
--#         centimetres.
--# wrong   function kilograms(cm) return cm / w - b end: Take the empty spring away first, then divide.
--# hint    cm = w * kg + b. Solve it for kg.
--# answer
function kilograms(cm) return (cm - b) / w end
print(kilograms(20))
--# play    `plot(x, y)` shows the points. Enter ends the lesson.
