--# title   One network on several devices: by layer, by branch, by sequence
--# see     cuda nn

--# say     DataParallel wants the whole network on each card. What if it does not fit on one? Then the
--#         network itself is cut. By layer: the first layers on one card, the rest on the next, and the
--#         values move over in between.
--# new     cuda nn to ones device
if torch.cuda.device_count() < 4 then torch.cuda.simulate(4) end
first = torch.nn.Linear(8, 6):to("cuda:0")
second = torch.nn.Linear(6, 2):to("cuda:1")
x = torch.ones(5, 8, {device = "cuda:0"})
--# predict second(first(x)) --> error
--# wrong   5 2: first(x) is on cuda:0, the weights of second are on cuda:1.
--# hint    Where is first(x), and where is second?

--# say     The move stands between them.
y = second(first(x):to("cuda:1"))
--# predict y.device.index --> 1
--# wrong   0: second is on cuda:1, and so is what it makes.
--# hint    Where is second?
print(y.shape, y.device)

--# say     Backward goes the same way back: the gradient of what moved moves, too. Each weight gets its
--#         gradient where it lives.
y:sum():backward()
--# predict first.weight.grad.device.index --> 0
--# wrong   1: The gradient of a weight lives where the weight lives.
--# hint    Where the weight lives.

--# say     How much crosses? Of a batch of 5, what `first` makes: 5 * 6 numbers of 4 bytes forward, and as much
--#         backward. How many bytes, both ways?
--# predict 2 * 5 * 6 * 4 --> 240
--# wrong   120: Forward and backward.
--# wrong   60: A float32 has 4 bytes.
--# hint    5 * 6 * 4, twice.
--# why     So one cuts where the layers are narrow.

--# say     Find the narrow place.
--# task    Write cut(widths): `widths` is a table of how many numbers stand between layers, widths[i] behind
--#         layer i. The network has #widths layers; cut behind layer i, the part 1 .. i and the rest must
--#         both have a layer (so i < #widths). Return the i with the fewest numbers; the first of equals.
--# spec    cut(widths)
--#         local best = 1
--#         for i = 2, #widths - 1 do if widths[i] < widths[best] then best = i end end
--#         return best
--# try     k in 1..30
--# try     n in 3..6
--# try     widths = (function() local t = {} for i = 1, n do t[i] = (k * i * i) % 5 // 2 + 1 end t[n] = 0 return t end)()
--# wrong   function cut(widths) local b = 1 for i = 2, #widths do if widths[i] < widths[b] then b = i end end
--#         return b end: Behind the last layer there is nothing left for the second card.
--# wrong   function cut(widths) local b = 1 for i = 2, #widths - 1 do if widths[i] <= widths[b] then b = i end
--#         end return b end: The first of equals.
--# hint    A loop from 2 to #widths - 1 that keeps the best place so far.
--# answer
function cut(widths)
  local best = 1
  for i = 2, #widths - 1 do
    if widths[i] < widths[best] then best = i end
  end
  return best
end
print(cut{64, 32, 8, 128, 10})

--# say     As a function of the whole way, for any number of layers: each layer lives somewhere.
--# new     manual_seed relu randn cpu detach
--# task    Write through(layers, x): x goes through a list of Linear layers, and through relu behind each
--#         but the last. Each layer is on some card: move x to `layer.weight.device` before it. Return the
--#         result, detached, on the CPU.
--# spec    through(layers, x)
--#         x = x:cpu()
--#         for i, l in ipairs(layers) do
--#           x = x:matmul(l.weight:cpu():t()) + l.bias:cpu()
--#           if i < #layers then x = x:relu() end
--#         end
--#         return x:detach()
--# try     n in 3..5
--# try     k in 0..3
--# try     a = torch.nn.Linear(8, 6):to("cuda:" .. k)
--# try     b = torch.nn.Linear(6, 7):to("cuda:" .. (k + 1) % 4)
--# try     layers = {a, b, torch.nn.Linear(7, 2):to("cuda:2")}
--# try     x = torch.randn(n, 8)
--# wrong   function through(layers, x) for i, l in ipairs(layers) do x = l(x:to(l.weight.device)):relu() end
--#         return x:detach():cpu() end: No relu behind the last layer.
--# wrong   function through(layers, x) for i, l in ipairs(layers) do x = l(x:to("cuda:" .. i - 1)) if i <
--#         #layers then x = x:relu() end end return x:detach():cpu() end: The layers may be anywhere:
--#         `l.weight.device`.
--# hint    In a loop: `x = layer(x:to(layer.weight.device))`, and `x = x:relu()` where i < #layers.
--# answer
function through(layers, x)
  for i, layer in ipairs(layers) do
    x = layer(x:to(layer.weight.device))
    if i < #layers then x = x:relu() end
  end
  return x:detach():cpu()
