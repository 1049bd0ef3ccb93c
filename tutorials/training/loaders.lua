--# title   Datasets and loaders
--# see     utils
--# explains DATA-1

--# say     So far all examples fitted into one tensor. A loader cuts them into batches, mixes them, and
--#         brings them while the network is at work. It reads a dataset: something with a length, and
--#         `get(i)` for its i-th example.
--# new     utils arange
data = torch.utils.data
x = torch.arange(10)
set = data.TensorDataset(x, x * x)
--# predict set:get(4)[2]:item() --> 9
--# ask     What is the second part of the 4th example?
--# wrong   16: x begins with 0: the 4th x is 3.
--# wrong   3: That is the first part. The second is its square.
--# hint    The 4th of 0, 1, 2, 3, .. squared.

--# say     Batches of 4.
loader = data.DataLoader(set, {batch_size = 4})
--# predict #loader --> 3
--# ask     How many batches has an epoch, once through all 10 examples?
--# wrong   2: And the rest: 10 is 4 + 4 + 2.
--# wrong   2.5: A batch is a whole thing; the last one is smaller.
--# hint    4, 4, and the rest.
for a, b in loader() do print(a, b) end

--# say     The last batch has the rest. A network that wants full ones asks for `drop_last = true`.
--# predict #data.DataLoader(set, {batch_size = 4, drop_last = true}) --> 2
--# wrong   3: The batch of 2 is dropped.
--# hint    Only the full ones.
--# why     In each epoch 2 examples are left out: others each time, where they are mixed.

--# say     Steps in an epoch, steps in all: it is good to know them before one begins.
--# task    Write steps(n, batch, epochs, drop): how many batches come, of n examples, in so many epochs; the
--#         last one of an epoch counts unless drop is true.
--# spec    steps(n, batch, epochs, drop)
--#         local count = 0
--#         for e = 1, epochs do
--#           for first = 1, n, batch do
--#             if not drop or first + batch - 1 <= n then count = count + 1 end
--#           end
--#         end
--#         return count
--# try     n in 10..17
--# try     batch in 3..5
--# try     epochs in 1..3
--# try     k in 0..1
--# try     drop = k == 1
--# wrong   function steps(n, batch, epochs, drop) return n // batch * epochs end: That is with the last one
--#         dropped.
--# wrong   function steps(n, batch, epochs, drop) return (n // batch + (drop and 0 or 1)) * epochs end: Where
--#         the examples come out even, there is no smaller batch at the end.
--# wrong   function steps(n, batch, epochs, drop) return (n * epochs + (drop and 0 or batch - 1)) // batch
--#         end: Each epoch has its own last batch: count them in one epoch, then multiply.
--# hint    `n // batch` are the full ones. When is there a smaller one?
--# hint    `(n + batch - 1) // batch` rounds up.
--# answer
function steps(n, batch, epochs, drop)
  local full = n // batch
  if not drop and n % batch > 0 then full = full + 1 end
  return full * epochs
end
print(steps(60000, 64, 3, false))

--# say     Careful with means over an epoch. Three batches had these losses; the last has 2 examples, the
--#         others have 4.
losses = torch.tensor{1.0, 2.0, 6.0}
counts = torch.tensor{4.0, 4.0, 2.0}
--# predict ((losses * counts):sum() / counts:sum()):item() --> 2.4
--# ask     What is the mean loss over all 10 examples?
--# wrong   3: That is the mean of the three means. The last stands for 2 examples only.
--# wrong   24: That is the sum over all examples; there are 10.
--# hint    1 * 4 + 2 * 4 + 6 * 2, over 10.
--# why     The mean of means says 3. So one adds up sums: loss times examples.

