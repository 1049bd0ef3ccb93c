--# title   A rank that is gone
--# explains DIST-0 COLL-1

--# say     Processes end: too early, by a mistake, by a machine that is switched off. What do the others do? Here
--#         rank 1 of three leaves before the collective that the others wait in. The error has fields:
--#         `err.reason` is `left`, `died` or `timeout`, and `err.ranks` lists who it was.
--# new     multiprocessing distributed put tensor ones item
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
left = together(3, function(rank)
  if rank == 1 then return {ranks = {}} end
  local ok, err = pcall(function() dist.all_reduce(torch.ones(1)) end)
  return {reason = err.reason, ranks = err.ranks, text = tostring(err):match "[^\n]*"}
end)
--# predict left[1].ranks --> 1
--# wrong   0 2: Those wait. The list has those who are missing.
--# wrong   2: Ranks count from 0.
--# hint    Who is missing?
--# why     All who wait are told at once, and are told who. Nobody hangs.
print(left[1].reason, left[1].text)

--# say     Does rank 2, which is not the neighbour of anybody special, learn as much?
--# predict left[3].ranks[1] == left[1].ranks[1] --> true
--# wrong   false: All ranks are told the same.
--# hint    The news goes to all.

--# say     Waiting is only safe if everybody comes. This is how it mostly happens: not by a death, but by data.
--#         23 batches are shared out to 3 ranks, one by one. How many has rank 2?
--# predict (23 - 2 + 2) // 3 --> 7
--# wrong   8: Ranks 0 and 1 have 8; 3 times 8 is 24.
--# hint    23 is 3 times 7, and 2 more for ranks 0 and 1.
--# why     Ranks 0 and 1 wait in step 8, for a rank that has gone home: "rank 2 left: fewer batches? see join".
--#         `DistributedSampler` deals out equal numbers, and `model:join(f)` lets who is done answer with zeros.

--# say     Now one that falls over: rank 1 stops with the exit code 7. `mp.spawn` ends the others and raises; its
--#         error knows the rank, and the code.
function fall()
  return together(3, function(rank)
    if rank == 1 then os.exit(7) end
    dist.all_reduce(torch.ones(1))
  end)
end
ok, err = pcall(fall)
--# predict {err.rank, err.exitcode} --> 1 7
--# wrong   1 0: 0 would mean that all went well.
--# wrong   0 7: It was rank 1 that stopped.
--# hint    Which rank, and which code?
print(tostring(err):match "[^\n]*")

--# say     And one with a mistake in its program: its message arrives here, with its line.
function blunder()
  return together(2, function(rank)
    if rank == 1 then error("no data") end
    dist.all_reduce(torch.ones(1))
  end)
end
ok, err = pcall(blunder)
--# predict tostring(err):find("no data") ~= nil --> true
--# wrong   false: Rank 0 has an error, too: rank 1 left. But the first one is what is wanted.
--# hint    Which of the two errors would help you?
print(tostring(err):match "[^\n]*")

--# say     The others can go on without it. `dist.shrink_group(err.ranks)` makes a new world of those who are left;
--#         their numbers close ranks: 0, 2, 3 become 0, 1, 2. Each of 4 ranks brings rank + 1; rank 1 leaves.
rest = together(4, function(rank)
  if rank == 1 then return {} end
  local x = torch.tensor{rank + 1}
  local ok, err = pcall(dist.all_reduce, x)
  if not ok then
    dist.shrink_group(err.ranks)
    x = torch.tensor{rank + 1}
    dist.all_reduce(x)
  end
  return {x:item(), dist.get_rank(), dist.get_world_size()}
end)
--# predict rest[1][1] --> 8
--# wrong   10: The 2 of rank 1 is missing.
--# wrong   6: They still bring 1, 3 and 4.
--# hint    1 + 3 + 4.
--# why     x was made anew after the error: nobody knows how far the broken sum had come.

--# say     And what did the old rank 3 give, as {sum, rank, world}?
--# predict rest[4] --> 8 2 3
--# wrong   8 3 3: With three ranks the numbers are 0, 1 and 2.
--# wrong   8 3 4: The new world has three.
--# hint    0, 2, 3 become 0, 1, 2.