end
print(through({first, second}, x).shape)

--# say     While cuda:1 works, cuda:0 waits, and the other way round: with two cards cut by layer each works
--#         half of the time. (The next lesson mends that.) A step takes 10 ms on one card alone. On two, cut
--#         in the middle, if moving cost nothing?
--# predict 5 + 5 --> 10
--# wrong   5: The second half can begin only when the first is done.
--# hint    5 ms on the one, then 5 ms on the other.
--# why     Cutting by layer buys memory, not time.

--# say     By branch: some networks have parts that do not need each other, as two eyes, or sound and
--#         picture. Each on its own card, they work at the same time. One takes 6 ms, the other 4; joining
--#         them takes 1.
--# predict math.max(6, 4) + 1 --> 7
--# ask     How long does a step take on two cards?
--# wrong   11: The branches work at the same time.
--# wrong   5: The join must wait for the slower one: 6.
--# hint    The slower one, then the join.

--# say     A branch network: the left half of the inputs on cuda:0, the right half on cuda:1, joined there.
--# new     cat
left = torch.nn.Linear(4, 3):to("cuda:0")
right = torch.nn.Linear(4, 3):to("cuda:1")
function branches(x)
  local a = left(x[{{}, {1, 4}}]:to("cuda:0"))
  local b = right(x[{{}, {5, 8}}]:to("cuda:1"))
  return torch.cat({a:to("cuda:1"), b}, 2)
end
--# predict branches(x).shape --> [5, 6]
--# wrong   5 3: Both answers, side by side.
--# wrong   10 3: Joined along dimension 2.
--# hint    [5, 3] beside [5, 3].

--# say     Which branch goes where? The slowest card decides. Two cards, and several branches with their
--#         times: heaviest first, each to the card that has less so far.
--# task    Write slowest(times): `times` is sorted, the largest first. Give each in turn to the one of two
--#         cards that has less so far (the first of equals). Return the time of the busier card at the end.
--# spec    slowest(times)
--#         local load = torch.zeros(2, {dtype = "int64"})
--#         for _, t in ipairs(times) do
--#           local c = load[1]:item() <= load[2]:item() and 1 or 2
--#           load[c] = load[c] + t
--#         end
--#         return load:max():item()
--# try     a in 7..9
--# try     b in 4..6
--# try     c in 3..4
--# try     d in 1..3
--# try     times = {a, b, c, d, 1}
--# wrong   function slowest(times) local s = 0 for _, t in ipairs(times) do s = s + t end return (s + 1) // 2
--#         end: That would be even halves; a branch cannot be cut.
--# wrong   function slowest(times) local l = {0, 0} for i, t in ipairs(times) do local c = i % 2 == 1 and 1 or
--#         2 l[c] = l[c] + t end return math.max(l[1], l[2]) end: Not in turns: each goes to the card that
--#         has less.
--# hint    Two sums, a and b. Each time: if a <= b then a grows, else b.
--# answer
function slowest(times)
  local a, b = 0, 0
  for _, t in ipairs(times) do
    if a <= b then a = a + t else b = b + t end
  end
  return math.max(a, b)
