--# title   Ranks: one program, several processes

--# say     A process has a memory of its own. Several that work on one task are called ranks, and count from
--#         0. All run the same function, and each knows its number and how many there are. `together(n,
--#         f)` below starts n processes with f(rank, world), waits for them, and gives the list of their
--#         results.
--# new     multiprocessing distributed put
mp, dist = torch.multiprocessing, torch.distributed
function together(n, f)
  local answers = mp.Queue()
  mp.spawn(function(rank)
    dist.init_process_group()
    answers:put{rank, f(rank, n)}
    dist.destroy_process_group()
  end, {nprocs = n})
  local list = {}
  for _ = 1, n do
    local answer = answers:get()
    list[answer[1] + 1] = answer[2]
  end
  return list
end
--# predict together(3, function(rank, world) return 10 * rank + world end) --> 3 13 23
--# wrong   13 23 33: Ranks count from 0.
--# wrong   3: Each of the three gives a result.
--# wrong   1 11 21: Each is told how many there are: 3.
--# hint    Rank 0 gives 10 * 0 + 3.
--# why     One function, three results: what differs is the rank alone.

--# say     What a rank changes it changes in its own memory. Here each of two adds to a count that it was given.
count = 5
counts = together(2, function(rank)
  count = count + 10 * rank
  return count
end)
--# predict counts --> 5 15
--# wrong   15 15: Rank 0 adds 10 * 0, and it has a count of its own.
--# wrong   15 25: Ranks count from 0.
--# hint    Rank 0 adds 0, rank 1 adds 10.

--# say     And the count here, in the process that started them?
--# predict count --> 5
--# wrong   15: That is the count of rank 1. It was a copy.
--# wrong   20: Two ranks added to two copies.
--# hint    Nobody changed this one.
--# why     Variables and tables go to a process as copies: none can be changed behind your back. (Only the
--#         numbers of a tensor stay where they are, for all to see: the lesson on Hogwild makes use of it.)

--# say     So they must talk. `all_reduce` adds up everybody's tensor; afterwards all have the sum.
talk = together(3, function(rank)
  local y = torch.tensor{rank + 1, 10 * rank}
  dist.all_reduce(y)
  return y
end)
--# predict talk[2] --> 6 30
--# wrong   2 10: That is what rank 1 had before.
--# wrong   3 30: rank + 1 is 1, 2 and 3.
--# hint    1 + 2 + 3, and 0 + 10 + 20.
--# why     talk[1] and talk[3] are the same: equal on all ranks, to the last bit.
print(talk[1], talk[3])

--# say     At the prompt you can have ranks to play with: `%ranks 3`. Then each entry runs on all of them;
--#         equal results are shown once, others per rank, and `@1 x` asks rank 1 alone. `%ranks off` ends
--#         them. Try it when this lesson is over:
--#           [1]> %ranks 3
--#           [2] r*> x = torch.tensor{rank + 1.0}
--#           [3] r*> dist.all_reduce(x)
--#           [4] r*> x
--# play    Enter goes on.

--# say     What all call together is a collective. All must call the same one, with tensors of one shape.
--#         Rank 0 brings 3 numbers here, rank 1 brings 4.
--# new     ones
function differ() return together(2, function(rank) dist.all_reduce(torch.ones(3 + rank)) end) end
--# predict differ() --> error
--# wrong   2 2 2: Whose fourth number would be added to what?
--# wrong   true: The ranks compare first what they are about to do.
--# hint    Would anything be right?
--# why     Nothing was sent, and nobody hangs: the message shows what each rank was about to do.
ok, err = pcall(differ)
print(tostring(err):match "[^\n]*disagree[^\n]*")

--# say     To share out work, each rank takes every n-th item: with 3 ranks and items 1 to 8, rank 0 takes 1,
--#         4 and 7.
--# task    Write mine(rank, world, n): the list of the items that a rank takes, in order.
--# spec    mine(rank, world, n)
--#         local list = {}
--#         for i = 1, n do
--#           if (i - 1) % world == rank then list[#list + 1] = i end
--#         end
--#         return list
--# try     world in 1..4
--# try     n in 5..12
--# try     k in 0..100
--# try     rank = k % world
--# wrong   function mine(rank, world, n) local list = {} for i = rank, n, world do list[#list + 1] = i end
--#         return list end: Ranks count from 0, items from 1.
--# wrong   function mine(rank, world, n) local list = {} for i = rank + 1, n do list[#list + 1] = i end return
--#         list end: Step over the items of the others: a third number in the `for`.
--# hint    `for i = FIRST, n, STEP do`.
--# hint    The first one is rank + 1; the step is world.
--# answer
function mine(rank, world, n)
  local list = {}
  for i = rank + 1, n, world do list[#list + 1] = i end
  return list
end
print(table.concat(mine(0, 3, 8), " "), table.concat(mine(1, 3, 8), " "), table.concat(mine(2, 3, 8), " "))

--# say     All together the ranks have every item, once. With 3 ranks and 8 items, how many does rank 2 have?
--# predict #mine(2, 3, 8) --> 2
--# wrong   3: 3 and 6; 9 is too large.
--# hint    3, 6, and then?

--# say     Something real: pi is the area under 4 / (1 + x^2) for x from 0 to 1. Cut into n strips, strip i
--#         has the middle x = (i - 0.5) / n and the width 1 / n.
--# task    Write part_of_pi(rank, world, n): the area of this rank's strips, a number.
--# spec    part_of_pi(rank, world, n)
--#         local area = 0
--#         for i = 1, n do
--#           local x = (i - 0.5) / n
--#           if (i - 1) % world == rank then area = area + 4 / (1 + x * x) / n end
--#         end
--#         return area
--# try     world in 2..4
--# try     n in 5..40
--# try     k in 0..100
--# try     rank = k % world
--# wrong   function part_of_pi(rank, world, n) local area = 0 for _, i in ipairs(mine(rank, world, n)) do local
--#         x = i / n area = area + 4 / (1 + x * x) / n end return area end: The middle of strip i is (i - 0.5)
--#         / n.
--# wrong   function part_of_pi(rank, world, n) local area = 0 for _, i in ipairs(mine(rank, world, n)) do local
--#         x = (i - 0.5) / n area = area + 4 / (1 + x * x) end return area end: That adds heights. The width of
--#         a strip is 1 / n.
--# wrong   function part_of_pi(rank, world, n) local area = 0 for i = 1, n do local x = (i - 0.5) / n area =
--#         area + 4 / (1 + x * x) / n end return area / world end: All strips on each rank is no work saved.
--# hint    Go through `mine(rank, world, n)`.
--# hint    Each strip adds `4 / (1 + x * x) / n`.
--# answer
function part_of_pi(rank, world, n)
  local area = 0
  for _, i in ipairs(mine(rank, world, n)) do
    local x = (i - 0.5) / n
    area = area + 4 / (1 + x * x) / n
  end
  return area
end

--# say     Three processes, a third of the strips for each, and one all_reduce.
--# new     item
areas = together(3, function(rank, world)
  local area = torch.tensor(part_of_pi(rank, world, 10000), {dtype = "float64"})
  dist.all_reduce(area)
  return area
end)
--# predict areas[1]:item() --> 3.1416
--# wrong   1.0472: That is about what one rank has before they add up.
--# hint    What was this to be?
--# why     A script says `dist.init_process_group()` itself and is started by `tycho run -n 3 pi.lua`; the rest
--#         is as here.
print(areas[1]:item(), areas[3]:item())
