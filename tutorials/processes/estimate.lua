--# title   Which device, and how many? Estimates with a pencil

--# say     Before a training is moved to other machines, a few multiplications say what to expect. Here are sizes to
--#         estimate with; they are round numbers, within a factor of two or so:
--#                        computes         reads memory     has         starts an operation
--#           CPU core     50 GFLOP/s       20 GB/s          64 GB       1 us
--#           GPU          50 TFLOP/s       2000 GB/s        80 GB       10 us
--#           TPU          200 TFLOP/s      1000 GB/s        32 GB       (programs, made whole)
--#           network      -                10 GB/s          -           50 us
--#         G is 10^9, T is 10^12, us a millionth of a second. A FLOP is one addition or one multiplication.
GFLOP, TFLOP, GB, us = 1e9, 1e12, 1e9, 1e-6
--# predict 50 * TFLOP / (50 * GFLOP) --> 1000
--# ask     How many CPU cores compute as much as the GPU of this table?
--# wrong   1: T is a thousand G.
--# wrong   100: T is a thousand G.
--# hint    T is a thousand G.

--# say     A product of a table [n, k] with one [k, m] has n * m results, each a sum of k products.
--# task    Write flops(n, k, m): how many FLOPs it takes; a product and an addition for each step.
--# spec    flops(n, k, m) return 2 * n * k * m
--# try     n in 2..9
--# try     k in 10..20
--# try     m in 30..40
--# wrong   function flops(n, k, m) return n * k * m end: A multiplication and an addition: two.
--# wrong   function flops(n, k, m) return 2 * (n * k + k * m) end: That counts what is read. Each of the n * m results takes
--#         k steps.
--# hint    n * m results, k steps each.
--# answer
function flops(n, k, m) return 2 * n * k * m end

--# say     So [1000, 1000] times [1000, 1000] is 2 GFLOP. How many milliseconds is that on one CPU core?
--# predict flops(1000, 1000, 1000) / (50 * GFLOP) * 1000 --> 40
--# wrong   20: Two for each step: 2 GFLOP, at 50 GFLOP/s.
--# wrong   0.04: That is seconds.
--# hint    2 / 50 of a second.
--# why     On the GPU 0.04 ms: 4 times what it takes to start it. Anything much smaller is not worth the way there.

--# say     Two tensors of a million floats are added: 12 MB are read and written, and a million FLOPs computed. On the CPU
--#         core, the computing takes 0.02 ms. And the memory, in ms?
--# predict 12e6 / (20 * GB) * 1000 --> 0.6
--# wrong   0.4: Two are read and one is written: 12 MB.
--# hint    12 MB at 20 GB/s.
--# why     30 times as long: additions are limited by memory, large products by computing. So the larger number decides.

--# say     The time of an operation is about the start, and the larger of both.
--# task    Write seconds(flop, bytes, speed, memory, start): the estimate; speed in FLOP/s, memory in bytes/s, start in
--#         seconds.
--# spec    seconds(flop, bytes, speed, memory, start) return start + math.max(flop / speed, bytes / memory)
--# try     flop in 1..1000
--# try     bytes in 1..1000
--# try     k in 1..9
--# try     speed = 10.0 * k
--# try     memory = 100.0 / k
--# try     start = k / 2
--# wrong   function seconds(flop, bytes, speed, memory, start) return start + flop / speed + bytes / memory end: Both happen at
--#         once: the longer one decides.
--# wrong   function seconds(flop, bytes, speed, memory, start) return math.max(start, flop / speed, bytes / memory) end: The
--#         start comes before.
--# hint    `math.max` of two times.
--# answer
function seconds(flop, bytes, speed, memory, start) return start + math.max(flop / speed, bytes / memory) end
function on_core(flop, bytes) return seconds(flop, bytes, 50 * GFLOP, 20 * GB, 1 * us) end
function on_gpu(flop, bytes) return seconds(flop, bytes, 50 * TFLOP, 2000 * GB, 10 * us) end

--# say     A small network for tables: layers of 32 numbers, batches of 16. One product [16, 32] with [32, 32] is 33
--#         kFLOP and 8 kB. Is the GPU faster?
--# predict on_gpu(flops(16, 32, 32), 8192) < on_core(flops(16, 32, 32), 8192) --> false
--# wrong   true: The CPU needs 1.7 us in all, and the GPU 10 us to begin.
--# hint    33 kFLOP at 50 GFLOP/s is 0.7 us.
--# why     Small networks belong on the CPU. A larger batch costs the GPU nothing at first: its time is the start.

--# say     And layers of 4096 with batches of 256?
big = flops(256, 4096, 4096)
bytes = 4 * (256 * 4096 * 2 + 4096 * 4096)
--# predict on_core(big, bytes) / on_gpu(big, bytes) > 500 --> true
--# wrong   false: 8.6 GFLOP: 0.17 s there, 0.0002 s here.
--# hint    8.6 GFLOP: 0.17 s on the core. And on the GPU?
print(on_core(big, bytes), on_gpu(big, bytes))

