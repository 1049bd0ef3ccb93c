--# title   Collectives: broadcast, scatter, gather, and what they are made of

--# say     What ranks hold can be drawn as a table with a row for each rank. A collective turns one table into
--#         another. `broadcast(x, 1)` copies the x of rank 1 to all:
--#           before     after
--#           r0  5      r0  7
--#           r1  7      r1  7
--#           r2  9      r2  7
--#         `each(rows, f)` starts a process for each row, which calls f(x, rank) with its row, and gives the
--#         rows that come back.
--# new     multiprocessing distributed stack clone put
mp, dist = torch.multiprocessing, torch.distributed
function each(rows, f)
  local answers, list = mp.Queue(), {}
  mp.spawn(function(rank)
    dist.init_process_group()
    answers:put{rank, f(rows[rank + 1]:clone(), rank)}
    dist.destroy_process_group()
  end, {nprocs = #rows})
  for _ = 1, #rows do
    local answer = answers:get()
    list[answer[1] + 1] = answer[2]
  end
  return torch.stack(list)
end
rows = torch.tensor{{5, 6}, {7, 8}, {9, 10}}
--# predict each(rows, function(x) dist.broadcast(x, 2) return x end)[1] --> 9 10
--# wrong   7 8: Ranks count from 0: rank 2 is the third row.
--# wrong   5 6: That is what rank 0 had before.
--# hint    Rank 2 has the third row.
--# why     A training begins so: rank 0's weights, on all.

--# say     `reduce(x, 0)` adds up, but only rank 0 needs the sum; `all_reduce(x)` gives it to all. So
--#         all_reduce could be made of two others. Reduce to rank 0, and then?
--#           r0  5  6      r0  21  24      r0  21  24
--#           r1  7  8  ->  r1   7   8  ->  r1  21  24
--#           r2  9 10      r2   9  10      r2  21  24
by_two = each(rows, function(x)
  dist.reduce(x, 0)
  dist.broadcast(x, 0)
  return x
end)
--# predict by_two[3] --> 21 24
--# wrong   9 10: The second collective copies rank 0's to all.
--# hint    The sum of the three rows, broadcast.

--# say     `all_gather` gives everybody everything: each rank has a list with the tensors of all.
--# new     empty cat zeros_like
gathered = each(rows, function(x)
  local list = {torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)}
  dist.all_gather(list, x)
  return torch.cat(list)
end)
--# predict gathered[2] --> 5 6 7 8 9 10
--# wrong   7 8: That is what rank 1 gave.
--# wrong   7 8 9 10 5 6: The order is that of the ranks, for all of them.
--# hint    In the order of ranks.

--# say     `scatter` deals out like cards: rank 0 has a list, and rank r gets entry r. `gather` collects on one
--#         rank: it is scatter backwards. And `all_to_all` is everybody dealing at once: rank r has one item
--#         for each rank, and gets one from each. Row r of the table is what rank r has to give:
--#           before         after
--#           r0  1  2  3    r0  1  4  7
--#           r1  4  5  6    r1  2  5  8
--#           r2  7  8  9    r2  3  6  9
--# new     t randint
--# task    Write after_all_to_all(x): the table [n, n] afterwards, from the table before.
--# spec    after_all_to_all(x)
--#         local out = x:clone()
--#         for i = 1, #x do for j = 1, #x do out[{i, j}] = x[{j, i}] end end
--#         return out
--# try     n in 2..5
--# try     x = torch.randint(0, 99, {n, n})
--# wrong   function after_all_to_all(x) return x end: Rank 0 gets the first item of each rank: a column.
--# hint    Rows become columns.
--# hint    `x:t()`.
--# answer
function after_all_to_all(x) return x:t() end

--# say     Processes do the same:
dealt = each(torch.tensor{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, function(x)
  local got = torch.zeros_like(x)
  dist.all_to_all_single(got, x)
  return got
end)
--# predict dealt[2] --> 2 5 8
--# wrong   4 5 6: That is what rank 1 had to give.
--# hint    The second column.
print(dealt)

--# say     `reduce_scatter` adds up and deals out: rank r gets the sum of everybody's item r.
--# new     sum
--# task    Write after_reduce_scatter(x): from the table [n, n] before, one number for each rank: [n].
--# spec    after_reduce_scatter(x)
--#         local out = torch.zeros(#x, {dtype = x.dtype})
--#         for r = 1, #x do for s = 1, #x do out[r] = out[r] + x[{s, r}] end end
--#         return out
--# try     n in 2..5
--# try     x = torch.randint(0, 99, {n, n})
--# wrong   function after_reduce_scatter(x) return x:sum(2) end: That adds what one rank has. Item r of all
--#         ranks stands in a column.
--# wrong   function after_reduce_scatter(x) return x:sum() end: That is everything. Each rank gets one column's
--#         sum.
--# hint    A column's sum for each rank.
--# hint    Dimension 1 counts the ranks: `x:sum(1)`.
--# answer
function after_reduce_scatter(x) return x:sum(1) end

--# say     And if every rank now gives its sum to all, by all_gather?
--#           r0  1  2  3       r0  12      r0  12 15 18
--#           r1  4  5  6   ->  r1  15  ->  r1  12 15 18
--#           r2  7  8  9       r2  18      r2  12 15 18
--#         Which collective is reduce_scatter with all_gather after it: is it all_reduce?
--# new     equal
both = each(torch.tensor{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, function(x)
  local mine, all = torch.zeros(1, {dtype = "int64"}), torch.zeros_like(x)
  dist.reduce_scatter_tensor(mine, x)
  dist.all_gather_into_tensor(all, mine)
  return all
end)
--# predict both[1] --> 12 15 18
--# wrong   12 15: Each rank gets all three sums.
--# wrong   6 15 24: Those are sums of rows; the ranks' items stand in columns.
--# hint    1 + 4 + 7, 2 + 5 + 8, 3 + 6 + 9.
--# why     It is: the two halves of the ring. Who keeps only a piece of the weights on each rank uses the
--#         halves apart.

--# say     How long does a broadcast take? Rank 0 could tell one after the other. But who knows it can help: in
--#         each round, everybody who knows tells one who does not. After one round 2 know, then 4.
--# task    Write rounds(n): how many rounds until n ranks know.
--# spec    rounds(n)
--#         local know, count = 1, 0
--#         while know < n do know, count = 2 * know, count + 1 end
--#         return count
--# try     n in 1..12
--# wrong   function rounds(n) return n - 1 end: That is one after the other.
--# wrong   function rounds(n) return n // 2 end: They double: 1, 2, 4, 8.
--# hint    Count how often 1 must be doubled to reach n.
--# hint    `while know < n do know, count = 2 * know, count + 1 end`.
--# answer
function rounds(n)
  local know, count = 1, 0
  while know < n do know, count = 2 * know, count + 1 end
  return count
end
--# why     A tree: 1000 ranks in 10 rounds, where one after the other takes 999.
print(rounds(1000))

--# say     Something real: mean and spread of numbers that no rank has all of. The mean of means is wrong where
--#         parts differ in size, but sums add up: how many, their sum, the sum of their squares. Then the mean
--#         is sum / count, and the variance is squares / count - mean^2.
--# new     item sum
--# task    Write summary(x): a tensor [3] in float64 of these three for a part x [n], in that order.
--# spec    summary(x)
--#         local sum, squares = 0, 0
--#         for i = 1, #x do
--#           local v = x[i]:item()
--#           sum, squares = sum + v, squares + v * v
--#         end
--#         return torch.tensor({#x, sum, squares}, {dtype = "float64"})
--# try     n in 2..6
--# try     x = torch.randn(n)
--# wrong   function summary(x) return torch.tensor({#x, x:sum():item(), x:sum():item() ^ 2}, {dtype =
--#         "float64"}) end: That squares the sum. Square each number first.
--# wrong   function summary(x) return torch.tensor({#x, x:mean():item(), (x ^ 2):mean():item()}, {dtype =
--#         "float64"}) end: Means of parts do not add up; sums do.
--# hint    `x:sum():item()` and `(x * x):sum():item()`.
--# hint    `torch.tensor({#x, .., ..}, {dtype = "float64"})`.
--# answer
function summary(x)
  return torch.tensor({#x, x:sum():item(), (x * x):sum():item()}, {dtype = "float64"})
end

--# say     Rank 0 has the numbers 1 to 4, rank 1 has 5 and 6, rank 2 has 7 alone.
parts = {torch.tensor{1.0, 2, 3, 4}, torch.tensor{5.0, 6}, torch.tensor{7.0}}
total = each(parts, function(x)
  local s = summary(x)
  dist.all_reduce(s)
  return s
end)[1]
--# predict total --> 7 28 140
--# wrong   7 28 784: The sum of squares: 1 + 4 + 9 + 16 + 25 + 36 + 49.
--# hint    Seven numbers, their sum, and 1 + 4 + 9 + 16 + 25 + 36 + 49.
--# why     Mean 4 and variance 4, from three numbers per rank. Batch norm over ranks (SyncBatchNorm) does just
--#         this.
print(("mean %g  variance %g"):format(28 / 7, 140 / 7 - (28 / 7) ^ 2))
