--# title   all_reduce by hand: from send and recv
--# see     tensor

--# say     All talk between ranks is made of two things: send a tensor to a rank, and receive one from a rank. To
--#         look at it slowly, n ranks are played in one process. First the post: letters lie in a list until
--#         they are fetched. Who waits for one that is not there yet lets another rank go on.
--# new     numel clone copy_
post, sent = {}, {}
function hands_of(rank)
  local function send(x, to)
    sent[rank + 1] = sent[rank + 1] + x:numel()
    table.insert(post, {from = rank, to = to, x = x:clone()})
  end
  local function recv(y, from)
    while true do
      for i, letter in ipairs(post) do
        if letter.from == from and letter.to == rank then
          return y:copy_(table.remove(post, i).x)
        end
      end
      coroutine.yield()
    end
  end
  return send, recv
end
--# play    Enter goes on.

--# say     `world(n, f)` lets n ranks take turns, each of which runs f(rank, send, recv). It gives their results
--#         as the rows of a table, and how many numbers each one has sent.
--# new     stack
function world(n, f)
  local ranks, results = {}, {}
  post, sent = {}, {}
  for rank = 0, n - 1 do
    sent[rank + 1] = 0
    ranks[rank + 1] = coroutine.wrap(function()
      results[rank + 1] = f(rank, hands_of(rank))
      while true do coroutine.yield() end
    end)
  end
  for _ = 1, 4 * n * n + 8 do
    for _, go_on in ipairs(ranks) do go_on() end
  end
  for rank = 0, n - 1 do
    if not results[rank + 1] then error("rank " .. rank .. " waits for ever") end
  end
  return torch.stack(results), torch.tensor(sent)
end
--# predict select(2, world(2, function(rank, send, recv) send(torch.zeros(3), rank) return torch.zeros(1) end)) --> 3 3
--# ask     Two ranks send three numbers each, to themselves. How many numbers has each sent?
--# wrong   6: For each rank a number.
--# wrong   1 1: Numbers are counted, not letters.
--# hint    Three each.

--# say     Four ranks stand in a circle. Each sends its number to the next one, and the last to the first:
--#         `(rank + 1) % 4`. It receives from the one before, `(rank - 1) % 4`.
function pass_on(rank, send, recv)
  local mine, got = torch.tensor(10 * rank), torch.tensor(0)
  send(mine, (rank + 1) % 4)
  recv(got, (rank - 1) % 4)
  return got
end
--# predict (world(4, pass_on)) --> 30 0 10 20
--# wrong   0 10 20 30: That is what they had. Rank 0 gets the number of the rank before it.
--# wrong   10 20 30 0: They receive from the one before, not from the next.
--# hint    The one before rank 0 is rank 3.
print(world(4, pass_on))

--# say     And with the two lines swapped, first receive and then send?
function wait_first(rank, send, recv)
  local mine, got = torch.tensor(10 * rank), torch.tensor(0)
  recv(got, (rank - 1) % 4)
  send(mine, (rank + 1) % 4)
  return got
end
--# predict (world(4, wait_first)) --> error
--# wrong   30 0 10 20: Who would be the first to send?
--# hint    Who sends the first message?
--# why     All wait for a message that nobody has sent: a deadlock. In large programs it is better hidden,
--#         and looks just so: nothing happens.

--# say     Now the sum of everybody's tensor, on all ranks. The simple way is a star: all send to rank 0,
--#         which adds up and sends the sum back. Row r of xs is what rank r has.
--# new     zeros
xs = torch.tensor{{1, 2}, {10, 20}, {100, 200}}
--# task    Write star(xs): it returns what `world(n, function(rank, send, recv) .. end)` does, where every
--#         rank's result is the sum of all rows. (xs is [n, m]; `xs[rank + 1]:clone()` is a rank's own.)
--# spec    star(xs)
--#         local n, m = #xs, #xs[1]
--#         local sent = torch.full({n}, m)
--#         sent[1] = (n - 1) * m
--#         return xs:sum(1):unsqueeze(1):expand(n, m):clone(), sent
--# try     n in 2..4
--# try     m in 5..7
--# try     xs = torch.randn(n, m)
--# wrong   function star(xs) return world(#xs, function(rank, send, recv) return xs:sum(1) end) end: That
--#         reads the other ranks' memory. Only what is sent can be known.
--# wrong   function star(xs) return world(#xs, function(rank, send, recv) local x, y = xs[rank + 1]:clone(),
--#         xs[1]:clone() if rank > 0 then send(x, 0) else for r = 1, #xs - 1 do recv(y, r) x:add_(y) end end
--#         return x end) end: Rank 0 has the sum now; the others want it back.
--# hint    Rank 0 receives from 1, 2, .. in a loop and adds; then it sends to each of them.
--# hint    The others: `send(x, 0)`, then `recv(x, 0)`.
--# answer
function star(xs)
  local n = #xs
  return world(n, function(rank, send, recv)
    local x = xs[rank + 1]:clone()
    if rank == 0 then
      local other = x:clone()
      for r = 1, n - 1 do
        recv(other, r)
        x:add_(other)
      end
      for r = 1, n - 1 do send(x, r) end
    else
      send(x, 0)
      recv(x, 0)
    end
    return x
  end)
end
print(star(xs))