--# say     A TPU is faster still, at one thing: it multiplies blocks of 128 x 128 numbers, and smaller tables are filled up with
--#         zeros. A batch of 8 rows: which share of its work is not for nothing?
--# predict 8 / 128 --> 0.0625
--# wrong   1: 120 of 128 rows are zeros.
--# hint    8 rows of 128.
--# why     12.5 TFLOP/s of 200: a GPU would have been better. And a TPU wants the whole program beforehand, with shapes that
--#         never change. Large, regular networks belong there.

--# say     Does it fit? Training with Adam holds for each parameter: the weight, its gradient, and two means, 4 bytes each.
--#         How many GB for a billion parameters?
--# predict 1e9 * 16 / GB --> 16
--# wrong   4: That is the weights alone.
--# wrong   12: Weight, gradient, and two means: four numbers.
--# hint    Four numbers of 4 bytes.
--# why     Besides what layers keep for backward, which grows with the batch. So 80 GB train about 4 billion, one device
--#         alone.

--# say     How many devices? n of them share a step of c seconds, and exchange the gradients: each sends and receives about 2
--#         times the bytes of the gradients (the ring), whatever n is, over the network.
--# task    Write step_time(c, parameters, n): seconds of a step on n devices; 4 bytes for each parameter, 10 GB/s. One device
--#         exchanges nothing.
--# spec    step_time(c, parameters, n)
--#         local t = c / n
--#         if n > 1 then t = t + parameters * 8 / 1e10 end
--#         return t
--# try     n in 1..8
--# try     k in 1..9
--# try     c = k / 4
--# try     parameters = k * 100000000
--# wrong   function step_time(c, parameters, n) return c / n + parameters * 8 / 1e10 end: One device exchanges nothing.
--# wrong   function step_time(c, parameters, n) if n == 1 then return c end return c / n + parameters * 4 / 1e10 end: The ring
--#         sends every number about twice: there to be added, and back.
--# hint    2 times 4 bytes for each parameter, divided by 10 GB/s.
--# answer
function step_time(c, parameters, n)
  if n == 1 then return c end
  return c / n + 2 * 4 * parameters / (10 * GB)
end

--# say     A billion parameters, a step of 1.6 seconds, 8 devices: seconds for each step?
--# predict step_time(1.6, 1e9, 8) --> 1
--# wrong   0.2: And the exchange: 8 GB at 10 GB/s.
--# hint    0.2 seconds of work, and 8 GB at 10 GB/s.
--# why     1.6 times as fast, for 8 times the devices: not worth it so. Larger batches (c grows, the exchange does not), gradients
--#         of 2 bytes, or a faster network (NVLink: 400 GB/s) change that.

--# say     Something real: choose. A program gets the sizes of a step, and says where to run it.
--# task    Write choose(flop, bytes, operations, memory): "CPU" or "GPU". The step has so many operations, each of flop / operations
--#         and bytes / operations; it holds `memory` bytes. What does not fit on the GPU (80 GB) goes to the CPU; else where
--#         the whole step takes less time, with on_core and on_gpu; the CPU has 16 cores that share a step ideally (its time
--#         divided by 16).
--# spec    choose(flop, bytes, operations, memory)
--#         if memory > 80 * GB then return "CPU" end
--#         local cpu = operations * (us + math.max(flop / operations / (50 * GFLOP), bytes / operations / (20 * GB))) / 16
--#         local gpu = operations * (10 * us + math.max(flop / operations / (50 * TFLOP), bytes / operations / (2000 * GB)))
--#         return cpu < gpu and "CPU" or "GPU"
--# try     a in 5..12
--# try     b in 4..10
--# try     operations = 100
--# try     flop = 10.0 ^ a
--# try     bytes = 10.0 ^ b
--# try     memory = a == 11 and 9e10 or 1e9
--# wrong   function choose(flop, bytes, operations, memory) if memory > 80 * GB then return "CPU" end return on_core(flop, bytes)
--#         / 16 < on_gpu(flop, bytes) and "CPU" or "GPU" end: Every operation has its start: 100 operations start 100 times.
--# wrong   function choose(flop, bytes, operations, memory) local f, b = flop / operations, bytes / operations return on_core(f, b)
--#         / 16 < on_gpu(f, b) and "CPU" or "GPU" end: And if it does not fit?
--# hint    First whether it fits. Then on_core and on_gpu of one operation: the number of operations is the same for both.
--# hint    `on_core(flop / operations, bytes / operations) / 16 < on_gpu(..)`.
--# why     Then measure: `%bench` says what it really takes, and the estimate says whether that is what it should take.
--# answer
function choose(flop, bytes, operations, memory)
  if memory > 80 * GB then return "CPU" end
  local f, b = flop / operations, bytes / operations
  return on_core(f, b) / 16 < on_gpu(f, b) and "CPU" or "GPU"
end
print(choose(1e6, 1e5, 100, 1e8), choose(1e12, 1e9, 100, 1e10), choose(1e12, 1e9, 100, 9e10))
