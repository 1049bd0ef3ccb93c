--# title   Data parallel: many processes are one
--# see     backward

--# say     Each rank has the whole network and a part of the batch. What must they exchange, so that all
--#         take the step that one process with the whole batch would take? Here is the batch: 4 points, and
--#         a model with one weight, y = w * x. The loss is the mean of the squared errors.
--# new     backward mean tensor
x = torch.tensor{1.0, 2.0, 3.0, 4.0}
y = torch.tensor{2.0, 4.0, 6.0, 8.0}
function gradient(first, last)
  local w = torch.tensor(1.0, {requires_grad = true})
  local loss = ((w * x[{{first, last}}] - y[{{first, last}}]) ^ 2):mean()
  loss:backward()
  return w.grad:item()
end
--# new     item grad
--# predict gradient(1, 4) --> -15
--# wrong   15: Larger w makes the error smaller here: the slope goes down.
--# wrong   -60: The loss is a mean of four.
--# hint    The slope for a point is 2 * (w * x - y) * x = -2 * x * x here: -2, -8, -18, -32.
--# why     The mean of -2, -8, -18 and -32.

--# say     Rank 0 gets the first two points, rank 1 the other two.
--# predict gradient(1, 2) --> -5
--# wrong   -10: The loss of rank 0 is the mean over its own two points.
--# hint    The mean of -2 and -8.

--# say     Rank 1 gets the slopes -18 and -32: their mean is -25. What must be made of -5 and -25 to have the -15
--#         of the whole batch?
--# predict (gradient(1, 2) + gradient(3, 4)) / 2 --> -15
--# wrong   -30: Divided by 2.
--# hint    The mean of -5 and -25.
--# why     Equal parts: the mean of the means is the mean of all. One all_reduce, divided by the number of
--#         ranks, and every rank takes the same step. That is all there is to it.

--# say     With parts of different sizes it is not. Rank 0 gets one point, rank 1 three.
--# predict (gradient(1, 1) + gradient(2, 4)) / 2 --> -10.667
--# wrong   -15: -2 from one point counts as much here as the mean of the other three, -19.33.
--# hint    -2, and the mean of -8, -18 and -32, which is -58 / 3. Then half of their sum.
--# why     The lonely point counts three times as much as the others. So every rank takes as many examples, or
--#         its gradient is weighted with its share of them: 1 / 4 and 3 / 4.

--# say     Now for any network whose weights are one tensor: the prediction is x:matmul(w).
--# new     matmul
--# new     detach clone requires_grad_
--# task    Write step(w, x, y, world, lr): w after one step of gradient descent, made by so many ranks. x is
--#         [world * k, m], y is [world * k], w is [m]. Play the ranks one after the other: rank r has k rows of
--#         its own; average the gradients; return w - lr * gradient (no graph, and w as it was).
--# spec    step(w, x, y, world, lr)
--#         local v = w:detach():clone():requires_grad_()
--#         local loss = ((x:matmul(v) - y) ^ 2):mean()
--#         loss:backward()
--#         return v:detach() - lr * v.grad
--# try     world in 2..4
--# try     k in 1..3
--# try     x = torch.randn(world * k, 3)
--# try     y = torch.randn(world * k)
--# try     w = torch.randn(3)
--# try     lr = 0.1 * k
--# wrong   function step(w, x, y, world, lr) local v = w:detach():clone():requires_grad_() local k = #x // world
--#         for r = 0, world - 1 do local a, b = k * r + 1, k * r + k; ((x[{{a, b}}]:matmul(v) - y[{{a, b}}]) ^
--#         2):mean():backward() end return v:detach() - lr * v.grad end: The gradients were added; their mean
--#         is wanted: divide by world.
--# wrong   function step(w, x, y, world, lr) local v = w:detach():clone():requires_grad_() local k = #x //
--#         world; ((x[{{1, k}}]:matmul(v) - y[{{1, k}}]) ^ 2):mean():backward() return v:detach() - lr * v.grad
--#         end: That is rank 0 alone.
--# hint    `local k = #x // world`; rank r has the rows k * r + 1 to k * r + k.
--# hint    Gradients add up in v.grad over the ranks: divide by world at the end.
--# answer
function step(w, x, y, world, lr)
  local v = w:detach():clone():requires_grad_()
  local k = #x // world
  for r = 0, world - 1 do
    local rows = {{k * r + 1, k * r + k}}
    local loss = ((x[rows]:matmul(v) - y[rows]) ^ 2):mean()
    loss:backward()
  end
  return v:detach() - lr * v.grad / world
