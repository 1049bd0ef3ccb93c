--# title   DataParallel: one batch on four devices
--# see     cuda nn

--# say     Four cards, one network, one batch: each card takes a quarter of the examples. The network is
--#         copied to all, the answers are collected, the gradients are added. (Where your machine has fewer,
--#         four are simulated.)
--# new     cuda nn no_grad arange view to flatten scatter gather device
if torch.cuda.device_count() < 4 then torch.cuda.simulate(4) end
P = torch.nn.parallel
cards = {0, 1, 2, 3}
x = torch.arange(8):float():view(8, 1):to("cuda:0")
--# predict P.scatter(x, cards)[3]:flatten() --> 4 5
--# ask     x is 0 .. 7. `scatter` cuts it for four cards. What does the third one get?
--# wrong   2 3: That is the second.
--# wrong   3: Two examples for each.
--# hint    0 1, 2 3, ..
for _, part in ipairs(P.scatter(x, cards)) do print(part.device, part:flatten()) end

--# say     And 10 examples, on four cards? They are cut as `chunk` cuts: pieces of the same size, rounded up,
--#         until nothing is left.
--# new     zeros
ten = torch.zeros(10, 1, {device = "cuda:0"})
--# predict #P.scatter(ten, cards)[4] --> 1
--# ask     How many examples does the last card get?
--# wrong   2.5: An example cannot be cut.
--# wrong   2: 10 / 4 rounded up is 3: 3, 3, 3, and the rest.
--# wrong   3: 3, 3, 3, and the rest.
--# hint    3, 3, 3, ..
--# why     While the last card has one example, the others have three: it waits. Batches that divide by the
--#         number of cards are better.

