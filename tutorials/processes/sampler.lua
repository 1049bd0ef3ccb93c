--# title   Who reads what: the sampler and its epochs

--# say     A dataset of 7 items is shared out to 3 ranks. `DistributedSampler` deals them out like cards: rank 0
--#         gets items 1, 4, 7. But all ranks must take as many steps, or they wait for each other for ever: so
--#         all get as many items, and where the cards do not suffice, it begins again with the first.
data = torch.utils.data
set = data.TensorDataset(torch.arange(7))
function items(rank, options)
  options = options or {}
  options.num_replicas, options.rank = 3, rank
  local list = {}
  for i in data.DistributedSampler(set, options)() do list[#list + 1] = i end
  return list
end
--# new     utils arange
--# predict items(1, {shuffle = false}) --> 2 5 1
--# wrong   2 5: All get as many items; rank 0 has three.
--# wrong   2 5 2: What is missing begins again with the first of all, not of this rank.
--# wrong   4 5 6: They are dealt out one by one, not in blocks.
--# hint    Deal out 1 2 3 4 5 6 7 1 2 to three ranks.

--# say     And rank 2?
--# predict items(2, {shuffle = false}) --> 3 6 2
--# wrong   3 6 1: Item 1 went to rank 1; the next one is 2.
--# hint    Deal out 1 2 3 4 5 6 7 1 2 to three ranks.
print(table.concat(items(0, {shuffle = false}), " "))

--# say     With `drop_last` the rest is left out instead.
--# predict items(0, {shuffle = false, drop_last = true}) --> 1 4
--# wrong   1 4 7: 7 is left over: two for each of the three, and one more.
--# hint    7 items are 2 for each, and one left over.

--# say     Write it.
--# task    Write dealt(n, world, rank): the list of this rank's items, without shuffling, as many for each rank;
--#         what is missing begins again with item 1. (n is at least world.)
--# spec    dealt(n, world, rank)
--#         local each, list = (n + world - 1) // world, {}
--#         for k = 0, each - 1 do list[k + 1] = (rank + k * world) % n + 1 end
--#         return list
--# try     world in 2..4
--# try     n in 5..13
--# try     k in 0..99
--# try     rank = k % world
--# wrong   function dealt(n, world, rank) local list = {} for i = rank + 1, n, world do list[#list + 1] = i end
--#         return list end: Some ranks have one item less that way, and the others wait for them.
--# wrong   function dealt(n, world, rank) local list = {} for k = 0, n // world - 1 do list[k + 1] = rank + k *
--#         world + 1 end return list end: That leaves the rest out, as drop_last does.
--# hint    Each has n / world items, rounded up: `(n + world - 1) // world`.
--# hint    Card number k of rank r has the number rank + k * world, from 0; `% n` begins again.
--# answer
function dealt(n, world, rank)
  local list = {}
  for k = 0, (n + world - 1) // world - 1 do list[k + 1] = (rank + k * world) % n + 1 end
  return list
end
print(table.concat(dealt(7, 3, 1), " "))

--# say     Training wants another order in each epoch, and the same one on all ranks: each shuffles all items with
--#         the seed `seed + epoch`, and takes its own. So nobody has to send the order around. But somebody has
--#         to say which epoch it is: `sampler:set_epoch(epoch)`. Without it?
sampler = data.DistributedSampler(set, {num_replicas = 3, rank = 0})
function order()
  local list = {}
  for i in sampler() do list[#list + 1] = i end
  return table.concat(list, " ")
end
first = order()
second = order()
--# predict first == second --> true
--# wrong   false: It is shuffled with `seed + epoch`, and nobody has told it of a second epoch.
--# hint    The same seed, and the same epoch.
--# why     The same order for ever: nobody complains, the network only learns a little worse. It is the line
--#         that ported programs forget most often.
sampler:set_epoch(1)
print(first, "then", order())

--# say     So are the three ranks' items in an epoch still all items? Rank by rank, in epoch 5:
seen = {}
for rank = 0, 2 do
  local s = data.DistributedSampler(set, {num_replicas = 3, rank = rank})
  s:set_epoch(5)
  for i in s() do seen[i] = (seen[i] or 0) + 1 end
end
--# predict #seen --> 7
--# wrong   9: 9 were dealt out, but two of them twice.
--# hint    Every item is dealt out; some twice.

--# say     How many of the 7 were dealt out twice?
--# predict 3 * 3 - 7 --> 2
--# wrong   3: 9 cards for 7 items.
--# wrong   1: 9 cards for 7 items.
--# hint    9 cards for 7 items.
--# why     In training that does no harm. In a test it does: these are counted twice.

--# say     A test, then: accuracy is right / all. 7 items on 3 ranks, each rank counts how many of its own are
--#         right. Say that only items 1 and 2, which are dealt out twice, are right. The true accuracy is 2 / 7
--#         = 0.286. What do the ranks say together?
--# predict 4 / 9 --> 0.444
--# wrong   0.286: 1 and 2 are counted twice: among the right ones, and among all.
--# hint    How many right ones do they count, and of how many items?

--# say     So a test takes all items on one rank, or does not deal any out twice.
--# new     sum item float mean
--# new     randn gt
--# task    Write accuracy(right, world): the true accuracy, from counts of `world` ranks. `right` is a bool tensor
--#         [n]: which items are right. Rank r looks at items r + 1, r + 1 + world, ..; no item twice.
--# spec    accuracy(right, world) return right:float():mean():item()
--# try     world in 2..4
--# try     n in 5..11
--# try     right = torch.randn(n):gt(0)
--# wrong   function accuracy(right, world) local total = 0 for r = 0, world - 1 do local ok, n = 0, 0 for i = r +
--#         1, #right, world do n = n + 1 if right[i]:item() then ok = ok + 1 end end total = total + ok / n end
--#         return total / world end: The mean of means is wrong where ranks have different numbers of items. Add
--#         up both counts, then divide.
--# wrong   function accuracy(right, world) local ok, n = 0, 0 for r = 0, world - 1 do for _, i in
--#         ipairs(dealt(#right, world, r)) do n = n + 1 if right[i]:item() then ok = ok + 1 end end end return
--#         ok / n end: Some are counted twice that way.
--# hint    Two counts, over all ranks: how many, and how many of them right.
--# hint    `right[i]:item()` is true or false.
--# answer
function accuracy(right, world)
  local ok, n = 0, 0
  for r = 0, world - 1 do
    for i = r + 1, #right, world do
      n = n + 1
      if right[i]:item() then ok = ok + 1 end
    end
  end
  return ok / n
end

--# say     Something real: two processes, two epochs, 5 items. Each rank reads its items with a DataLoader and adds
--#         them up; together they have seen this much.
--# new     multiprocessing distributed put add_
mp, dist = torch.multiprocessing, torch.distributed
answers = mp.Queue()
five = data.TensorDataset(torch.arange(1, 6))
mp.spawn(function(rank)
  dist.init_process_group()
  local sampler = data.DistributedSampler(five, {shuffle = true})
  local loader = data.DataLoader(five, {batch_size = 2, sampler = sampler})
  local total, steps = torch.zeros(1, {dtype = "int64"}), 0
  for epoch = 1, 2 do
    sampler:set_epoch(epoch)
    for batch in loader() do
      total:add_(batch:sum())
      steps = steps + 1
    end
  end
  dist.all_reduce(total)
  answers:put{total:item(), steps}
  dist.destroy_process_group()
end, {nprocs = 2})
one, other = answers:get(), answers:get()
--# new     zeros
--# predict one[2] --> 4
--# wrong   6: Each rank has 3 items in an epoch: batches of 2 and 1.
--# wrong   3: Two epochs.
--# wrong   5: Each rank has 3 items of the 6 that are dealt out, in batches of 2 and 1.
--# hint    3 items for each rank, in batches of 2: two batches. And two epochs.
--# why     Both ranks take 4 steps, so nobody waits in vain. The sum of both epochs is 2 * 15 and two items
--#         more.
print(one[1], one[1] - 30)
