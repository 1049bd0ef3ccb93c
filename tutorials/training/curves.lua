--# title   Loss curves that go wrong
--# see     plot notes
--# explains SOFT

--# say     A training that fails says nothing; it draws. In this lesson you learn to read the drawing. The
--#         patients: a Linear from 2 numbers to 3 classes, learning 150 points that overlap a little.
--# new     manual_seed randint randn plot
torch.manual_seed(0)
centres = torch.tensor{{0.0, 1.5}, {-1.3, -0.8}, {1.3, -0.8}}
classes = torch.randint(1, 4, {150})
points = centres[classes] + torch.randn(150, 2) * 0.8
--# predict points.shape --> [150, 2]
--# wrong   150: Each point has two numbers.
--# hint    150 points, two numbers each.

--# say     A training of 60 steps, with options for what may go wrong, and all its losses. (Two notes, ACC and
--#         SOFT, would tell at once; `quietly` has them off meanwhile.)
--# new     nn optim notes softmax
F = torch.nn.functional
function quietly(f)
  local was = torch.notes()
  torch.notes("ACC", "off")
  torch.notes("SOFT", "off")
  f()
  torch.notes("ACC", was.ACC)
  torch.notes("SOFT", was.SOFT)
end
--# play    The training itself comes next. Enter goes on.

--# say     Here it is: `lr` is the rate, `forget` leaves zero_grad out, `twice` puts a softmax at the end.
function curve(o)
  torch.manual_seed(0)
  local net, way = torch.nn.Linear(2, 3), {}
  local opt = torch.optim.SGD(net:parameters(), {lr = o.lr or 0.5})
  quietly(function()
    for i = 1, o.steps or 60 do
      if not o.forget then opt:zero_grad() end
      local scores = net(points)
      if o.twice then scores = scores:softmax(2) end
      local loss = F.cross_entropy(scores, classes)
      loss:backward()
      opt:step()
      way[i] = loss:item()
    end
  end)
  return torch.tensor(way)
end
--# predict #curve{} --> 60
--# hint    A number for each step.

--# say     First a healthy one. It falls fast, then slower and slower, and never climbs for long.
function draw(way) torch.plot(way, {width = 60, height = 8}) end
draw(curve{})
--# predict curve{}[60]:item() < curve{}[1]:item() --> true
--# ask     Is the last loss smaller than the first? (true or false)
--# wrong   false: Read the numbers at the left: it begins at the top.
--# hint    The top left is where it begins.

--# say     Three classes: who knows nothing has the loss log(3), 1.1. This one began at 0.9. Which of these
--#         is a bad sign at the very beginning: 1.1, 0.9 or 7?
--# predict 7 --> 7
--# ask     Which one is: 1.1, 0.9 or 7?
--# wrong   1.1: That is who knows nothing, as a new network should.
--# wrong   0.9: A lucky beginning; no harm.
--# hint    Which is far from "knows nothing"?
--# why     A 7 at the beginning says that the network is very sure and very wrong: weights too large,
--#         inputs of hundreds, or labels that are off by one.

--# say     The illnesses: 1 the rate is too high, 2 the rate is too low, 3 zero_grad is forgotten, 4 softmax
--#         twice (the network ends in softmax, and cross_entropy applies it again). What each does:
--#           1  jumps: a step goes over the valley and up the other side
--#           2  creeps: it still falls at the end, as a straight line
--#           3  falls well, then climbs: old slopes drive on past the bottom
--#           4  falls, and stays far above what it could be
ill = {{lr = 0.01}, {twice = true}, {lr = 30}, {forget = true}}
names = {2, 4, 1, 3}
function patient(n) return n * 3 % 4 + 1 end
draw(curve(ill[patient(1)]))
--# predict names[patient(1)] --> 3
--# ask     What is wrong here: 1, 2, 3 or 4?
--# wrong   1: It would jump up and down. This one fell, and then climbs for good.
--# wrong   2: It falls quickly at first.
--# wrong   4: That would fall, and stay; this one climbs.
--# hint    It falls, then climbs and climbs.
--# why     Each step uses the sum of all slopes so far: a ball that nothing stops. `opt:zero_grad()`.