--# say     Cut them yourself.
--# task    Write shares(n, cards): a table with the number of examples for each card, as scatter cuts n
--#         examples (n is at least 1; a card that gets nothing does not stand in it).
--# spec    shares(n, cards)
--#         local out = {}
--#         for i, part in ipairs{torch.zeros(n):chunk(cards)} do out[i] = #part end
--#         return out
--# try     n in 1..23
--# try     cards in 2..5
--# forbid  chunk split
--# wrong   function shares(n, cards) local out = {} for i = 1, cards do out[i] = n // cards end return out end:
--#         Some are left over. Sizes are rounded up.
--# wrong   function shares(n, cards) local size, out = (n + cards - 1) // cards, {} for i = 1, cards do out[i] =
--#         math.max(0, math.min(size, n - (i - 1) * size)) end return out end: A card that gets nothing does
--#         not stand in the list.
--# hint    `local size = (n + cards - 1) // cards`. While some are left, a card takes size, or the rest.
--# hint    `while n > 0 do out[#out + 1] = math.min(size, n) n = n - size end`.
--# answer
function shares(n, cards)
  local size, out = (n + cards - 1) // cards, {}
  while n > 0 do
    out[#out + 1] = math.min(size, n)
    n = n - size
  end
  return out
end
print(table.concat(shares(10, 4), " "))

--# say     Copies of the network: `replicate`. Here it has one weight, 2.
--# new     fill_
net = torch.nn.Linear(1, 1, {bias = false}):to("cuda:0")
torch.no_grad(function() net.weight:fill_(2) end)
copies = P.replicate(net, cards)
--# predict copies[3].weight.device.index --> 2
--# ask     On which card is the weight of the third copy?
--# wrong   3: Cards count from 0.
--# wrong   0: That is the network itself.
--# hint    The third of cards 0, 1, 2, 3.

--# say     A copy's weight is computed of the network's: it is no leaf. In backward its gradient goes home,
--#         to cuda:0, and those of all copies add up there.
--# predict copies[3].weight.is_leaf --> false
--# wrong   true: It was made by an operation: the move.
--# hint    It was made by an operation.

--# say     Each works on its part.
--# new     cat
outputs = P.parallel_apply(copies, P.scatter(x, cards))
--# predict outputs[2]:flatten() --> 4 6
--# wrong   2 3: Times the weight, 2.
--# wrong   0 2: That is the first.
--# hint    The second part is 2 3.

--# say     And `gather` puts the answers together, on the first card.
--# predict P.gather(outputs, 0).shape --> [8, 1]
--# wrong   4 2: One after the other, as x was.
--# wrong   2 1: That is one part.
--# hint    As x was cut, so it is joined.

--# say     These four steps are `nn.DataParallel`.
--# new     cpu randn
--# task    Write by_hand(net, x, cards): what DataParallel answers: scatter; replicate, for as many cards as
--#         there are parts; parallel_apply; gather to cards[1]. Return the result, moved to the CPU, and
--#         detached.
--# spec    by_hand(net, x, cards) return net(x):detach():cpu()
--# try     n in 5..9
--# try     net = torch.nn.Linear(3, 2):to("cuda:0")
--# try     x = torch.randn(n, 3):to("cuda:0")
--# try     cards = {0, 1, 2, 3}
--# wrong   function by_hand(net, x, cards) local parts = P.scatter(x, cards) local out =
--#         P.parallel_apply(P.replicate(net, {table.unpack(cards, 1, #parts)}), parts) return
--#         out[1]:detach():cpu() end: These are the answers of the first card alone: gather.
--# wrong   function by_hand(net, x, cards) local parts = P.scatter(x, cards) local out =
--#         P.parallel_apply(P.replicate(net, cards), parts) return P.gather(out, cards[1]):detach():cpu() end:
--#         5 examples make three parts of 2, 2, 1, and there would be four copies: replicate for
--#         {table.unpack(cards, 1, #parts)}.
--# hint    `local parts = P.scatter(x, cards)`, `local copies = P.replicate(net, {table.unpack(cards, 1,
--#         #parts)})`.
--# hint    `P.gather(P.parallel_apply(copies, parts), cards[1]):detach():cpu()`.
--# answer
function by_hand(net, x, cards)
  local parts = P.scatter(x, cards)
  local copies = P.replicate(net, {table.unpack(cards, 1, #parts)})
  return P.gather(P.parallel_apply(copies, parts), cards[1]):detach():cpu()
end
print(by_hand(net, x, cards):flatten())

--# say     The gradient. The loss is the mean of all eight answers w * x; x is 0 .. 7. What is the slope of w?
many = torch.nn.DataParallel(net, {device_ids = cards})
loss = many(x):mean()
loss:backward()
--# predict net.weight.grad:item() --> 3.5
--# wrong   14: The four cards' sums are added, but the loss is a mean over 8.
--# wrong   0.5: That is the first card's part alone.
--# hint    The mean of 0 .. 7.
--# why     As if there were one card. Nothing in the training changes but the line with DataParallel.

--# say     Where it goes wrong: what a copy keeps in itself is thrown away with it. A network that counts its
--#         calls:
Counter = torch.nn.class("Counter")
function Counter:init() self.calls = 0 end
function Counter:forward(x)
  self.calls = self.calls + 1
  return x * 2
end
counter = Counter()
counted = torch.nn.DataParallel(counter, {device_ids = cards})
counted(x)
--# predict counter.calls --> 0
--# wrong   4: Each copy counted its call, and was thrown away.
--# wrong   1: forward ran in copies of it.
--# hint    Who counted, and where is it now?

--# say     Batch norm in a copy sees its part only. 8 examples on 4 cards: over how many is each mean?
--# predict 8 / 4 --> 2
--# wrong   8: Each card has its own part.
--# hint    A card has two examples.
--# why     With 2 examples a mean says little. `SyncBatchNorm`, with several processes, takes the mean over
--#         all.

--# say     A loss that is a mean is computed on each card as the mean of its part. With parts of 3, 3, 3
--#         and 1 the mean of these means is not the mean of all. The losses are 1, 1, 1 and 5:
--# predict (3 * 1 + 3 * 1 + 3 * 1 + 1 * 5) / 10 --> 1.4
--# ask     What is the mean over all 10 examples?
--# wrong   2: That is the mean of the means.
--# hint    9 examples with 1, one with 5.

--# say     Does it pay? A card needs `work` ms for one example; copying the network to a card and fetching
--#         gradients takes `move` ms for each further card, one after the other.
--# task    Write best(n, work, move, most): the number of cards, 1 to most, with which a step of n examples is
--#         the shortest: (the largest share) * work + (cards - 1) * move. The smaller number where two are
--#         alike.
--# spec    best(n, work, move, most)
--#         local least, found = math.huge, 1
--#         for c = 1, most do
--#           local t = math.ceil(n / c) * work + (c - 1) * move
--#           if t < least then least, found = t, c end
--#         end
--#         return found
--# try     n in 16..40
--# try     work in 1..3
--# try     move in 5..20
--# try     most in 4..8
--# wrong   function best(n, work, move, most) return most end: Each further card costs a move.
--# wrong   function best(n, work, move, most) local l, f = math.huge, 1 for c = 1, most do local t = n // c *
--#         work + (c - 1) * move if t < l then l, f = t, c end end return f end: The largest share counts: it
--#         is rounded up.
--# hint    A loop over the number of cards c; the largest share is shares(n, c)[1].
--# hint    t = shares(n, c)[1] * work + (c - 1) * move; keep the c with the smallest t.
--# answer
function best(n, work, move, most)
  local least, found = math.huge, 1
  for c = 1, most do
    local t = shares(n, c)[1] * work + (c - 1) * move
    if t < least then least, found = t, c end
  end
  return found
end
print(best(64, 1, 2, 8), best(64, 1, 30, 8))

--# say     Something real: digits on four cards, against one. The same seed, the same batches.
--# new     manual_seed utils optim
local set = torch.utils.data.digits()
images, labels = set.tensors[1]:flatten(2)["1:64"]:to("cuda:0"), set.tensors[2]["1:64"]:to("cuda:0")
--# task    Write losses(cards, steps): torch.manual_seed(0); a Linear from 64 to 10 on cuda:0; `many`, a
--#         DataParallel of it on these cards; SGD over the Linear's parameters with lr 0.5; so many steps
--#         with the cross_entropy of many(images) and labels. Return the losses as numbers, a table.
--# spec    losses(cards, steps)
--#         torch.manual_seed(0)
--#         local net = torch.nn.Linear(64, 10):to("cuda:0")
--#         local opt, out = torch.optim.SGD(net:parameters(), {lr = 0.5}), {}
--#         for i = 1, steps do
--#           net.weight.grad, net.bias.grad = nil, nil
--#           local loss = torch.nn.functional.cross_entropy(net(images), labels)
--#           loss:backward()
--#           opt:step()
--#           out[i] = loss:item()
--#         end
--#         return out
--# try     steps in 2..4
--# try     k in 1..3
--# try     cards = ({{0, 1}, {0, 1, 2}, {0, 1, 2, 3}})[k]
--# wrong   function losses(cards, steps) torch.manual_seed(0) local net = torch.nn.Linear(64, 10):to("cuda:0")
--#         local many = torch.nn.DataParallel(net, {device_ids = cards}) local opt, out =
--#         torch.optim.SGD(net:parameters(), {lr = 0.5}), {} for i = 1, steps do local loss =
--#         torch.nn.functional.cross_entropy(many(images), labels) loss:backward() opt:step() out[i] =
--#         loss:item() end return out end: zero_grad is missing.
--# wrong   function losses(cards, steps) torch.manual_seed(0) local net = torch.nn.Linear(64, 10):to("cuda:0")
--#         local many = torch.nn.DataParallel(net, {device_ids = cards}) local copy = P.replicate(net,
--#         cards)[2] local opt, out = torch.optim.SGD(net:parameters(), {lr = 0.5 / #cards}), {} for i = 1,
--#         steps do opt:zero_grad() local loss = torch.nn.functional.cross_entropy(many(images), labels)
--#         loss:backward() opt:step() out[i] = loss:item() end return out end: The rate stays: the gradient
--#         is that of the whole batch.
--# hint    `local many = torch.nn.DataParallel(net, {device_ids = cards})`, and SGD over net:parameters().
--# hint    The loss: `torch.nn.functional.cross_entropy(many(images), labels)`.
--# answer
function losses(cards, steps)
  torch.manual_seed(0)
  local net = torch.nn.Linear(64, 10):to("cuda:0")
  local many = torch.nn.DataParallel(net, {device_ids = cards})
  local opt, out = torch.optim.SGD(net:parameters(), {lr = 0.5}), {}
  for i = 1, steps do
    opt:zero_grad()
    local loss = torch.nn.functional.cross_entropy(many(images), labels)
    loss:backward()
    opt:step()
    out[i] = loss:item()
  end
  return out
end
--# why     One card, and four:
print(losses({0}, 30)[30], losses({0, 1, 2, 3}, 30)[30])
