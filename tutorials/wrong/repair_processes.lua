--# title   What is wrong here? Devices, workers, processes

--# say     Devices, played by this machine where it has none. A network lies on one, the data on the CPU.
--# new     cuda ones to nn
nn = torch.nn
if torch.cuda.device_count() < 4 then torch.cuda.simulate(4) end
weight = torch.ones(3, {device = "cuda:0"})
batch = torch.ones(3)
--# predict weight * batch --> error
--# wrong   1 1 1: Numbers of two memories do not meet by themselves.
--# hint    Where does each of them lie?
--# why     "argument 1 is on cuda:0, argument 2 on cpu", with the line that made it.

--# say     The classic cure, and why it does not work: `batch:to("cuda:0")` alone. Where is batch afterwards?
moved = batch:to("cuda:0")
--# new     device cpu type
--# predict batch.device.type == "cpu" --> true
--# wrong   false: `to` gives a new tensor; batch is what it was.
--# hint    `to` gives a new tensor.
--# why     Tensors: `batch = batch:to(device)`. Networks are moved in place: `net:to(device)` is enough.

--# say     Repair it for all devices: a program that names one runs nowhere else.
--# new     randn
--# task    Repair weigh(x, w): x * w on the device of w, wherever x lies. The result is brought to the CPU.
--# spec    weigh(x, w) return x:cpu() * w:cpu()
--# try     n in 2..4
--# try     k in 0..1
--# try     x = torch.randn(n)
--# try     w = torch.randn(n):to("cuda:" .. k)
--# starter
--#         function weigh(x, w)
--#           x:to("cuda:0")
--#           return (x * w):cpu()
--#         end
--# wrong   function weigh(x, w) x = x:to("cuda:0") return (x * w):cpu() end: w may lie on cuda:1.
--# hint    `w.device` says where w lies.
--# hint    `x = x:to(w.device)`.
--# answer
function weigh(x, w) return (x:to(w.device) * w):cpu() end

--# say     Memory: each of 1000 steps keeps its loss in a list, "for the plot later". A loss carries the graph of its
--#         step, with 40 MB of intermediate results. How many GB are held at the end?
--# predict 1000 * 40 / 1000 --> 40
--# wrong   0.04: The losses are small. Their graphs are not.
--# hint    1000 times 40 MB.
--# why     `losses[i] = loss:item()` keeps a number. Out of memory after hours, always a little later than in the
--#         test, looks like this.

--# say     How much does a tensor take?
--# new     zeros
--# task    Write megabytes(shape, bytes): how many MB (10^6 bytes) a tensor of this shape (a list) takes, with so many
--#         bytes for each number. A list without any size is one number.
--# spec    megabytes(shape, bytes)
--#         local n = bytes
--#         for _, s in ipairs(shape) do n = n * s end
--#         return n / 1e6
--# try     a in 1..40
--# try     k in 1..3
--# try     shape = k == 1 and {} or k == 2 and {1000, a} or {a, 3, 224, 224}
--# try     bytes = 2 * k
--# wrong   function megabytes(shape, bytes) local n = 0 for _, s in ipairs(shape) do n = n + s end return n * bytes / 1e6
--#         end: Sizes are multiplied.
--# wrong   function megabytes(shape, bytes) local n = bytes for _, s in ipairs(shape) do n = n * s end return n / 1024 ^ 2
--#         end: MB are 10^6 bytes here.
--# hint    Begin with bytes, and multiply.
--# answer
function megabytes(shape, bytes)
  local n = bytes
  for _, s in ipairs(shape) do n = n * s end
  return n / 1e6
end
print(megabytes({64, 3, 224, 224}, 4))

--# say     A dataset opens its file when it is made. With workers, other threads read the items; can an open file go to
--#         them?
--# new     utils
data = torch.utils.data
Lines = data.class("Lines")
function Lines:init() self.file = io.tmpfile() end
function Lines:__len() return 2 end
function Lines:get(i) return i end
function read_all()
  local n = 0
  for _ in data.DataLoader(Lines(), {num_workers = 1})() do n = n + 1 end
  return n
end
--# predict read_all() --> error
--# wrong   2: The place in a file is of its process or thread; two that read would take each other's lines.
--# hint    Who moves forward in the file, when two read?
--# why     Open it where it is read: in `get`, the first time. The message names the field: self.file.