--# say     The next, please.
draw(curve(ill[patient(2)]))
--# predict names[patient(2)] --> 1
--# ask     What is wrong here: 1 rate too high, 2 too low, 3 no zero_grad, 4 softmax twice?
--# wrong   2: With a small rate nothing ever jumps.
--# wrong   3: After a jump it falls again: the slopes are new in each step.
--# wrong   4: That would be smooth.
--# hint    Sudden towers.
--# why     When you see towers, divide the rate by 3, then by 10.

--# say     The third.
draw(curve(ill[patient(3)]))
--# predict names[patient(3)] --> 4
--# ask     1 rate too high, 2 too low, 3 no zero_grad, 4 softmax twice?
--# wrong   2: Nearly: it looks slow. But it is flat at the end, and with more steps it stays there; 2 would
--#         still be falling.
--# wrong   1: Nothing jumps.
--# wrong   3: Nothing climbs.
--# hint    It is flat at the end, at 0.69; the healthy one came to 0.25.
--# why     A network that is always right and quite sure would give the probabilities 1 0 0. As scores for
--#         another softmax these are e to 1 to 1: the loss can never come below log((e + 2) / e), 0.55.

--# say     And the last one.
draw(curve(ill[patient(4)]))
--# predict names[patient(4)] --> 2
--# ask     1 rate too high, 2 too low, 3 no zero_grad, 4 softmax twice?
--# wrong   4: That becomes flat. This one is still on its way down at the end.
--# wrong   1: Nothing jumps.
--# hint    It is still falling.
--# why     60 steps were not enough for this rate. A larger one, or patience:
draw(curve{lr = 0.01, steps = 600})

--# say     The floor of number 4, for any number of classes: what is the least loss when probabilities are
--#         taken for scores? The best are 1 for the true class and 0 for the k - 1 others.
--# task    Write floor_of(k): the loss -log(softmax) of the true class for the scores 1, 0, 0, .. (k of
--#         them); a number.
--# spec    floor_of(k)
--#         local s = torch.zeros(1, k, {dtype = "float64"})
--#         s[{1, 1}] = 1
--#         return F.cross_entropy(s, torch.tensor{1}):item()
--# try     k in 2..12
--# forbid  cross_entropy softmax log_softmax
--# wrong   function floor_of(k) return math.log(k) end: That is the loss of who knows nothing: where it
--#         begins.
--# wrong   function floor_of(k) return -math.log(math.exp(1) / (math.exp(1) + k)) end: Only k - 1 others.
--# wrong   function floor_of(k) return -math.log(1 / k) end: exp(1) is e, exp(0) is 1.
--# hint    softmax is exp(1) / (exp(1) + the others' exp(0)).
--# hint    There are k - 1 others, each exp(0) = 1.
--# answer
function floor_of(k)
  local e = math.exp(1)
  return -math.log(e / (e + k - 1))
end
--# why     With ten classes 1.46, of 2.3 at the beginning: a loss that hangs at 1.46 says "softmax twice".
print(floor_of(3), floor_of(10))

--# say     Real curves are noisy, for each batch is another one. So one looks at a running mean: the new
--#         value is the old one plus a small part of the difference. From 8, with the part 0.25, a 4 comes:
--# predict 8 + 0.25 * (4 - 8) --> 7
--# wrong   6: That is half of the difference.
--# wrong   9: The difference, 4 - 8, is negative.
--# hint    A quarter of the way from 8 to 4.

--# say     Smooth one.
--# new     zeros
--# task    Write smooth(way, part): [n] numbers; the first is way[1], each further one the one before plus
--#         part times (way[i] minus it).
--# spec    smooth(way, part)
--#         local out, m = {}, nil
--#         for i, v in ipairs(way:tolist()) do
--#           m = m and (1 - part) * m + part * v or v
--#           out[i] = m
--#         end
--#         return torch.tensor(out)
--# try     n in 3..9
--# try     way = torch.rand(n) * 5
--# try     part = 0.25
--# wrong   function smooth(way, part) local out = way:clone() for i = 2, #way do out[i] = way[i - 1] + part *
--#         (way[i] - way[i - 1]) end return out end: The one before of the smoothed curve, not of the noisy
--#         one.
--# wrong   function smooth(way, part) local out = torch.zeros(#way) for i = 2, #way do out[i] = out[i - 1] +
--#         part * (way[i] - out[i - 1]) end return out end: It begins with way[1], not with 0.
--# hint    `local out = way:clone()`, then a loop from 2.
--# hint    `out[i] = out[i - 1] + part * (way[i] - out[i - 1])`.
--# answer
function smooth(way, part)
  local out = way:clone()
  for i = 2, #way do out[i] = out[i - 1] + part * (way[i] - out[i - 1]) end
  return out
