--# title   Reading digits: one of ten
--# see     nn
--# explains INDEX-2 DTYPE-3 SHAPE-9 LABEL

--# say     Yes or no had one number as its answer. One of ten has ten, a score for each class; the largest
--#         wins. Scores are any numbers: only their differences count.
--# new     tensor argmax
scores = torch.tensor{1.0, 4.0, 2.0}
--# predict scores:argmax(1):item() --> 2
--# ask     Which class wins, counted from 1?
--# wrong   4: That is its score. At which place does it stand?
--# wrong   1: Classes count from 1 here.
--# hint    4 is the largest.

--# say     `softmax` makes probabilities of scores: exp of each, divided by the sum of all.
--# new     softmax
--# predict torch.tensor{5.0, 5.0}:softmax(1) --> 0.5 0.5
--# wrong   5 5: They add up to 1.
--# wrong   0.05 0.05: They add up to 1.
--# hint    Two alike, together 1.

--# say     And if 100 is added to both?
--# predict (torch.tensor{5.0, 5.0} + 100):softmax(1) --> 0.5 0.5
--# wrong   1 1: Two alike, together 1.
--# hint    Only differences count.

--# say     The loss is the surprise again: -log of the probability that the true class got.
--#         `F.cross_entropy(scores, classes)` takes the scores [n, classes], and a class number for each
--#         row. Who knows nothing, with ten classes, gives each 0.1. The surprise is
--# new     nn zeros
F = torch.nn.functional
blank = torch.zeros(4, 10)
--# predict F.cross_entropy(blank, torch.tensor{1, 7, 10, 3}):item() --> 2.3026
--# ask     F.cross_entropy(blank, torch.tensor{1, 7, 10, 3})? (log(10) is 2.3026.)
--# wrong   0.1: That is the probability. The loss is -log(0.1).
--# wrong   0: Zeros everywhere are no knowledge: each class gets 0.1.
--# wrong   -2.3026: Minus log of 0.1 is positive.
--# hint    -log(0.1) for each row, averaged.
--# why     Remember it: a new network that tells ten classes apart begins at about 2.3. If yours begins at
--#         10, or at 0.1, something is wrong before the first step.

--# say     Classes are numbers from 1 to 10. The digit 0 is class 1 then. What if somebody writes 0?
--# predict F.cross_entropy(blank, torch.tensor{0, 6, 9, 2}) --> error
--# wrong   2.3026: There is no class 0.
--# hint    There is no class 0.
--# why     Labels that count from 0 become right by adding 1. Worse is a file in which no 0 occurs: then
--#         every class is taken for the one below it, and no error comes.

--# say     Write it yourself.
--# new     exp log mean sum gather unsqueeze squeeze log_softmax
--# task    Write surprise(scores, c): the mean over rows of -log of the softmax probability of class c[i],
--#         for scores [n, k] and c [n]; a tensor [].
--# spec    surprise(scores, c)
--#         local sum = 0
--#         for i = 1, #c do
--#           local e = scores[i]:exp()
--#           sum = sum - (e[c[i]:item()] / e:sum()):log()
--#         end
--#         return sum / #c
--# try     n in 3..5
--# try     k in 6..8
--# try     scores = torch.randn(n, k)
--# try     c = torch.randint(1, k + 1, {n})
--# forbid  cross_entropy nll_loss
--# wrong   function surprise(scores, c) return -scores:softmax(2):log():mean() end: That averages over all
--#         classes. Only the true one's counts.
--# wrong   function surprise(scores, c) return -scores:softmax(1):gather(2,
--#         c:unsqueeze(2)):log():mean() end: Each row is an example: probabilities add up along dimension
--#         2.
--# wrong   function surprise(scores, c) return -scores:softmax(2):gather(2, c:unsqueeze(2)):mean() end: The
--#         log is missing.
--# hint    `scores:softmax(2)` is [n, k]. Row i is wanted at column c[i]: `gather(2, c:unsqueeze(2))`.
--# hint    Its log, the mean, and minus.
--# answer
function surprise(scores, c)
  return -scores:log_softmax(2):gather(2, c:unsqueeze(2)):mean()
