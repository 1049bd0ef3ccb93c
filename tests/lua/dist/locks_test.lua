-- What processes wait for: events, locks, semaphores, conditions, barriers; and the numbers that they share.
local mp = torch.multiprocessing
local here = debug.getinfo(1, "S").source:match("^@(.*)/")
local processes = assert(loadfile(here .. "/processes.lua", "t", _ENV))()
local elsewhere = processes.elsewhere

test("an event wakes all who wait", function()
  local event, q = mp.Event(), mp.Queue()
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function() q:put(event:wait()) end)
    list[i]:start()
  end
  check.no(event:wait(0.01))
  check.no(event:is_set())
  event:set()
  for _ = 1, 3 do check.yes(q:get()) end
  for _, p in ipairs(list) do p:join() end
  event:clear()
  check.no(event:is_set())
end)

test("a lock lets one process in at a time", function()
  local lock, x = mp.Lock(), torch.zeros(1):share_memory_()
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function()
      for _ = 1, 200 do
        local held <close> = lock:hold()
        x[{1}] = x[{1}]:item() + 1
      end
    end)
    list[i]:start()
  end
  for _, p in ipairs(list) do p:join() end
  check.equal(x:item(), 600.0)
  lock:acquire()
  check.raises("value", "has the lock already", lock.acquire, lock)
  lock:release()
  check.raises("value", "does not have the lock", lock.release, lock)
  local r = mp.RLock()
  r:acquire()
  check.yes(r:acquire())
  check.equal(elsewhere(function() return r:acquire(false) end), false)
  r:release()
  r:release()
  check.equal(lock:hold(function(a) return a + 1 end, 2), 3)
  check.raises("value", "inside", lock.hold, lock, function() torch._raise("inside", 1, "value") end)
  check.yes(lock:acquire(false))
  lock:release()
end)

test("a lock whose owner died is an error once, and then free", function()
  local lock, held = mp.Lock(), mp.Event()
  local p = mp.Process(function()
    lock:acquire()
    held:set()
    while true do end
  end)
  p:start()
  held:wait()
  check.no(lock:acquire {timeout = 0.01})
  p:kill()
  local err = check.raises("distributed", ("(pid %d) died"):format(p.pid), lock.acquire, lock)
  check.equal(err.reason, "died")
  check.yes(lock:acquire())
  lock:release()
  p:join()
end)

test("a semaphore lets so many in, and a bounded one counts what comes back", function()
  local s, inside, most = mp.Semaphore(2), mp.Value("i", 0), mp.Value("i", 0)
  local list = {}
  for i = 1, 4 do
    list[i] = mp.Process(function()
      for _ = 1, 50 do
        local _ <close> = s:hold()
        do
          local _ <close> = inside:get_lock():hold()
          inside.value = inside.value + 1
          most.value = math.max(most.value, inside.value)
        end
        local _ <close> = inside:get_lock():hold()
        inside.value = inside.value - 1
      end
    end)
    list[i]:start()
  end
  for _, p in ipairs(list) do p:join() end
  check.yes(most.value >= 1 and most.value <= 2)
  check.equal(s:get_value(), 2)
  check.yes(s:acquire() and s:acquire())
  check.no(s:acquire {timeout = 0.01})
  s:release(3)
  check.equal(s:get_value(), 3)
  local b = mp.BoundedSemaphore()
  check.raises("value", "more often than taken", b.release, b)
  check.equal(b:hold(function() return b:get_value() end), 0)
  check.raises("argument", "an integer from 0", mp.Semaphore, -1)
end)

test("a condition wakes as many as it says", function()
  local c, ready, woken = mp.Condition(), mp.Value("i", 0), mp.Semaphore(0)
  local here = mp.Semaphore(0)
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function()
      local _ <close> = c:hold()
      here:release()
      c:wait_for(function() return ready.value >= i end)
      woken:release()
    end)
    list[i]:start()
  end
  for _ = 1, 3 do here:acquire() end
  c:hold(function()
    ready.value = 3
    c:notify_all()
  end)
  for i = 1, 3 do
    check.yes(woken:acquire())
    list[i]:join()
  end
  check.raises("value", "does not have the lock", c.wait, c)
  check.no(c:hold(function() return c:wait(0.01) end))
  check.no(c:hold(function() return c:hold(function() return c:wait(0.01) end) end))
  check.yes(elsewhere(function() return c:acquire(false) and c:release() == nil end), "given back as often as taken")
  check.no(c:hold(function() return c:wait_for(function() return false end, 0.01) end))
  check.equal(tostring(c), "Condition (0 waiting)")
end)

test("a barrier gathers its parties, breaks for all, and can be made whole", function()
  local steps, b = mp.Value("i", 0), nil
  b = mp.Barrier(3, function() steps.value = steps.value + 1 end)
  local list, sum = {}, mp.Value("i", 0)
  for i = 1, 3 do
    list[i] = mp.Process(function()
      for round = 1, 20 do
        local place = b:wait()
        assert(steps.value >= round)
        local _ <close> = sum:get_lock():hold()
        sum.value = sum.value + place
      end
    end)
    list[i]:start()
  end
  for _, p in ipairs(list) do
    p:join()
    check.equal(p.exitcode, 0)
  end
  check.equal(steps.value, 20)
  check.equal(sum.value, 120)
  local err = check.raises("distributed", "broken", b.wait, b, 0.01)
  check.equal(err.reason, "broken")
  check.yes(b.broken)
  check.raises("distributed", "broken", b.wait, b)
  b:reset()
  check.no(b.broken)
  local waits = mp.Process(function()
    local ok, e = pcall(b.wait, b)
    os.exit(not ok and e.reason == "broken" and 3 or 0)
  end)
  waits:start()
  while b.n_waiting == 0 do end
  b:reset()
  waits:join()
  check.equal(waits.exitcode, 3)
  check.no(b.broken)
  b:abort()
  check.yes(b.broken)
end)

test("numbers are shared by Value and Array", function()
  local v, a = mp.Value("i", 1), mp.Array("d", {1, 2, 3})
  local list = {}
  for i = 1, 3 do
    list[i] = mp.Process(function()
      for _ = 1, 100 do
        local _ <close> = v:get_lock():hold()
        v.value = v.value + 1
      end
      a[i] = a[i] * 10
    end)
    list[i]:start()
  end
  for _, p in ipairs(list) do p:join() end
  check.equal(v.value, 301)
  check.equal(a:get_obj():tolist(), {10.0, 20.0, 30.0})
  check.equal(#a, 3)
  check.equal(mp.RawArray(torch.uint8, 2)[2], 0)
  check.raises("value", "so it has none", mp.RawValue("f", 0.5).get_lock, mp.RawValue("f"))
  check.raises("argument", "b B h i l q f d", mp.Value, "z")
  check.raises("argument", "how many numbers", mp.Array, "i", -1)
  check.raises("argument", "only .value", function() v.valeu = 3 end)
  check.raises("value", "pool:map", mp.Manager)
end)
