--# title   The same with layers
--# see     nn
--# explains SHAPE-6 REG FIELD

--# say     `nn.Linear(inputs, outputs)` is a line with its knobs inside: a weight for every input and
--#         output, and a bias for every output. It takes rows, one example in each. Its knobs begin at
--#         random; here they are set, so that you can follow.
--# new     nn no_grad copy_ tolist
layer = torch.nn.Linear(2, 1)
torch.no_grad(function()
  layer.weight:copy_(torch.tensor{{3.0, 2.0}})
  layer.bias:copy_(torch.tensor{1.0})
end)
--# predict layer(torch.tensor{{1.0, 1.0}, {0.0, 10.0}}):flatten() --> 6 21
--# ask     What does the layer answer to the rows 1 1 and 0 10?
--# wrong   5 20: And the bias, 1.
--# wrong   6 31: The weight 3 is the first input's, 2 the second's.
--# hint    3 * 1 + 2 * 1 + 1, and 3 * 0 + 2 * 10 + 1.

--# say     A layer from 4 numbers to 3: every output has a weight for every input.
--# predict torch.nn.Linear(4, 3).weight.shape --> [3, 4]
--# wrong   4 3: A row for each output: outputs come first.
--# wrong   12: That is how many there are.
--# hint    Three outputs, four weights each: a row for each output.

--# say     And how many knobs are that in all, with the biases?
function count(net)
  local n = 0
  for _, p in ipairs(net:parameters()) do n = n + p:numel() end
  return n
end
--# predict count(torch.nn.Linear(4, 3)) --> 15
--# wrong   12: Each output also has a bias.
--# wrong   16: 4 * 3 weights and a bias for each output.
--# hint    3 * 4 + 3.

--# say     Rows must have as many numbers as the layer has inputs.
five = torch.ones(10, 5)
--# predict torch.nn.Linear(4, 3)(five) --> error
--# wrong   10 3: Each row has 5 numbers, and the layer has 4 weights for each output.
--# hint    The rows have 5 numbers.
--# why     `nn.Linear(5, 3)` would take them: the first number is that of the rows.

--# say     But how many rows, and in how many dimensions, is free: only the last dimension is used up.
--# predict torch.nn.Linear(5, 3)(torch.ones(7, 10, 5)).shape --> [7, 10, 3]
--# wrong   7 3: 7 times 10 rows.
--# wrong   error: The last dimension is 5, as it should be.
--# hint    The 5 becomes 3.

--# say     Layers after each other: `nn.Sequential`. What comes out of one goes into the next.
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
--# predict count(net) --> 33
--# wrong   24: And the biases: 8 and 1. Tanh has no knobs.
--# wrong   25: 2 * 8 + 8 in the first, 8 * 1 + 1 in the second.
--# hint    2 * 8 + 8, nothing, 8 * 1 + 1.
print(net)

--# say     A network of your own kind is a class: `init` makes the layers, `forward` uses them. Calling the
--#         network calls forward.
Sum = torch.nn.class("Sum")
function Sum:init()
  self.first = torch.nn.Linear(2, 1)
  self.second = torch.nn.Linear(3, 1)
end
function Sum:forward(a, b) return self.first(a) + self.second(b) end
both = Sum()
--# predict both(torch.ones(5, 2), torch.ones(5, 3)).shape --> [5, 1]
--# wrong   5 2: Both answers are [5, 1]; they are added.
--# hint    [5, 1] plus [5, 1].

--# say     A network knows the layers in its fields: that is how an optimiser gets at their knobs. This one
--#         keeps its second layer in a variable of the file.
outside = torch.nn.Linear(3, 1)
Half = torch.nn.class("Half")
function Half:init() self.first = torch.nn.Linear(2, 1) end
function Half:forward(a, b) return self.first(a) + outside(b) end
--# predict count(Half()) --> 3
--# wrong   7: `outside` is no field of the network: it does not know it.
--# wrong   4: These are outside's. The network knows `first`.
--# hint    `first` has 2 weights and a bias. Does the network know `outside`?
--# why     It works, and half of it would never learn. Note REG tells you when an optimiser steps.

--# say     Write one. Its answers are compared, so both layers are made in the same order: first `hidden`,
--#         then `out`.
--# new     manual_seed tanh
--# task    Write answers(seed, x): `torch.manual_seed(seed)`; then a class Two whose init makes `hidden`, a
--#         Linear from 3 to 4, and `out`, a Linear from 4 to 2, and whose forward(x) is out of tanh of
--#         hidden of x. Return Two()(x), and the number of knobs that Two() has.
--# spec    answers(seed, x)
--#         torch.manual_seed(seed)
--#         local a, b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
--#         return b(a(x):tanh()):detach(), 26
--# try     seed in 1..4
--# try     n in 5..7
--# try     x = torch.randn(n, 3)
--# wrong   function answers(seed, x) torch.manual_seed(seed) local hidden, out = torch.nn.Linear(3, 4),
--#         torch.nn.Linear(4, 2) local Two = torch.nn.class("Two") function Two:forward(x) return
--#         out(hidden(x):tanh()) end local net = Two() return net(x):detach(), count(net) end: The answers
--#         are right, but this network knows no layers: make them fields of self in init.
--# wrong   function answers(seed, x) torch.manual_seed(seed) local Two = torch.nn.class("Two") function
--#         Two:init() self.hidden = torch.nn.Linear(3, 4) self.out = torch.nn.Linear(4, 2) end function
--#         Two:forward(x) return self.out(self.hidden(x)) end local net = Two() return net(x):detach(),
--#         count(net) end: The tanh between them is missing.
--# hint    `local Two = torch.nn.class("Two")`, then `function Two:init() .. end` and `function
--#         Two:forward(x) .. end`.
--# hint    In init `self.hidden = torch.nn.Linear(3, 4)`; in forward `return
--#         self.out(self.hidden(x):tanh())`.
--# hint    `local net = Two()` behind the seed; `return net(x):detach(), count(net)`.
--# answer
function answers(seed, x)
  torch.manual_seed(seed)
  local Two = torch.nn.class("Two")
  function Two:init()
    self.hidden = torch.nn.Linear(3, 4)
    self.out = torch.nn.Linear(4, 2)
  end
  function Two:forward(x) return self.out(self.hidden(x):tanh()) end
  local net = Two()
  return net(x):detach(), count(net)