end
print(slowest{6, 4, 3, 2, 1})

--# say     By sequence: a text, or a film, is cut in time. A layer that walks step by step hands its state to
--#         the next card. Here the state is a running sum: each card has half of the numbers. The second
--#         begins with what the first ended with.
--# new     arange cumsum sum
numbers = torch.arange(8) + 1
upper = numbers["1:4"]:to("cuda:0")
lower = numbers["5:8"]:to("cuda:1")
state = upper:sum():to("cuda:1")
--# predict (lower:cumsum(1) + state)[1]:item() --> 15
--# ask     1 to 8 are cut into 1 .. 4 and 5 .. 8. What is the first running sum of the second half?
--# wrong   5: The first half's sum, 10, comes before it.
--# wrong   10: And the 5.
--# hint    1 + 2 + 3 + 4, and 5.

--# say     Attention cut in time needs no state: each card has the questions of its part of the text, and
--#         all keys and values are brought to it. A text of 1,000 words on 4 cards: how large is each card's
--#         table of shares?
--# predict 250 * 1000 --> 250000
--# wrong   62500: 250 questions, but all 1,000 keys.
--# wrong   1000000: That is the whole table.
--# hint    250 questions, 1,000 keys.
--# why     The table, which grows with the square of the length, is cut into four. That is how texts of a
--#         million words are read.

--# say     Something real: attention over two cards, against attention on one.
--# new     matmul
--# task    Write halves(q, k, v): q, k, v are [t, d] on the CPU, t even. The first half of the questions is
--#         answered on cuda:0, the second on cuda:1, each with all keys and values, by
--#         F.scaled_dot_product_attention. Return both answers, joined, on the CPU.
--# spec    halves(q, k, v) return torch.nn.functional.scaled_dot_product_attention(q, k, v)
--# try     n in 2..4
--# try     q = torch.randn(2 * n, 6)
--# try     k = torch.randn(2 * n, 6)
--# try     v = torch.randn(2 * n, 6)
--# wrong   function halves(q, k, v) local out, n = {}, #q // 2 for i = 0, 1 do local d, s = "cuda:" .. i, {{n *
--#         i + 1, n * i + n}} out[i + 1] = torch.nn.functional.scaled_dot_product_attention(q[s]:to(d),
--#         k[s]:to(d), v[s]:to(d)):cpu() end return torch.cat(out) end: Each card needs all keys and values.
--# wrong   function halves(q, k, v) local out, n = {}, #q // 2 for i = 0, 1 do local d = "cuda:" .. i out[i +
--#         1] = torch.nn.functional.scaled_dot_product_attention(q[{{1, n}}]:to(d), k:to(d), v:to(d)):cpu()
--#         end return torch.cat(out) end: The second card has the second half of the questions.
--# hint    For card i (0 or 1) the questions n * i + 1 to n * i + n, with n = #q // 2.
--# hint    `q[{{n * i + 1, n * i + n}}]:to(d)`, `k:to(d)`, `v:to(d)`; then `:cpu()` and torch.cat.
--# answer
function halves(q, k, v)
  local n, out = #q // 2, {}
  for i = 0, 1 do
    local d = "cuda:" .. i
    local part = q[{{n * i + 1, n * i + n}}]:to(d)
    out[i + 1] = torch.nn.functional.scaled_dot_product_attention(part, k:to(d), v:to(d)):cpu()
  end
  return torch.cat(out)
end

--# say     And is it the same, for a text that asks itself?
--# new     abs max
text = torch.randn(8, 6)
whole = torch.nn.functional.scaled_dot_product_attention(text, text, text)
--# predict (halves(text, text, text) - whole):abs():max():item() < 0.00001 --> true
--# ask     Is the largest difference below 0.00001? (true or false)
--# wrong   false: Each question was answered with all keys, only elsewhere.
--# hint    Each question was answered with all keys.
--# play    `tycho scripts/model_parallel.lua --help` trains a network cut in each of these ways. Enter ends
--#         the lesson.