--# say     Workers and random numbers: each shall draw others. In many programs they do not: a copy of the generator goes
--#         to each, and all draw the same. Here?
--# new     multiprocessing put rand item
Noise = data.class("Noise")
function Noise:__len() return 2 end
function Noise:get() return torch.rand(1) end
drawn = {}
for x in data.DataLoader(Noise(), {num_workers = 2})() do drawn[#drawn + 1] = x:item() end
--# predict drawn[1] == drawn[2] --> false
--# wrong   true: That is the mistake elsewhere; here each worker is given a seed of its own.
--# hint    Each worker is given a seed of its own.
--# why     Seeds are base + worker, another base in each epoch. In a rank you say it yourself: see the next one.

--# say     Three ranks shall augment their pictures differently, and begin with the same network. Somebody wrote
--#         `torch.manual_seed(7)` at the top, for all.
mp = torch.multiprocessing
function draw(seed_of)
  local answers, list = mp.Queue(), {}
  mp.spawn(function(rank)
    torch.manual_seed(seed_of(rank))
    answers:put{rank, torch.randint(0, 1000, {}):item()}
  end, {nprocs = 3})
  for _ = 1, 3 do
    local answer = answers:get()
    list[answer[1] + 1] = answer[2]
  end
  return list
end
same = draw(function() return 7 end)
--# new     manual_seed randint
--# predict same[1] == same[3] --> true
--# wrong   false: The same seed, the same numbers.
--# hint    The same seed.
--# why     The same noise on each of them: as if there were only one. The network's weights want just that, though.

--# say     Repair it.
--# task    Write seed_of(rank): a seed for each rank, no two alike; rank 0 has 7, and the next ones follow by one.
--# spec    seed_of(rank) return 7 + rank
--# try     rank in 0..7
--# wrong   function seed_of(rank) return 7 * rank end: Rank 0 has 7.
--# wrong   function seed_of(rank) return 7 end: All alike.
--# hint    7, 8, 9, ..
--# answer
function seed_of(rank) return 7 + rank end

--# say     And are they different now?
others = draw(seed_of)
--# predict others[1] == others[2] --> false
--# wrong   true: Their seeds are 7 and 8.
--# hint    Their seeds are 7 and 8.
print(table.concat(same, " "), table.concat(others, " "))

--# say     Something real: a function for processes that uses what cannot go there. Each of n processes counts the
--#         lines with its number in them.
log = io.tmpfile()
function report() mp.spawn(function(rank) log:write(rank, "\n") end, {nprocs = 2}) end
--# predict report() --> error
--# wrong   0 1: An open file cannot go to another process.
--# hint    log is an open file.
--# why     "log (a variable of ..) is an open file, which cannot go to another process". Let ranks send back what they have
--#         to say, and write it here.

--# say     So the ranks' reports come back through a queue, in any order; the file shall have them in order.
--# task    Repair lines(answers): `answers` is a list of {rank, text} in any order; the texts, ordered by rank, each with
--#         a newline behind it, as one text.
--# spec    lines(answers)
--#         local by_rank, out = {}, ""
--#         for _, a in ipairs(answers) do by_rank[a[1]] = a[2] end
--#         for r = 0, #answers - 1 do out = out .. by_rank[r] .. "\n" end
--#         return out
--# try     n in 2..5
--# try     k in 1..9
--# try     answers = (function() local t = {} for i = 1, n do t[i] = {(i * 7 + k) % n, ("x"):rep(i)} end return n % 7 == 0
--#         and {} or t end)()
--# starter function lines(answers) local out = "" for _, a in ipairs(answers) do out = out .. a[2] .. "\n" end return out end
--# wrong   function lines(answers) local list = {} for _, a in ipairs(answers) do list[a[1]] = a[2] end return
--#         table.concat(list, "\n") end: Ranks count from 0, and `table.concat` begins with 1; and the last line wants its
--#         newline, too.
--# hint    Put them at their places first: `list[rank + 1] = text`.
--# hint    `table.concat(list, "\n") .. "\n"`.
--# answer
function lines(answers)
  local list = {}
  for _, a in ipairs(answers) do list[a[1] + 1] = a[2] end
  return table.concat(list, "\n") .. "\n"
end
print(lines{{1, "rank 1 was here"}, {0, "rank 0 was here"}})
