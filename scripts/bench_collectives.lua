-- How fast ranks move and combine tensors, as the table that nccl-tests print: for each collective and size, the time,
-- the algorithm's bandwidth (bytes / time), the bus's (what the slowest link carries: algorithm's times a factor of the
-- collective), and whether every element was right. Run it with: tycho scripts/bench_collectives.lua, which starts two
-- ranks on this machine; or with tycho run, on as many machines as that is told.
local dist = torch.distributed

local names = {all_reduce = true, broadcast = true, reduce = true, all_gather = true, reduce_scatter = true, all_to_all = true,
  gather = true, scatter = true, sendrecv = true}
local o = {n = 2, b = 4, e = 64 << 20, f = 4, ops = "all_reduce", dtype = "float32", iters = 0, backend = "", file = ""}
local help = [[tycho scripts/bench_collectives.lua [OPTION VALUE]..
  -n RANKS     ranks to start on this machine (2); under tycho run, those that are there
  -b BYTES     smallest size (4); sizes end in K, M or G where that is shorter
  -e BYTES     largest size (64M)
  -f FACTOR    from one size to the next (4)
  --ops NAMES  which, with commas (all_reduce), or all: all_reduce, broadcast, reduce, all_gather, reduce_scatter,
               all_to_all, gather, scatter, sendrecv
  --dtype T    of the elements (float32)
  --iters N    calls that are timed (as many as fit in 0.2 s)
  --backend B  gloo, shm or mpi
  --quick      a few small sizes of all operations]]

local function size(text)
  local number, unit = tostring(text):match "^(%d+)([KMG]?)$"
  return number and math.tointeger(number) * ({[""] = 1, K = 1 << 10, M = 1 << 20, G = 1 << 30})[unit]
end
local function stop(text, ...)
  io.stderr:write("bench_collectives.lua: ", text:format(...), "\n")
  os.exit(1, true)
end
local i = 1
while arg[i] do
  local name = arg[i]:match "^%-%-?(%a+)$"
  if name == "help" or name == "h" then
    print(help)
    os.exit(0, true)
  elseif name == "quick" then
    o.e, o.f, o.ops, o.iters = 65536, 128, "all", 20
    i = i + 1
  elseif name and o[name] ~= nil then
    if not arg[i + 1] then stop("%s wants a value", arg[i]) end
    o[name] = type(o[name]) == "number" and (size(arg[i + 1]) or stop("%s wants a number, not %s", arg[i], arg[i + 1])) or arg[i + 1]
    i = i + 2
  else
    stop("no option %s; --help lists them", arg[i])
  end
end
local ok, dtype = pcall(function() return torch[o.dtype] end)
if not ok then stop("there is no dtype %s", o.dtype) end
if o.b < 1 or o.e < o.b or o.f < 2 or o.n < 1 then stop("-b is from 1, -e from -b, -f from 2, -n from 1") end
local ops = {}
if o.ops == "all" then o.ops = "all_reduce,broadcast,reduce,all_gather,reduce_scatter,all_to_all,gather,scatter,sendrecv" end
for name in o.ops:gmatch "[^,]+" do
  if not names[name] then stop("there is no collective %s; --help lists them", name) end
  ops[#ops + 1] = name
end

-- Each kind, for `count` elements in the larger of its tensors: the call; what it gives, checked; and bus / algorithm.
local kinds = {}
local function full(n, value, t) return torch.full({n}, value, {dtype = t}) end
local function all_are(t, value) return t:numel() - t:eq(value):sum():item() end

function kinds.all_reduce(count, t, rank, n)
  local x = full(count, rank + 1, t)
  return function() dist.all_reduce(x) end, function() x:fill_(rank + 1) dist.all_reduce(x) return all_are(x, n * (n + 1) / 2) end, 2 * (n - 1) / n
end
function kinds.broadcast(count, t, rank)
  local x = full(count, rank + 1, t)
  return function() dist.broadcast(x, 0) end, function() x:fill_(rank + 1) dist.broadcast(x, 0) return all_are(x, 1) end, 1
end
function kinds.reduce(count, t, rank, n)
  local x = full(count, rank + 1, t)
  return function() dist.reduce(x, 0) end, function() x:fill_(rank + 1) dist.reduce(x, 0) return rank == 0 and all_are(x, n * (n + 1) / 2) or 0 end, 1
end
-- Sums of parts that hold their rank's number, one for each.
local function wrong_parts(all, n)
  local wrong, part = 0, all:numel() // n
  for r = 0, n - 1 do wrong = wrong + all_are(all:narrow(1, r * part + 1, part), r + 1) end
  return wrong
end
function kinds.all_gather(count, t, rank, n)
  local part = count // n
  local x, all = full(part, rank + 1, t), full(part * n, 0, t)
  local function call() dist.all_gather_into_tensor(all, x) end
  return call, function() all:zero_() call() return wrong_parts(all, n) end, (n - 1) / n
end
function kinds.reduce_scatter(count, t, rank, n)
  local part = count // n
  local x, y = full(part * n, rank + 1, t), full(part, 0, t)
  local function call() dist.reduce_scatter_tensor(y, x) end
  return call, function() y:zero_() call() return all_are(y, n * (n + 1) / 2) end, (n - 1) / n
end
function kinds.all_to_all(count, t, rank, n)
  local part = count // n
  local x, y = full(part * n, rank + 1, t), full(part * n, 0, t)
  local function call() dist.all_to_all_single(y, x) end
  return call, function() y:zero_() call() return wrong_parts(y, n) end, (n - 1) / n
end
function kinds.gather(count, t, rank, n)
  local part, list = count // n, nil
  local x = full(part, rank + 1, t)
  if rank == 0 then
    list = {}
    for r = 1, n do list[r] = full(part, 0, t) end
  end
  local function call() dist.gather(x, list, 0) end
  return call, function() call() return rank == 0 and wrong_parts(torch.cat(list), n) or 0 end, (n - 1) / n
end
function kinds.scatter(count, t, rank, n)
  local part, list = count // n, nil
  local x = full(part, 0, t)
  if rank == 0 then
    list = {}
    for r = 1, n do list[r] = full(part, r, t) end
  end
  local function call() dist.scatter(x, list, 0) end
  return call, function() x:zero_() call() return all_are(x, rank + 1) end, (n - 1) / n
end
function kinds.sendrecv(count, t, rank, n)
  local x, y = full(count, rank + 1, t), full(count, 0, t)
  local right, left = (rank + 1) % n, (rank - 1) % n
  local function call()
    local works = dist.batch_isend_irecv {dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)}
    for _, w in ipairs(works) do w:wait() end
  end
  return call, function() y:zero_() call() return all_are(y, left + 1) end, 1
