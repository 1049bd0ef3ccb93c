--# title   Together or one by one: synchronous and asynchronous updates

--# say     A server keeps the weights; workers fetch them, compute a gradient, and bring it back. Synchronous: the
--#         server waits for all, and steps with the mean. Asynchronous: it steps with each gradient that
--#         comes. Loss w ^ 2, slope 2 * w, w = 1, rate 0.1, two workers. One synchronous step:
function slope(w) return 2 * w end
w = 1
mean_slope = (slope(w) + slope(w)) / 2
--# predict w - 0.1 * mean_slope --> 0.8
--# wrong   0.6: The mean of 2 and 2 is 2.
--# hint    The mean of both slopes is 2.

--# say     Asynchronous: both fetch w = 1; the first brings its gradient, then the second brings its own.
first = w - 0.1 * slope(w)
second = first - 0.1 * slope(w)
--# predict second --> 0.6
--# wrong   0.64: The second had fetched w = 1, before the first step.
--# wrong   0.8: Both gradients are stepped with, one after the other.
--# hint    Both gradients are 2.
--# why     Two steps in the same time. Faster here; but the second gradient was not that of the place where it was
--#         used.

--# say     Time: a synchronous step takes as long as the slowest worker. Four workers need 10, 10, 10 and 30 ms for a
--#         gradient. How many gradients does the server get in 300 ms?
--# predict 300 // 30 * 4 --> 40
--# wrong   100: The three fast ones wait for the slow one.
--# wrong   120: The fast ones wait for the slow one, in each round.
--# hint    A round takes 30 ms, and brings four gradients.

--# say     And asynchronously, where nobody waits?
--# predict 3 * (300 // 10) + 300 // 30 --> 100
--# wrong   120: The slow one brings 10 only.
--# wrong   40: Nobody waits now.
--# hint    30 from each of the three, 10 from the slow one.
--# why     2.5 times as many. Whether they are worth as much is the question.

--# say     For any speeds:
--# task    Write gradients(times, total): how many arrive in `total` ms, as two numbers: synchronous, asynchronous.
--#         `times` is a list of whole ms for each worker.
--# spec    gradients(times, total)
--#         local slowest, free = 0, 0
--#         for _, t in ipairs(times) do slowest, free = math.max(slowest, t), free + total // t end
--#         return total // slowest * #times, free
--# try     a in 1..9
--# try     b in 10..30
--# try     total = 100 + a * b
--# try     times = a % 2 == 0 and {a, b, a} or {b, a, a + 1, 7}
--# wrong   function gradients(times, total) local sum, free = 0, 0 for _, t in ipairs(times) do sum, free = sum + t, free +
--#         total // t end return total // (sum // #times) * #times, free end: A round takes as long as the slowest, not as
--#         the mean.
--# wrong   function gradients(times, total) local slowest, free = 0, 0 for _, t in ipairs(times) do slowest, free =
--#         math.max(slowest, t), free + total // t end return total // slowest, free end: Each round brings one gradient
--#         of each worker.
--# hint    `math.max(table.unpack(times))` is the slowest.
--# hint    Rounds times workers; and the sum of `total // t`.
--# answer
function gradients(times, total)
  local free = 0
  for _, t in ipairs(times) do free = free + total // t end
  return total // math.max(table.unpack(times)) * #times, free
end
print(gradients({10, 10, 10, 30}, 300))