end
--# why     cross_entropy takes the log first, as `log_softmax` does, so that small probabilities do not
--#         become 0.
print(surprise(blank, torch.tensor{1, 7, 10, 3}))

--# say     The slope of this loss is beautiful: the probability of each class, minus 1 at the true one; over
--#         the number of rows.
--# new     randn
s = torch.zeros(1, 4, {requires_grad = true})
loss = F.cross_entropy(s, torch.tensor{3})
loss:backward()
--# predict s.grad --> 0.25 0.25 -0.75 0.25
--# wrong   0.25 0.25 0.25 0.25: Minus 1 at class 3.
--# wrong   -0.25 -0.25 0.75 -0.25: That is the way downhill; the slope is the other way.
--# hint    Each has the probability 1/4; minus 1 at class 3.
--# why     A step against it raises the true score and lowers all others, the more the surer they were.

--# say     The digits: 1,797 pictures of 8 x 8 points between 0 and 1. The first 1,000 to learn from, the
--#         rest to test.
--# new     utils flatten
local set = torch.utils.data.digits()
images, labels = set.tensors[1], set.tensors[2]
rows = images:flatten(2)
--# predict rows.shape --> [1797, 64]
--# wrong   1797 8 8: flatten(2) makes one dimension of all from the second on.
--# wrong   115008: From the second dimension on: the first stays.
--# hint    1 * 8 * 8.
print(images.shape, labels["1:10"])

--# say     A network: 64 numbers in, 32 in between, 10 scores out.
--# new     manual_seed
function make()
  torch.manual_seed(0)
  return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
end
net = make()
--# predict net(rows["1:50"]).shape --> [50, 10]
--# wrong   50 32: That is in the middle.
--# wrong   50: Ten scores for each.
--# hint    50 rows, 10 scores each.
print(F.cross_entropy(net(rows["1:1000"]), labels["1:1000"]))

--# say     About 2.3, as it should be. Now the loop.
--# new     optim eq float
--# task    Write train(epochs): local net = make(); Adam with lr 0.01; a DataLoader over TensorDataset(rows["1:1000"],
--#         labels["1:1000"]) with batch_size 100, not mixed; so many epochs over its batches. Return the
--#         scores of all pictures, net(rows):detach().
--# spec    train(epochs)
--#         local n = make()
--#         local opt = torch.optim.Adam(n:parameters(), {lr = 0.01})
--#         for e = 1, epochs do
--#           for k = 0, 9 do
--#             local x, y = rows[{{100 * k + 1, 100 * k + 100}}], labels[{{100 * k + 1, 100 * k + 100}}]
--#             for _, p in ipairs(n:parameters()) do p.grad = nil end
--#             local loss = F.cross_entropy(n(x), y)
--#             loss:backward()
--#             opt:step()
--#           end
--#         end
--#         return n(rows):detach()
--# try     epochs in 1..2
--# wrong   function train(epochs) local net = make() local opt = torch.optim.Adam(net:parameters(), {lr =
--#         0.01}) for e = 1, epochs do opt:zero_grad() local loss = F.cross_entropy(net(rows["1:1000"]),
--#         labels["1:1000"]) loss:backward() opt:step() end return net(rows):detach() end: That is one
--#         step an epoch, with all examples; the loader gives ten batches.
--# wrong   function train(epochs) local net = make() local opt = torch.optim.Adam(net:parameters(), {lr = 0.01})
--#         local set = torch.utils.data.TensorDataset(rows["1:1000"], labels["1:1000"]) local loader =
--#         torch.utils.data.DataLoader(set, {batch_size = 100}) for e = 1, epochs do for x, y in loader() do
--#         opt:zero_grad() local loss = F.cross_entropy(net(x):softmax(2), y) loss:backward() opt:step()
--#         end end return net(rows):detach() end: cross_entropy takes raw scores: it applies
--#         softmax itself.
--# hint    `for x, y in loader() do`: zero_grad, `local loss = F.cross_entropy(net(x), y)`, backward, step.
--# hint    `torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows["1:1000"], labels["1:1000"]),
--#         {batch_size = 100})`.
--# answer
function train(epochs)
  local net = make()
  local opt = torch.optim.Adam(net:parameters(), {lr = 0.01})
  local set = torch.utils.data.TensorDataset(rows["1:1000"], labels["1:1000"])
  local loader = torch.utils.data.DataLoader(set, {batch_size = 100})
  for epoch = 1, epochs do
    for x, y in loader() do
      opt:zero_grad()
      local loss = F.cross_entropy(net(x), y)
      loss:backward()
      opt:step()
    end
  end
  return net(rows):detach()
