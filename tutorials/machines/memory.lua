--# title   The memory of a step
--# see     cuda
--# explains MEM-1

--# say     "Out of memory" is the most frequent end of a training. What is all that memory for? It can be
--#         counted, and on a card of its own it can be measured: this is a simulated one. A table of 16 x
--#         16 numbers of float32 has 4 * 256 bytes: 1024, one kibibyte, 1 KiB. (Real ones have thousands of
--#         rows; the counting is the same.)
--# new     cuda zeros
if torch.cuda.device_count() < 4 then torch.cuda.simulate(4) end
card = "cuda:3"
function held()
  for i = 1, 4 do collectgarbage() end
  return torch.cuda.memory_allocated(3) / 1024
end
start = held()
x = torch.zeros(16, 16, {device = card})
--# predict held() - start --> 1
--# ask     held() - start: how many KiB are held now?
--# wrong   4: 16 * 16 numbers of 4 bytes are 1024 bytes.
--# hint    One table.

--# say     float64 has 8 bytes a number, bfloat16 has 2.
--# new     bfloat16
small = x:bfloat16()
--# predict held() - start --> 1.5
--# ask     How many KiB are held now, in all?
--# wrong   0.5: x is still there.
--# wrong   2: 2 bytes a number.
--# hint    1 and a half.

--# say     What nobody holds any more goes away.
small = nil
--# predict held() - start --> 1
--# hint    x alone.

--# say     A view has no memory of its own.
--# new     t
turned = x:t()
--# predict held() - start --> 1
--# wrong   2: turned is x, read in another order.
--# hint    Is it a copy?

--# say     And it keeps all of what it looks at, however little that is.
--# new     ones
x, turned = nil, nil
big = torch.ones(16, 16, {device = card})
corner = big["1:2, 1:2"]
big = nil
--# predict held() - start --> 1
--# ask     `corner` has 4 numbers, and `big` is gone. How many KiB are held?
--# wrong   0: corner looks at the memory of the table, which stays as long as corner does.
--# hint    What does corner look at?
--# why     `corner:clone()` would be 16 bytes. Small views of large tables, kept in a list, are a usual leak.

--# say     Now a training. A Linear from 16 to 16, without bias: 1 KiB of weights.
--# new     nn
corner = nil
F = torch.nn.functional
net = torch.nn.Linear(16, 16, {bias = false}):to(card)
input = torch.ones(16, 16, {device = card})
before = held()
loss = net(input):sum()
loss:backward()
loss = nil
--# predict held() - before --> 1
--# ask     After backward: how much more is held than before the step?
--# wrong   0: The weights have a gradient now.
--# wrong   2: Only the gradient of the weights stays.
--# hint    What stays after backward?
--# why     As large as the weights: one number for each.

--# say     Adam remembers two numbers for each weight: the mean of its slopes, and of their squares. They
--#         come with the first step.
--# new     optim
opt = torch.optim.Adam(net:parameters())
opt:step()
--# predict held() - before --> 3
--# ask     And now?
--# wrong   2: Two more for each weight, besides the gradient.
--# wrong   1: Adam has made its two tables in the step.
--# hint    The gradient, and two more.

--# say     So each weight costs 4 + 4 + 8 bytes with Adam: itself, its gradient, and what Adam keeps.
--# task    Write model_bytes(n, optimiser): bytes for n weights of float32, their gradients, and the state
--#         of the optimiser, one of "SGD" (nothing), "momentum" (one number a weight), "Adam" (two).
--# spec    model_bytes(n, optimiser)
--#         local bytes = 8 * n
--#         if optimiser == "momentum" then bytes = bytes + 4 * n end
--#         if optimiser == "Adam" then bytes = bytes + 8 * n end
--#         return bytes
--# try     n in 10..99
--# try     k in 1..3
--# try     optimiser = ({"SGD", "momentum", "Adam"})[k]
--# wrong   function model_bytes(n, optimiser) return 16 * n end: Only with Adam.
--# wrong   function model_bytes(n, optimiser) return 4 * n * ({SGD = 1, momentum = 2, Adam = 3})[optimiser]
--#         end: The gradients are missing.
--# hint    4 bytes for each number: the weight, its gradient, and 0, 1 or 2 more.
--# hint    A table: `({SGD = 0, momentum = 1, Adam = 2})[optimiser]`.
--# answer
function model_bytes(n, optimiser)
  return 4 * n * (2 + ({SGD = 0, momentum = 1, Adam = 2})[optimiser])
end
--# why     For 7 billion weights, in GB (a card has 24 or 80 of them):
print(model_bytes(7e9, "SGD") / 1e9, model_bytes(7e9, "Adam") / 1e9)

