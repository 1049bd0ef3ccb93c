--# title   Train and eval: two modes
--# see     nn
--# explains MODE SHAPE-8 SCOPE

--# say     Most layers do the same always. Two kinds behave differently while one trains: dropout, and batch
--#         norm. A network knows in which mode it is.
--# new     manual_seed nn tensor ones mean sum zeros
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5))
--# predict net.training --> true
--# wrong   false: It begins in training mode.
--# hint    A new network is there to be trained.

--# say     `net:eval()` turns to the other mode, with all layers inside; `net:train()` turns back.
net:eval()
layers = net:modules()
--# predict layers[#layers].training --> false
--# ask     Is the Dropout inside in training mode now? (true or false)
--# wrong   true: eval reaches all that is inside.
--# hint    All that is inside.

--# say     Dropout with p = 0.5 makes zeros of about half of its numbers, others in each step, so that no
--#         neuron can rely on its neighbour. What is left is divided by 1 - p, so that the mean stays.
drop = torch.nn.Dropout(0.5)
torch.manual_seed(0)
dropped = drop(torch.ones(1000))
print(dropped["1:10"])
--# predict dropped:max():item() --> 2
--# ask     Ones went in. How large are those that are left?
--# wrong   1: About half became 0, and the mean should stay at 1.
--# wrong   0.5: They grow: divided by 0.5.
--# hint    1 / (1 - 0.5).
print(dropped:mean())

--# say     And in eval mode?
drop:eval()
--# predict drop(torch.ones(5)):sum():item() --> 5
--# wrong   10: Nothing is dropped, so nothing is divided either.
--# wrong   2.5: Nothing is dropped in this mode.
--# hint    Nothing is dropped, nothing is divided.
--# why     An answer for a user must not depend on chance. Forgotten, `eval()` costs accuracy, a little
--#         only, so that nobody notices; note MODE tells you.

--# say     Make dropout of what you know. The mask is given, so that it can be compared.
--# task    Write dropout(x, keep, p): for x [n] and a mask `keep` [n] of booleans, x where keep is true,
--#         divided by 1 - p, else 0.
--# spec    dropout(x, keep, p)
--#         local out = x:clone()
--#         for i = 1, #x do out[i] = keep[i]:item() and x[i]:item() / (1 - p) or 0 end
--#         return out
--# try     n in 3..8
--# try     x = torch.randn(n)
--# try     keep = torch.rand(n):gt(0.4)
--# try     p = 0.4
--# forbid  for while repeat
--# wrong   function dropout(x, keep, p) return x * keep:float() end: What is left must grow, so that the mean
--#         stays.
--# wrong   function dropout(x, keep, p) return x * keep:float() / p end: 1 - p is the share that is kept:
--#         divide by that.
--# hint    `keep:float()` is 1 where kept, 0 elsewhere.
--# answer
function dropout(x, keep, p) return x * keep:float() / (1 - p) end
print(dropout(torch.tensor{1.0, 2.0, 3.0}, torch.tensor{true, false, true}, 0.5))

--# say     Batch norm looks at all examples of a batch, for each column: subtracts their mean, divides by
--#         their deviation (the root of the mean square of what is left). So that the next layer gets
--#         numbers of one size.
--# new     round flatten
norm = torch.nn.BatchNorm1d(1)
batch = torch.tensor{{10.0}, {30.0}}
--# predict norm(batch):round():flatten() --> -1 1
--# ask     norm of the column 10, 30, rounded?
--# wrong   -10 10: Divided by the deviation, which is 10.
--# wrong   0 1: The mean, 20, is subtracted from both.
--# hint    Minus 20: -10 and 10. Divided by 10.

--# say     So what an example gives depends on who else is in the batch. And one alone?
--# predict norm(torch.tensor{{30.0}}) --> error
--# wrong   0: One example has no deviation: 0 / 0.
--# wrong   30: In training mode it is compared with its batch.
--# hint    What is the deviation of one number?
--# why     In training an epoch may end with a batch of 1: `drop_last = true`.

--# say     For use, batch norm remembers: in each training step its running mean moves a tenth of the way
--#         to the batch's mean. It began at 0.
norm = torch.nn.BatchNorm1d(1)
norm(batch)
--# predict norm.running_mean:item() --> 2
--# wrong   20: A tenth of the way from 0 to 20.
--# wrong   0: The step in training mode has moved it.
--# hint    The batch's mean is 20; a tenth of the way from 0.

--# say     A second batch of the same kind?
norm(batch)
--# predict norm.running_mean:item() --> 3.8
--# wrong   4: A tenth of what is left: 20 - 2.
--# hint    2 + 0.1 * (20 - 2).

--# say     In eval mode the running ones are used, and nothing moves. Then one example alone is welcome, and
--#         its answer is its own.
norm:eval()
norm(torch.tensor{{1000.0}})
--# predict norm.running_mean:item() --> 3.8
--# wrong   103.42: In eval mode nothing moves.
--# hint    In eval mode nothing moves.

--# say     Two words that are taken for each other: `eval()` is the mode of layers; `torch.no_grad` keeps no
--#         graph. Neither does the other's work.
--# new     no_grad
plain = torch.nn.Sequential(torch.nn.Linear(3, 1))
plain:eval()
--# predict plain(torch.ones(1, 3)).requires_grad --> true
--# wrong   false: eval is about dropout and batch norm. The graph is no_grad's matter.
--# hint    Does eval say anything about the graph?