end

local parted = {all_gather = true, reduce_scatter = true, all_to_all = true, gather = true, scatter = true}

local function measure(options, list)
  local distributed = torch.distributed
  distributed.init_process_group {backend = options.backend ~= "" and options.backend or nil}
  local rank, n = distributed.get_rank(), distributed.get_world_size()
  local function say(...) if rank == 0 then print((...):format(select(2, ...))) end end
  say("# %d ranks, backend %s", n, distributed.get_backend())
  say("%-14s %12s %12s %9s %6s %10s %8s %8s %7s", "# collective", "bytes", "elements", "type", "redop", "time (us)", "algbw", "busbw", "#wrong")
  say("%-14s %12s %12s %9s %6s %10s %8s %8s %7s", "#", "", "", "", "", "", "(GB/s)", "(GB/s)", "")
  local bad = 0
  for _, name in ipairs(list) do
    local bytes = options.b
    while bytes <= options.e and not (name == "sendrecv" and n == 1) do
      local element = torch.zeros(1, {dtype = options.dtype}):element_size()
      local count = math.max(parted[name] and n or 1, bytes // element)
      local call, wrong, factor = kinds[name](count, options.dtype, rank, n)
      local errors = torch.tensor {wrong()}
      distributed.all_reduce(errors)
      local iters = options.iters
      if iters == 0 then
        local began = torch.perf_counter()
        for _ = 1, 5 do call() end
        -- All ranks must do the same number.
        local took = torch.tensor({torch.perf_counter() - began}, {dtype = torch.float64})
        distributed.broadcast(took, 0)
        iters = math.max(5, math.min(20000, math.floor(0.2 / (took:item() / 5))))
      end
      distributed.barrier()
      local began = torch.perf_counter()
      for _ = 1, iters do call() end
      local seconds = (torch.perf_counter() - began) / iters
      local algorithm = count * element / seconds / 1e9
      say("%-14s %12d %12d %9s %6s %10.2f %8.2f %8.2f %7d", name, count * element, count, tostring(options.dtype):match "[^.]*$",
        name:find "reduce" and "sum" or "none", seconds * 1e6, algorithm, algorithm * factor, errors:item())
      bad = bad + errors:item()
      bytes = bytes * options.f
    end
  end
  distributed.destroy_process_group()
  say(bad == 0 and "# all elements were right" or "# %d elements were wrong", bad)
  if bad > 0 then os.exit(1, true) end
end

o.dtype = dtype
if os.getenv "RANK" or o.n == 1 then
  measure(o, ops)
else
  torch.multiprocessing.spawn(function(_, options, list) measure(options, list) end, {nprocs = o.n, args = {o, ops}})
end