--# say     Often the largest part is neither: what the forward pass keeps for the backward pass. Here `tanh`,
--#         five times in a row, on 1 KiB. Each keeps its result, for its slope is 1 - y * y.
--# new     tanh
net, opt, input = nil, nil, nil
x = torch.ones(16, 16, {device = card, requires_grad = true})
function chain(x, n)
  for i = 1, n do x = x:tanh() end
  return x
end
before = held()
y = chain(x, 5)
--# predict held() - before --> 5
--# wrong   1: The four in between are kept as well, for backward.
--# wrong   6: x was there before.
--# hint    Five results, each kept.

--# say     When y goes, the graph goes, and all that it kept.
y = nil
--# predict held() - before --> 0
--# wrong   4: Nobody holds the graph any more.
--# hint    Who holds the graph?

--# say     Without a graph nothing is kept.
--# new     no_grad
y = torch.no_grad(function() return chain(x, 5) end)
--# predict held() - before --> 1
--# wrong   5: Without a graph no result in between is needed.
--# wrong   0: y itself.
--# hint    y itself.
--# why     Which is why one tests in no_grad: with the same memory batches can be several times as large.

--# say     A trade: time for memory. `checkpoint(f, x)` keeps only what goes in and comes out, and computes
--#         the rest again in backward.
--# new     utils
y = torch.utils.checkpoint.checkpoint(function(x) return chain(x, 5) end, x)
--# predict held() - before --> 1
--# wrong   5: The four in between are not kept; they will be computed again.
--# wrong   0: y itself.
--# hint    What goes in was there; what comes out?
y = nil

--# say     The highest point of a step is what must fit: the peak. It comes in backward, when all results
--#         are still there, and gradients on top. After backward the results are gone.
--# new     sum
function once()
  y = chain(x, 5)
  y:sum():backward()
end
once()
--# predict held() - before --> 2
--# ask     After backward, y still held: how many KiB more than before?
--# wrong   5: Backward lets go of what was kept.
--# wrong   1: y, and x.grad.
--# hint    y, and the gradient of x.
print(torch.cuda.max_memory_allocated(3) / 1024)

--# say     What if there is not enough? 2 ^ 21 rows of 2 ^ 21 numbers are 16 TiB.
y, x = nil, nil
--# predict torch.zeros(2097152, 2097152) --> error
--# wrong   0: Your computer does not have 16 TiB.
--# hint    Does your computer have 16 TiB?
--# why     The message says how much was wanted, and what tensors hold. Then: a smaller batch (and several
--#         backward passes before a step), bfloat16, checkpoint, or several cards.

--# say     What a step needs, in all: weights, gradients and optimiser once; results of all layers for each
--#         example of the batch.
--# task    Write largest_batch(limit, n, values): the largest batch with which a step fits into `limit`
--#         bytes: n weights with Adam (16 bytes each), and for each example `values` numbers of float32 that
--#         forward keeps. 0 where not even one fits.
--# spec    largest_batch(limit, n, values)
--#         local batch = 0
--#         while model_bytes(n, "Adam") + 4 * values * (batch + 1) <= limit do batch = batch + 1 end
--#         return batch
--# try     limit in 900..1200
--# try     n in 10..70
--# try     values in 5..9
--# wrong   function largest_batch(limit, n, values) return limit // (16 * n + 4 * values) end: The weights are
--#         there once, not for each example.
--# wrong   function largest_batch(limit, n, values) return (limit - 16 * n) // (4 * values) end: Where the
--#         weights alone are too much, this is negative.
--# wrong   function largest_batch(limit, n, values) return math.max(0, (limit - 16 * n) // values) end: A
--#         float32 has 4 bytes.
--# hint    What is left for examples: limit - 16 * n. One example takes 4 * values.
--# hint    `//` leaves the rest out; `math.max(0, ..)`.
--# answer
function largest_batch(limit, n, values) return math.max(0, (limit - 16 * n) // (4 * values)) end

--# say     Something real: is the formula right? A network, measured: Linear(16, 16) and tanh, four times,
--#         without biases. What is kept after forward for each example: the results of
--#         the four Linear layers are needed by nobody and let go; the four of tanh stay. Measured is what
--#         becomes free when y, and with it the graph, goes.
function measured(batch)
  local parts = {}
  for i = 1, 4 do
    parts[2 * i - 1] = torch.nn.Linear(16, 16, {bias = false})
    parts[2 * i] = torch.nn.Tanh()
  end
  local net = torch.nn.Sequential(table.unpack(parts)):to(card)
  local x = torch.ones(batch, 16, {device = card})
  local y = net(x)
  local with = held()
  y = nil
  return with - held()
end
--# predict measured(16) --> 4
--# ask     Four results of [16, 16] are kept, 1 KiB each. How many KiB does it measure?
--# wrong   8: The results of the Linear layers are not needed for backward.
--# wrong   1: Four of them.
--# hint    4 times 1 KiB.
--# why     Formula and measurement agree. With twice the batch:
print(measured(32))