--# say     Why mix? Sorted data, all cats first and then all dogs, teach the network "cat", then "dog, and
--#         forget cats". `shuffle = true` gives a new order in each epoch.
--# new     manual_seed sort cat
torch.manual_seed(1)
mixed = data.DataLoader(set, {batch_size = 4, shuffle = true})
seen = {}
for a in mixed() do
  print(a)
  seen[#seen + 1] = a
end
--# predict torch.cat(seen):sort() --> 0 1 2 3 4 5 6 7 8 9
--# ask     All batches joined and sorted: what is it?
--# wrong   0: All ten come, each once.
--# hint    Mixed, but each example comes once in an epoch.

--# say     The order comes from the random numbers. With the same seed, the same order.
function first_batch(seed)
  torch.manual_seed(seed)
  for a in mixed() do return a end
end
--# predict first_batch(7):eq(first_batch(7)):all():item() --> true
--# wrong   false: The seed decides.
--# hint    The seed decides.

--# say     Write a loader.
--# new     randperm
--# task    Write batches(x, n, order): a list of tensors: x[order[1]], x[order[2]], .. in groups of n, the
--#         last group perhaps smaller. x is [m], order an int64 tensor [m]. `x[order]` is x in that order.
--# spec    batches(x, n, order)
--#         local out, row = {}, {}
--#         for i = 1, #order do
--#           row[#row + 1] = x[order[i]:item()]
--#           if #row == n or i == #order then
--#             out[#out + 1] = torch.stack(row)
--#             row = {}
--#           end
--#         end
--#         return out
--# try     m in 7..11
--# try     n in 2..4
--# try     x = torch.randn(m)
--# try     order = torch.randperm(m)
--# wrong   function batches(x, n, order) local out = {} for i = 1, #x - n + 1, n do out[#out + 1] =
--#         x[order][{{i, i + n - 1}}] end return out end: The rest is lost: the last batch may be smaller.
--# wrong   function batches(x, n, order) local out = {} for i = 1, #x, n do out[#out + 1] = x[{{i,
--#         math.min(i + n - 1, #x)}}] end return out end: These are in x's own order.
--# hint    `local mixed = x[order]`, then pieces of it: from i to i + n - 1, for i = 1, n + 1, ..
--# hint    The end is `math.min(i + n - 1, #x)`; a piece is `mixed[{{first, last}}]`.
--# answer
function batches(x, n, order)
  local out, mixed = {}, x[order]
  for i = 1, #x, n do out[#out + 1] = mixed[{{i, math.min(i + n - 1, #x)}}] end
  return out
end
print(table.unpack(batches(torch.arange(7), 3, torch.randperm(7))))

--# say     Examples that are not yet in memory have a class of their own: a length, and `get(i)`, which
--#         reads a file, or draws. Several things in one example stand in a table.
Squares = data.class("Squares")
function Squares:__len() return 6 end
function Squares:get(i) return {torch.tensor{i, i * i}, i % 2 + 1} end
squares = data.DataLoader(Squares(), {batch_size = 3})
for a, b in squares() do
  first_a, first_b = a, b
  break
end
--# predict first_a.shape --> [3, 2]
--# wrong   2: A batch of 3 of them.
--# wrong   2 3: The batch comes first.
--# wrong   3: Each example has two numbers.
--# hint    Three examples, each [2].
print(first_a, first_b)

--# say     A batch is a stack, so its examples need one shape.
Words = data.class("Words")
function Words:__len() return 4 end
function Words:get(i) return torch.ones(i) end
function collect(options)
  for batch in data.DataLoader(Words(), options)() do return batch end
end
--# predict collect{batch_size = 2} --> error
--# wrong   2 2: The first has 1 element, the second has 2.
--# hint    Example 1 has 1 element, example 2 has 2.
--# why     Words and sentences have different lengths. Either all are filled up to one length, or the
--#         loader is told how to join them: `collate_fn`.

--# say     A collate_fn gets the list of examples, and gives the batch.
--# new     zeros
--# task    Write pad(list): a list of tensors [n1], [n2], .. as one tensor [#list, longest], filled up with
--#         zeros at the ends.
--# spec    pad(list)
--#         local most = 0
--#         for _, t in ipairs(list) do most = math.max(most, #t) end
--#         local rows = {}
--#         for i, t in ipairs(list) do rows[i] = torch.cat{t, torch.zeros(most - #t)} end
--#         return torch.stack(rows)
--# try     a in 2..5
--# try     b in 3..7
--# try     list = {torch.randn(a), torch.randn(b), torch.randn(1)}
--# wrong   function pad(list) local out = torch.zeros(#list, #list[#list]) for i, t in ipairs(list) do out[{i,
--#         {1, math.min(#t, #list[#list])}}] = t[{{1, math.min(#t, #list[#list])}}] end return out end: The
--#         longest need not be the last.
--# wrong   function pad(list) local most = 0 for _, t in ipairs(list) do most = math.max(most, #t) end local
--#         out = torch.zeros(#list, most) for i, t in ipairs(list) do out[{i, {most - #t + 1, most}}] = t
--#         end return out end: The zeros belong at the ends, not at the beginnings.
--# hint    First the longest: `math.max` in a loop. Then `torch.zeros(#list, longest)`.
--# hint    Row i: `out[{i, {1, #t}}] = t`.
--# answer
function pad(list)
  local longest = 0
  for _, t in ipairs(list) do longest = math.max(longest, #t) end
  local out = torch.zeros(#list, longest)
  for i, t in ipairs(list) do out[{i, {1, #t}}] = t end
  return out
end
print(collect{batch_size = 4, collate_fn = pad})

--# say     `num_workers = 2`: two threads read ahead, so that reading does not make the network wait. They
--#         take turns, and the loader puts their batches into order.
workers = data.DataLoader(Squares(), {batch_size = 2, num_workers = 2})
firsts = {}
for a in workers() do firsts[#firsts + 1] = a[{1, 1}] end
--# predict torch.stack(firsts) --> 1 3 5
--# ask     Which x does each batch of 2 begin with, of 1 .. 6 and with two workers?
--# wrong   1 5 3: One worker reads the batches 1 and 3, the other one batch 2; they come in order.
--# hint    As without workers.
--# why     Each worker has a copy of the dataset. For small data in memory they cost more than they give;
--#         they pay where get(i) takes longer than the step.

--# say     Some examples are held back, to see later whether the network has understood or learned by
--#         heart.
--# new     tensor
learn, test = data.random_split(set, {7, 3})
--# predict #learn + #test --> 10
--# hint    Each example is in one of the two.

--# say     Something real: 1,797 handwritten digits, that the program has with it. How many of each digit
--#         are in the first batch of 100? A loader that is not mixed shows whether they are sorted.
--# new     bincount
digits = data.digits()
for images, labels in data.DataLoader(digits, {batch_size = 100})() do
  batch_images, batch_labels = images, labels
  break
end
--# predict batch_images.shape --> [100, 1, 8, 8]
--# ask     One picture is [1, 8, 8]. What shape has the batch of 100?
--# wrong   100 8 8: The 1 stays: one colour.
--# hint    100 pictures, stacked.

--# say     Count.
--# task    Write tally(labels, n): how often each of 1 .. n stands in labels [m], as an int64 tensor [n].
--# spec    tally(labels, n)
--#         local out = torch.zeros(n, {dtype = "int64"})
--#         for i = 1, #labels do
--#           local c = labels[i]:item()
--#           out[c] = out[c] + 1
--#         end
--#         return out
--# try     n in 3..6
--# try     m in 8..20
--# try     labels = torch.randint(1, n + 1, {m})
--# forbid  for while repeat
--# wrong   function tally(labels, n) return labels:eq(torch.arange(n):view(-1, 1)):sum(2) end: torch.arange
--#         begins with 0, classes with 1.
--# wrong   function tally(labels, n) return labels:view(1, -1):eq(torch.arange(n):view(-1, 1) + 1):sum(1)
--#         end: That sums over the classes. Sum over the labels: dimension 2.
--# hint    A column of the classes, `(torch.arange(n) + 1):view(-1, 1)`, meets the row of labels: `eq`.
--# hint    The sum of each row: `:sum(2)`.
--# answer
function tally(labels, n) return labels:eq((torch.arange(n) + 1):view(-1, 1)):sum(2) end
--# why     About 10 of each in 100: they are well mixed as they lie.
print(tally(batch_labels, 10))
--# play    `batch_images[1]:show()` draws the first one. Enter ends the lesson.