--# say     It is right, but not fair: how many numbers do the ranks send, for 4 ranks of 8 numbers each?
--# new     randn
eights = torch.randn(4, 8)
--# predict select(2, star(eights)) --> 24 8 8 8
--# wrong   8 8 8 8: Rank 0 sends the sum to each of the three others.
--# wrong   32 8 8 8: To three others; not to itself.
--# hint    Rank 0 sends 8 numbers to each of the three others.
--# why     And the three others wait meanwhile. With 100 ranks, rank 0 would send 792, and receive as many.

--# say     In a ring nobody is the middle. Cut each tensor into as many pieces as there are ranks, and let
--#         each rank be the one that adds up one piece. A piece travels around the circle, and every rank
--#         that it visits adds its own numbers. In round 0, 1, .. n - 2
--#           rank r sends piece (r - round) % n to the next rank,
--#           and adds what comes from the one before to its piece (r - round - 1) % n.
--#         With 4 ranks: which piece does rank 0 send in round 1?
--# predict (0 - 1) % 4 --> 3
--# wrong   -1: In Lua, as in mathematics, % gives 0 to 3.
--# wrong   1: 0 - 1, around the circle.
--# hint    One before 0, in a circle of 0 1 2 3.
--# why     And 3 is the piece that it added to in round 0: always the one that has just arrived.

--# say     After these n - 1 rounds rank r has the whole sum of piece (r + 1) % n. In n - 1 more rounds the
--#         sums travel on, and are put in place instead of added:
--#           rank r sends piece (r + 1 - round) % n,
--#           and what comes belongs into its piece (r - round) % n.
--#         How many numbers does each of 4 ranks send in all, for 8 numbers, in pieces of 2?
--# predict 2 * (4 - 1) * 2 --> 12
--# wrong   6: That is the first half of the way; the sums must be brought to all as well.
--# wrong   16: n - 1 rounds each way, not n.
--# hint    3 rounds there and 3 rounds more, 2 numbers in each.
--# why     12 instead of 24. With 100 ranks it is at most 2 times the tensor's length: the number of ranks does
--#         not matter any more.

--# say     Write it. `pieces[k + 1]`, a view into x, is piece k; so writing into it writes into x.
--# new     view full unsqueeze expand
--# task    Write ring(xs): as star, with the ring's messages. xs is [n, m], and n divides m: `x:view(n, -1)`
--#         has the pieces as rows.
--# spec    ring(xs)
--#         local n, m = #xs, #xs[1]
--#         return xs:sum(1):unsqueeze(1):expand(n, m):clone(), torch.full({n}, 2 * (n - 1) * m // n)
--# try     n in 2..5
--# try     k in 1..3
--# try     xs = torch.randint(-9, 9, {n, n * k}):float()
--# wrong   function ring(xs) return star(xs) end: Right sums, but by the star: see how much rank 0 sends.
--# wrong   function ring(xs) local n = #xs return world(n, function(rank, send, recv) local x = xs[rank +
--#         1]:clone() local pieces = x:view(n, -1) local got = pieces[1]:clone() for round = 0, n - 2 do
--#         send(pieces[(rank - round) % n + 1], (rank + 1) % n) recv(got, (rank - 1) % n) pieces[(rank - round -
--#         1) % n + 1]:add_(got) end return x end) end: Each rank has one whole sum now. The second half brings
--#         them to all.
--# hint    Two loops `for round = 0, n - 2 do`, each with a `send` and a `recv` into a spare tensor.
--# hint    First: `pieces[(rank - round - 1) % n + 1]:add_(got)`. Second: `pieces[(rank - round) % n +
--#         1]:copy_(got)`.
--# answer
function ring(xs)
  local n = #xs
  return world(n, function(rank, send, recv)
    local x = xs[rank + 1]:clone()
    local pieces, next_one, before = x:view(n, -1), (rank + 1) % n, (rank - 1) % n
    local got = pieces[1]:clone()
    for round = 0, n - 2 do
      send(pieces[(rank - round) % n + 1], next_one)
      recv(got, before)
      pieces[(rank - round - 1) % n + 1]:add_(got)
    end
    for round = 0, n - 2 do
      send(pieces[(rank + 1 - round) % n + 1], next_one)
      recv(got, before)
      pieces[(rank - round) % n + 1]:copy_(got)
    end
    return x
  end)
end
print(ring(eights))

--# say     Something real: the same function, unchanged, on processes. Only `world` is another one: it starts
--#         them, and hands out the `send` and `recv` of torch.distributed.
function world(n, f)
  local mp, dist = torch.multiprocessing, torch.distributed
  local answers, list = mp.Queue(), {}
  mp.spawn(function(rank)
    dist.init_process_group()
    answers:put{rank, f(rank, dist.send, dist.recv)}
    dist.destroy_process_group()
  end, {nprocs = n})
  for _ = 1, n do
    local answer = answers:get()
    list[answer[1] + 1] = answer[2]
  end
  return torch.stack(list)
end
whole = torch.tensor{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}}
--# new     multiprocessing distributed put
--# predict ring(whole)[2] --> 111 222 333
--# wrong   10 20 30: That is what rank 1 began with.
--# hint    The sum of the three rows.
--# why     This is what `dist.all_reduce` does between machines. On one machine the ranks read each other's
--#         numbers from memory that they share, which is faster still.
print(ring(whole))