--# say     no_grad takes a function, and is over when that is. Or it is held by a variable that is closed at
--#         the end of its block, as Python's `with` does:
function quietly(x)
  local _ <close> = torch.no_grad()
  return plain(x)
end
quietly(torch.ones(1, 3))
--# predict plain(torch.ones(1, 3)).requires_grad --> true
--# wrong   false: The scope ended with the function that held it.
--# hint    When did the scope end?
--# why     Inside `quietly` it was false. `torch.no_grad()` alone on a line, held by nothing, ends with its
--#         line: note SCOPE tells you.
print(quietly(torch.ones(1, 3)).requires_grad)

--# say     So to ask a trained network: eval, no_grad, and back again to how it was.
--# task    Write ask(net, x): what net answers to x in eval mode, without a graph; and, as a second value,
--#         net.training at the end: the mode must be what it was before. `net:train(false)` is net:eval().
--# spec    ask(net, x)
--#         local was, m = net.training, net.mode
--#         net:eval()
--#         local y = net(x):detach()
--#         net:train(was)
--#         return y, net.training
--# try     n in 2..5
--# try     k in 0..1
--# try     net = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3)):train(k == 1)
--# try     x = torch.randn(n, 3)
--# wrong   function ask(net, x) net:eval() local y = torch.no_grad(function() return net(x) end) net:train()
--#         return y, net.training end: It may have been in eval mode before: remember `net.training`.
--# wrong   function ask(net, x) local y = torch.no_grad(function() return net(x) end) return y, net.training
--#         end: no_grad does not turn dropout off: net:eval() first.
--# wrong   function ask(net, x) net:eval() local y = torch.no_grad(function() return net(x) end) return y,
--#         net.training end: It stays in eval mode: back to what it was.
--# hint    `local was = net.training`, then net:eval().
--# hint    `local y = torch.no_grad(function() return net(x) end)`, `net:train(was)`.
--# answer
function ask(net, x)
  local was = net.training
  net:eval()
  local y = torch.no_grad(function() return net(x) end)
  net:train(was)
  return y, net.training
end

--# say     Something real: what does a forgotten eval cost? Digits, a network with much dropout, 100 steps.
--# new     utils optim argmax eq float
local set = torch.utils.data.digits()
rows, labels = set.tensors[1]:flatten(2), set.tensors[2]
torch.manual_seed(0)
reader = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Dropout(0.7),
  torch.nn.Linear(64, 10))
opt = torch.optim.Adam(reader:parameters(), {lr = 0.01})
for i = 1, 100 do
  opt:zero_grad()
  local loss = torch.nn.functional.cross_entropy(reader(rows["1:1000"]), labels["1:1000"])
  loss:backward()
  opt:step()
end
function share(scores) return scores:argmax(2):eq(labels["1001:"]):float():mean():item() end
good = share((ask(reader, rows["1001:"])))
bad = share(reader(rows["1001:"]):detach())
print(good, bad)
--# predict good > bad --> true
--# ask     Is it better with eval than without? (true or false)
--# wrong   false: Without it, 70 of 100 neurons are silent.
--# hint    Without it, 70 of 100 neurons are silent.

--# say     Yet the noise has a use. Ask often in training mode: where the answers differ, the network is not
--#         sure. How often, of 20 times, is the most frequent answer given?
--# new     stack size maximum le
--# task    Write sure(says): for answers `says` [k, n], k tries for each of n pictures, how often the most
--#         frequent class of each column occurs, over k: a float tensor [n]. Classes are 1 .. 10.
--# spec    sure(says)
--#         local out = torch.zeros(says:size(2))
--#         for j = 1, says:size(2) do
--#           local count = {}
--#           for i = 1, says:size(1) do
--#             local c = says[{i, j}]:item()
--#             count[c] = (count[c] or 0) + 1
--#             out[j] = math.max(out[j]:item(), count[c] / says:size(1))
--#           end
--#         end
--#         return out
--# try     k in 4..6
--# try     n in 2..3
--# try     says = torch.randint(1, 4, {k, n})
--# wrong   function sure(says) local out = torch.zeros(says:size(2)) for c = 1, 10 do out =
--#         torch.maximum(out, says:eq(c):float():sum(1)) end return out end: Over k: a share, not a count.
--# wrong   function sure(says) return says:eq(says[1]):float():mean(1) end: The first answer need not be the
--#         most frequent one.
--# hint    `says:eq(c):float():mean(1)` is the share of class c in each column.
--# hint    Its maximum over all c: begin with zeros, and take `torch.maximum` in a loop over 1 .. 10.
--# answer
function sure(says)
  local out = torch.zeros(says:size(2))
  for c = 1, 10 do out = torch.maximum(out, says:eq(c):float():mean(1)) end
  return out
end
--# why     Of the digits that it is sure of, and of the others, so many are read correctly:
tries = {}
for i = 1, 20 do tries[i] = reader(rows["1001:"]):detach():argmax(2) end
certain = sure(torch.stack(tries))
said = ask(reader, rows["1001:"]):argmax(2)
right = said:eq(labels["1001:"])
print(right[certain:gt(0.9)]:float():mean(), right[certain:le(0.6)]:float():mean())