end

--# say     How good is it on the 797 digits that it has never seen?
--# task    Write accuracy(scores, c): the share of rows of scores [n, k] whose largest stands at class c[i];
--#         a number.
--# spec    accuracy(scores, c)
--#         local right = 0
--#         for i = 1, #c do if scores[i]:argmax(1):item() == c[i]:item() then right = right + 1 end end
--#         return right / #c
--# try     n in 4..9
--# try     scores = torch.randn(n, 3)
--# try     c = torch.randint(1, 4, {n})
--# forbid  for while repeat
--# wrong   function accuracy(scores, c) return (scores:argmax(2) - 1):eq(c):float():mean():item() end: Both
--#         count from 1.
--# wrong   function accuracy(scores, c) return scores:argmax(1):float():mean():item() end: That is the best
--#         row of each class. The best class of each row is `argmax(2)`.
--# hint    `scores:argmax(2)` is the class of each row; `:eq(c)` where it is right.
--# hint    `:float():mean():item()` is the share.
--# answer
function accuracy(scores, c) return scores:argmax(2):eq(c):float():mean():item() end

--# say     After one epoch, and after twenty:
all_scores = train(20)
print(accuracy(train(1)["1001:"], labels["1001:"]))
test_share = accuracy(all_scores["1001:"], labels["1001:"])
print(test_share)
--# predict test_share > 0.9 --> true
--# ask     Does it read more than nine of ten?
--# wrong   false: Look at what was printed.
--# hint    Look at what was printed.

--# say     Something real: which digits does it confuse? A table: row i, column j counts digits of class i
--#         that were read as class j.
--# task    Write confusion(said, c, k): the int64 table [k, k] for what was said [n] and the truth c [n],
--#         both of 1 .. k: entry {i, j} counts where c is i and said is j.
--# spec    confusion(said, c, k)
--#         local out = torch.zeros(k, k, {dtype = "int64"})
--#         for i = 1, k do for j = 1, k do out[{i, j}] = (c:eq(i):int() * said:eq(j):int()):sum() end end
--#         return out
--# try     n in 6..20
--# try     k in 3..4
--# try     said = torch.randint(1, k + 1, {n})
--# try     c = torch.randint(1, k + 1, {n})
--# wrong   function confusion(said, c, k) local out = torch.zeros(k, k, {dtype = "int64"}) for n = 1, #c do
--#         local i, j = said[n]:item(), c[n]:item() out[{i, j}] = out[{i, j}] + 1 end return out end: Rows
--#         are the truth, columns what was said.
--# wrong   function confusion(said, c, k) local out = torch.zeros(k, k, {dtype = "int64"}) for n = 1, #c do
--#         out[{c[n]:item(), said[n]:item()}] = 1 end return out end: Count them: one more each time.
--# hint    Begin with `torch.zeros(k, k, {dtype = "int64"})`, and go through all n.
--# hint    `local i, j = c[n]:item(), said[n]:item()`, then `out[{i, j}] = out[{i, j}] + 1`.
--# answer
function confusion(said, c, k)
  local out = torch.zeros(k, k, {dtype = "int64"})
  for n = 1, #c do
    local i, j = c[n]:item(), said[n]:item()
    out[{i, j}] = out[{i, j}] + 1
  end
  return out
end
--# why     Rows and columns 1 to 10 are the digits 0 to 9. The largest number off the diagonal is the pair
--#         that it takes for each other most.
print(confusion(all_scores["1001:"]:argmax(2), labels["1001:"], 10))
--# play    `images[1001]:show()` draws one, and `all_scores[1001]:argmax(1) - 1` says what it is. Enter ends
--#         the lesson.