end
print(answers(1, torch.ones(1, 3)))

--# say     The loss is a function of the library, too. `F.mse_loss(answers, truth)` is the mean squared
--#         error. Both must have one shape, and a Linear with one output answers with a column.
F = torch.nn.functional
--# predict F.mse_loss(torch.tensor{1.0, 2.0}, torch.tensor{1.0, 5.0}):item() --> 4.5
--# wrong   9: It is a mean over both.
--# wrong   3: Squared: 9, and 0.
--# hint    (0 + 9) / 2.

--# say     Something real: what does this taxi cost? Six rides, with their kilometres, minutes and the
--#         price. A price per kilometre, one per minute, and a basic charge: a Linear from 2 to 1.
rides = torch.tensor{{2.0, 6.0}, {5.0, 12.0}, {10.0, 15.0}, {3.0, 20.0}, {8.0, 10.0}, {1.0, 3.0}}
price = torch.tensor{{11.0}, {20.0}, {31.5}, {20.0}, {25.0}, {7.5}}
--# predict torch.nn.Linear(2, 1)(rides).shape --> [6, 1]
--# wrong   6: A column: one output for each row.
--# wrong   6 2: Two inputs become one output.
--# hint    Six rows, one output each.
--# why     The same shape as `price`. Had that been a row [6], every answer would be compared with every
--#         price: [6, 1] meets [6].

--# say     Find the tariff.
--# new     optim
--# task    Write tariff(steps): seed 0, a Linear from 2 to 1, Adam with lr 0.05, so many steps of zero_grad,
--#         mse_loss of the layer's answers and the prices, backward, step. Return the weight's two numbers
--#         and the bias, as one tensor [3], detached.
--# spec    tariff(steps)
--#         torch.manual_seed(0)
--#         local l = torch.nn.Linear(2, 1)
--#         local opt = torch.optim.Adam({l.weight, l.bias}, {lr = 0.05})
--#         for i = 1, steps do
--#           l.weight.grad, l.bias.grad = nil, nil
--#           local loss = ((rides:matmul(l.weight:t()) + l.bias - price) ^ 2):mean()
--#           loss:backward()
--#           opt:step()
--#         end
--#         return torch.cat{l.weight:detach():flatten(), l.bias:detach()}
--# try     steps in 3..12
--# wrong   function tariff(steps) torch.manual_seed(0) local l = torch.nn.Linear(2, 1) local opt =
--#         torch.optim.Adam(l:parameters(), {lr = 0.05}) for i = 1, steps do local loss =
--#         F.mse_loss(l(rides), price) loss:backward() opt:step() end return
--#         torch.cat{l.weight:detach():flatten(), l.bias:detach()} end: `opt:zero_grad()` is missing.
--# wrong   function tariff(steps) torch.manual_seed(0) local opt = torch.optim.Adam(torch.nn.Linear(2,
--#         1):parameters(), {lr = 0.05}) local l = torch.nn.Linear(2, 1) for i = 1, steps do
--#         opt:zero_grad() F.mse_loss(l(rides), price):backward() opt:step() end return
--#         torch.cat{l.weight:detach():flatten(), l.bias:detach()} end: The optimiser has the knobs of
--#         another layer: `l:parameters()`.
--# hint    `local l = torch.nn.Linear(2, 1)`, `local opt = torch.optim.Adam(l:parameters(), {lr = 0.05})`.
--# hint    The loss: `F.mse_loss(l(rides), price)`.
--# hint    At the end `torch.cat{l.weight:detach():flatten(), l.bias:detach()}`.
--# answer
function tariff(steps)
  torch.manual_seed(0)
  local l = torch.nn.Linear(2, 1)
  local opt = torch.optim.Adam(l:parameters(), {lr = 0.05})
  for i = 1, steps do
    opt:zero_grad()
    local loss = F.mse_loss(l(rides), price)
    loss:backward()
    opt:step()
  end
  return torch.cat{l.weight:detach():flatten(), l.bias:detach()}
end
per_km, per_minute, basic = table.unpack(tariff(3000):tolist())
print(per_km, per_minute, basic)

--# say     So how much is it, in whole units, to begin with: with 0 kilometres and 0 minutes?
--# predict math.floor(basic + 0.5) --> 4
--# wrong   2: That is a kilometre.
--# wrong   0: What is the bias?
--# hint    Look at what was printed: the bias comes last.
--# why     2 a kilometre, 0.5 a minute, and 4 to begin with. Six receipts have told the tariff.
