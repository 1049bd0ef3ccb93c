--# title   Fork and wait: two things at once

--# say     Not all work is the same program on parts of the data. Two branches of a network, say, have nothing to do
--#         with each other until their results meet. `torch.fork(f, ...)` begins f(...) on another processor and
--#         goes on at once; `torch.wait(future)` gives its result.
--# new     fork wait ones
function triple(x) return 3 * x end
future = torch.fork(triple, torch.ones(2))
here = 10 * torch.ones(2)
--# predict torch.wait(future) + here --> 13 13
--# wrong   3 3: And 10 from here.
--# hint    3 from there, 10 from here.

--# say     What does a future give that has been waited for already?
--# predict torch.wait(future) --> 3 3
--# wrong   error: It keeps its result.
--# wrong   9 9: f ran once.
--# hint    f ran once, and its result is kept.

--# say     A function works on what it is given. What it changes of plain variables is its own:
counter = 0
function count()
  counter = counter + 1
  return counter
end
torch.wait(torch.fork(count))
--# predict counter --> 0
--# wrong   1: The other thread has variables of its own.
--# hint    The other thread has variables of its own.
--# why     So two branches cannot get into each other's way. What they have to say, they return.

--# say     Gradients flow through: the branches are parts of one graph. y = 3 * x + x * x, at x = 2.
--# new     tensor backward grad item
x = torch.tensor(2.0, {requires_grad = true})
branch = torch.fork(triple, x)
y = x * x + torch.wait(branch)
y:backward()
--# predict x.grad:item() --> 7
--# wrong   4: And 3 from the branch.
--# wrong   3: And 2 * x = 4 from here.
--# hint    2 * x from here, 3 from the branch.

--# say     A mistake in a branch comes out where its result is asked for.
function fails() error("no bread") end
--# predict torch.wait(torch.fork(fails)) --> error
--# wrong   0: There is no result.
--# hint    What could wait give?
ok, err = pcall(function() return torch.wait(torch.fork(fails)) end)
print(tostring(err):match "no bread")

--# say     When is it worth it? Branches of 30 and 50 ms, and one processor for each. Starting and handing over takes 1
--#         ms. How many ms in all?
--# predict math.max(30, 50) + 1 --> 51
--# wrong   81: They run beside each other.
--# wrong   31: The longer one decides.
--# hint    The longer one, and 1.

--# say     Several at once: begin all, then wait for all. Who waits for each before beginning the next has gained
--#         nothing. To see it, `begin` and `done` count how many are under way.
--# new     sum
under_way, most = 0, 0
function begin(f, ...)
  under_way = under_way + 1
  most = math.max(most, under_way)
  return torch.fork(f, ...)
end
function done(future)
  under_way = under_way - 1
  return torch.wait(future)
end
function total(x) return x:sum():item() end
--# task    Repair totals(xs): the list of the sums of the tensors in xs, each made by `total` in a fork of its own, and as a
--#         second result how many were under way at most (`most`).
--# spec    totals(xs)
--#         local list = {}
--#         for i, x in ipairs(xs) do list[i] = x:sum():item() end
--#         return list, #xs
--# try     n in 2..4
--# try     xs = (function() local t = {} for i = 1, n do t[i] = torch.ones(i) * n end return t end)()
--# starter
--#         function totals(xs)
--#           most = 0
--#           local list = {}
--#           for i, x in ipairs(xs) do list[i] = done(begin(total, x)) end
--#           return list, most
--#         end
--# wrong   function totals(xs) most = 0 local list = {} for i, x in ipairs(xs) do list[i] = total(x) end return list, most
--#         end: Right sums, but nothing is forked.
--# hint    Two loops: one that begins, one that waits.
--# hint    `futures[i] = begin(total, x)`, and then `list[i] = done(futures[i])`.
--# answer
function totals(xs)
  most = 0
  local futures, list = {}, {}
  for i, x in ipairs(xs) do futures[i] = begin(total, x) end
  for i, future in ipairs(futures) do list[i] = done(future) end
  return list, most
end

--# say     How long does it take, with p processors, if pieces take so many ms each? Whoever is free takes the next piece.
--# new     randint tolist
--# task    Write finish(times, p): the ms until all are done; pieces are begun in the order of the list.
--# spec    finish(times, p)
--#         local free, last = {}, 0
--#         for i = 1, p do free[i] = 0 end
--#         for _, t in ipairs(times) do
--#           table.sort(free)
--#           free[1] = free[1] + t
--#           last = math.max(last, free[1])
--#         end
--#         return last
--# try     n in 3..7
--# try     p in 1..3
--# try     times = torch.randint(1, 60, {n}):tolist()
--# wrong   function finish(times, p) local sum = 0 for _, t in ipairs(times) do sum = sum + t end return sum / p end: Pieces
--#         cannot be cut: {50, 10} takes 50 on two processors, not 30.
--# wrong   function finish(times, p) local free = {} for i = 1, p do free[i] = 0 end for i, t in ipairs(times) do local k =
--#         (i - 1) % p + 1 free[k] = free[k] + t end return math.max(table.unpack(free)) end: Not in turn: the next piece
--#         goes to whoever is free first.
--# hint    Keep for each processor when it will be free; the next piece goes to the earliest.
--# hint    `table.sort(free)`, then `free[1] = free[1] + t`. At the end the largest of them.
--# answer
function finish(times, p)
  local free = {}
  for i = 1, p do free[i] = 0 end
  for _, t in ipairs(times) do
    table.sort(free)
    free[1] = free[1] + t
  end
  return math.max(table.unpack(free))
end

--# say     Pieces of 10, 10, 10 and 30 ms on two processors?
--# predict finish({10, 10, 10, 30}, 2) --> 40
--# wrong   30: The long one is begun last, when 10 ms are over.
--# hint    10 and 10; then 10 and 30.

--# say     And the long one first?
--# predict finish({30, 10, 10, 10}, 2) --> 30
--# wrong   40: While one does 30, the other does three times 10.
--# hint    While one does 30, the other does three times 10.
--# why     Long pieces first: a rule of thumb for every queue of work.

--# say     Something real: an ensemble. Three small models guess, each in a fork, and their mean is the answer. Model k says
--#         k * x.
--# new     stack mean
function model(k, x) return k * x end
futures = {}
for k = 1, 3 do futures[k] = torch.fork(model, k, torch.tensor{1.0, 2.0}) end
guesses = {}
for k = 1, 3 do guesses[k] = torch.wait(futures[k]) end
--# predict torch.stack(guesses):mean(1) --> 2 4
--# wrong   6 12: Their mean, not their sum.
--# hint    The mean of 1, 2 and 3 is 2.
--# why     Threads in one process (`torch.fork`) share tensors without sending; processes (`mp.spawn`) stand even if one of
--#         them falls. Ranks (`torch.distributed`) also reach other machines.
print(torch.stack(guesses))