end
noisy = curve{} + torch.randn(60) * 0.1
draw(noisy)
draw(smooth(noisy, 0.2))

--# say     A mean over batches hides one thing: a single nan spoils it for good. What is 5 + 0.25 * (nan - 5)?
--# new     isnan
nan = 0 / 0
--# predict smooth(torch.tensor{5, nan, 5}, 0.25):isnan():sum():item() --> 2
--# ask     smooth of 5, nan, 5: how many of the three are nan?
--# wrong   1: The third is made of the second.
--# wrong   0: Whatever meets nan becomes nan.
--# wrong   3: The first is 5.
--# hint    The second is; and the third is made of the second.
--# why     So the first thing to look for in a curve is nan, and `%nan loss` looks for where it began.

--# say     Something real: a watchman for trainings at night. He looks at the whole curve.
--# new     amin gt
--# task    Write diagnose(way): a text. "nan" where any is nan; else "jumps" where some step makes the loss
--#         more than twice what it was; else "climbs" where the last is more than 1.2 times the smallest;
--#         else "creeps" where the last fifth (the last n // 5 values) still falls by more than 0.02 (from
--#         its first to its last value); else "fine". way has at least 10 values.
--# spec    diagnose(way)
--#         local v = way:tolist()
--#         local n, least = #v, math.huge
--#         for _, e in ipairs(v) do if e ~= e then return "nan" end end
--#         for i = 2, n do if v[i] > 2 * v[i - 1] then return "jumps" end end
--#         for _, e in ipairs(v) do least = math.min(least, e) end
--#         if v[n] > 1.2 * least then return "climbs" end
--#         return v[n - n // 5 + 1] - v[n] > 0.02 and "creeps" or "fine"
--# try     k in 1..7
--# try     n in 20..29
--# try     t = torch.linspace(1, 10, n)
--# try     way = ({t * 0 + nan, 1 / t, 1 + (t - 6) ^ 2 / 9, 12 - t, t * 0 + 2, 2 + (t * 9):sin() * 1.5, 3 - t:sqrt() / 20})[k]
--# wrong   function diagnose(way) local n = #way if way:isnan():any():item() then return "nan" end if
--#         way["2:"]:gt(2 * way["1:-2"]):any():item() then return "jumps" end if way[n]:item() > 1.2 *
--#         way[1]:item() then return "climbs" end if (way[n - n // 5 + 1] - way[n]):item() > 0.02 then return
--#         "creeps" end return "fine" end: Climbing is meant against the smallest value, not the first.
--# wrong   function diagnose(way) local n = #way if way["2:"]:gt(2 * way["1:-2"]):any():item() then return
--#         "jumps" end if way[n]:item() > 1.2 * way:amin():item() then return "climbs" end if (way[n - n // 5
--#         + 1] - way[n]):item() > 0.02 then return "creeps" end return "fine" end: nan is larger and smaller
--#         than nothing: every comparison is false. Ask `way:isnan():any():item()` first.
--# hint    `way:isnan():any():item()`; `way["2:"]:gt(2 * way["1:-2"]):any():item()`.
--# hint    `way[n]:item() > 1.2 * way:amin():item()`; `(way[n - n // 5 + 1] - way[n]):item() > 0.02`.
--# answer
function diagnose(way)
  local n = #way
  if way:isnan():any():item() then return "nan" end
  if way["2:"]:gt(2 * way["1:-2"]):any():item() then return "jumps" end
  if way[n]:item() > 1.2 * way:amin():item() then return "climbs" end
  if (way[n - n // 5 + 1] - way[n]):item() > 0.02 then return "creeps" end
  return "fine"
end
--# why     Does he know the patients? A stuck one (softmax twice) he cannot tell from a healthy one: for
--#         that he would have to know what could be reached. You do.
for _, o in ipairs{{}, {lr = 30}, {forget = true}, {lr = 0.01}, {twice = true}} do print(diagnose(curve(o))) end
--# play    Make one ill yourself: `draw(curve{lr = 3, forget = true})`. Enter ends the lesson.