end

--# say     `nn.parallel.DistributedDataParallel(net)` does it for any network: it copies rank 0's weights to
--#         all, and averages the gradients while `backward` is still running. Here two processes train, each
--#         with half of 8 rows; and one process with all 8.
--# new     multiprocessing distributed put manual_seed randn allclose nn optim
nn, optim, mp, dist = torch.nn, torch.optim, torch.multiprocessing, torch.distributed
torch.manual_seed(1)
inputs = torch.randn(8, 3)
wanted = inputs:matmul(torch.tensor{{1.0}, {-2.0}, {0.5}})
function train(net, model, first, last)
  local opt = optim.SGD(net:parameters(), {lr = 0.1})
  local rows = {{first, last}}
  for _ = 1, 20 do
    opt:zero_grad()
    local loss = nn.functional.mse_loss(model(inputs[rows]), wanted[rows])
    loss:backward()
    opt:step()
  end
  return net.weight:detach()
end
torch.manual_seed(0)
single = nn.Linear(3, 1)
one = train(single, single, 1, 8)
answers = mp.Queue()
mp.spawn(function(rank)
  dist.init_process_group()
  torch.manual_seed(rank)
  local net = nn.Linear(3, 1)
  answers:put(train(net, nn.parallel.DistributedDataParallel(net), 4 * rank + 1, 4 * rank + 4))
  dist.destroy_process_group()
end, {nprocs = 2})
two = {answers:get(), answers:get()}
--# predict torch.allclose(two[1], one, {atol = 1e-5}) --> true
--# wrong   false: Rank 0 began with the weights of `single`, both got rank 0's, and equal halves make equal
--#         means.
--# hint    Both halves are of one size.
--# why     After 20 steps: the same network, from two processes that each saw half of the rows.
print(one, two[1])

--# say     And rank 1, which began with other random weights (its seed was 1)?
--# new     equal
--# predict torch.equal(two[1], two[2]) --> true
--# wrong   false: DistributedDataParallel copied rank 0's weights to it first.
--# hint    What does DistributedDataParallel do first?
--# why     Equal to the last bit: the sums are made in the same order on all ranks.

--# say     What it costs: each step sends the gradients once, 4 bytes for each parameter. A network of 25
--#         million parameters (a ResNet-50): how many megabytes (millions of bytes) does a step exchange?
--# predict 25 * 4 --> 100
--# wrong   25: Each parameter has 4 bytes.
--# hint    4 bytes for each of 25 million.

--# say     Something real: is it worth it? A step computes for c seconds on one process. On n processes each
--#         computes c / n, and then they talk for t seconds, whatever n is.
--# task    Write speedup(c, t, n): how many times faster n processes are than one. (One does not talk.)
--# spec    speedup(c, t, n) if n == 1 then return 1 end return c / (c / n + t)
--# try     n in 1..8
--# try     k in 1..9
--# try     c = k / 3
--# try     t = 0.1 + n % 3 * 0.05
--# wrong   function speedup(c, t, n) return c / (c / n + t) end: One process does not talk.
--# wrong   function speedup(c, t, n) if n == 1 then return 1 end return (c / n + t) / c end: Upside down: how
--#         much longer does one take?
--# hint    The time of one, divided by the time of n.
--# hint    The time of n is c / n + t; for n = 1 it is c.
--# answer
function speedup(c, t, n)
  if n == 1 then return 1 end
  return c / (c / n + t)
end

--# say     A step of 1 second, 0.1 seconds of talk, 10 processes?
--# predict speedup(1, 0.1, 10) --> 5
--# wrong   10: They talk for as long as they compute.
--# wrong   9: 0.1 seconds of work and 0.1 of talk.
--# hint    0.1 + 0.1 seconds instead of 1.
--# why     Half of the machine is waiting. Larger batches on each rank help: more work between two talks. And
--#         DistributedDataParallel talks while it still computes, which hides most of t.
