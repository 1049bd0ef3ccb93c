--# title   Shared memory: locks, and Hogwild without them

--# say     Processes on one machine need not send: they can look at the same memory. `share_memory_` puts a
--#         tensor where all see it. Two processes write into it, each its own element.
--# new     share_memory_ multiprocessing zeros
mp = torch.multiprocessing
board = torch.zeros(2):share_memory_()
mp.spawn(function(rank) board[rank + 1] = 10 * rank + 5 end, {nprocs = 2})
--# predict board --> 5 15
--# wrong   0 0: It was not a copy: both wrote into this memory.
--# wrong   15 25: Ranks count from 0.
--# hint    Rank 0 writes 5, rank 1 writes 15.
--# why     Nothing was sent back; it is there.

--# say     Now both want to add to the same element. Adding takes three steps: read, add, write. To see what can
--#         happen, `play(order)` runs two programs by turns, a step for each letter: A or B.
function play(order, cell)
  local memory = {x = cell or 0}
  local function program()
    local seen = memory.x
    coroutine.yield()
    seen = seen + 1
    coroutine.yield()
    memory.x = seen
  end
  local threads = {A = coroutine.wrap(program), B = coroutine.wrap(program)}
  for who in order:gmatch "." do threads[who]() end
  return memory.x
end
--# predict play("AAABBB") --> 2
--# wrong   1: A is done before B begins.
--# hint    A reads 0 and writes 1. Then B reads 1.

--# say     But nobody says that they take such turns.
--# predict play("ABABAB") --> 1
--# wrong   2: Both read before anyone has written.
--# wrong   0: Both write.
--# hint    What does B read?
--# why     Both read 0, both write 1: one update is lost.

--# say     There are 20 orders of three A and three B. In how many is nothing lost? Only where one has written before
--#         the other one reads.
--# task    Write both(): how many of the 20 orders give 2. Or write down all orders with `play`, and count.
--# spec    both = 2
--# wrong   both = 20: Try play("ABABAB").
--# wrong   both = 1: AAABBB, and which other one?
--# hint    If A reads first, then B must not read before A has written.
--# hint    AAABBB and BBBAAA. The answer is a number: both = ..
--# answer  both = 2

--# say     So nearly every mixture loses something, if they meet at all. A lock makes them wait for each other: who
--#         holds it does all three steps alone. `lock:hold()` holds it until the block ends. Three processes add 1,
--#         50 times each.
--# new     add_ item
lock = mp.Lock()
sum = torch.zeros(1):share_memory_()
mp.spawn(function()
  for _ = 1, 50 do
    local _ <close> = lock:hold()
    sum:add_(1)
  end
end, {nprocs = 3})
--# predict sum:item() --> 150
--# wrong   50: Three processes, 50 each.
--# hint    Nothing is lost.
--# why     Always, on every machine, however they meet.

--# say     A lock has its price: while one works, the others wait. If a process needs 4 ms to compute a step and 1 ms
--#         under the lock to add it, how many processes can be kept busy at most?
--# predict (4 + 1) / 1 --> 5
--# wrong   4: In the 5 ms of one round, the lock has room for five times 1 ms.
--# hint    A round takes each process 5 ms, and 1 ms of it is under the lock.
--# why     A sixth would only wait.

--# say     Hogwild is the other answer: no lock at all. Let updates be lost, if they are small and rare. When two
--#         write a network of a million weights, each step changes all of them a little; what is lost now and
--#         then, the next step makes good. How much of a step gets lost if 1 of 100 updates is?
--# predict 100 * (1 - 0.99) --> 1
--# ask     How many percent of the way is lost, when 99 of 100 updates arrive?
--# wrong   99: That is what arrives.
--# hint    1 of 100.
--# why     It is as if the learning rate were 1 percent smaller: nobody notices.

--# say     What matters more: a process computes its gradient from weights that are old when the step is added.
--#         w ^ 2 has the slope 2 * w. Two workers read w = 1, and each takes its step of 0.1 times the slope.
--# predict 1 - 0.1 * 2 - 0.1 * 2 --> 0.6
--# wrong   0.64: The second one has read w = 1, too, not 0.8.
--# wrong   0.8: Both steps are added.
--# hint    Both slopes are 2.
--# why     One after the other it is 0.64: here the old slope went a little further.

--# say     Let the gradient be `late` steps old: step t uses w of step t - late (or the first one).
--# task    Write stale(late, steps, lr): w after so many steps of w = w - lr * 2 * w_old, from w = 1.
--# spec    stale(late, steps, lr)
--#         local w = {1}
--#         for t = 1, steps do w[t + 1] = w[t] - lr * 2 * w[math.max(1, t - late)] end
--#         return w[steps + 1]
--# try     late in 0..3
--# try     steps in 1..8
--# try     k in 1..4
--# try     lr = 0.1 * k
--# wrong   function stale(late, steps, lr) local w = 1 for t = 1, steps do w = w - lr * 2 * w end return w end: That
--#         is late = 0. Keep all values of w in a list.
--# wrong   function stale(late, steps, lr) local w = {1} for t = 1, steps do local old = w[math.max(1, t - late)]
--#         w[t + 1] = old - lr * 2 * old end return w[steps + 1] end: Only the slope is old; the step is taken from
--#         where w is now.
--# hint    A list: w[1] = 1, and w[t + 1] after step t.
--# hint    The old one is `w[math.max(1, t - late)]`.
--# answer
function stale(late, steps, lr)
  local w = {1}
  for t = 1, steps do w[t + 1] = w[t] - lr * 2 * w[math.max(1, t - late)] end
  return w[steps + 1]
end

--# say     Fresh slopes with lr = 0.4: every step keeps 0.2 of what was left. With slopes that are 3 steps old, is w
--#         nearer to 0 than 1 after 40 steps?
--# predict math.abs(stale(3, 40, 0.4)) < 1 --> false
--# wrong   true: The slope says "go down" for 3 steps after w has passed 0, and the swings grow.
--# hint    The old slope pushes on for 3 steps after w has passed 0.
--# why     Old slopes need smaller steps: with lr = 0.1 it settles. That is the bargain of asynchronous training.
print(stale(0, 40, 0.4), stale(3, 40, 0.4), stale(3, 40, 0.1))

--# say     Something real: Hogwild. A line y = 2 * x - 1 is learned by two processes at once. The weights lie in
--#         memory that both see; each takes 200 steps on points of its own, and nobody locks anything.
--# new     nn optim linspace unsqueeze
nn, optim = torch.nn, torch.optim
torch.manual_seed(1)
net = nn.Linear(1, 1)
net:share_memory()
xs = torch.linspace(-1, 1, 64):unsqueeze(2)
ys = 2 * xs - 1
mp.spawn(function(rank)
  local opt = optim.SGD(net:parameters(), {lr = 0.1})
  local mine = {{rank + 1, 64, 2}}
  for _ = 1, 200 do
    opt:zero_grad()
    local loss = nn.functional.mse_loss(net(xs[mine]), ys[mine])
    loss:backward()
    opt:step()
  end
end, {nprocs = 2})
--# new     manual_seed backward round
--# predict net.weight:item() --> 2.0
--# ask     To one decimal place: which weight has been learned?
--# wrong   4: Both learn the same line; their steps do not double the answer.
--# wrong   -1: That is the bias.
--# hint    y = 2 * x - 1.
--# why     Lost and late updates and all: the answer is where both want to go. `scripts/hogwild.lua` does it with
--#         handwritten digits.
print(net.weight:item(), net.bias:item())
