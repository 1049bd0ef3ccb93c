-- What help knows of the classes of torch.multiprocessing and of what torch.fork gives.
local mp = "torch.multiprocessing."
return {
  {"torch.multiprocessing", "", "Processes of this same program that run functions, and what they share: tensors, queues, pipes, events, locks. Functions cross with the variables and globals they use; nothing of the script is run again.",
    see = mp .. "Process, " .. mp .. "spawn, " .. mp .. "Pool, torch.fork"},
  {mp .. "Process", "f, args={}, {name=nil, daemon=false}", "A process that runs f(args...) once start() is called; then join(timeout), terminate(), kill(), is_alive(), exitcode (minus the signal that ended it), pid. A daemon ends with its parent, others are waited for.",
    see = mp .. "spawn, " .. mp .. "Queue",
    example = "mp = torch.multiprocessing\nq = mp.Queue()\np = mp.Process(function(x) q:put(x + 1) end, {4})\np:start()\nq:get() --> 5\np:join()\np.exitcode --> 0"},
  {mp .. "Queue", "maxsize=0", "Values from any process to any: put(value), get(), with block and timeout; get_nowait, put_nowait, qsize, empty, full, close. Tensors in it become shared. With maxsize put waits for room. Who waits for a value that nobody can send any more gets an error.",
    see = mp .. "Pipe, " .. mp .. "Process", example = "q = torch.multiprocessing.Queue()\nq:put{1, x = 2}\nq:get().x --> 2"},
  {mp .. "Connection", "", "An end of a pipe: send(value), recv(), poll(timeout), close().", see = mp .. "Pipe"},
  {mp .. "Event", "", "A flag that processes wait for: set(), clear(), is_set(), wait(timeout).", see = mp .. "Lock",
    example = "e = torch.multiprocessing.Event()\ne:wait(0) --> false\ne:set()\ne:wait() --> true"},
  {mp .. "Lock", "", "A lock that one process holds at a time: acquire(block, timeout), release(), hold(f), and as a scope `local _ <close> = lock:hold()`. When its owner dies, the next one who wants it gets an error, once, and then it is free.", see = mp .. "RLock, " .. mp .. "Event",
    example = "lock = torch.multiprocessing.Lock()\nlock:acquire() --> true\nlock:release()\nlock:hold(function() return 3 end) --> 3"},
  {mp .. "Pool", "processes=nil, initializer=nil, initargs={}", "Processes that take tasks: map, starmap, imap, imap_unordered, apply, and map_async, starmap_async, apply_async, which give a result to come. close() and join() end it when all is done, terminate() at once. As many as processors unless told.",
    see = mp .. "Process, torch.fork", example = "pool = torch.multiprocessing.Pool(2)\ntable.concat(pool:map(function(i) return i * i end, {1, 2, 3}), \" \") --> \"1 4 9\"\npool:terminate()"},
  {mp .. "AsyncResult", "", "A result to come of a pool: get(timeout), wait(timeout), ready(), successful().", see = mp .. "Pool"},
  {mp .. "ProcessContext", "", "The processes of spawn with join=false: join(timeout), pids(), processes.", see = mp .. "spawn"},
}
