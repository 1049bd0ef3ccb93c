-- Pools of processes.
local mp = torch.multiprocessing

test("a pool maps in order, spreads arguments, iterates and applies", function()
  local pool <close> = mp.Pool(2)
  local list = {}
  for i = 1, 25 do list[i] = i end
  local squares = pool:map(function(i) return i * i end, list)
  check.equal(#squares, 25)
  for i = 1, 25 do check.equal(squares[i], i * i) end
  check.equal(pool:map(function(i) return -i end, list, 7)[25], -25)
  check.equal(pool:starmap(function(a, b) return a - b end, {{5, 3}, {1, 9}}), {2, -8})
  local out = {}
  for y in pool:imap(function(i) return i / 2 end, {1, 2, 3}) do out[#out + 1] = y end
  check.equal(out, {0.5, 1.0, 1.5})
  local sum = 0
  for y in pool:imap_unordered(function(i) return i end, {1, 2, 3}) do sum = sum + y end
  check.equal(sum, 6)
  check.equal({pool:apply(function(a, b) return a + b, a * b end, {3, 4})}, {7, 12})
  local said
  local r = pool:apply_async(function(x) return x:sum() end, {torch.ones(4)}, {callback = function(v) said = v:item() end})
  check.equal(r:get():item(), 4.0)
  check.equal(said, 4.0)
  check.yes(r:ready() and r:successful())
  check.equal(pool:map(function(row) return row:sum():item() end, torch.ones(3, 2)), {2.0, 2.0, 2.0})
  check.equal(pool:map(function(i) return i end, {}), {})
  pool:close()
  pool:join()
  check.raises("value", "the pool is closed", pool.map, pool, function() end, {1})
end)

test("an error in a pool arrives with its place, and the pool goes on", function()
  local file <close> = io.tmpfile()
  local pool <close> = mp.Pool(2)
  local err = check.raises("value", "three", pool.map, pool, function(i) if i == 3 then error "three" end return i end, {1, 2, 3, 4})
  check.contains(err.message, "pools_test.lua:")
  check.equal(pool:map(function(i) return i end, {1, 2}), {1, 2})
  check.raises("argument", "is an open file", pool.apply, pool, function() return io.tmpfile() end)
  check.raises("argument", "is an open file", pool.apply, pool, function() end, {file})
  check.raises("argument", "wants a function", pool.map, pool, 3, {})
  check.raises("argument", "wants a list", pool.map, pool, function() end, 3)
  check.raises("value", "close or terminate", pool.join, pool)
  check.raises("value", "1 to 4096", mp.Pool, 0)
end)

test("a worker of a pool that dies fails its task only, and another takes its place", function()
  local pool <close> = mp.Pool(2)
  local function work(i)
    if i == 2 then os.execute("kill -9 " .. mp.current_process().pid) end
    return i
  end
  local results = {}
  for i = 1, 6 do results[i] = pool:apply_async(work, {i}) end
  for i = 1, 6 do
    if i == 2 then
      check.equal(check.raises("distributed", "SIGKILL", results[i].get, results[i]).reason, "died")
    else
      check.equal(results[i]:get(), i)
    end
  end
  check.equal(pool:map(function(i) return i + 1 end, {1, 2, 3, 4}), {2, 3, 4, 5})
end)

test("an initializer prepares each worker; one that fails ends the pool", function()
  local pool <close> = mp.Pool {processes = 2, initializer = function(x) package.loaded.prepared = x end, initargs = {5}}
  check.equal(pool:apply(function() return package.loaded.prepared end), 5)
  local bad = mp.Pool {processes = 1, initializer = function() error "cannot begin" end}
  check.raises(nil, "cannot begin", bad.map, bad, function(i) return i end, {1})
end)