--# say     A mean must be divided by who is there. Gradients of n examples per rank, one rank of four gone: the sum
--#         over three.
--# task    Write mean_of(values, gone): the mean of the values of the ranks that are there. `values` has a number
--#         for each rank, from rank 0 on; `gone` is a list of ranks.
--# spec    mean_of(values, gone)
--#         local sum, count = 0, 0
--#         for rank = 0, #values - 1 do
--#           local here = true
--#           for _, g in ipairs(gone) do here = here and g ~= rank end
--#           if here then sum, count = sum + values[rank + 1], count + 1 end
--#         end
--#         return sum / count
--# try     n in 3..6
--# try     k in 0..9
--# try     values = torch.randint(0, 9, {n}):tolist()
--# try     gone = n > 4 and {k % n, (k + 1) % n} or {k % n}
--# wrong   function mean_of(values, gone) local sum = 0 for i, v in ipairs(values) do local here = true for _, g in
--#         ipairs(gone) do here = here and g ~= i - 1 end if here then sum = sum + v end end return sum / #values
--#         end: Divided by all, also by those who are gone.
--# wrong   function mean_of(values, gone) local sum, n = 0, 0 for i, v in ipairs(values) do local here = true for _,
--#         g in ipairs(gone) do here = here and g ~= i end if here then sum, n = sum + v, n + 1 end end return sum
--#         / n end: Ranks count from 0: rank r has values[r + 1].
--# hint    Mark who is gone: `away[rank] = true`.
--# hint    Rank r has `values[r + 1]`. Count those that you add.
--# answer
function mean_of(values, gone)
  local away, sum, count = {}, 0, 0
  for _, rank in ipairs(gone) do away[rank] = true end
  for i, v in ipairs(values) do
    if not away[i - 1] then sum, count = sum + v, count + 1 end
  end
  return sum / count
end

--# say     Something real: a training that may be cut off at any moment. It writes down where it is, from time to
--#         time: the step, and all that the next step needs. Started again, it goes on from there, and ends with
--#         the numbers that it would have had. Here a step is w = w - 0.1 * 2 * w + speed, speed = 0.5 * speed.
--# task    Write go_on(state, last): from a state {step, w, speed} to step `last`, in a new table; `state` stays as
--#         it was. In each step first w, then speed.
--# spec    go_on(state, last)
--#         local step, w, speed = state[1], state[2], state[3]
--#         while step < last do step, w, speed = step + 1, 0.8 * w + speed, 0.5 * speed end
--#         return {step, w, speed}
--# try     a in 0..4
--# try     b in 5..9
--# try     state = {a, torch.randn(1):item(), 0.25 * a}
--# try     last = b
--# wrong   function go_on(state, last) local w, speed = state[2], state[3] for i = 1, last do w, speed = 0.8 * w +
--#         speed, 0.5 * speed end return {last, w, speed} end: That begins with step 1 again. state[1] steps are
--#         done.
--# wrong   function go_on(state, last) local w = state[2] for i = state[1] + 1, last do w = 0.8 * w + state[3] end
--#         return {last, w, state[3]} end: The speed changes in each step, and belongs to the state.
--# hint    `for i = state[1] + 1, last do`.
--# hint    `w, speed = 0.8 * w + speed, 0.5 * speed` uses the old speed for w.
--# answer
function go_on(state, last)
  local w, speed = state[2], state[3]
  for _ = state[1] + 1, last do w, speed = 0.8 * w + speed, 0.5 * speed end
  return {last, w, speed}
end

--# say     Cut off after step 3, and gone on to 10; or straight to 10?
start = {0, 1.0, 0.25}
cut = go_on(go_on(start, 3), 10)
straight = go_on(start, 10)
--# predict cut[2] == straight[2] --> true
--# wrong   false: Nothing that the steps need was lost.
--# hint    The state has all that the next step needs.
--# why     Who saves only w begins with a wrong speed: so a checkpoint has the optimiser's state, the epoch, and
--#         the random numbers, too. `tycho run --max-restarts 3` starts all ranks again after a failure, and they
--#         go on from their checkpoint.
print(cut[2], straight[2], go_on({3, go_on(start, 3)[2], 0}, 10)[2])