--# say     Now play a server. `events` is a list of workers in the order in which they bring a gradient. Each worker
--#         computes it from the w that it fetched last; then it fetches the new one. All begin with w = 1.
--# new     randint tolist
--# task    Write served(events, lr): w after all events, loss w ^ 2. (Workers are called 1, 2, ..)
--# spec    served(events, lr)
--#         local w, fetched = 1, setmetatable({}, {__index = function() return 1 end})
--#         for _, worker in ipairs(events) do
--#           w = w - lr * 2 * fetched[worker]
--#           fetched[worker] = w
--#         end
--#         return w
--# try     n in 2..7
--# try     k in 1..3
--# try     events = torch.randint(1, 4, {n}):tolist()
--# try     lr = 0.1 * k
--# wrong   function served(events, lr) local w = 1 for _ in ipairs(events) do w = w - lr * 2 * w end return w end: As if
--#         everybody had the newest w. A worker has what it fetched last.
--# wrong   function served(events, lr) local w = 1 for _ in ipairs(events) do w = w - lr * 2 end return w end: After a
--#         worker has brought its gradient, it fetches the new w.
--# hint    A table `fetched`, worker -> w; a worker that is not in it has 1: `fetched[worker] or 1`.
--# hint    First w, then `fetched[worker] = w`.
--# answer
function served(events, lr)
  local w, fetched = 1, {}
  for _, worker in ipairs(events) do
    w = w - lr * 2 * (fetched[worker] or 1)
    fetched[worker] = w
  end
  return w
end

--# say     One worker, three times; rate 0.1:
--# predict served({1, 1, 1}, 0.1) --> 0.512
--# wrong   0.4: It fetches the new w each time.
--# hint    0.8 * 0.8 * 0.8.

--# say     Two workers that take turns, 1 2 1 2? Their first gradients are both 2, and then worker 1 has fetched 0.8.
--# predict served({1, 2, 1, 2}, 0.1) --> 0.32
--# wrong   0.4096: That is one worker with the newest w in each step.
--# wrong   0.28: Worker 2 has fetched 0.6: its second gradient is 1.2.
--# hint    1, 0.8, 0.6, minus 0.1 * 2 * 0.8, minus 0.1 * 2 * 0.6.
--# why     Further than one worker with four steps (0.4096): old slopes are steeper here. That is luck as long as the
--#         rate is small.

--# say     With a rate of 0.6 one worker still goes to 0: each step leaves 1 - 1.2 = -0.2 of w. And two that take
--#         turns?
turns = {}
for i = 1, 20 do turns[i] = (i - 1) % 2 + 1 end
--# predict math.abs(served(turns, 0.6)) > 1 --> true
--# wrong   false: 1, -0.2, -1.4, -1.16, .. The second step goes on in the old direction, past the lowest point.
--# hint    1, then -0.2, then -0.2 - 1.2 = -1.4: further away than the start.
--# why     So asynchronous training wants smaller rates, and clusters of equal machines train synchronously. Where machines
--#         are unequal, or come and go, it is the other way round.
print(served(turns, 0.6), served(turns, 0.1))

--# say     Something real: a server and two workers, as processes. Rank 0 has w. Whichever worker comes first is
--#         served first: `dist.recv(x)` without a rank takes from anyone, and says from whom. Each worker brings
--#         8 gradients, at a rate of 0.05.
--# new     multiprocessing distributed put item
mp, dist = torch.multiprocessing, torch.distributed
answers = mp.Queue()
mp.spawn(function(rank)
  dist.init_process_group()
  local w, g = torch.tensor{1.0}, torch.tensor{0.0}
  if rank == 0 then
    for _ = 1, 16 do
      local from = dist.recv(g)
      w = w - 0.05 * g
      dist.send(w, from)
    end
    answers:put(w:item())
  else
    for _ = 1, 8 do
      dist.send(2 * w, 0)
      dist.recv(w, 0)
    end
  end
  dist.destroy_process_group()
end, {nprocs = 3})
final = answers:get()
--# new     tensor
--# predict 0 < final and final < 0.5 --> true
--# wrong   false: 16 steps downhill, each of about a tenth of what is left.
--# hint    16 steps downhill, each of about a tenth of what is left.
--# why     The order differs from run to run, and so does the last digit of w: that is the price of not waiting. With
--#         one after the other it would be 0.9 ^ 16 = 0.185.
print(final < 0.5)
